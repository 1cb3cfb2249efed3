#pragma once

#include <pinion/eventloop/ring.h>
#include <pinion/lib/result.h>

/// Creating an io_uring as Ring needs it, and saying what is in the way when that fails.

namespace pinion::detail {

/// Sets `ring` up, disabled, and checks that the kernel has what the project uses.
[[nodiscard]] Result<> set_up_ring(io_uring& ring, RingOptions options);

}  // namespace pinion::detail
