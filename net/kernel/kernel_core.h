#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <pinion/eventloop/loop.h>
#include <pinion/lib/list.h>
#include <pinion/lib/slab.h>
#include <pinion/net/kernel_transport.h>
#include <pinion/net/transport.h>

#include "../stream/count_failure.h"
#include "connection.h"
#include "listener.h"
#include "receive_pool.h"

/// What the connections and listeners of one kernel transport share.
///
/// Ownership:  made by the transport, and gone when the transport, its connections, its listeners
///             and the chunks that it lent are all gone: handles may outlive the transport, and
///             operations of the ring the handles.
/// Threading:  the loop's.
/// Cost:       all operations O(1), but the walks of drain and shutdown.

namespace pinion::detail {

class KernelCore final : public TransportBackend, public Drainable, public ReceivePool::Observer {
 public:
  /// How many accepted connections may wait for accept() beyond max_connections.
  static constexpr std::size_t kMaxPending = 4096;

  [[nodiscard]] static Result<KernelCore*> create(Loop& loop, const KernelOptions& options);
  KernelCore(const KernelCore&) = delete;
  KernelCore& operator=(const KernelCore&) = delete;

  [[nodiscard]] Loop& loop() noexcept { return *loop_; }
  [[nodiscard]] Ring& ring() noexcept { return loop_->ring(); }
  [[nodiscard]] TimingWheel& wheel() noexcept { return loop_->wheel(); }
  [[nodiscard]] const KernelOptions& options() const noexcept { return options_; }
  [[nodiscard]] ReceivePool& pool() noexcept { return *pool_; }
  [[nodiscard]] TransportStats& counters() noexcept { return counters_; }
  void count_failure(StreamError error) noexcept { detail::count_failure(counters_, error); }
  [[nodiscard]] TransportStats stats() const noexcept override;

  /// False once the transport is gone: the ring and the wheel must not be used any more.
  [[nodiscard]] bool alive() const noexcept { return alive_; }
  [[nodiscard]] bool draining() const noexcept { return draining_; }

  // Connections. `fd` becomes the connection's; nullptr when there is no room, `fd` is the caller's
  // then.
  [[nodiscard]] KernelConnection* adopt(int fd) noexcept;
  void free(KernelConnection& connection) noexcept;

  /// Closes a connection's descriptor; whoever waits for one goes on.
  void close_descriptor(int fd) noexcept;

  /// Sockets now, waiting and closing ones included.
  [[nodiscard]] std::size_t sockets() const noexcept { return sockets_; }
  [[nodiscard]] bool full() const noexcept { return sockets_ >= options_.max_connections; }
  void count_pending() noexcept { ++pending_; }
  void uncount_pending() noexcept { --pending_; }
  void count_leaving() noexcept { ++leaving_; }
  /// Whether one more connection may be handed out.
  [[nodiscard]] bool may_open() const noexcept {
    return sockets_ - pending_ < options_.max_connections;
  }
  /// The same for one that is connected, and so isn't there for a while: places that are about to
  /// appear count.
  [[nodiscard]] bool may_connect() const noexcept {
    return sockets_ - pending_ - leaving_ < options_.max_connections;
  }

  /// Ends the closes that have waited longest for their peer: one for each listener that has a
  /// client without a place, and for the caller that wants to open one, less the places that are
  /// about to appear anyway and aren't spoken for by a connect.
  void make_room(bool for_caller) noexcept;

  /// After each change: when buffers are exhausted, whoever holds one for long gives way.
  void watch_buffers() noexcept {
    if (pool_->exhausted()) arm_relief();
  }

  /// Puts a connection that has something to receive in line for a buffer: in front when it left
  /// the line and got none.
  void starve(KernelConnection& connection, bool resumed) noexcept;
  /// A receive that came from the line has its buffer, or needs none.
  void resumed() noexcept;
  [[nodiscard]] List<KernelConnection, LingerTag>& lingering() noexcept { return lingering_; }

  // Listeners.
  Result<Listener> listen(const Endpoint& endpoint, const ListenOptions& options) override;
  void free(KernelListener& listener) noexcept;

  // Connecting.
  bool start_connect(ConnectAwaiter& connect) noexcept override;
  void cancel_connect(ConnectAwaiter& connect) noexcept override;
  void abandon_connect(ConnectAwaiter& connect) noexcept override;

  /// Takes an operation back so that the kernel uses its memory no more when this returns. Its last
  /// completion still comes.
  void withdraw(Completion& operation) noexcept;

  // Drain and end.
  void on_drain() override;
  void on_drain_expired() override;
  [[nodiscard]] bool drained() const override { return sockets_ == 0; }
  void shut_down() noexcept;

 private:
  struct DrainTimer : TimerEntry {
    explicit DrainTimer(KernelCore& owner) noexcept : TimerEntry(&fire), core(owner) {}
    static void fire(TimerEntry& entry);
    KernelCore& core;
  };
  struct ReliefTimer : TimerEntry {
    explicit ReliefTimer(KernelCore& owner) noexcept : TimerEntry(&fire), core(owner) {}
    static void fire(TimerEntry& entry);
    KernelCore& core;
  };

  KernelCore(Loop& loop, const KernelOptions& options) noexcept;
  ~KernelCore() override = default;

  void on_buffer_free() noexcept override;
  void on_last_chunk_gone() noexcept override;
  void feed_starved() noexcept;
  void arm_relief() noexcept;
  void relieve() noexcept;
  void end_if_unused() noexcept;

  Loop* loop_;
  KernelOptions options_;
  TransportStats counters_;
  std::unique_ptr<ReceivePool> pool_;
  Slab<KernelConnection> connections_;
  List<KernelConnection, AllTag> all_;
  List<KernelConnection, StarvedTag> starved_;
  List<KernelConnection, LingerTag> lingering_;
  List<KernelListener> listeners_;
  DrainTimer drain_timer_;
  ReliefTimer relief_timer_;
  std::size_t sockets_ = 0;
  std::size_t pending_ = 0;     ///< Sockets that wait for accept().
  std::size_t leaving_ = 0;     ///< Sockets that are over and not closed yet.
  std::uint32_t resuming_ = 0;  ///< Receives that left the line and have no answer yet.
  bool alive_ = true;
  bool draining_ = false;
};

}  // namespace pinion::detail
