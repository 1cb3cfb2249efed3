#include <pinion/net/fault_injector.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <pinion/lib/random.h>
#include <pinion/net/link.h>
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
using test::ScriptedDevice;
using test::send;
using test::TestPool;
using namespace std::chrono_literals;

std::unique_ptr<FaultInjector> injector_of(Device& device, PacketPool& pool,
                                           const FaultOptions& options) {
  auto injector = FaultInjector::create(device, pool, options);
  EXPECT_TRUE(injector) << to_string(injector.error());
  return std::move(*injector);
}

/// The number of a packet in its first bytes, and more bytes that depend on it.
Bytes numbered(std::uint32_t number) {
  Bytes bytes(64);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::uint8_t>(i < 4 ? number >> (8 * i) : number * 7 + i);
  }
  return bytes;
}

std::uint32_t number_of(const Bytes& bytes) {
  std::uint32_t number = 0;
  for (std::size_t i = 0; i < 4; ++i) number |= std::uint32_t{bytes.at(i)} << (8 * i);
  return number;
}

/// What comes out when `count` numbered packets are sent, 1 us apart.
std::vector<ScriptedDevice::Sent> run_tx(const FaultOptions& options, std::uint32_t count,
                                         FaultStats* stats = nullptr) {
  TestPool pool;
  ScriptedDevice device;
  const auto injector = injector_of(device, *pool, options);
  for (std::uint32_t i = 0; i < count; ++i) {
    const Instant now = at_ns(std::int64_t{i} * 1000);
    while (injector->next_event() < now) {
      EXPECT_FALSE(receive(*injector, injector->next_event()));
    }
    EXPECT_TRUE(send(*injector, make_packet(*pool, numbered(i)), now));
  }
  while (injector->next_event() != kNever) {
    EXPECT_FALSE(receive(*injector, injector->next_event()));
  }
  if (stats != nullptr) *stats = injector->tx_faults();
  return std::move(device.sent);
}

/// Within 4.5 standard deviations.
void expect_binomial(std::uint64_t hits, std::uint64_t of, double probability) {
  const double mean = static_cast<double>(of) * probability;
  const double deviation = std::sqrt(mean * (1 - probability));
  EXPECT_NEAR(static_cast<double>(hits), mean, 4.5 * deviation);
}

TEST(FaultInjector, PassesEverythingAsItIsWithoutFaults) {
  TestPool pool;
  ScriptedDevice device;
  const auto injector = injector_of(device, *pool, {});
  std::vector<const Packet*> sent;
  std::vector<const Packet*> arriving;
  for (std::uint32_t i = 0; i < 100; ++i) {
    PacketPtr out = make_packet(*pool, numbered(i));
    PacketPtr in = make_packet(*pool, numbered(i));
    sent.push_back(out.get());
    arriving.push_back(in.get());
    ASSERT_TRUE(send(*injector, std::move(out), at_ns(i)));
    device.arriving.push_back(std::move(in));
  }
  ASSERT_EQ(device.sent.size(), 100U) << "at once";
  for (std::size_t i = 0; i < 100; ++i) {
    EXPECT_EQ(device.sent[i].packet, sent[i]);
    EXPECT_EQ(receive(*injector, at_ns(200)).get(), arriving[i]);
  }
  EXPECT_EQ(injector->next_event(), kNever);
  EXPECT_EQ(injector->wait_descriptor(), 77);
  EXPECT_TRUE(injector->announces_arrivals());
  device.announces = false;
  EXPECT_FALSE(injector->announces_arrivals());
  injector->on_wait_error();
  EXPECT_EQ(device.wait_errors, 1);
  EXPECT_EQ(injector->info().max_tx_segments, 4U);
  EXPECT_EQ(injector->stats().tx_packets, 100U);
  EXPECT_EQ(injector->tx_faults().passed, 100U);
  EXPECT_EQ(injector->rx_faults().passed, 100U);
}

TEST(FaultInjector, HitsAsManyPacketsAsTheProbabilitySays) {
  constexpr std::uint32_t kPackets = 40'000;
  for (const double probability : {0.0, 0.001, 0.1, 0.5, 0.97, 1.0}) {
    SCOPED_TRACE(probability);
    FaultPlan plan;
    plan.duplication = plan.reordering = plan.corruption = plan.truncation = probability;
    plan.reorder_by = 10us;
    FaultStats stats;
    const auto sent = run_tx({.seed = 1, .tx = plan}, kPackets, &stats);
    expect_binomial(stats.duplicated, kPackets, probability);
    expect_binomial(stats.reordered, kPackets, probability);
    expect_binomial(stats.corrupted, kPackets, probability);
    expect_binomial(stats.truncated, kPackets, probability);
    EXPECT_EQ(sent.size(), kPackets + stats.duplicated);
    FaultPlan losing;
    losing.loss = probability;
    const auto left = run_tx({.seed = 2, .tx = losing}, kPackets, &stats);
    EXPECT_EQ(left.size(), kPackets - stats.lost);
    expect_binomial(stats.lost, kPackets, probability);
  }
}

TEST(FaultInjector, HitsEachKindIndependently) {
  constexpr std::uint32_t kPackets = 40'000;
  FaultPlan plan;
  plan.duplication = 0.5;
  plan.truncation = 0.5;
  const auto sent = run_tx({.seed = 3, .tx = plan}, kPackets);
  std::uint64_t both = 0;
  for (std::size_t i = 1; i < sent.size(); ++i) {
    if (sent[i].bytes == sent[i - 1].bytes && sent[i].bytes.size() < 64) ++both;
  }
  // A few packets cut to less than their number look like their neighbours.
  EXPECT_NEAR(static_cast<double>(both), kPackets / 4.0, kPackets / 40.0);
}

auto outcome_of(const std::vector<ScriptedDevice::Sent>& sent) {
  std::vector<std::pair<Instant, Bytes>> outcome;
  for (const auto& one : sent) outcome.emplace_back(one.at, one.bytes);
  return outcome;
}

TEST(FaultInjector, DoesTheSameForTheSameSeed) {
  FaultPlan plan{.loss = 0.1,
                 .duplication = 0.1,
                 .reordering = 0.1,
                 .corruption = 0.1,
                 .truncation = 0.1,
                 .delay = 5us,
                 .jitter = 50us,
                 .reorder_by = 20us};
  const std::uint64_t seed = test::seed();
  const auto first = outcome_of(run_tx({.seed = seed, .tx = plan}, 2000));
  EXPECT_EQ(outcome_of(run_tx({.seed = seed, .tx = plan}, 2000)), first);
  EXPECT_NE(outcome_of(run_tx({.seed = seed + 1, .tx = plan}, 2000)), first);
}

std::vector<std::uint32_t> numbers_of(const std::vector<ScriptedDevice::Sent>& sent) {
  std::vector<std::uint32_t> numbers;
  for (const auto& one : sent) numbers.push_back(number_of(one.bytes));
  return numbers;
}

TEST(FaultInjector, ChangesNoOtherKindWithOneKindsProbability) {
  const std::uint64_t seed = test::seed();
  FaultPlan plan;
  plan.loss = 0.2;
  const auto alone = numbers_of(run_tx({.seed = seed, .tx = plan}, 2000));
  plan.jitter = 3us;
  plan.duplication = 0.5;
  auto together = numbers_of(run_tx({.seed = seed, .tx = plan}, 2000));
  together.erase(std::unique(together.begin(), together.end()), together.end());
  EXPECT_EQ(together, alone);
}

TEST(FaultInjector, HasAPlanForEachDirection) {
  TestPool pool;
  ScriptedDevice device;
  FaultOptions options;
  options.rx.loss = 1;
  const auto injector = injector_of(device, *pool, options);
  for (std::uint32_t i = 0; i < 50; ++i) {
    ASSERT_TRUE(send(*injector, make_packet(*pool, numbered(i)), at_ns(0)));
    device.arriving.push_back(make_packet(*pool, numbered(i)));
  }
  EXPECT_FALSE(receive(*injector, at_ns(0)));
  std::vector<Packet*> into(64);
  EXPECT_EQ(injector->rx_burst(at_ns(0), into), 0U);
  EXPECT_TRUE(device.arriving.empty());
  EXPECT_EQ(device.sent.size(), 50U);
  EXPECT_EQ(injector->rx_faults().lost, 50U);
  EXPECT_EQ(injector->tx_faults().lost, 0U);
}

TEST(FaultInjector, DelaysWithinItsBoundsAndKeepsTheOrder) {
  FaultPlan plan;
  plan.delay = 100us;
  plan.jitter = 30us;
  const auto sent = run_tx({.seed = test::seed(), .tx = plan}, 2000);
  ASSERT_EQ(sent.size(), 2000U);
  Delay least = Delay::max();
  Delay most = Delay::min();
  for (std::uint32_t i = 0; i < sent.size(); ++i) {
    ASSERT_EQ(number_of(sent[i].bytes), i);
    const Delay took = saturating_sub(sent[i].at, at_ns(std::int64_t{i} * 1000));
    least = std::min(least, took);
    most = std::max(most, took);
  }
  EXPECT_GE(least, Delay(100us));
  EXPECT_LE(most, Delay(130us));
  EXPECT_GT(most, Delay(125us)) << "the jitter is used";
}

TEST(FaultInjector, ReordersOnlyWhatIsHit) {
  FaultPlan plan;
  plan.reordering = 0.05;
  plan.reorder_by = 5500ns;
  FaultStats stats;
  const auto sent = run_tx({.seed = 4, .tx = plan}, 2000, &stats);
  ASSERT_EQ(sent.size(), 2000U);
  std::uint64_t late = 0;
  std::uint32_t highest = 0;
  for (const auto& one : sent) {
    const std::uint32_t number = number_of(one.bytes);
    const std::int64_t came = std::int64_t{number} * 1000;
    if (one.at == at_ns(came)) {
      EXPECT_GE(number, highest) << "what was not hit keeps its order";
      highest = number;
    } else {
      ++late;
      EXPECT_EQ(one.at, at_ns(came + 5500));
    }
  }
  EXPECT_EQ(late, stats.reordered);
  EXPECT_GT(late, 0U);
}

TEST(FaultInjector, InvertsOneRunOfBits) {
  FaultPlan plan;
  plan.corruption = 1;
  plan.corrupted_bits = 15;
  std::vector<std::size_t> lengths(16);
  const auto sent = run_tx({.seed = test::seed(), .tx = plan}, 3000);
  for (std::uint32_t i = 0; i < sent.size(); ++i) {
    const Bytes original = numbered(i);
    ASSERT_EQ(sent[i].bytes.size(), original.size());
    std::vector<std::size_t> inverted;
    for (std::size_t bit = 0; bit < original.size() * 8; ++bit) {
      const auto mask = static_cast<std::uint8_t>(0x80U >> (bit % 8));
      if (((original[bit / 8] ^ sent[i].bytes[bit / 8]) & mask) != 0) inverted.push_back(bit);
    }
    ASSERT_FALSE(inverted.empty());
    ASSERT_LE(inverted.size(), 15U);
    ASSERT_EQ(inverted.back() - inverted.front() + 1, inverted.size()) << "one run";
    ++lengths[inverted.size()];
  }
  for (std::size_t length = 1; length <= 15; ++length) EXPECT_GT(lengths[length], 100U) << length;
}

TEST(FaultInjector, CutsToFewerBytesButSome) {
  FaultPlan plan;
  plan.truncation = 1;
  std::vector<std::size_t> sizes(64);
  const auto sent = run_tx({.seed = test::seed(), .tx = plan}, 10'000);
  for (std::uint32_t i = 0; i < sent.size(); ++i) {
    Bytes original = numbered(i);
    ASSERT_LT(sent[i].bytes.size(), original.size());
    ASSERT_FALSE(sent[i].bytes.empty());
    original.resize(sent[i].bytes.size());
    ASSERT_EQ(sent[i].bytes, original);
    ++sizes[original.size()];
  }
  for (std::size_t size = 1; size < 64; ++size) EXPECT_GT(sizes[size], 50U) << size;
}

TEST(FaultInjector, SpoilsACopyOfWhatIsShared) {
  TestPool pool;
  ScriptedDevice device;
  FaultOptions options{.seed = test::seed()};
  options.tx.corruption = 1;
  options.tx.truncation = 1;
  const auto injector = injector_of(device, *pool, options);
  const PacketPtr kept = make_packet(*pool, numbered(1));
  for (int i = 0; i < 200; ++i) {
    kept->add_reference();
    ASSERT_TRUE(send(*injector, PacketPtr(kept.get()), at_ns(i)));
    PacketPtr headed = make_packet(*pool, Bytes(2, 9));
    headed->set_next_segment(pool->view(*kept, 0, 64));
    ASSERT_TRUE(send(*injector, std::move(headed), at_ns(i)));
    ASSERT_EQ(bytes_of(*kept), numbered(1));
  }
  EXPECT_EQ(device.sent_shared, 0U);
  EXPECT_EQ(injector->tx_faults().corrupted, 400U);
  EXPECT_FALSE(kept->shared());
}

TEST(FaultInjector, ForgetsWhatTheDeviceHadVerified) {
  TestPool pool;
  ScriptedDevice device;
  FaultOptions options;
  options.rx.corruption = 0.5;
  options.rx.duplication = 1;
  const auto injector = injector_of(device, *pool, options);
  int spoiled = 0;
  for (std::uint32_t i = 0; i < 100; ++i) {
    PacketPtr packet = make_packet(*pool, numbered(i));
    packet->set(PacketMark::transport_checksum_good);
    device.arriving.push_back(std::move(packet));
    for (int copy = 0; copy < 2; ++copy) {
      const PacketPtr received = receive(*injector, at_ns(i));
      ASSERT_TRUE(received);
      EXPECT_FALSE(received->shared());
      const bool intact = bytes_of(*received) == numbered(i);
      EXPECT_EQ(received->has(PacketMark::transport_checksum_good), intact);
      if (!intact) ++spoiled;
    }
  }
  EXPECT_GT(spoiled, 0);
}

TEST(FaultInjector, BlocksBySchedule) {
  FaultPlan plan;
  plan.partitions = {
      {at_ns(10'000), at_ns(20'000)}, {at_ns(20'000), at_ns(21'000)}, {at_ns(95'000), kNever}};
  FaultStats stats;
  const auto numbers = numbers_of(run_tx({.tx = plan}, 100, &stats));
  std::vector<std::uint32_t> expected;
  for (std::uint32_t i = 0; i < 95; ++i) {
    if (i < 10 || i >= 21) expected.push_back(i);
  }
  EXPECT_EQ(numbers, expected);
  EXPECT_EQ(stats.partitioned, 16U);
}

TEST(FaultInjector, KeepsToItsRate) {
  FaultPlan plan;
  plan.bits_per_second = 300'000'000;  // 64 bytes in 1706.67 ns; they come every 1000.
  const auto sent = run_tx({.tx = plan}, 3001);
  for (std::size_t i = 0; i < sent.size(); ++i) {
    const auto scaled = static_cast<std::int64_t>(i + 1) * 512 * 10;
    ASSERT_EQ(sent[i].at, at_ns((scaled + 2) / 3));
  }
}

TEST(FaultInjector, DropsWhatItCannotHold) {
  TestPool pool;
  ScriptedDevice device;
  FaultOptions options;
  options.hold_packets = 10;
  options.tx.delay = 1ms;
  const auto injector = injector_of(device, *pool, options);
  for (std::uint32_t i = 0; i < 15; ++i) {
    ASSERT_TRUE(send(*injector, make_packet(*pool, numbered(i)), at_ns(0)));
  }
  EXPECT_EQ(injector->tx_faults().overflowed, 5U);
  EXPECT_EQ(pool->live(), 10U);
  EXPECT_FALSE(receive(*injector, at_ns(999'999)));
  EXPECT_TRUE(device.sent.empty());
  EXPECT_FALSE(receive(*injector, at_ns(1'000'000)));
  EXPECT_EQ(device.sent.size(), 10U);
}

TEST(FaultInjector, DropsOfWhatArrivesWhatItCannotHold) {
  TestPool pool;
  ScriptedDevice device;
  FaultOptions options;
  options.hold_packets = 10;
  options.rx.delay = 1ms;
  const auto injector = injector_of(device, *pool, options);
  for (std::uint32_t i = 0; i < 15; ++i) device.arriving.push_back(make_packet(*pool, numbered(i)));
  std::vector<Packet*> into(32);
  EXPECT_EQ(injector->rx_burst(at_ns(0), into), 0U);
  EXPECT_TRUE(device.arriving.empty());
  EXPECT_EQ(injector->rx_faults().overflowed, 5U);
  EXPECT_EQ(injector->next_event(), at_ns(1'000'000));
  device.arriving.push_back(make_packet(*pool, numbered(15)));
  EXPECT_EQ(injector->rx_burst(at_ns(1'000'000), into), 10U);
  EXPECT_EQ(injector->rx_faults().overflowed, 5U) << "what is due makes room first";
  for (std::uint32_t i = 0; i < 10; ++i) EXPECT_EQ(number_of(bytes_of(*PacketPtr(into[i]))), i);
}

TEST(FaultInjector, TakesNoMoreThanItCanHoldWhileThatCanBeHandedOn) {
  for (const double duplication : {0.0, 1.0}) {
    TestPool pool;
    ScriptedDevice device;
    FaultOptions options;
    options.hold_packets = 10;
    options.rx.duplication = duplication;
    const auto injector = injector_of(device, *pool, options);
    for (std::uint32_t i = 0; i < 100; ++i) {
      device.arriving.push_back(make_packet(*pool, numbered(i)));
    }
    std::size_t received = 0;
    std::size_t count = 0;
    do {
      std::array<Packet*, 32> into{};
      count = injector->rx_burst(at_ns(0), into);
      received += count;
      for (Packet* const packet : std::span(into).first(count)) packet->release();
    } while (count == 32);
    EXPECT_EQ(received, duplication == 0 ? 100U : 200U);
    EXPECT_TRUE(device.arriving.empty()) << "a short burst, but the last";
    EXPECT_EQ(injector->rx_faults().overflowed, 0U);
  }
}

TEST(FaultInjector, GivesAShortBurstOnlyWhenTheDeviceHasNoMore) {
  TestPool pool;
  ScriptedDevice device;
  FaultOptions options;
  options.rx.loss = 0.97;
  const auto injector = injector_of(device, *pool, options);
  for (std::uint32_t i = 0; i < 500; ++i) {
    device.arriving.push_back(make_packet(*pool, numbered(i)));
  }
  std::array<Packet*, 32> into{};
  const std::size_t count = injector->rx_burst(at_ns(0), into);
  ASSERT_LT(count, 32U) << "of 500, 15 in the mean";
  EXPECT_TRUE(device.arriving.empty());
  for (Packet* const packet : std::span(into).first(count)) packet->release();
}

TEST(FaultInjector, LosesOnlySoManyAtOnce) {
  TestPool pool;
  ScriptedDevice device;
  FaultOptions options;
  options.rx.loss = 1;
  const auto injector = injector_of(device, *pool, options);
  for (std::uint32_t i = 0; i < 2000; ++i) {
    device.arriving.push_back(make_packet(*pool, numbered(i)));
  }
  EXPECT_FALSE(receive(*injector, at_ns(0)));
  EXPECT_GT(device.arriving.size(), 900U) << "somebody else has a turn";
}

TEST(FaultInjector, DropsWhatItCannotCopy) {
  TestPool pool;
  TestPool copies({.packets = 1});
  ScriptedDevice device;
  FaultOptions options;
  options.tx.corruption = 1;
  options.tx.duplication = 1;
  const auto injector = injector_of(device, *copies, options);
  const PacketPtr copy(copies->allocate());
  ASSERT_TRUE(send(*injector, make_packet(*pool, numbered(0)), at_ns(0)));
  EXPECT_EQ(device.sent.size(), 1U) << "no copy needed but for its double";
  EXPECT_EQ(injector->tx_faults().not_duplicated, 1U);
  const PacketPtr kept = make_packet(*pool, numbered(1));
  kept->add_reference();
  ASSERT_TRUE(send(*injector, PacketPtr(kept.get()), at_ns(0)));
  EXPECT_EQ(device.sent.size(), 1U);
  EXPECT_EQ(injector->tx_faults().no_buffer, 1U);
  EXPECT_FALSE(kept->shared());
}

TEST(FaultInjector, OffersAgainWhatTheDeviceDidNotTake) {
  TestPool pool;
  ScriptedDevice device;
  device.room = 1;
  const auto injector = injector_of(device, *pool, {});
  for (std::uint32_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(send(*injector, make_packet(*pool, numbered(i)), at_ns(0)));
  }
  EXPECT_EQ(device.sent.size(), 1U);
  EXPECT_EQ(injector->next_event(), at_ns(100'000));
  device.room = 100;
  EXPECT_FALSE(receive(*injector, at_ns(100'000)));
  EXPECT_EQ(numbers_of(device.sent), (std::vector<std::uint32_t>{0, 1, 2}));
  EXPECT_EQ(injector->next_event(), kNever);
  device.event = at_ns(7);
  EXPECT_EQ(injector->next_event(), at_ns(7));
}

TEST(FaultInjector, RefusesBadPlans) {
  TestPool pool;
  ScriptedDevice device;
  const auto refuses = [&](const FaultPlan& plan) {
    const auto tx = FaultInjector::create(device, *pool, {.tx = plan});
    const auto rx = FaultInjector::create(device, *pool, {.rx = plan});
    return !tx && !rx && !tx.error().hint.empty() && tx.error().what != rx.error().what;
  };
  for (double FaultPlan::* chance :
       {&FaultPlan::loss, &FaultPlan::duplication, &FaultPlan::reordering, &FaultPlan::corruption,
        &FaultPlan::truncation}) {
    for (const double value : {-0.001, 1.001, std::numeric_limits<double>::quiet_NaN(),
                               std::numeric_limits<double>::infinity()}) {
      FaultPlan plan;
      plan.reorder_by = 1ns;
      plan.*chance = value;
      EXPECT_TRUE(refuses(plan)) << value;
    }
  }
  EXPECT_TRUE(refuses({.reordering = 0.1})) << "by nothing";
  EXPECT_TRUE(refuses({.delay = -1ns}));
  EXPECT_TRUE(refuses({.jitter = 3601s}));
  EXPECT_TRUE(refuses({.reorder_by = -1ns}));
  EXPECT_TRUE(refuses({.corrupted_bits = 0}));
  EXPECT_TRUE(refuses({.corrupted_bits = 1025}));
  EXPECT_TRUE(refuses({.bits_per_second = 10'000'000'000'001}));
  EXPECT_TRUE(refuses({.partitions = {{at_ns(5), at_ns(5)}}}));
  EXPECT_TRUE(refuses({.partitions = {{at_ns(5), at_ns(7)}, {at_ns(6), at_ns(9)}}}));
  EXPECT_FALSE(refuses({}));
  EXPECT_FALSE(FaultInjector::create(device, *pool, {.hold_packets = 0}));
  EXPECT_FALSE(FaultInjector::create(device, *pool, {.hold_packets = (1U << 20) + 1}));
}

FaultPlan random_plan(Random& random) {
  const auto chance = [&] { return random.chance(0.5) ? random.real01() : 0.0; };
  const auto delay = [&](std::uint64_t bound) {
    return Delay(std::chrono::nanoseconds(random.between<std::uint64_t>(1, bound)));
  };
  FaultPlan plan{.loss = chance(),
                 .duplication = chance(),
                 .reordering = chance(),
                 .corruption = chance(),
                 .truncation = chance(),
                 .delay = delay(100'000),
                 .jitter = delay(100'000),
                 .reorder_by = delay(1'000'000)};
  if (random.chance(0.5)) plan.bits_per_second = random.between<std::uint64_t>(1'000'000, 1U << 31);
  plan.partitions = {{at_ns(300'000), at_ns(400'000)}};
  return plan;
}

void expect_balance(const FaultStats& stats) {
  EXPECT_EQ(stats.packets + stats.duplicated,
            stats.passed + stats.partitioned + stats.lost + stats.no_buffer + stats.overflowed);
}

/// Two injectors on a link, driven by next_event() alone: every packet is accounted for.
TEST(FaultInjector, LosesNoPacketUnseen) {
  Random random(test::seed());
  for (std::uint64_t round = 0; round < test::scaled(30); ++round) {
    TestPool pool({.packets = random.between<std::size_t>(20, 400), .views = 64});
    auto link = Link::create(*pool, *pool, {.bits_per_second = 1'000'000'000, .delay = 10us});
    const std::size_t hold = random.between<std::size_t>(1, 50);
    FaultOptions options{.seed = random.next(),
                         .tx = random_plan(random),
                         .rx = random_plan(random),
                         .hold_packets = hold};
    const auto a = injector_of((*link)->a(), *pool, options);
    const auto b = injector_of((*link)->b(), *pool, options);
    std::int64_t now = 0;
    std::uint64_t received = 0;
    const auto run_until = [&](Instant end) {
      int calls_at_once = 0;
      Instant before = kNever;
      while (true) {
        const Instant next = std::min(a->next_event(), b->next_event());
        if (next >= end) return;
        calls_at_once = next == before ? calls_at_once + 1 : 0;
        ASSERT_LT(calls_at_once, 20) << "no progress";
        before = next;
        while (receive(*a, next)) ++received;
        while (receive(*b, next)) ++received;
      }
    };
    for (int step = 0; step < 300; ++step) {
      now += static_cast<std::int64_t>(random.below(10'000));
      run_until(at_ns(now));
      const auto bytes = test::random_bytes(random, random.between<std::size_t>(14, 1000));
      PacketPtr packet = make_chain(*pool, {bytes, Bytes(3)});
      if (!packet) continue;
      ASSERT_TRUE(send(random.chance(0.5) ? *a : *b, std::move(packet), at_ns(now)));
    }
    run_until(kNever);
    for (const FaultInjector* const injector : {a.get(), b.get()}) {
      expect_balance(injector->tx_faults());
      expect_balance(injector->rx_faults());
    }
    EXPECT_EQ(received, a->rx_faults().passed + b->rx_faults().passed);
    EXPECT_EQ(pool->live(), 0U);
  }
}

}  // namespace
}  // namespace pinion
