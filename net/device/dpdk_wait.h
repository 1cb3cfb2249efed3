#pragma once

#include <cstdint>
#include <vector>

#include <pinion/net/port_name.h>

/// The descriptor that is readable when a port has packets.

namespace pinion::detail {

/// This process's sockets of one family, for comparing before and after a port was opened.
[[nodiscard]] std::vector<int> sockets_of(int family);

/// The family of the socket that a port of this kind receives from; -1 when it has a descriptor of
/// its own.
[[nodiscard]] int socket_family(PortKind kind) noexcept;

/// What announces packets for a started port; -1 when nothing does. `before` are the sockets of its
/// family that were there before it was opened.
[[nodiscard]] int find_wait_descriptor(std::uint16_t port, PortKind kind,
                                       const std::vector<int>& before);

}  // namespace pinion::detail
