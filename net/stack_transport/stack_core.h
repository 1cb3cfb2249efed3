#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <pinion/eventloop/loop.h>
#include <pinion/lib/list.h>
#include <pinion/lib/slab.h>
#include <pinion/net/device_poller.h>
#include <pinion/net/slab_packet_pool.h>
#include <pinion/net/stack_transport.h>
#include <pinion/net/transport.h>

#include "../host/host.h"
#include "../stream/count_failure.h"
#include "stack_connection.h"
#include "stack_listener.h"

/// What the connections and listeners of one stack transport share: the host, its devices, and the
/// turn that brings them together.
///
/// Ownership:  made by the transport, and gone when the transport, its connections, its listeners
///             and the chunks that it lent are all gone: handles may outlive the transport.
/// Threading:  the loop's.
/// Cost:       all operations O(1), but the walks of drain and shutdown, and relieve() over a part
///             of the connections that hold packets while these are scarce. The end of a connection
///             looks at each listener, twice: max_listeners, 1024 at most.

namespace pinion::detail {

class StackCore final : public TransportBackend,
                        public Drainable,
                        public Poller,
                        public BufferOwner {
 public:
  [[nodiscard]] static Result<StackCore*> create(Loop& loop, PacketPool& packets,
                                                 const StackOptions& options);
  StackCore(const StackCore&) = delete;
  StackCore& operator=(const StackCore&) = delete;

  [[nodiscard]] Loop& loop() noexcept { return loop_; }
  [[nodiscard]] Tcp& tcp() noexcept { return host_->tcp(); }
  [[nodiscard]] TransportStats& counters() noexcept { return counters_; }
  void count_failure(StreamError error) noexcept { detail::count_failure(counters_, error); }
  [[nodiscard]] TransportStats stats() const noexcept override;

  [[nodiscard]] bool draining() const noexcept { return draining_; }

  // Connections; nullptr when there is no room.
  [[nodiscard]] StackConnection* make_connection() noexcept;
  /// Takes back one that came to nothing.
  void unmake(StackConnection& connection) noexcept;
  void free(StackConnection& connection) noexcept;
  /// A connection is over: its place is free, although a handle may be left.
  void place_freed() noexcept;
  [[nodiscard]] bool may_open() const noexcept {
    return places_ < options_.max_connections && connections_.live() < connections_.limit();
  }
  /// Ends closes that have waited longest for their peer, until there is a place for whoever waits
  /// for one, and for the caller.
  void make_room(bool for_caller) noexcept;
  [[nodiscard]] List<StackConnection, ClosingTag>& closing() noexcept { return closing_; }

  /// The read is settled when what has arrived by now has been handed on.
  void settle_later(StackConnection& connection) noexcept { late_.push_back(connection); }

  /// The connection has bytes in packets, unread or unacknowledged.
  void note_holding(StackConnection& connection) noexcept {
    if (!List<StackConnection, HoldingTag>::linked(connection)) holding_.push_back(connection);
  }

  /// A task has sent something. Whatever all of them send in one turn, no tx queue runs over while
  /// its device takes packets, unless one call alone sends half of what it holds.
  void make_way() noexcept {
    if (host_->ip().is_crowded()) offer();
  }

  // Chunks.
  [[nodiscard]] std::optional<Chunk> lend(PacketPtr packet) noexcept;
  /// The packet behind a chunk that this core lent, cut to the chunk's bytes; none otherwise.
  [[nodiscard]] PacketPtr take_back(Chunk& chunk) noexcept;
  void release_buffer(std::uintptr_t token) noexcept override;

  // Listeners.
  /// A port to listen on where any will do.
  [[nodiscard]] std::uint16_t next_listen_port() noexcept;
  Result<Listener> listen(const Endpoint& endpoint, const ListenOptions& options) override;
  void free(StackListener& listener) noexcept;

  // Connecting.
  bool start_connect(ConnectAwaiter& connect) noexcept override;
  void cancel_connect(ConnectAwaiter& connect) noexcept override;
  void abandon_connect(ConnectAwaiter& connect) noexcept override;

  // Poller: what the devices' bursts left undone.
  std::size_t poll(Instant now, std::size_t budget) override;
  ParkAnswer prepare_park() override;
  [[nodiscard]] const char* name() const override { return "stack"; }

  // Drain and end.
  void on_drain() override;
  void on_drain_expired() override;
  [[nodiscard]] bool drained() const override;
  void shut_down() noexcept;

 private:
  /// A device, and what it hasn't taken yet.
  class Port final : public PacketSink {
   public:
    Port(StackCore& core, Device& device, std::uint8_t index) noexcept
        : core_(core), device_(device), index_(index) {}
    Port(const Port&) = delete;
    Port& operator=(const Port&) = delete;
    ~Port();

    void serve(Loop& loop) { poller_ = std::make_unique<DevicePoller>(loop, device_, *this); }
    void receive(Instant now, std::span<Packet* const> packets) override;
    /// Offers what is to be sent; answers how many packets the device took.
    std::size_t flush(Instant now) noexcept;
    [[nodiscard]] bool waits() const noexcept { return count_ != 0; }

   private:
    StackCore& core_;
    Device& device_;
    const std::uint8_t index_;
    std::unique_ptr<DevicePoller> poller_;
    std::array<Packet*, DevicePoller::kBurst> burst_{};
    std::size_t first_ = 0;
    std::size_t count_ = 0;  ///< From `first_` on.
  };

  struct ReliefTimer : TimerEntry {
    explicit ReliefTimer(StackCore& owner) noexcept : TimerEntry(&fire), core(owner) {}
    static void fire(TimerEntry& entry);
    StackCore& core;
  };

  StackCore(Loop& loop, PacketPool& packets, const StackOptions& options) noexcept;
  ~StackCore() override = default;

  [[nodiscard]] Result<> set_up();
  [[nodiscard]] Result<> add_interface(const StackInterface& interface, Instant now);
  [[nodiscard]] TcpSocketOptions socket_options(const StreamOptions& stream) const noexcept;
  std::size_t serve(Instant now) noexcept;
  void offer() noexcept;
  [[nodiscard]] std::size_t settle_late_reads() noexcept;
  [[nodiscard]] std::uint64_t partial_checksums() const noexcept;
  void watch_checksums() noexcept;
  void watch_packets(Instant now) noexcept;
  void relieve() noexcept;
  [[nodiscard]] tl::expected<TcpHandle, TcpConnectError> open_tcp(
      const ConnectAwaiter& connect, StackConnection& connection) noexcept;
  bool settle() noexcept;
  void tell_listeners() noexcept;
  void end_if_unused() noexcept;

  Loop& loop_;
  PacketPool& packets_;
  const StackOptions options_;
  bool alive_ = true;  ///< False once the transport is gone: no loop and no host any more.
  bool draining_ = false;
  bool told_of_checksums_;  ///< Or nobody needs to know.

  std::unique_ptr<SlabPacketPool> small_packets_;
  std::unique_ptr<Host> host_;
  std::vector<std::unique_ptr<Port>> ports_;

  Slab<StackConnection> connections_;
  std::size_t places_ = 0;
  std::size_t chunks_out_ = 0;
  std::size_t lowest_available_;
  std::uint16_t last_listen_port_;
  TransportStats counters_;

  List<StackConnection, AllTag> all_;
  List<StackConnection, LateTag> late_;
  List<StackConnection, ClosingTag> closing_;
  List<StackConnection, HoldingTag> holding_;
  List<StackListener> listeners_;
  ReliefTimer relief_timer_;
};

}  // namespace pinion::detail
