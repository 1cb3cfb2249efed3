#pragma once

#include <cstdint>
#include <vector>

#include <pinion/net/port_name.h>

/// The descriptor that is readable when a port has packets.

namespace pinion::detail {

/// This process's descriptors, for comparing before and after a port was opened.
[[nodiscard]] std::vector<int> open_descriptors();

/// What announces packets for a started port; -1 when nothing does. `before` are the descriptors
/// that were there before it was opened.
[[nodiscard]] int find_wait_descriptor(std::uint16_t port, PortKind kind,
                                       const std::vector<int>& before);

/// Keeps the taps and packet sockets that have come since `before` out of programs that this
/// process starts: there they would keep the interface, or its packets.
void close_on_exec(const std::vector<int>& before);

}  // namespace pinion::detail
