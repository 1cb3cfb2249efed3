#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <pinion/eventloop/loop.h>
#include <pinion/lib/export.h>
#include <pinion/lib/result.h>
#include <pinion/lib/time.h>
#include <pinion/net/transport.h>

/// Streams over the kernel's TCP, through the loop's io_uring: no root, no NIC.
///
/// Ownership:  the transport belongs to the caller and dies before its loop. Its streams, listeners
///             and chunks may outlive it. Its end resets what is still open.
/// Threading:  the loop's thread, which has adopted the loop (Loop::adopt_thread, or running).
/// Cost:       receiving is one multishot operation per connection, accepting one per listener; an
///             idle connection holds no buffer. Buffers and the ring for them are taken by
///             create(), connections from a slab that grows by doubling.
/// Full:       max_connections reached: accepting pauses, connect answers no_resources. Out of
///             descriptors: the same, until one is free. Out of buffers: receives wait in line, and
///             streams that hold some for long give way (docs/decisions/receive-buffers.md).
/// Errors:     create() checks the descriptor limit and the kernel's features.
/// Drain:      a Drainable of its loop; docs/stream.md, "Drain".

namespace pinion {

struct KernelOptions {
  std::uint32_t buffer_count = 4096;  ///< Receive buffers; a power of two, 1 to 32768.
  std::uint32_t buffer_size = 4096;   ///< Bytes each, 64 to 1048576.

  /// Buffers of the same size for what waits to be read or sent while receive buffers are scarce;
  /// up to 32768. 0: a quarter of buffer_count.
  std::uint32_t spare_count = 0;

  /// Unread buffers of one connection before receiving stops until the reader catches up; 1 and up.
  /// Fewer when buffers are scarce. A connection that was calm so far may go over it once, by what
  /// its socket holds (net.ipv4.tcp_rmem).
  std::uint32_t buffers_per_connection = 16;

  /// Sockets of this transport at once, closing ones included. 0: what the process's descriptor
  /// limit allows to it alone; lcores share the descriptors, so give each transport its part.
  std::size_t max_connections = 0;

  Delay linger = std::chrono::seconds{2};  ///< How long close() waits for the peer's FIN.
  Delay accept_retry = std::chrono::milliseconds{100};  ///< After running out of descriptors.
};

/// Whether this process may have `connections` sockets open, those of all its transports, beside
/// what else it needs. The error names the limit and the command that raises it.
[[nodiscard]] PINION_EXPORT Result<> check_descriptor_limit(std::size_t connections);

namespace detail {
class KernelCore;
}

class KernelTransport final : public Transport {
 public:
  [[nodiscard]] PINION_EXPORT static Result<std::unique_ptr<KernelTransport>> create(
      Loop& loop, const KernelOptions& options = {});
  PINION_EXPORT ~KernelTransport();

 private:
  explicit KernelTransport(detail::KernelCore& core) noexcept;

  detail::KernelCore& core_;
};

}  // namespace pinion
