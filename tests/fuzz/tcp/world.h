#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <pinion/lib/time.h>
#include <pinion/net/slab_packet_pool.h>
#include <pinion/timers/timing_wheel.h>

#include "../../net/script/segment.h"
#include "host/host.h"
#include "watch.h"

/// A host on virtual time with a user of one TCP connection, between it and a peer of which there
/// are only the segments; and the watch over all of that.

namespace pinion::test {

struct TcpWorldOptions {
  bool v6 = false;
  bool listens = true;
  std::size_t mtu = 1500;
  std::size_t max_segments = 1;  ///< Of a chain that leaves.
  TcpConfig config = {};
  TcpSocketOptions socket = {};
  std::uint64_t seed = 1;
  Instant start{};
};

/// How the user behaves when it is told something.
struct TcpUserHabits {
  bool accepts = true;
  bool reads = true;            ///< All there is, when it is told so.
  bool writes = true;           ///< The rest, when there is room again.
  bool closes_at_end = false;   ///< When the peer's FIN was read.
  bool keeps_the_dead = false;  ///< Lets go of a connection that is over only when it is asked to.
};

class TcpWorld final : private TcpObserver, private TcpAcceptor {
 public:
  static constexpr std::size_t kPackets = 512;

  explicit TcpWorld(const TcpWorldOptions& options);
  TcpWorld(const TcpWorld&) = delete;
  TcpWorld& operator=(const TcpWorld&) = delete;
  /// The host goes as it is. Every packet must have come back.
  ~TcpWorld();

  TcpUserHabits habits;

  [[nodiscard]] Instant now() const { return now_; }
  [[nodiscard]] const TcpWatch& watch() const { return watch_; }
  [[nodiscard]] const Endpoint& host() const { return host_; }
  [[nodiscard]] const Endpoint& peer() const { return peer_; }
  [[nodiscard]] std::uint32_t milliseconds() const {
    return static_cast<std::uint32_t>(now_.time_since_epoch() / std::chrono::milliseconds{1});
  }

  /// A burst of IP packets, each in segments of at most `piece` bytes.
  void receive(std::span<const PacketBytes> packets, std::size_t piece);
  /// An ICMP error.
  void complain(const PacketBytes& packet);

  /// Lets time pass, but no more than `most` timers' deadlines.
  void pass(Delay time, int most);
  /// Up to the next timer's deadline; nothing without one.
  void pass_to_deadline();

  void connect();
  void listen();
  void stop_listening();
  void accept();
  void write(std::size_t size);
  /// As write(), of a packet.
  void write_packet(std::size_t size);
  void read(std::size_t most);
  void read_to_end();
  /// Takes one packet.
  void take();
  void shutdown();
  void close();
  void abort();
  /// Lets go of a connection that is over.
  void bury();
  void set_no_delay(bool no_delay);
  void set_keepalive(const TcpKeepalive& keepalive);
  void set_user_timeout(Delay timeout);
  void set_deadlines(Delay read, Delay write);
  void set_traffic_class(std::uint8_t traffic_class);

  /// Goes on with what wasn't written.
  void write_more();
  [[nodiscard]] bool has_written_all() const { return to_write_ == 0; }

  /// A host with no more than one connection, in which nothing is under way, holds no packet.
  void check_idle() const;

  /// Takes packets from the pool until `left` are left, or gives those taken back.
  void hoard(std::size_t left);

 private:
  template <class Act>
  void move(Move move, const Act& act);
  void settle();
  void take_what_leaves();
  [[nodiscard]] PacketPtr packet_of(std::span<const std::byte> bytes, std::size_t piece);
  [[nodiscard]] std::optional<TcpInfo> info();
  void read_some(std::size_t most, TcpOutcome& outcome);
  void read_all();
  void write_rest();
  void accept_first();
  void let_go();
  void check_stale();

  void on_connected(TcpHandle connection, Instant now) noexcept override;
  void on_readable(TcpHandle connection, Instant now) noexcept override;
  void on_writable(TcpHandle connection, Instant now) noexcept override;
  void on_read_deadline(TcpHandle connection, Instant now) noexcept override;
  void on_write_deadline(TcpHandle connection, Instant now) noexcept override;
  void on_closed(TcpHandle connection, TcpEnd why, Instant now) noexcept override;
  void on_acceptable(TcpListenerHandle listener, Instant now) noexcept override;

  Endpoint host_;
  Endpoint peer_;
  TcpSocketOptions socket_;
  Instant now_;
  SlabPacketPool& pool_;
  TimingWheel wheel_;
  TcpWatch watch_;
  Delay patience_;  ///< Of a connection that sets none.
  std::unique_ptr<Host> stack_;
  TcpListenerHandle listener_;
  TcpHandle handle_;
  TcpHandle stale_;
  bool over_ = false;  ///< The user was told that it is.
  std::size_t to_write_ = 0;
  std::vector<PacketPtr> hoard_;
};

}  // namespace pinion::test
