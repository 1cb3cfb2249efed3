#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <pinion/lib/assert.h>
#include <pinion/net/slab_packet_pool.h>
#include <pinion/timers/timing_wheel.h>

#include "segment_orders.h"
#include "slow_stream.h"
#include "stack/ip_layer.h"
#include "tcp/tcp.h"
#include "wire/tcp_checksum.h"
#include "wire/tcp_emitter.h"
#include "wire/tcp_parser.h"

/// Segments in every order and with every overlap, as TCP takes and acknowledges them.

namespace pinion::test {
namespace {

using wire::SequenceNumber;
using wire::TcpFlag;
using wire::TcpFlags;

constexpr IpAddress kOurs = IpAddress::v4({192, 0, 2, 1});
constexpr IpAddress kPeers = IpAddress::v4({192, 0, 2, 2});

/// A TCP that listens, and its peer, who sends what it likes and keeps what it gets.
class Receiver final : public IpLayer {
 public:
  Receiver() : pool_(make_pool({.packets = 256, .views = 256})), wheel_(now_) {
    TcpConfig config;
    config.timestamps = false;
    config.max_connections = 4;
    auto made = Tcp::create(
        config, {.ip = *this, .wheel = wheel_, .packets = *pool_, .small_packets = *pool_}, 1,
        now_);
    PINION_ASSERT(made);
    tcp_ = std::move(*made);
    const auto listening = tcp_->listen({kOurs, 7}, {}, nullptr);
    PINION_ASSERT(listening);
    listener_ = *listening;
  }

  /// A connection on which the peer's data begin at `start`.
  [[nodiscard]] bool open(SequenceNumber start) {
    now_ += std::chrono::milliseconds{1};
    wheel_.advance(now_);
    wire::TcpOptions options;
    options.mss = 1460;
    options.sack_permitted = true;
    send_segment(start - 1, TcpFlags(TcpFlag::syn), {}, options);
    if (!answer) return false;
    acknowledgment_ = answer->header.sequence + 1;
    send_segment(start, TcpFlags(TcpFlag::ack), {});
    handle_ = tcp_->accept(listener_, nullptr);
    return handle_ && !answer;
  }

  /// A segment in a burst of its own.
  void send_segment(SequenceNumber sequence, TcpFlags flags, std::span<const std::byte> data,
                    const wire::TcpOptions& options = {}) {
    PacketPtr packet(pool_->allocate());
    PINION_ASSERT(packet);
    const std::size_t size = wire::kTcpHeaderSize + wire::tcp_options_size(options);
    wire::emit_tcp({packet->append(size), size},
                   {.source_port = 9,
                    .destination_port = 7,
                    .sequence = sequence,
                    .acknowledgment = flags.has(TcpFlag::ack) ? acknowledgment_ : SequenceNumber(),
                    .flags = flags,
                    .window = 65'535},
                   options);
    if (!data.empty()) std::copy(data.begin(), data.end(), packet->append(data.size()));
    wire::store_tcp_checksum(*packet, packet->size(), kPeers, kOurs);
    answer.reset();
    answers = 0;
    tcp_->receive(std::move(packet), {.source = kPeers, .destination = kOurs}, now_);
    tcp_->end_of_burst(now_);
  }

  [[nodiscard]] TcpTransferred read(std::span<std::byte> into) {
    return tcp_->read(handle_, into, now_);
  }

  void reset() {
    tcp_->abort(handle_, now_);
    tcp_->end_of_burst(now_);
  }

  [[nodiscard]] bool is_idle() const { return tcp_->connections() == 0 && pool_->live() == 0; }

  // IpLayer.
  void send(PacketPtr packet, const IpDeparture&, Instant) noexcept override {
    const auto parsed = wire::parse_tcp(std::as_const(*packet).bytes());
    PINION_ASSERT(parsed);
    answer = *parsed;
    ++answers;
  }
  std::size_t path_mtu(const IpAddress&, const IpAddress&) const noexcept override { return 1500; }
  std::size_t link_mtu(const IpAddress&, const IpAddress&) const noexcept override { return 1500; }
  void learn_path_mtu(const IpAddress&, const IpAddress&, std::size_t, Instant) noexcept override {}
  bool is_unicast(const IpAddress&) const noexcept override { return true; }
  std::optional<IpAddress> source_for(const IpAddress&) const noexcept override { return kOurs; }
  bool is_local(const IpAddress& address) const noexcept override { return address == kOurs; }
  void confirm_reachable(const IpAddress&, const IpAddress&, Instant) noexcept override {}
  void suspect(const IpAddress&, const IpAddress&, Instant) noexcept override {}

  std::optional<wire::TcpSegment> answer;  ///< The last of what the last segment drew.
  int answers = 0;

 private:
  Instant now_{std::chrono::seconds{1000}};
  std::unique_ptr<SlabPacketPool> pool_;
  TimingWheel wheel_;
  std::unique_ptr<Tcp> tcp_;
  TcpListenerHandle listener_;
  TcpHandle handle_;
  SequenceNumber acknowledgment_;
};

/// One connection, and what must come of its segments.
class Exchange {
 public:
  Exchange(Receiver& receiver, SequenceNumber start, std::uint32_t length)
      : receiver_(receiver), start_(start), slow_(start, length) {
    require(receiver.open(start), "no connection");
  }

  [[nodiscard]] bool is_over() const { return slow_.next() == slow_.length(); }
  [[nodiscard]] const std::string& failure() const { return failure_; }

  /// The peer sends a part, with FIN behind the last byte.
  bool arrive(Range range) {
    const Bytes bytes = slow_.next_segment(range.begin, range.end);
    const bool fin = range.end == slow_.length();
    receiver_.send_segment(start_ + range.begin,
                           fin ? TcpFlag::ack | TcpFlag::fin : TcpFlags(TcpFlag::ack), bytes);
    const bool in_order = range.begin == slow_.next() && !slow_.has_beyond();
    const std::vector<wire::SackBlock> report = slow_.take(range.begin, range.end, bytes);
    // RFC 5681, 4.2: at once, but for the first of two segments that come as they should; and at
    // once for a FIN.
    unacknowledged_ = in_order ? unacknowledged_ + 1 : 0;
    const bool due = !in_order || unacknowledged_ == 2 || is_over();
    require(receiver_.answers == (due ? 1 : 0), due ? "no acknowledgement" : "an acknowledgement");
    if (!due || !failure_.empty()) return failure_.empty();
    unacknowledged_ = 0;
    compare(report);
    return failure_.empty();
  }

  /// What the reader gets.
  bool finish() {
    Bytes got(slow_.length() + 1);
    const TcpTransferred all = receiver_.read(got);
    require(all.bytes == slow_.next(), "how many bytes were read");
    for (std::uint32_t i = 0; i < all.bytes; ++i) require(got[i] == slow_.byte(i), "a byte");
    const TcpOutcome end = receiver_.read(got).outcome;
    require(end == (is_over() ? TcpOutcome::finished : TcpOutcome::again), "the end");
    receiver_.reset();
    require(receiver_.is_idle(), "something is left");
    return failure_.empty();
  }

 private:
  void require(bool condition, const char* what) {
    if (!condition && failure_.empty()) failure_ = what;
  }

  void compare(const std::vector<wire::SackBlock>& report) {
    const wire::TcpSegment& ack = *receiver_.answer;
    require(ack.header.flags == TcpFlags(TcpFlag::ack), "flags");
    require(ack.header.acknowledgment == start_ + (slow_.next() + (is_over() ? 1U : 0U)), "ACK");
    if (is_over()) return;  // All has been acknowledged.
    require(ack.options.sack.size() == std::min(report.size(), wire::SackBlocks::kMost),
            "SACK blocks");
    if (!failure_.empty()) return;
    require(std::equal(ack.options.sack.begin(), ack.options.sack.end(), report.begin()),
            "a SACK block");
  }

  Receiver& receiver_;
  const SequenceNumber start_;
  SlowStream slow_;
  int unacknowledged_ = 0;
  std::string failure_;
};

::testing::AssertionResult try_acks(Receiver& receiver, const std::vector<Range>& ranges,
                                    std::uint64_t number) {
  const std::uint32_t length = ranges.back().end;
  // The numbers wrap around in the middle of the stream.
  Exchange exchange(receiver, SequenceNumber(0U - length / 2), length);
  std::uint64_t rest = number;
  for (std::size_t i = 0; i < kSegments && !exchange.is_over(); ++i) {
    const Range range = ranges[rest % ranges.size()];
    rest /= ranges.size();
    if (!exchange.arrive(range)) {
      return ::testing::AssertionFailure()
             << exchange.failure() << " differs after" << listed(ranges, i + 1, number);
    }
  }
  if (exchange.finish()) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << exchange.failure() << " differs, read after" << listed(ranges, kSegments, number);
}

TEST(SegmentOrders, OfFiveSegmentsOfUpToEightBytesAreAcknowledged) {
  Receiver receiver;
  try_five(1, [&receiver](const std::vector<Range>& ranges, std::uint64_t number, std::size_t) {
    return try_acks(receiver, ranges, number);
  });
}

}  // namespace
}  // namespace pinion::test
