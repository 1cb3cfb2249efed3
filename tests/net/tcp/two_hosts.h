#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <pinion/lib/random.h>
#include <pinion/lib/time.h>
#include <pinion/net/address.h>
#include <pinion/net/slab_packet_pool.h>
#include <pinion/timers/timing_wheel.h>

#include "stack/ip_layer.h"
#include "tcp/tcp.h"
#include "wire/tcp_parser.h"

/// Two hosts with a TCP each, joined by a line, on virtual time.

namespace pinion::test {

/// The byte that a stream has at `offset`.
[[nodiscard]] std::byte stream_byte(std::uint64_t offset);

/// `size` bytes of a stream from `offset` on.
[[nodiscard]] std::vector<std::byte> stream_bytes(std::uint64_t offset, std::size_t size);

/// A segment on the line, and whose it is.
struct LineSegment {
  int from = 0;  ///< The host's number.
  wire::TcpSegment segment;
  std::size_t size = 0;  ///< Of data.
  int traffic_class = 0;

  [[nodiscard]] bool has(wire::TcpFlag flag) const { return segment.header.flags.has(flag); }
};

struct TwoHostsOptions {
  TcpConfig config = {};
  bool v6 = false;
  std::size_t mtu = 1500;
  Delay latency = std::chrono::milliseconds{5};
  Delay jitter = {};  ///< Up to so much more, each packet at random: they overtake each other.
  SlabPacketPoolOptions pool = {};
  std::uint64_t seed = 1;
};

class TwoHosts {
 public:
  explicit TwoHosts(const TwoHostsOptions& options = {});
  TwoHosts(const TwoHosts&) = delete;
  TwoHosts& operator=(const TwoHosts&) = delete;
  /// Every packet must have come back by then, which the test has let happen.
  ~TwoHosts();

  /// Host 0 connects, host 1 listens, as a rule.
  [[nodiscard]] Tcp& tcp(int host);
  [[nodiscard]] Endpoint endpoint(int host, std::uint16_t port) const;
  [[nodiscard]] SlabPacketPool& pool() { return *pool_; }
  [[nodiscard]] Instant now() const { return now_; }

  /// Lets time pass: packets arrive, timers fire.
  void run_for(Delay time);
  /// Until `holds()`, at most `limit`; whether it came to hold.
  bool run_until(const std::function<bool()>& holds, Delay limit);

  /// Called for each segment that is sent: false loses it.
  std::function<bool(const LineSegment&)> passes = [](const LineSegment&) { return true; };

  /// Timers fire between a burst's segments and its end, rather than behind it.
  bool wheels_first = false;

  /// All that was sent, lost or not, while `recording`.
  std::vector<LineSegment> sent;
  bool recording = false;

  /// Puts a segment on the line, as if `from` had sent it.
  void forge(int from, const wire::TcpHeader& header, const wire::TcpOptions& options = {},
             std::span<const std::byte> data = {});

 private:
  class Host;
  struct Flying {
    Instant arrives;
    int to = 0;
    PacketPtr packet;
    IpArrival arrival;
  };

  void put_on_line(int from, PacketPtr packet, const IpDeparture& how);
  void fly(int from, PacketPtr packet, const IpArrival& arrival);
  void step(Instant to);
  [[nodiscard]] Instant next_event() const;
  void deliver();

  TwoHostsOptions options_;
  Instant now_{std::chrono::seconds{1000} + std::chrono::microseconds{300}};
  Random random_;
  std::unique_ptr<SlabPacketPool> pool_;
  std::deque<Flying> line_;
  std::vector<std::unique_ptr<Host>> hosts_;
};

/// A user of a connection, who reads what comes unless told otherwise, and counts what it is told.
class TestSocket final : public TcpObserver {
 public:
  explicit TestSocket(Tcp& tcp) : tcp_(&tcp) {}
  TestSocket(const TestSocket&) = delete;
  TestSocket& operator=(const TestSocket&) = delete;
  ~TestSocket() = default;

  void on_connected(TcpHandle connection, Instant now) noexcept override;
  void on_readable(TcpHandle connection, Instant now) noexcept override;
  void on_writable(TcpHandle connection, Instant now) noexcept override;
  void on_read_deadline(TcpHandle connection, Instant now) noexcept override;
  void on_write_deadline(TcpHandle connection, Instant now) noexcept override;
  void on_closed(TcpHandle connection, TcpEnd why, Instant now) noexcept override;

  /// Reads all there is.
  void read_all(Instant now);
  /// Reads 4096 bytes at most; whether it has got any.
  bool read_piece(Instant now);
  /// Writes the stream's next bytes until `total` were taken: now, and when there is room.
  void write_up_to(std::uint64_t total, Instant now);

  /// Whether everything received is what the stream's other end wrote.
  [[nodiscard]] bool received_stream(std::uint64_t size) const;

  TcpHandle handle;
  bool reads = true;
  bool closes_at_end = false;  ///< Closes when the peer's FIN was read.
  int connected = 0;
  int readable = 0;
  int writable = 0;
  int read_deadlines = 0;
  int write_deadlines = 0;
  int closed = 0;
  std::optional<TcpEnd> end;
  bool finished = false;  ///< The end of the stream was read.
  std::uint64_t received = 0;
  bool garbled = false;
  std::uint64_t written = 0;
  std::uint64_t write_goal = 0;
  std::function<void(Instant)> when_readable;

 private:
  Tcp* tcp_;
};

/// A connection from host 0 to host 1, port 7, and both its users.
struct TestPair {
  explicit TestPair(TwoHosts& world, const TcpSocketOptions& client_options = {},
                    const TcpListenOptions& listen_options = {});

  /// Both ends close, in order, and all that takes place.
  void close_both();

  TwoHosts& world;
  TcpListenerHandle listener;
  TestSocket client;
  TestSocket server;
};

}  // namespace pinion::test
