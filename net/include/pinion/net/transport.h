#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include <pinion/eventloop/wait.h>
#include <pinion/lib/export.h>
#include <pinion/lib/result.h>
#include <pinion/lib/time.h>
#include <pinion/net/address.h>
#include <pinion/net/stream.h>
#include <pinion/net/stream_backend.h>
#include <pinion/net/stream_error.h>

/// Where streams come from: listening and connecting, the same over kernel sockets and the own
/// stack.
///
/// Ownership:  a Listener is a handle; dropping it stops listening. Streams and listeners may
///             outlive their transport: their operations then answer `closed`.
/// Threading:  one transport per lcore, used on its loop's thread.
/// Cost:       accepting and connecting allocate nothing once the pools are warm.
/// Full:       at its limits a transport stops accepting until a connection ends; connect answers
///             `no_resources`.
/// Errors:     listen() says what is wrong and how to change it.

namespace pinion {

class ReportText;

struct StreamOptions {
  bool no_delay = true;  ///< Send small writes at once (no Nagle).
};

struct ListenOptions {
  /// Connections that wait to be accepted; 1 to 65535, on the own stack up to its part of
  /// max_waiting.
  int backlog = 4096;
  bool share = false;  ///< Let other lcores of this process listen on the same endpoint.
  StreamOptions stream{};
};

/// Counters since the transport was made, and gauges.
struct TransportStats {
  std::uint64_t accepted = 0;
  std::uint64_t connected = 0;
  std::uint64_t open = 0;     ///< Now: streams that have a handle.
  std::uint64_t closing = 0;  ///< Now: closed here, not yet by the peer.
  std::uint64_t bytes_in = 0;
  std::uint64_t bytes_out = 0;

  std::uint64_t read_timeouts = 0;
  std::uint64_t write_timeouts = 0;
  std::uint64_t deadlines_exceeded = 0;
  std::uint64_t keepalive_timeouts = 0;
  std::uint64_t keepalive_probes = 0;
  std::uint64_t peer_timeouts = 0;
  std::uint64_t resets_received = 0;
  std::uint64_t resets_sent = 0;       ///< Connections that we reset, for whatever reason.
  std::uint64_t gave_way = 0;          ///< Reset since they held scarce receive buffers for long.
  std::uint64_t out_of_resources = 0;  ///< Of connect, or of the kernel for a stream.
  std::uint64_t io_errors = 0;

  std::uint64_t connects_refused = 0;
  std::uint64_t connects_unreachable = 0;
  std::uint64_t connect_timeouts = 0;

  std::uint64_t accept_pauses = 0;    ///< Times accepting stopped at a limit.
  std::uint64_t accept_dropped = 0;   ///< Accepted beyond every limit and reset.
  std::uint64_t receive_starved = 0;  ///< Receives that found no buffer.
  std::uint64_t receive_paused = 0;   ///< Receives stopped since the reader was behind.
  std::uint64_t receive_copied = 0;   ///< Payloads copied out since buffers ran low.
  /// Packets whose checksums a local sender has left to a NIC that isn't there. They are dropped,
  /// unless StackOptions::trust_partial_checksums is set.
  std::uint64_t partial_checksums = 0;
  std::uint64_t tx_dropped = 0;      ///< Packets that found the tx queue full (own stack).
  std::uint64_t buffers_free = 0;    ///< Now.
  std::uint64_t buffers_lowest = 0;  ///< The fewest there ever were.
};

/// One of them.
struct TransportCounter {
  std::uint64_t TransportStats::* member;
  std::string_view name;  ///< That of the member.
  bool trouble = false;   ///< Counts what goes wrong, or is refused.
};

/// All of TransportStats.
[[nodiscard]] PINION_EXPORT std::span<const TransportCounter> transport_counters() noexcept;

/// Adds what isn't 0, and the buffers, for a report of an lcore (Lcore::add_report).
PINION_EXPORT void add_to(ReportText& text, const TransportStats& stats);

/// `co_await listener.accept()`.
class [[nodiscard]] AcceptAwaiter final : public detail::StreamWait<AcceptAwaiter, Stream> {
 public:
  explicit AcceptAwaiter(ListenerBackend* backend) noexcept
      : StreamWait(kNoTimeout), backend_(backend) {}
  ~AcceptAwaiter() { abandon_if_pending(); }

  [[nodiscard]] PINION_EXPORT bool await_ready() noexcept;

 private:
  friend StreamWait;
  [[nodiscard]] PINION_EXPORT bool start() noexcept;
  PINION_EXPORT void cancel() noexcept;
  PINION_EXPORT void abandon() noexcept;

  ListenerBackend* backend_;
};

class Listener {
 public:
  Listener() noexcept = default;
  explicit Listener(ListenerBackend& backend) noexcept : backend_(&backend) {}
  Listener(Listener&& other) noexcept : backend_(std::exchange(other.backend_, nullptr)) {}
  Listener& operator=(Listener&& other) noexcept {
    if (this != &other) {
      reset();
      backend_ = std::exchange(other.backend_, nullptr);
    }
    return *this;
  }
  ~Listener() { reset(); }

  /// The next connection; one accept is outstanding at a time.
  AcceptAwaiter accept() noexcept { return AcceptAwaiter(backend_); }

  /// Stops listening; connections that nobody accepted are reset.
  PINION_EXPORT void close() noexcept;

  /// Where it listens, with the port that was chosen when 0 was asked for.
  [[nodiscard]] PINION_EXPORT Endpoint local() const noexcept;

 private:
  void reset() noexcept {
    if (backend_ != nullptr) release();
  }
  PINION_EXPORT void release() noexcept;

  ListenerBackend* backend_ = nullptr;
};

/// `co_await transport.connect(…)`.
class [[nodiscard]] ConnectAwaiter final : public detail::StreamWait<ConnectAwaiter, Stream> {
 public:
  ConnectAwaiter(TransportBackend& backend, const Endpoint& peer, Delay timeout,
                 StreamOptions options) noexcept
      : StreamWait(timeout), backend_(backend), peer_(peer), options_(options) {}
  ~ConnectAwaiter() { abandon_if_pending(); }

  [[nodiscard]] bool await_ready() const noexcept { return false; }

  // For backends.
  [[nodiscard]] const Endpoint& peer() const noexcept { return peer_; }
  [[nodiscard]] const StreamOptions& options() const noexcept { return options_; }
  [[nodiscard]] void* operation() const noexcept { return operation_; }
  void set_operation(void* operation) noexcept { operation_ = operation; }

 private:
  friend StreamWait;
  [[nodiscard]] PINION_EXPORT bool start() noexcept;
  PINION_EXPORT void cancel() noexcept;
  PINION_EXPORT void abandon() noexcept;

  TransportBackend& backend_;
  Endpoint peer_;
  StreamOptions options_;
  void* operation_ = nullptr;
};

/// What KernelTransport and other transports have in common; made and destroyed as one of them.
class Transport {
 public:
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  /// Listens on an endpoint of this host.
  [[nodiscard]] PINION_EXPORT Result<Listener> listen(const Endpoint& endpoint,
                                                      const ListenOptions& options = {});

  /// Connects to `peer`; waits for its answer at most `timeout`.
  ConnectAwaiter connect(const Endpoint& peer, Delay timeout = kNoTimeout,
                         StreamOptions options = {}) noexcept {
    return {backend_, peer, timeout, options};
  }

  [[nodiscard]] PINION_EXPORT TransportStats stats() const noexcept;

 protected:
  explicit Transport(TransportBackend& backend) noexcept : backend_(backend) {}
  ~Transport() = default;

 private:
  TransportBackend& backend_;
};

}  // namespace pinion
