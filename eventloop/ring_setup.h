#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>

#include <pinion/eventloop/ring.h>
#include <pinion/eventloop/ring_features.h>
#include <pinion/lib/result.h>

/// Creating an io_uring as Ring needs it, and saying what is in the way when that fails.

namespace pinion::detail {

/// What a kernel says of itself.
struct KernelAnswer {
  static constexpr std::size_t kOperations = 256;
  std::uint32_t features = 0;           ///< IORING_FEAT_…
  std::bitset<kOperations> operations;  ///< IORING_OP_…
};

[[nodiscard]] Result<KernelAnswer> ask_kernel(io_uring& ring);

/// Whether a ring can do with such a kernel; the error names what is missing.
[[nodiscard]] Result<> check_floor(const KernelAnswer& answer);

/// What the kernel has of what a ring can do without, found out by trying. Once per process.
[[nodiscard]] Result<RingFeatures> probe_features();

/// Sets `ring` up, disabled, and checks that the kernel has what the project uses. Answers what it
/// has of the rest, without what the options mask.
[[nodiscard]] Result<RingFeatures> set_up_ring(io_uring& ring, RingOptions options);

}  // namespace pinion::detail
