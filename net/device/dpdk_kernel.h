#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

/// What the kernel does in front of a port, and what it has to say of it.
///
/// Threading:  the port's thread.
/// Cost:       system calls: for set-up, statistics and errors.
/// Errors:     what the kernel can't say is 0 or false.

namespace pinion::detail {

/// To how many bytes filter_packets() cuts a frame that is too long. Fewer no frame has; with two
/// addresses, DPDK can put a VLAN tag back in.
inline constexpr std::size_t kCutFrame = 12;

/// Keeps from a packet socket what this host sends, and cuts what is longer than `longest` bytes.
/// 0, or why that can't be done.
[[nodiscard]] int filter_packets(int socket, std::size_t longest) noexcept;

/// How many packets a packet socket had no room for since it was asked last.
[[nodiscard]] std::uint64_t take_overruns(int socket) noexcept;

/// Takes the error off a socket that makes each poll() of it return at once.
void take_error(int socket) noexcept;

/// What the kernel was to send on an interface of this network namespace and did not: of a tap,
/// since nobody read it.
[[nodiscard]] std::uint64_t unsent_packets(const std::string& interface) noexcept;

/// Whether the kernel joins segments that arrive at the interface to longer frames.
[[nodiscard]] bool joins_segments(const std::string& interface) noexcept;

}  // namespace pinion::detail
