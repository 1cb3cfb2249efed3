#pragma once

#include <chrono>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include <pinion/eventloop/wait.h>
#include <pinion/lib/assert.h>
#include <pinion/lib/export.h>
#include <pinion/lib/time.h>
#include <pinion/net/address.h>
#include <pinion/net/chunk.h>
#include <pinion/net/stream_backend.h>
#include <pinion/net/stream_error.h>
#include <tl/expected.hpp>

/// A TCP connection as a task sees it, the same over every transport.
///
///   pinion::Task<> serve(pinion::Stream conn) {
///     conn.set_keepalive({.idle = 60s, .interval = 10s, .probes = 3});
///     while (auto chunk = co_await conn.read(30s)) {
///       if (!co_await conn.write(std::move(*chunk), 10s)) break;
///     }
///   }
///
/// Ownership:  a Stream is a handle; the connection belongs to its transport and ends with the
///             handle (docs/stream.md, "Ending"). Bytes written from a span stay the caller's.
/// Threading:  the lcore that made it. One read and one write may be outstanding at a time; a
///             second one of a kind is refused by an assertion.
/// Cost:       no allocation. A timeout costs one store in the steady state.
/// Errors:     values of StreamError; the whole contract is docs/stream.md.

namespace pinion {

/// When to ask a silent peer whether it is still there. Values outside the limits are moved to the
/// nearest one.
struct Keepalive {
  Delay idle = kNoTimeout;  ///< Silence before the first probe; at least 1 s; kNoTimeout: off.
  Delay interval = std::chrono::seconds{10};  ///< Between probes; at least 100 ms.
  int probes = 3;  ///< Unanswered ones before the connection is reset; 1 to 127.
};

struct StreamStats {
  std::uint64_t bytes_in = 0;   ///< Received, read or not.
  std::uint64_t bytes_out = 0;  ///< Accepted for sending.
};

template <class T>
using StreamResult = tl::expected<T, StreamError>;

namespace detail {

/// `to = std::move(from)`; without exceptions tl::expected can't assign what is move-only.
template <class T>
void replace_result(StreamResult<T>& to, StreamResult<T>&& from) noexcept {
  std::destroy_at(&to);
  std::construct_at(&to, std::move(from));
}

/// What the awaiters of a backend's operations have in common. An `Operation` has start(), which
/// starts it, or settles it and returns false; cancel(), which asks the backend to finish it; and
/// abandon(), which tells the backend to forget it. They are called in the library alone.
///
/// A backend settles inside start() and finishes afterwards: while start() runs, no task waits yet
/// that could be resumed (asserted).
template <class Operation, class Value>
class StreamWait : public Wait {
 public:
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> frame) noexcept {
    pending_ = !cancelled() && self().start();
    const bool settled = !pending_;
    begin(frame);
    if (settled && waiting()) resume();
  }
  [[nodiscard]] StreamResult<Value> await_resume() noexcept { return std::move(result_); }

  // For backends.
  [[nodiscard]] Delay timeout() const noexcept { return timeout_; }
  void settle(StreamResult<Value> result) noexcept { replace_result(result_, std::move(result)); }
  void finish(StreamResult<Value> result) noexcept {
    PINION_ASSERT(pending_);
    pending_ = false;
    settle(std::move(result));
    resume();
  }

 protected:
  explicit StreamWait(Delay timeout) noexcept : Wait(&on_cancel), timeout_(timeout) {}
  ~StreamWait() { PINION_DCHECK(!pending_); }

  /// For the destructor of `Operation`: the frame is being destroyed while it waits.
  void abandon_if_pending() noexcept {
    if (std::exchange(pending_, false)) self().abandon();
  }

 private:
  [[nodiscard]] Operation& self() noexcept { return static_cast<Operation&>(*this); }
  static void on_cancel(Wait& wait) noexcept {
    auto& waiting = static_cast<StreamWait&>(wait);
    if (waiting.pending_) return waiting.self().cancel();
    waiting.settle(tl::unexpected(StreamError::cancelled));
    waiting.resume();
  }

  Delay timeout_;
  bool pending_ = false;
  StreamResult<Value> result_ = tl::unexpected(StreamError::cancelled);
};

}  // namespace detail

/// `co_await stream.read(…)`.
class [[nodiscard]] ReadAwaiter final : public detail::StreamWait<ReadAwaiter, Chunk> {
 public:
  ReadAwaiter(StreamBackend* backend, Delay timeout) noexcept
      : StreamWait(timeout), backend_(backend) {}
  ~ReadAwaiter() { abandon_if_pending(); }

  [[nodiscard]] PINION_EXPORT bool await_ready() noexcept;

 private:
  friend StreamWait;
  [[nodiscard]] PINION_EXPORT bool start() noexcept;
  PINION_EXPORT void cancel() noexcept;
  PINION_EXPORT void abandon() noexcept;

  StreamBackend* backend_;
};

/// `co_await stream.write(…)`.
class [[nodiscard]] WriteAwaiter final : public detail::StreamWait<WriteAwaiter, void> {
 public:
  WriteAwaiter(StreamBackend* backend, Chunk& chunk, Delay timeout) noexcept
      : StreamWait(timeout), backend_(backend), chunk_(&chunk) {}
  WriteAwaiter(StreamBackend* backend, std::span<const std::byte> bytes, Delay timeout) noexcept
      : StreamWait(timeout), backend_(backend), bytes_(bytes) {}
  ~WriteAwaiter() { abandon_if_pending(); }

  [[nodiscard]] PINION_EXPORT bool await_ready() noexcept;
  [[nodiscard]] StreamResult<void> await_resume() noexcept {
    taken_.reset();
    return StreamWait::await_resume();
  }

  // For backends.
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }
  /// The buffer that bytes() lie in, if it is a received one. A backend may move it out.
  [[nodiscard]] Chunk& chunk() noexcept { return taken_; }

 private:
  friend StreamWait;
  [[nodiscard]] PINION_EXPORT bool start() noexcept;
  PINION_EXPORT void cancel() noexcept;
  PINION_EXPORT void abandon() noexcept;

  StreamBackend* backend_;
  Chunk* chunk_ = nullptr;
  Chunk taken_;
  std::span<const std::byte> bytes_;
};

class Stream {
 public:
  /// A handle of nothing: its operations answer `closed`.
  Stream() noexcept = default;

  /// For transports: the handle of `backend`, which hears release() when the handle dies.
  explicit Stream(StreamBackend& backend) noexcept : backend_(&backend) {}

  Stream(Stream&& other) noexcept : backend_(std::exchange(other.backend_, nullptr)) {}
  Stream& operator=(Stream&& other) noexcept {
    if (this != &other) {
      reset();
      backend_ = std::exchange(other.backend_, nullptr);
    }
    return *this;
  }
  ~Stream() { reset(); }

  /// Whether this is the handle of a connection, open or not.
  [[nodiscard]] explicit operator bool() const noexcept { return backend_ != nullptr; }

  /// The next bytes, at least one; waits for them at most `timeout`.
  ReadAwaiter read(Delay timeout = kNoTimeout) noexcept { return {backend_, timeout}; }

  /// Sends `chunk`'s bytes, from where they were received, and then gives its buffer back.
  WriteAwaiter write(Chunk&& chunk, Delay timeout = kNoTimeout) noexcept {
    return {backend_, chunk, timeout};
  }

  /// Sends `bytes`, which must stay as they are until the write completes.
  WriteAwaiter write(std::span<const std::byte> bytes, Delay timeout = kNoTimeout) noexcept {
    return {backend_, bytes, timeout};
  }

  /// FIN after what was accepted; reading goes on.
  PINION_EXPORT void shutdown_write() noexcept;

  /// Ends the connection in order, in the background; by reset when data is unread or a write
  /// failed.
  PINION_EXPORT void close() noexcept;

  /// Resets the connection at once.
  PINION_EXPORT void abort() noexcept;

  /// Pending and later operations end at `deadline` at the latest. kNever lifts it.
  PINION_EXPORT void set_deadline(Instant deadline) noexcept;
  /// The same, counted from now.
  PINION_EXPORT void set_deadline(Delay from_now) noexcept;

  PINION_EXPORT void set_keepalive(const Keepalive& keepalive) noexcept;

  /// This side's address; 0.0.0.0:0 when the connection is over.
  [[nodiscard]] PINION_EXPORT Endpoint local() const noexcept;
  [[nodiscard]] PINION_EXPORT Endpoint peer() const noexcept;
  [[nodiscard]] PINION_EXPORT StreamStats stats() const noexcept;

 private:
  void reset() noexcept {
    if (backend_ != nullptr) release();
  }
  PINION_EXPORT void release() noexcept;

  StreamBackend* backend_ = nullptr;
};

}  // namespace pinion
