#pragma once

#include <cstdint>
#include <memory>

#include "wake_channel.h"

/// The plain way: a deque behind a mutex, and an eventfd that wakes its reader.

namespace pinion::bench {

enum class DequeTarget : std::uint8_t {
  sleeps,         ///< In read(eventfd). Who finds the deque empty writes to it.
  polls_eventfd,  ///< The same without ever sleeping: the eventfd is asked in a loop.
  polls_deque,    ///< Looks at the deque in a loop; nobody writes to an eventfd.
};

std::unique_ptr<WakeChannel> make_deque_channel(Arrivals& arrivals, int target_cpu,
                                                DequeTarget target);

}  // namespace pinion::bench
