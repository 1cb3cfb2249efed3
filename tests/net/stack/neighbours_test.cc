#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <pinion/lib/random.h>
#include <pinion/test/seed.h>

#include "stack/neighbours.h"
#include "table_world.h"

namespace pinion::test {
namespace {

using State = NeighbourState;

/// Writes down what the cache asks for.
class Host final : public NeighbourHost {
 public:
  struct Solicitation {
    IpAddress target;
    std::optional<MacAddress> to;
    Instant when;
  };
  struct Sent {
    MacAddress to;
    std::uint8_t tag;
  };

  void solicit(std::uint8_t /*interface*/, const IpAddress& target, const MacAddress* to,
               Instant now) noexcept override {
    solicitations.push_back({target, to == nullptr ? std::nullopt : std::optional(*to), now});
  }
  void transmit(std::uint8_t /*interface*/, const MacAddress& to, PacketPtr packet,
                Instant /*now*/) noexcept override {
    sent.push_back({to, std::to_integer<std::uint8_t>(*packet->data())});
  }
  void unreachable(std::uint8_t /*interface*/, const IpAddress& target, PacketPtr /*packet*/,
                   Instant /*now*/) noexcept override {
    lost.push_back(target);
    if (on_lost) on_lost();
  }

  std::vector<Solicitation> solicitations;
  std::vector<Sent> sent;
  std::vector<IpAddress> lost;
  std::function<void()> on_lost;
};

class Neighbours : public TableWorld {
 protected:
  void send(const IpAddress& to, std::uint8_t tag = 1) { cache.send(0, to, packet(64, tag), now); }
  void answer(const IpAddress& from, const MacAddress& address) {
    cache.answered(0, from, {.mac = &address}, now);
  }
  [[nodiscard]] std::optional<State> state(const IpAddress& of) const {
    return cache.state(0, of, now);
  }

  Host host;
  IpCounters counters;
  NeighbourCache cache{{.capacity = 8, .held_packets = 10}, host, *wheel, counters, seed()};
  const IpAddress peer = ip("10.0.0.9");
};

// N1: the first packets to a new neighbour, and neighbours that don't answer.
TEST_F(Neighbours, N1TheFirstPacketsAreNotLost) {
  for (std::uint8_t tag = 1; tag <= 3; ++tag) send(peer, tag);
  EXPECT_TRUE(host.sent.empty());
  ASSERT_EQ(host.solicitations.size(), 1U);
  EXPECT_EQ(host.solicitations[0].target, peer);
  EXPECT_FALSE(host.solicitations[0].to);
  answer(peer, mac(9));
  ASSERT_EQ(host.sent.size(), 3U);
  for (std::uint8_t tag = 1; tag <= 3; ++tag) {
    EXPECT_EQ(host.sent[tag - 1U].tag, tag);
    EXPECT_EQ(host.sent[tag - 1U].to, mac(9));
  }
  send(peer, 4);
  EXPECT_EQ(host.sent.back().tag, 4);
  EXPECT_EQ(cache.held(), 0U);
}

TEST_F(Neighbours, OfFourThatWaitTheOldestGivesWay) {
  for (std::uint8_t tag = 1; tag <= 4; ++tag) send(peer, tag);
  answer(peer, mac(9));
  ASSERT_EQ(host.sent.size(), 3U);
  EXPECT_EQ(host.sent.front().tag, 2);
  EXPECT_EQ(counters.neighbour_queue_full, 1U);
}

// N1: the first packets to a new neighbour, and neighbours that don't answer.
TEST_F(Neighbours, N1ATargetIsAskedOnceASecondHoweverManyPacketsThereAre) {
  const Instant begin = now;
  for (int i = 0; i < 2'900; ++i) {
    send(peer);
    pass(1ms, 1ms);
  }
  ASSERT_EQ(host.solicitations.size(), 3U);
  for (int i = 0; i < 3; ++i) {
    EXPECT_GE(host.solicitations[static_cast<std::size_t>(i)].when,
              begin + std::chrono::seconds{i});
  }
}

// N1: the first packets to a new neighbour, and neighbours that don't answer.
TEST_F(Neighbours, N1AfterThreeAnswersThatDidNotComeTheTransportsAreTold) {
  send(peer);
  send(peer);
  pass(2'990ms);
  EXPECT_EQ(host.solicitations.size(), 3U);
  EXPECT_TRUE(host.lost.empty());
  pass(20ms);
  EXPECT_EQ(host.lost, (std::vector{peer, peer}));
  EXPECT_EQ(cache.size(), 0U);
  EXPECT_EQ(cache.held(), 0U);
  EXPECT_EQ(counters.neighbours_unreachable, 1U);
  pass(10s);
  EXPECT_EQ(host.solicitations.size(), 3U);
}

TEST_F(Neighbours, WhoHearsOfAFailureMaySendAgain) {
  host.on_lost = [this] { send(peer); };
  send(peer);
  send(peer);
  pass(3'010ms);
  host.on_lost = {};
  EXPECT_EQ(host.lost.size(), 2U);
  EXPECT_EQ(state(peer), State::incomplete);
  EXPECT_EQ(cache.held(), 2U);
  pass(4s);
  EXPECT_EQ(host.lost.size(), 4U);
}

TEST_F(Neighbours, FollowTheStatesOfRfc4861) {
  send(peer);
  EXPECT_EQ(state(peer), State::incomplete);
  answer(peer, mac(9));
  EXPECT_EQ(state(peer), State::reachable);
  pass(14'900ms);
  EXPECT_EQ(state(peer), State::reachable);
  pass(31s);
  EXPECT_EQ(state(peer), State::stale);
  EXPECT_EQ(host.solicitations.size(), 1U);  // Nobody is asked before there is something to send.
  send(peer);
  EXPECT_EQ(state(peer), State::delay);
  EXPECT_EQ(host.sent.size(), 2U);
  pass(4'900ms);
  EXPECT_EQ(host.solicitations.size(), 1U);
  pass(200ms);
  EXPECT_EQ(state(peer), State::probe);
  ASSERT_EQ(host.solicitations.size(), 2U);
  EXPECT_EQ(host.solicitations[1].to, mac(9));
  answer(peer, mac(9));
  EXPECT_EQ(state(peer), State::reachable);
}

TEST_F(Neighbours, ProbesThatNobodyAnswersEndTheEntry) {
  send(peer);
  answer(peer, mac(9));
  pass(46s);
  send(peer);
  pass(5'010ms);
  EXPECT_EQ(state(peer), State::probe);
  send(peer);
  EXPECT_EQ(host.sent.size(), 3U);  // The old address is used meanwhile.
  pass(3'010ms);
  EXPECT_EQ(state(peer), std::nullopt);
  EXPECT_EQ(host.solicitations.size(), 4U);
  // The next packet asks everybody: the neighbour may have moved.
  send(peer);
  EXPECT_FALSE(host.solicitations.back().to);
  answer(peer, mac(10));
  EXPECT_EQ(host.sent.back().to, mac(10));
}

TEST_F(Neighbours, ForwardProgressSavesTheProbe) {
  send(peer);
  answer(peer, mac(9));
  for (int i = 0; i < 20; ++i) {
    pass(10s);
    send(peer);
    cache.confirm(0, peer, now);
  }
  EXPECT_EQ(host.solicitations.size(), 1U);
  pass(46s);
  send(peer);
  EXPECT_EQ(state(peer), State::delay);
  cache.confirm(0, peer, now);
  EXPECT_EQ(state(peer), State::reachable);
  pass(10s);
  EXPECT_EQ(host.solicitations.size(), 1U);
  // It says nothing of a neighbour whose address nobody knows.
  cache.confirm(0, ip("10.0.0.77"), now);
  EXPECT_EQ(cache.size(), 1U);
}

// N2: unasked and forged answers about neighbours.
TEST_F(Neighbours, N2AnswersThatNobodyAskedForChangeNothing) {
  answer(peer, mac(66));
  EXPECT_EQ(cache.size(), 0U);
  send(peer);
  answer(peer, mac(9));
  for (const Delay wait : {Delay{1s}, Delay{60s}}) {
    pass(wait);
    answer(peer, mac(66));
    send(peer);
    EXPECT_EQ(host.sent.back().to, mac(9));
    answer(peer, mac(66));  // DELAY, the second time.
    send(peer);
    EXPECT_EQ(host.sent.back().to, mac(9));
  }
  EXPECT_EQ(counters.neighbour_not_asked, 5U);
}

// N2: unasked and forged answers about neighbours.
TEST_F(Neighbours, N2ARequestForUsTellsWhereItsSenderIs) {
  cache.asked_by(0, peer, mac(9), now);
  EXPECT_EQ(state(peer), State::stale);
  send(peer);
  EXPECT_EQ(host.sent.back().to, mac(9));
  EXPECT_TRUE(host.solicitations.empty());
  // It moves: the change is believed, and verified.
  cache.asked_by(0, peer, mac(10), now);
  EXPECT_EQ(state(peer), State::stale);
  send(peer);
  EXPECT_EQ(host.sent.back().to, mac(10));
  EXPECT_EQ(state(peer), State::delay);
  pass(5'010ms);
  ASSERT_EQ(host.solicitations.size(), 1U);
  EXPECT_EQ(host.solicitations[0].to, mac(10));
}

TEST_F(Neighbours, ARequestForUsReleasesWhatWaits) {
  send(peer, 7);
  cache.asked_by(0, peer, mac(9), now);
  ASSERT_EQ(host.sent.size(), 1U);
  EXPECT_EQ(host.sent[0].tag, 7);
  EXPECT_EQ(state(peer), State::delay);
  pass(5'010ms);
  EXPECT_EQ(host.solicitations.size(), 2U);
}

TEST_F(Neighbours, AdvertisementsFollowTheirFlags) {
  send(peer);
  cache.answered(0, peer, {}, now);  // No address: of no use.
  EXPECT_EQ(state(peer), State::incomplete);
  EXPECT_EQ(counters.neighbour_bad, 1U);
  const MacAddress first = mac(9);
  cache.answered(0, peer, {.mac = &first, .solicited = false}, now);
  EXPECT_EQ(state(peer), State::stale);
  send(peer);
  pass(5'010ms);
  ASSERT_EQ(state(peer), State::probe);
  const MacAddress other = mac(10);
  cache.answered(0, peer, {.mac = &other, .override = false}, now);  // Such as an anycast's.
  EXPECT_EQ(state(peer), State::probe);
  cache.answered(0, peer, {.mac = &other, .solicited = false}, now);
  EXPECT_EQ(state(peer), State::stale);
  send(peer);
  EXPECT_EQ(host.sent.back().to, other);
  pass(5'010ms);
  cache.answered(0, peer, {}, now);
  EXPECT_EQ(state(peer), State::reachable);
}

// N1: the first packets to a new neighbour, and neighbours that don't answer.
TEST_F(Neighbours, N1UnreachableNeighboursStarveNoOther) {
  for (std::uint8_t i = 0; i < 50; ++i) send(IpAddress::v4({10, 0, 1, i}));
  // Half of the cache may be unknown addresses.
  EXPECT_EQ(cache.size(), 4U);
  EXPECT_EQ(host.solicitations.size(), 4U);
  EXPECT_EQ(counters.neighbour_cache_full, 46U);
  // Who speaks to us finds room.
  cache.asked_by(0, peer, mac(9), now);
  send(peer);
  EXPECT_EQ(host.sent.size(), 1U);
}

// N1: the first packets to a new neighbour, and neighbours that don't answer.
TEST_F(Neighbours, N1AFullCacheAsksNobody) {
  for (std::uint8_t i = 0; i < 8; ++i) {
    const IpAddress to = IpAddress::v4({10, 0, 1, i});
    send(to);
    answer(to, mac(i));
  }
  ASSERT_EQ(cache.size(), 8U);
  host.solicitations.clear();
  for (int round = 0; round < 9; ++round) {
    for (std::uint8_t i = 0; i < 8; ++i) send(IpAddress::v4({10, 0, 1, i}));
    for (std::uint8_t i = 0; i < 200; ++i) send(IpAddress::v4({10, 0, 2, i}));
    pass(1s);
  }
  EXPECT_TRUE(host.solicitations.empty());
  EXPECT_EQ(counters.neighbour_cache_full, 1'800U);
  EXPECT_EQ(counters.neighbours_displaced, 0U);
}

// N1: the first packets to a new neighbour, and neighbours that don't answer.
TEST_F(Neighbours, N1ActiveEntriesStayAndTheLeastRecentlyUsedGives) {
  for (std::uint8_t i = 0; i < 8; ++i) {
    const IpAddress to = IpAddress::v4({10, 0, 1, i});
    send(to);
    answer(to, mac(i));
  }
  pass(9s);
  for (std::uint8_t i = 0; i < 8; ++i) {
    if (i != 3) send(IpAddress::v4({10, 0, 1, i}));
  }
  pass(2s);
  send(peer);
  EXPECT_EQ(state(IpAddress::v4({10, 0, 1, 3})), std::nullopt);
  EXPECT_EQ(state(peer), State::incomplete);
  send(ip("10.0.0.10"));
  EXPECT_EQ(state(ip("10.0.0.10")), std::nullopt);
}

TEST_F(Neighbours, AFloodOfInventedSendersTakesOnePlace) {
  for (std::uint8_t i = 0; i < 7; ++i) {
    const IpAddress to = IpAddress::v4({10, 0, 1, i});
    send(to);
    answer(to, mac(i));
  }
  pass(30s);
  for (int i = 0; i < 10'000; ++i) {
    cache.asked_by(
        0, IpAddress::v4({10, 9, static_cast<std::uint8_t>(i / 256), static_cast<std::uint8_t>(i)}),
        mac(7), now);
  }
  for (std::uint8_t i = 0; i < 7; ++i) EXPECT_TRUE(state(IpAddress::v4({10, 0, 1, i})));
}

TEST_F(Neighbours, WhatWaitsIsBoundedOverAll) {
  for (std::uint8_t i = 0; i < 4; ++i) {
    for (int n = 0; n < 3; ++n) send(IpAddress::v4({10, 0, 1, i}));
  }
  EXPECT_EQ(cache.held(), 10U);
  EXPECT_EQ(counters.neighbour_queue_full, 2U);
}

/// By what their buffers cost, chains with all their segments.
TEST_F(Neighbours, WhatWaitsIsBoundedInBytesToo) {
  const std::size_t cost = packet()->true_size();
  NeighbourCache narrow({.capacity = 16, .held_packets = 100, .held_bytes = 10 * cost}, host,
                        *wheel, counters, seed());
  const auto send_chain = [&](std::uint8_t to, int segments) {
    PacketPtr head = packet(64, to);
    for (int i = 1; i < segments; ++i) {
      PacketPtr front = packet(64, to);
      front->set_next_segment(head.take());
      head = std::move(front);
    }
    narrow.send(0, IpAddress::v4({10, 0, 1, to}), std::move(head), now);
  };
  send_chain(1, 4);
  send_chain(2, 4);
  EXPECT_EQ(narrow.held_bytes(), 8 * cost);
  send_chain(3, 4);  // In the place of the first.
  EXPECT_EQ(narrow.held(), 2U);
  EXPECT_EQ(narrow.held_bytes(), 8 * cost);
  send_chain(4, 11);  // More than there may ever be.
  EXPECT_EQ(narrow.held(), 2U);
  EXPECT_EQ(counters.neighbour_queue_full, 2U);
  const MacAddress any = mac(1);
  for (std::uint8_t to = 1; to <= 4; ++to) {
    narrow.answered(0, IpAddress::v4({10, 0, 1, to}), {.mac = &any}, now);
  }
  ASSERT_EQ(host.sent.size(), 2U);
  EXPECT_EQ(host.sent[0].tag, 2);
  EXPECT_EQ(host.sent[1].tag, 3);
  EXPECT_EQ(narrow.held_bytes(), 0U);
  send_chain(5, 4);
  pass(4s);
  EXPECT_EQ(narrow.held_bytes(), 0U);
}

TEST_F(Neighbours, N1WhatWaitsForTheDeadGivesWayToWhatIsNew) {
  NeighbourCache big({.capacity = 64, .held_packets = 10}, host, *wheel, counters, seed());
  for (std::uint8_t i = 0; i < 10; ++i) {
    for (int n = 0; n < 3; ++n) big.send(0, IpAddress::v4({10, 0, 1, i}), packet(64, i), now);
  }
  EXPECT_EQ(big.held(), 10U);
  big.send(0, peer, packet(64, 99), now);
  EXPECT_EQ(big.held(), 10U);
  const MacAddress its = mac(9);
  big.answered(0, peer, {.mac = &its}, now);
  ASSERT_EQ(host.sent.size(), 1U);
  EXPECT_EQ(host.sent[0].tag, 99);
  pass(4s);
  EXPECT_EQ(big.held(), 0U);
}

TEST_F(Neighbours, InterfacesHaveTheirOwn) {
  cache.asked_by(0, peer, mac(9), now);
  cache.asked_by(1, peer, mac(10), now);
  cache.send(1, peer, packet(64), now);
  EXPECT_EQ(host.sent.back().to, mac(10));
}

TEST_F(Neighbours, DieWithPacketsWaiting) {
  auto dying = std::make_unique<NeighbourCache>(NeighbourOptions{}, host, *wheel, counters, seed());
  dying->send(0, peer, packet(64), now);
  dying.reset();
  pass(5s);
  EXPECT_TRUE(host.lost.empty());
}

/// What RFC 4861 says of each neighbour, in the plainest words, far from the cache's bounds.
class SlowCache {
 public:
  explicit SlowCache(Delay lifetime) : lifetime_(lifetime) {}

  void send(const IpAddress& to, Instant now) {
    const auto found = all_.find(to);
    if (found == all_.end()) {
      all_[to] = {State::incomplete, {}, 1, now + 1s, {}};
    } else if (state(to, now) == State::stale) {
      found->second.state = State::delay;
      found->second.due = now + 5s;
    }
  }
  void answered(const IpAddress& from, const MacAddress& address, Instant now) {
    const auto found = all_.find(from);
    if (found == all_.end()) return;
    const State state = found->second.state;
    if (state != State::incomplete && state != State::probe) return;
    found->second = {State::reachable, address, 0, kNever, now};
  }
  void asked_by(const IpAddress& from, const MacAddress& address, Instant now) {
    const auto found = all_.find(from);
    if (found == all_.end()) {
      all_[from] = {State::stale, address, 0, kNever, {}};
    } else if (found->second.state == State::incomplete) {
      found->second = {State::delay, address, 0, now + 5s, {}};
    } else if (found->second.mac != address) {
      found->second = {State::stale, address, 0, kNever, {}};
    }
  }
  void confirm(const IpAddress& to, Instant now) {
    const auto found = all_.find(to);
    if (found == all_.end() || found->second.state == State::incomplete) return;
    found->second = {State::reachable, found->second.mac, 0, kNever, now};
  }
  void step(Instant now) {
    for (auto at = all_.begin(); at != all_.end();) {
      Neighbour& one = at->second;
      const bool over = one.due <= now && one.state != State::delay && one.asked == 3;
      if (one.due <= now && !over) {
        one.asked = one.state == State::delay ? 1 : one.asked + 1;
        if (one.state == State::delay) one.state = State::probe;
        one.due = now + 1s;
      }
      at = over ? all_.erase(at) : std::next(at);
    }
  }
  [[nodiscard]] std::optional<State> state(const IpAddress& of, Instant now) const {
    const auto found = all_.find(of);
    if (found == all_.end()) return std::nullopt;
    const bool old = saturating_sub(now, found->second.confirmed) >= lifetime_;
    return found->second.state == State::reachable && old ? State::stale : found->second.state;
  }

 private:
  struct Neighbour {
    State state = State::incomplete;
    MacAddress mac{};
    unsigned asked = 0;
    Instant due = kNever;
    Instant confirmed;
  };
  Delay lifetime_;
  std::map<IpAddress, Neighbour> all_;
};

TEST_F(Neighbours, DoWhatASlowModelDoes) {
  NeighbourCache big({.capacity = 64}, host, *wheel, counters, seed());
  Random random(seed());
  // The lifetime of REACHABLE is the cache's secret: watch where it changes.
  const IpAddress watched = ip("10.9.9.9");
  big.send(0, watched, packet(64), now);
  const MacAddress any = mac(1);
  big.answered(0, watched, {.mac = &any}, now);
  const Instant begin = now;
  while (big.state(0, watched, now) == State::reachable) pass(1ms, 1ms);
  const Delay lifetime = saturating_sub(now, begin);
  EXPECT_GE(lifetime, Delay{15s});
  EXPECT_LE(lifetime, Delay{45s + 2ms});

  SlowCache model(lifetime);
  for (std::uint64_t i = 0; i < scaled(5'000); ++i) {
    const IpAddress to = IpAddress::v4({10, 0, 0, static_cast<std::uint8_t>(random.below(6))});
    const MacAddress address = mac(static_cast<std::uint8_t>(random.below(3)));
    switch (random.below(6)) {
      case 0:
        big.send(0, to, packet(64), now);
        model.send(to, now);
        break;
      case 1:
        big.answered(0, to, {.mac = &address}, now);
        model.answered(to, address, now);
        break;
      case 2:
        big.asked_by(0, to, address, now);
        model.asked_by(to, address, now);
        break;
      case 3:
        big.confirm(0, to, now);
        model.confirm(to, now);
        break;
      default:
        const std::uint64_t wait = random.chance(0.01) ? 50'000 : random.below(700);
        for (std::uint64_t ms = 0; ms < wait; ++ms) {
          pass(1ms, 1ms);
          model.step(now);
        }
    }
    for (std::uint8_t n = 0; n < 6; ++n) {
      const IpAddress of = IpAddress::v4({10, 0, 0, n});
      ASSERT_EQ(big.state(0, of, now), model.state(of, now)) << int{n} << " in step " << i;
    }
  }
}

TEST_F(Neighbours, WhoIsSuspectedIsAskedAtOnce) {
  cache.suspect(0, peer, now);
  EXPECT_TRUE(host.solicitations.empty()) << "nobody knows it";
  send(peer);
  cache.suspect(0, peer, now);
  EXPECT_EQ(host.solicitations.size(), 1U) << "it is being asked";
  answer(peer, mac(9));
  pass(4s);
  cache.suspect(0, peer, now);
  EXPECT_EQ(state(peer), State::reachable) << "it has answered just now";
  pass(2s);
  cache.suspect(0, peer, now);
  EXPECT_EQ(state(peer), State::probe);
  ASSERT_EQ(host.solicitations.size(), 2U);
  EXPECT_EQ(host.solicitations.back().to, mac(9));
  cache.suspect(0, peer, now);
  EXPECT_EQ(host.solicitations.size(), 2U);
  answer(peer, mac(9));
  EXPECT_EQ(state(peer), State::reachable);
  // One that doesn't answer is forgotten, and the next packet asks everybody.
  pass(50s);
  EXPECT_EQ(state(peer), State::stale);
  cache.suspect(0, peer, now);
  pass(4s);
  EXPECT_EQ(host.solicitations.size(), 5U);
  EXPECT_FALSE(state(peer));
  send(peer);
  EXPECT_FALSE(host.solicitations.back().to);
}

}  // namespace
}  // namespace pinion::test
