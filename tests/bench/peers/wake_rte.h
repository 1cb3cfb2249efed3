#pragma once

#include <memory>

#include "wake_channel.h"

/// DPDK's ring, and an eventfd that wakes its reader when that has said that it sleeps.

namespace pinion::bench {

std::unique_ptr<WakeChannel> make_rte_channel(Arrivals& arrivals, int target_cpu, bool spins);

}  // namespace pinion::bench
