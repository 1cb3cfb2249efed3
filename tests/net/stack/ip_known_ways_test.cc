#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <pinion/lib/random.h>
#include <pinion/test/seed.h>

#include "stack_world.h"

/// The ways that are known of what was sent before are those that a stack finds that has never sent
/// anything.

namespace pinion::test {
namespace {

constexpr auto kProtocol = static_cast<IpProtocol>(kTestProtocol);

struct Change {
  enum class Kind : std::uint8_t { interface, route } kind = Kind::route;
  LinkKind link = LinkKind::ip;
  std::vector<IpPrefix> addresses = {};
  Route route = {};
};

struct Pair {
  IpAddress from;
  IpAddress to;
};

class KnownWays : public TableWorld {
 protected:
  /// A stack after these changes; addresses are usable at once.
  std::unique_ptr<IpStack> stack_after(const std::vector<Change>& changes) {
    options_.neighbours.capacity = 4'096;
    auto made = std::make_unique<IpStack>(options_, *wheel, *pool, 1);
    count_[made.get()] = 0;
    for (const Change& change : changes) apply(*made, change);
    return made;
  }

  bool apply(IpStack& stack, const Change& change) {
    if (change.kind == Change::Kind::route) return stack.add_route(change.route).has_value();
    const auto number = static_cast<std::uint8_t>(count_[&stack]++ + 1);
    return stack
        .add_interface({.link = change.link,
                        .mac = mac(number),
                        .addresses = change.addresses,
                        .check_duplicates = false},
                       now)
        .has_value();
  }

  /// What becomes of a datagram: the frame that it leaves in, or why it doesn't. Whoever is asked
  /// for his Ethernet address tells it at once.
  std::string outcome(IpStack& stack, const Pair& pair) {
    const IpCounters before = stack.counters();
    stack.send(packet(20), {.source = pair.from, .destination = pair.to, .protocol = kProtocol},
               now);
    std::string text;
    for (int turn = 0; turn < 2; ++turn) {
      for (std::uint8_t interface = 0; interface < count_[&stack]; ++interface) {
        text += taken(stack, interface);
      }
    }
    for (const auto& [member, name] : {IpCounter{&IpCounters::no_route, "no_route"},
                                       {&IpCounters::no_source, "no_source"},
                                       {&IpCounters::looped_back, "looped_back"},
                                       {&IpCounters::out_too_big, "too_big"}}) {
      if (stack.counters().*member != before.*member) text += name;
    }
    stack.end_of_burst(now);
    for (std::uint8_t interface = 0; interface < count_[&stack]; ++interface) {
      taken(stack, interface);
    }
    return text;
  }

  /// Somebody else says that he has an IPv6 address.
  void claim(IpStack& stack, const IpAddress& address) {
    const Bytes message = ndp_message({.type = wire::IcmpV6Type::neighbor_advertisement,
                                       .overrides = true,
                                       .target = address.bytes(),
                                       .mac = mac(9)},
                                      address, all_nodes());
    wire::Ipv6Header header;
    header.next_header = 58;
    header.hop_limit = 255;
    Bytes ethernet(wire::EthernetHeader::kMinSize);
    wire::emit_ethernet({.destination = multicast_mac(all_nodes()),
                         .source = mac(9),
                         .type = wire::EtherType::ipv6},
                        std::as_writable_bytes(std::span(ethernet)));
    Packet* const frame =
        make_packet(*pool, join({ethernet, ip_packet(header, address, all_nodes(), message)}))
            .take();
    stack.receive(0, {&frame, 1}, now);
  }

  std::map<const IpStack*, std::size_t> count_;  ///< Of interfaces.

 private:
  static std::span<const std::byte> view(const Bytes& bytes) {
    return std::as_bytes(std::span(bytes));
  }

  /// The test's own datagrams; requests are answered.
  std::string taken(IpStack& stack, std::uint8_t interface) {
    std::string text;
    std::array<Packet*, 64> burst{};
    const std::size_t count = stack.take(interface, burst);
    for (std::size_t i = 0; i < count; ++i) {
      const PacketPtr packet(burst[i]);
      const Bytes frame = bytes_of(*packet);
      const auto ethernet = wire::parse_ethernet(view(frame));
      const bool bare = frame[0] >> 4 == 4 || frame[0] >> 4 == 6;
      const std::size_t header = bare ? 0 : wire::EthernetHeader::kMinSize;
      if (!bare && ethernet->type == wire::EtherType::arp) {
        answer_arp(stack, interface, frame);
      } else if (!bare && ethernet->type == wire::EtherType::ipv6 && frame[header + 6] == 58) {
        answer_ndp(stack, interface, frame);
      } else if (frame[header + (frame[header] >> 4 == 4 ? 9 : 6)] == kTestProtocol) {
        text += fmt::format("by {}: {:02x}\n", interface, fmt::join(frame, ""));
      }
    }
    return text;
  }

  void reply(IpStack& stack, std::uint8_t interface, const Bytes& frame, wire::EtherType type,
             const Bytes& body) {
    Bytes header(wire::EthernetHeader::kMinSize);
    MacAddress to{};
    std::copy_n(frame.begin() + 6, to.size(), to.begin());
    wire::emit_ethernet({.destination = to, .source = mac(99), .type = type},
                        std::as_writable_bytes(std::span(header)));
    Packet* const packet = make_packet(*pool, join({header, body})).take();
    stack.receive(interface, {&packet, 1}, now);
  }

  void answer_arp(IpStack& stack, std::uint8_t interface, const Bytes& frame) {
    const auto asked = wire::parse_arp(view(frame).subspan(wire::EthernetHeader::kMinSize));
    ASSERT_TRUE(asked);
    if (asked->operation != wire::ArpOperation::request || asked->sender == asked->target) return;
    Bytes body(wire::ArpMessage::kSize);
    wire::emit_arp({.operation = wire::ArpOperation::reply,
                    .sender_mac = mac(asked->target[3]),
                    .sender = asked->target,
                    .target_mac = asked->sender_mac,
                    .target = asked->sender},
                   std::as_writable_bytes(std::span(body)));
    reply(stack, interface, frame, wire::EtherType::arp, body);
  }

  void answer_ndp(IpStack& stack, std::uint8_t interface, const Bytes& frame) {
    constexpr std::size_t kMessage = wire::EthernetHeader::kMinSize + wire::Ipv6Header::kSize;
    if (frame.size() < kMessage + 24 || frame[kMessage] != 135) return;
    const auto from = IpAddress::v6(wire::load_bytes<16>(view(frame).data() + 22));
    const auto target = wire::load_bytes<16>(view(frame).data() + kMessage + 8);
    if (is_unspecified(from)) return;
    const Bytes message = ndp_message({.type = wire::IcmpV6Type::neighbor_advertisement,
                                       .solicited = true,
                                       .overrides = true,
                                       .target = target,
                                       .mac = mac(target[15])},
                                      IpAddress::v6(target), from);
    wire::Ipv6Header header;
    header.next_header = 58;
    header.hop_limit = 255;
    reply(stack, interface, frame, wire::EtherType::ipv6,
          ip_packet(header, IpAddress::v6(target), from, message));
  }

  IpOptions options_;
};

IpAddress v4(std::uint64_t a, std::uint64_t b, std::uint64_t c, std::uint64_t d) {
  return IpAddress::v4({static_cast<std::uint8_t>(a), static_cast<std::uint8_t>(b),
                        static_cast<std::uint8_t>(c), static_cast<std::uint8_t>(d)});
}

IpAddress v6(std::uint64_t link, std::uint64_t host) {
  return ip(fmt::format("2001:db8:{:x}::{:x}", link, host));
}

/// Of five links, two networks behind them, and what means many.
Pair random_pair(Random& random) {
  constexpr std::array<std::string_view, 6> kOdd4 = {"255.255.255.255", "224.0.0.5",  "127.0.0.1",
                                                     "10.0.0.255",      "10.1.0.255", "0.0.0.0"};
  constexpr std::array<std::string_view, 5> kOdd6 = {"ff02::9", "::1", "fe80::9", "fe80::ff:fe00:1",
                                                     "fe80::ff:fe00:2"};
  const std::uint64_t link = random.below(5);
  const std::uint64_t other = random.chance(0.7) ? link : random.below(5);
  if (random.chance(0.5)) {
    IpAddress to = v4(10, other, 0, 1 + random.below(200));
    if (random.chance(0.4)) to = v4(192, 0, random.below(2), random.below(60));
    if (random.chance(0.1)) to = ip(kOdd4[random.below(kOdd4.size())]);
    return {random.chance(0.95) ? v4(10, link, 0, 1) : ip("127.0.0.1"), to};
  }
  IpAddress from = v6(link, 1);
  if (random.chance(0.2)) from = link_local_of(mac(static_cast<std::uint8_t>(1 + random.below(3))));
  IpAddress to = v6(other, 1 + random.below(200));
  if (random.chance(0.3)) to = v6(0xf0 + random.below(2), random.below(60));
  if (random.chance(0.1)) to = ip(kOdd6[random.below(kOdd6.size())]);
  return {from, to};
}

Change random_change(Random& random, std::size_t interfaces) {
  if (interfaces == 0 || (interfaces < 5 && random.chance(0.3))) {
    return {.kind = Change::Kind::interface,
            .link = random.chance(0.5) ? LinkKind::ip : LinkKind::ethernet,
            .addresses = {{v4(10, interfaces, 0, 1), 24}, {v6(interfaces, 1), 64}}};
  }
  Route route{.destination = {}, .interface = static_cast<std::uint8_t>(random.below(interfaces))};
  if (random.chance(0.5)) {
    const std::array prefixes = {IpPrefix{v4(0, 0, 0, 0), 0}, IpPrefix{v4(192, 0, 0, 0), 16},
                                 IpPrefix{v4(192, 0, random.below(2), 0), 24},
                                 IpPrefix{v4(192, 0, random.below(2), random.below(60)), 32},
                                 IpPrefix{v4(10, random.below(5), 0, random.below(200)), 32}};
    route.destination = prefixes[random.below(prefixes.size())];
    if (random.chance(0.7)) route.gateway = v4(10, route.interface, 0, 240 + random.below(4));
  } else {
    const std::array prefixes = {IpPrefix{ip("::"), 0}, IpPrefix{v6(0xf0, 0), 44},
                                 IpPrefix{v6(0xf0 + random.below(2), 0), 64},
                                 IpPrefix{v6(0xf0 + random.below(2), random.below(60)), 128},
                                 IpPrefix{v6(random.below(5), random.below(200)), 128}};
    route.destination = prefixes[random.below(prefixes.size())];
    if (random.chance(0.7)) route.gateway = v6(route.interface, 0xf0 + random.below(4));
  }
  return {.route = route};
}

TEST_F(KnownWays, AreThoseOfAStackThatHasSentNothing) {
  Random random(seed());
  for (std::uint64_t round = 0; round < scaled(12); ++round) {
    std::vector<Change> changes;
    const auto used = stack_after({});
    for (int turn = 0; turn < 14; ++turn) {
      std::vector<Pair> pairs;
      for (int i = 0; i < 30; ++i) {
        pairs.push_back(random_pair(random));
        outcome(*used, pairs.back());
      }
      changes.push_back(random_change(random, count_[used.get()]));
      if (!apply(*used, changes.back())) changes.pop_back();
      for (const Pair& pair : pairs) {
        const auto fresh = stack_after(changes);
        ASSERT_EQ(outcome(*used, pair), outcome(*fresh, pair))
            << to_string(pair.from) << " to " << to_string(pair.to) << ", PINION_SEED=" << seed();
        count_.erase(fresh.get());
      }
    }
  }
}

TEST_F(KnownWays, OfManyDestinationsEachHasItsOwn) {
  Random random(seed());
  const auto stack =
      stack_after({{.kind = Change::Kind::interface, .addresses = {{v4(10, 0, 0, 1), 24}}},
                   {.kind = Change::Kind::interface, .addresses = {{v4(10, 1, 0, 1), 24}}},
                   {.route = {.destination = {v4(192, 0, 0, 0), 24}, .interface = 0}},
                   {.route = {.destination = {v4(192, 0, 1, 0), 24}, .interface = 1}}});
  for (std::uint64_t i = 0; i < scaled(5'000); ++i) {
    const std::uint64_t net = random.below(2);
    const std::uint64_t from = random.below(2);
    const Pair pair{v4(10, from, 0, 1), v4(192, 0, net, random.below(256))};
    const std::string said = outcome(*stack, pair);
    ASSERT_EQ(said.substr(0, 4), fmt::format("by {}", net)) << "PINION_SEED=" << seed();
    const std::string ends = fmt::format("{:02x}{:02x}", fmt::join(v4_bytes(pair.from), ""),
                                         fmt::join(v4_bytes(pair.to), ""));
    ASSERT_NE(said.find(ends), std::string::npos) << said;
  }
}

TEST_F(KnownWays, AnAddressThatIsBeingCheckedHasNoneUntilItIsUsable) {
  const auto stack = stack_after({});
  const std::array addresses{IpPrefix{v4(10, 0, 0, 1), 24}, IpPrefix{v6(0, 1), 64}};
  ASSERT_TRUE(stack->add_interface({.mac = mac(1), .addresses = addresses}, now));
  count_[stack.get()] = 1;
  const std::array pairs = {Pair{v4(10, 0, 0, 1), v4(10, 0, 0, 9)}, Pair{v6(0, 1), v6(0, 9)}};
  for (const Pair& pair : pairs) EXPECT_EQ(outcome(*stack, pair), "no_source");
  pass(15s);
  for (const Pair& pair : pairs) {
    EXPECT_EQ(outcome(*stack, pair).substr(0, 5), "by 0:") << to_string(pair.from);
  }
}

/// With the link-local address all of IPv6 is given up, what is in use already included.
TEST_F(KnownWays, AnAddressThatIsGivenUpHasNoneAnyMore) {
  int given_up = 0;
  for (std::uint64_t attempt = 0; attempt < 40; ++attempt) {
    auto stack = std::make_unique<IpStack>(IpOptions{}, *wheel, *pool, attempt);
    const std::array addresses{IpPrefix{v6(0, 1), 64}};
    ASSERT_TRUE(stack->add_interface({.mac = mac(1), .addresses = addresses}, now));
    count_[stack.get()] = 1;
    const IpAddress link_local = link_local_of(mac(1));
    for (int i = 0; i < 400 && stack->address_state(0, v6(0, 1)) == AddressState::checking; ++i) {
      pass(10ms);
    }
    if (stack->address_state(0, link_local) != AddressState::checking) continue;
    const Pair pair{v6(0, 1), v6(0, 9)};
    EXPECT_EQ(outcome(*stack, pair).substr(0, 5), "by 0:");
    claim(*stack, link_local);
    ASSERT_EQ(stack->address_state(0, v6(0, 1)), AddressState::duplicate);
    EXPECT_EQ(outcome(*stack, pair), "no_source");
    ++given_up;
  }
  EXPECT_GT(given_up, 0);
}

}  // namespace
}  // namespace pinion::test
