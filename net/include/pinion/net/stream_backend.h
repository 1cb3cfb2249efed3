#pragma once

#include <pinion/lib/result.h>
#include <pinion/lib/time.h>
#include <pinion/net/address.h>

/// What a transport implements so that Transport, Stream and Listener work over it. Programs don't
/// need it: the handles' code that calls it is in the library, so that programs built with RTTI or
/// UBSan and a library built without go together.
///
/// Ownership:  a backend belongs to its transport; one handle refers to it and says release() when
///             it dies. A backend finishes every awaiter that it was given, once, or is told to
///             abandon it; it never touches an awaiter afterwards.
/// Order:      start_…() settles its awaiter or accepts it; it never finishes it itself.
/// Threading:  one lcore.
/// Contract:   docs/stream.md.

namespace pinion {

class AcceptAwaiter;
class ConnectAwaiter;
class Listener;
class ReadAwaiter;
class WriteAwaiter;
struct Keepalive;
struct ListenOptions;
struct StreamStats;
struct TransportStats;

class StreamBackend {
 public:
  /// Settles the read when that takes no waiting, and says whether it did.
  virtual bool read_ready(ReadAwaiter& read) noexcept = 0;

  /// Starts to wait; the backend calls read.finish() later. False: settled by read.settle(), the
  /// task goes on after one turn.
  virtual bool start_read(ReadAwaiter& read) noexcept = 0;

  /// The task is cancelled: finish the read.
  virtual void cancel_read(ReadAwaiter& read) noexcept = 0;

  /// The waiting frame is being destroyed: forget the read.
  virtual void abandon_read(ReadAwaiter& read) noexcept = 0;

  // The same for writes. cancel_write() finishes the write when nothing uses its bytes any more;
  // abandon_write() returns when nothing does.
  virtual bool write_ready(WriteAwaiter& write) noexcept = 0;
  virtual bool start_write(WriteAwaiter& write) noexcept = 0;
  virtual void cancel_write(WriteAwaiter& write) noexcept = 0;
  virtual void abandon_write(WriteAwaiter& write) noexcept = 0;

  virtual void shutdown_write() noexcept = 0;
  virtual void close() noexcept = 0;
  virtual void abort() noexcept = 0;

  /// The handle is gone: close if that did not happen yet, and end when all is done.
  virtual void release() noexcept = 0;

  virtual void set_deadline(Instant deadline) noexcept = 0;
  virtual void set_deadline(Delay from_now) noexcept = 0;
  virtual void set_keepalive(const Keepalive& keepalive) noexcept = 0;

  [[nodiscard]] virtual Endpoint local() const noexcept = 0;
  [[nodiscard]] virtual Endpoint peer() const noexcept = 0;
  [[nodiscard]] virtual StreamStats stats() const noexcept = 0;

 protected:
  ~StreamBackend() = default;
};

class ListenerBackend {
 public:
  virtual bool accept_ready(AcceptAwaiter& accept) noexcept = 0;
  virtual bool start_accept(AcceptAwaiter& accept) noexcept = 0;
  virtual void cancel_accept(AcceptAwaiter& accept) noexcept = 0;
  virtual void abandon_accept(AcceptAwaiter& accept) noexcept = 0;

  virtual void close() noexcept = 0;
  virtual void release() noexcept = 0;
  [[nodiscard]] virtual Endpoint local() const noexcept = 0;

 protected:
  ~ListenerBackend() = default;
};

class TransportBackend {
 public:
  virtual Result<Listener> listen(const Endpoint& endpoint, const ListenOptions& options) = 0;

  /// As for reads; `connect.operation()` is the transport's to use.
  virtual bool start_connect(ConnectAwaiter& connect) noexcept = 0;
  virtual void cancel_connect(ConnectAwaiter& connect) noexcept = 0;
  virtual void abandon_connect(ConnectAwaiter& connect) noexcept = 0;

  [[nodiscard]] virtual TransportStats stats() const noexcept = 0;

 protected:
  ~TransportBackend() = default;
};

}  // namespace pinion
