#pragma once

#include <memory>

#include "wake_channel.h"

/// Messages to a loop of pinion.

namespace pinion::bench {

/// The target is a loop that spins or parks at once. The sender is a thread without a loop, whose
/// doorbell is an eventfd, or a loop's own, which rings through its io_uring.
std::unique_ptr<WakeChannel> make_pinion_channel(Arrivals& arrivals, int target_cpu, bool spins,
                                                 bool from_lcore);

}  // namespace pinion::bench
