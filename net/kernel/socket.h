#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include <pinion/lib/result.h>
#include <pinion/lib/time.h>
#include <pinion/net/address.h>
#include <pinion/net/stream_error.h>
#include <pinion/net/transport.h>

/// What the kernel transport asks of sockets by plain system calls: set-up, and what is too rare or
/// too urgent for a submission queue.
///
/// Ownership: descriptors are the caller's. Threading: any; SharedEndpoints has a lock.

namespace pinion::detail {

/// An address as the kernel takes it.
struct SocketAddress {
  sockaddr_in6 storage{};  ///< The larger of the two families.
  socklen_t size = sizeof(sockaddr_in6);

  SocketAddress() noexcept = default;
  explicit SocketAddress(const Endpoint& endpoint) noexcept;
  [[nodiscard]] Endpoint endpoint() const noexcept;
  [[nodiscard]] sockaddr* raw() noexcept { return reinterpret_cast<sockaddr*>(&storage); }
};

/// A bound, listening socket, or what is wrong and how to change it.
[[nodiscard]] Result<int> open_listener(const Endpoint& endpoint, const ListenOptions& options);

/// Shuts a listening socket down at once, whoever else still refers to it, and forgets it as a
/// shared endpoint. The descriptor stays open.
void stop_listening(int fd, const Endpoint& endpoint, bool shared) noexcept;

/// A socket that is ready to connect; a negative errno when there is none.
[[nodiscard]] int open_connector(const Endpoint& peer, const StreamOptions& options) noexcept;

[[nodiscard]] Endpoint local_endpoint(int fd) noexcept;
[[nodiscard]] Endpoint peer_endpoint(int fd) noexcept;

/// Sends RST now, even while operations of the ring hold the socket.
void reset_socket(int fd) noexcept;

/// Sends FIN now.
void send_fin(int fd) noexcept;

/// Resets and closes a socket that no operation of the ring holds.
void discard_socket(int fd) noexcept;

/// Bytes that lie in the socket.
[[nodiscard]] std::size_t unread_bytes(int fd) noexcept;

/// Bytes that have come from the peer so far, taken out of the socket or not. One more after both
/// sides' FIN, when nothing can come any more.
[[nodiscard]] std::uint64_t received_bytes(int fd) noexcept;

/// Sends what the socket takes without waiting: a count, or a negative errno.
[[nodiscard]] std::int64_t send_at_once(int fd, std::span<const std::byte> bytes) noexcept;

/// How long ago the peer's last segment came; zero while data is on its way to it and it
/// answers whatever the kernel sends, without room for more.
[[nodiscard]] Delay peer_silence(int fd) noexcept;

/// Makes the kernel send one keepalive probe; the peer has been silent for a second at least.
void send_keepalive_probe(int fd) noexcept;

/// No further ones.
void stop_keepalive_probes(int fd) noexcept;

/// What an errno of an established connection means.
[[nodiscard]] StreamError stream_error(int errno_value) noexcept;

/// What an errno of a connect means.
[[nodiscard]] StreamError connect_error(int errno_value) noexcept;

/// Whether an errno says to try again.
[[nodiscard]] bool is_transient(int errno_value) noexcept;

/// Whether an errno says that the process or the system has no descriptor or memory left.
[[nodiscard]] bool is_exhaustion(int errno_value) noexcept;

}  // namespace pinion::detail
