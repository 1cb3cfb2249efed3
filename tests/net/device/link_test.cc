#include <pinion/net/link.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include <pinion/lib/random.h>
#include <pinion/test/packets.h>
#include <pinion/test/seed.h>

#include "scripted_device.h"

namespace pinion {
namespace {

using test::at_ns;
using test::Bytes;
using test::bytes_of;
using test::make_chain;
using test::make_packet;
using test::receive;
using test::send;
using test::TestPool;
using namespace std::chrono_literals;

std::unique_ptr<Link> link_of(PacketPool& pool, const LinkOptions& options) {
  auto link = Link::create(pool, pool, options);
  EXPECT_TRUE(link) << to_string(link.error());
  return std::move(*link);
}

TEST(Link, PassesThePacketItselfWhenNobodyElseSeesIt) {
  TestPool pool;
  const auto link = link_of(*pool, {});
  PacketPtr packet = make_packet(*pool, Bytes(60, 7));
  packet->set(PacketMark::ip_checksum_good);
  const Packet* const sent = packet.get();
  ASSERT_TRUE(send(link->a(), std::move(packet), at_ns(5)));
  EXPECT_FALSE(receive(link->a(), at_ns(5))) << "what an end sends it does not receive";
  const PacketPtr received = receive(link->b(), at_ns(5));
  EXPECT_EQ(received.get(), sent);
  EXPECT_FALSE(received->has(PacketMark::ip_checksum_good)) << "nobody has verified anything";
  EXPECT_EQ(link->a().stats().tx_packets, 1U);
  EXPECT_EQ(link->a().stats().tx_bytes, 60U);
  EXPECT_EQ(link->b().stats().rx_packets, 1U);
  EXPECT_EQ(link->b().stats().rx_bytes, 60U);
  EXPECT_EQ(link->b().stats().tx_packets, 0U);
}

TEST(Link, CopiesWhatIsSharedChainedAViewOrOfAnotherPool) {
  TestPool pool;
  TestPool other;
  const auto link = link_of(*pool, {});
  const PacketPtr kept = make_packet(*pool, Bytes(70, 1));
  kept->add_reference();
  PacketPtr headed = make_packet(*pool, Bytes(20, 2));
  headed->set_next_segment(pool->view(*kept, 0, 50));
  const std::vector<Bytes> expected = {bytes_of(*kept), bytes_of(*headed), Bytes(30, 1),
                                       Bytes(40, 4)};
  ASSERT_TRUE(send(link->a(), PacketPtr(kept.get()), at_ns(0)));
  ASSERT_TRUE(send(link->a(), std::move(headed), at_ns(0)));
  ASSERT_TRUE(send(link->a(), PacketPtr(pool->view(*kept, 0, 30)), at_ns(0)));
  ASSERT_TRUE(send(link->a(), make_packet(*other, Bytes(40, 4)), at_ns(0)));
  EXPECT_FALSE(kept->shared()) << "the sender's buffers are not kept";
  EXPECT_EQ(other->live(), 0U);
  for (const Bytes& bytes : expected) {
    const PacketPtr received = receive(link->b(), at_ns(0));
    ASSERT_TRUE(received);
    EXPECT_EQ(bytes_of(*received), bytes);
    EXPECT_FALSE(received->shared());
    EXPECT_NE(received.get(), kept.get());
    EXPECT_EQ(&received->pool(), &*pool);
  }
}

TEST(Link, TakesTheTimeThatTheBitsTake) {
  TestPool pool;
  const auto link = link_of(*pool, {.bits_per_second = 10'000'000'000, .delay = 1us});
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(send(link->a(), make_packet(*pool, Bytes(1514)), at_ns(0)));
  }
  // 1538 bytes with framing are 1230.4 ns; what is told is rounded up, and nothing adds up.
  for (const std::int64_t departure : {1231, 2461, 3692, 4922, 6152}) {
    EXPECT_EQ(link->b().next_event(), at_ns(1000 + departure));
    EXPECT_FALSE(receive(link->b(), at_ns(1000 + departure - 1)));
    EXPECT_TRUE(receive(link->b(), at_ns(1000 + departure)));
  }
  EXPECT_EQ(link->b().next_event(), kNever);
  EXPECT_EQ(link->a().next_event(), kNever);
  EXPECT_TRUE(link->a().announces_arrivals());
}

TEST(Link, CountsFramingOnRequest) {
  TestPool pool;
  for (const auto& [framing, size, ns] :
       {std::tuple{true, 14, 672}, {true, 60, 672}, {true, 61, 680}, {false, 14, 112}}) {
    const auto link = link_of(*pool, {.bits_per_second = 1'000'000'000, .count_framing = framing});
    const Bytes bytes(static_cast<std::size_t>(size));
    ASSERT_TRUE(send(link->a(), make_packet(*pool, bytes), at_ns(0)));
    EXPECT_EQ(link->b().next_event(), at_ns(ns)) << size;
  }
}

TEST(Link, DoesNotDriftOverAMillionFrames) {
  TestPool pool;
  constexpr std::uint64_t kRate = 3'000'000'007;
  constexpr std::uint64_t kFrames = 1'000'000;
  const auto link = link_of(*pool, {.bits_per_second = kRate, .count_framing = false});
  Instant last{};
  for (std::uint64_t i = 0; i < kFrames; ++i) {
    // Always one waiting, so that the line never rests.
    ASSERT_TRUE(send(link->a(), make_packet(*pool, Bytes(61)), last));
    if (i == 0) continue;
    last = link->b().next_event();
    ASSERT_TRUE(receive(link->b(), last));
  }
  last = link->b().next_event();
  const std::uint64_t scaled = kFrames * 61 * 8 * 1'000'000'000;
  EXPECT_EQ(last, at_ns(static_cast<std::int64_t>((scaled + kRate - 1) / kRate)));
}

TEST(Link, DropsTheTailOfAFullQueue) {
  TestPool pool;
  const auto link = link_of(*pool, {.bits_per_second = 8'000'000,
                                    .count_framing = false,
                                    .queue_packets = 3,
                                    .queue_bytes = 2500});
  const auto offer = [&](std::size_t size, std::int64_t now) {
    const auto dropped = link->drops_to_b().queue_full;
    EXPECT_TRUE(send(link->a(), make_packet(*pool, Bytes(size)), at_ns(now)));
    return link->drops_to_b().queue_full == dropped;
  };
  EXPECT_TRUE(offer(1000, 0));
  EXPECT_TRUE(offer(1000, 0));
  EXPECT_FALSE(offer(501, 0)) << "more bytes than allowed";
  EXPECT_TRUE(offer(500, 0));
  EXPECT_FALSE(offer(1, 0)) << "more packets than allowed";
  EXPECT_FALSE(offer(1, 999'999));
  EXPECT_TRUE(offer(1, 1'000'000)) << "1000 bytes take 1 ms";
  EXPECT_EQ(link->a().stats().tx_dropped, 3U);
  EXPECT_EQ(link->a().stats().tx_packets, 4U);
}

TEST(Link, RefusesWhatIsTooLongOrHasTooManySegments) {
  TestPool pool({.buffer_size = 4096});
  const auto link = link_of(*pool, {.mtu = 1000, .max_tx_segments = 2});
  EXPECT_EQ(link->a().info().mtu, 1000U);
  EXPECT_EQ(link->a().info().max_tx_segments, 2U);
  EXPECT_NE(link->a().info().mac, link->b().info().mac);
  ASSERT_TRUE(send(link->a(), make_packet(*pool, Bytes(1014)), at_ns(0)));
  ASSERT_TRUE(send(link->a(), make_packet(*pool, Bytes(1015)), at_ns(0)));
  ASSERT_TRUE(send(link->a(), make_chain(*pool, {Bytes(9), Bytes(9)}), at_ns(0)));
  ASSERT_TRUE(send(link->a(), make_chain(*pool, {Bytes(9), Bytes(9), Bytes(9)}), at_ns(0)));
  EXPECT_EQ(link->drops_to_b().too_long, 1U);
  EXPECT_EQ(link->drops_to_b().too_many_segments, 1U);
  EXPECT_EQ(link->a().stats().tx_dropped, 2U);
  EXPECT_TRUE(receive(link->b(), at_ns(0)));
  EXPECT_TRUE(receive(link->b(), at_ns(0)));
  EXPECT_FALSE(receive(link->b(), at_ns(0)));
}

TEST(Link, LosesWhatTheReceiverDoesNotTake) {
  TestPool pool;
  TestPool small({.packets = 2});
  auto link = Link::create(*pool, *small, {.queue_packets = 3, .capacity_packets = 3});
  ASSERT_TRUE(link);
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(send((*link)->a(), make_packet(*pool, Bytes(20)), at_ns(0)));
  }
  EXPECT_EQ((*link)->drops_to_b().no_buffer, 2U);
  EXPECT_EQ((*link)->b().stats().rx_dropped, 2U);
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(send((*link)->b(), make_packet(*pool, Bytes(20)), at_ns(0)));
  }
  EXPECT_EQ((*link)->drops_to_a().capacity_full, 1U);
  EXPECT_EQ((*link)->a().stats().rx_dropped, 1U);
}

TEST(Link, RefusesBadOptions) {
  TestPool pool;
  const auto refuses = [&](const LinkOptions& options) {
    const auto link = Link::create(*pool, *pool, options);
    return !link && link.error().code == ErrorCode::invalid_argument && !link.error().hint.empty();
  };
  EXPECT_TRUE(refuses({.bits_per_second = 10'000'000'000'001}));
  EXPECT_TRUE(refuses({.delay = -1ns}));
  EXPECT_TRUE(refuses({.delay = 3601s}));
  EXPECT_TRUE(refuses({.queue_packets = 0}));
  EXPECT_TRUE(refuses({.queue_packets = 9, .capacity_packets = 8}));
  EXPECT_TRUE(refuses({.capacity_packets = (1U << 20) + 1}));
  EXPECT_TRUE(refuses({.mtu = 67}));
  EXPECT_TRUE(refuses({.mtu = 65'536}));
  EXPECT_TRUE(refuses({.max_tx_segments = 0}));
  EXPECT_FALSE(refuses({}));
}

/// One direction of a link as a list of everything that was ever sent.
class SlowLink {
 public:
  explicit SlowLink(const LinkOptions& options) : options_(options) {}

  void send(const Bytes& bytes, std::int64_t now) {
    std::size_t queued = 0;
    std::size_t queued_bytes = 0;
    std::size_t held = 0;
    for (const Frame& frame : frames_) {
      if (!frame.taken) ++held;
      if (frame.departs <= now) continue;
      ++queued;
      queued_bytes += frame.bytes.size();
    }
    if (queued != 0 &&
        (queued >= options_.queue_packets || queued_bytes + bytes.size() > options_.queue_bytes)) {
      ++queue_full;
      return;
    }
    const std::int64_t departs = departure(bytes.size(), now);
    if (held == options_.capacity_packets) {
      ++capacity_full;
    } else {
      frames_.push_back({bytes, departs, departs + options_.delay.count(), false});
    }
  }

  std::vector<Bytes> receive(std::int64_t now, std::size_t most) {
    std::vector<Bytes> received;
    for (Frame& frame : frames_) {
      if (frame.taken) continue;
      if (received.size() == most || frame.arrives > now) break;
      frame.taken = true;
      received.push_back(frame.bytes);
    }
    return received;
  }

  Instant next() const {
    for (const Frame& frame : frames_) {
      if (!frame.taken) return at_ns(frame.arrives);
    }
    return kNever;
  }

  std::uint64_t queue_full = 0;
  std::uint64_t capacity_full = 0;

 private:
  __extension__ using Wide = __int128;
  struct Frame {
    Bytes bytes;
    std::int64_t departs;
    std::int64_t arrives;
    bool taken;
  };

  /// Exact: in units of a nanosecond divided by the rate.
  std::int64_t departure(std::size_t size, std::int64_t now) {
    if (options_.bits_per_second == 0) return now;
    const auto rate = static_cast<Wide>(options_.bits_per_second);
    const std::size_t on_line =
        options_.count_framing ? std::max<std::size_t>(size, 60) + 24 : size;
    free_ = std::max(free_, now * rate) + static_cast<Wide>(on_line * 8) * 1'000'000'000;
    return static_cast<std::int64_t>((free_ + rate - 1) / rate);
  }

  const LinkOptions options_;
  std::vector<Frame> frames_;
  Wide free_ = 0;
};

LinkOptions random_options(Random& random) {
  LinkOptions options;
  const std::uint64_t rates[] = {0, 1'000'000, 333'333'333, 10'000'000'000, 9'999'999'999'989};
  options.bits_per_second = rates[random.below(5)];
  options.count_framing = random.chance(0.5);
  options.delay = std::chrono::nanoseconds(random.chance(0.3) ? 0 : random.below(100'000));
  options.queue_packets = random.between<std::size_t>(1, 20);
  if (random.chance(0.5)) options.queue_bytes = random.between<std::size_t>(1, 5'000);
  options.capacity_packets = options.queue_packets + random.below(20);
  return options;
}

TEST(Link, BehavesLikeAListOfEvents) {
  Random random(test::seed());
  for (std::uint64_t round = 0; round < test::scaled(60); ++round) {
    TestPool pool({.packets = 256});
    const LinkOptions options = random_options(random);
    const auto link = link_of(*pool, options);
    SlowLink to_b(options);
    std::int64_t now = 0;
    const std::uint64_t pause = random.chance(0.5) ? 2'000 : 5'000'000;
    for (int step = 0; step < 300; ++step) {
      const Instant next = link->b().next_event();
      ASSERT_EQ(next, to_b.next());
      if (random.chance(0.3)) {
        now += static_cast<std::int64_t>(random.below(pause));
      } else if (random.chance(0.3) && next != kNever) {
        now = std::max(now, next.time_since_epoch().count());
      }
      for (std::uint64_t burst = random.below(6); burst-- > 0;) {
        const Bytes bytes = test::random_bytes(random, random.between<std::size_t>(14, 1514));
        to_b.send(bytes, now);
        ASSERT_TRUE(send(link->a(), make_packet(*pool, bytes), at_ns(now)));
      }
      std::vector<Packet*> into(random.below(6));
      const std::size_t count = link->b().rx_burst(at_ns(now), into);
      const auto expected = to_b.receive(now, into.size());
      ASSERT_EQ(count, expected.size());
      for (std::size_t i = 0; i < count; ++i) {
        ASSERT_EQ(bytes_of(*PacketPtr(into[i])), expected[i]);
      }
      ASSERT_EQ(link->drops_to_b().queue_full, to_b.queue_full);
      ASSERT_EQ(link->drops_to_b().capacity_full, to_b.capacity_full);
    }
  }
}

}  // namespace
}  // namespace pinion
