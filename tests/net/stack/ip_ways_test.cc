#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <pinion/lib/random.h>
#include <pinion/test/seed.h>

#include "ways_host.h"
#include "wire/checksum.h"

/// Whatever comes, a packet of a known flow has the same outcome as if it had come the long way.

namespace pinion::test {
namespace {

constexpr std::array<std::string_view, 22> kV4 = {
    "10.0.0.1",   "10.0.0.2",  "10.0.0.9",  "10.0.0.255", "10.1.0.1",   "10.1.0.9",
    "10.1.0.255", "10.2.0.1",  "10.2.0.2",  "10.2.0.9",   "10.2.0.255", "10.3.0.1",
    "10.3.0.2",   "10.3.0.3",  "192.0.2.9", "127.0.0.1",  "0.0.0.0",    "255.255.255.255",
    "224.0.0.1",  "224.0.0.9", "240.0.0.1", "0.1.2.3"};
constexpr std::array<std::string_view, 18> kV6 = {"2001:db8::1",
                                                  "2001:db8::9",
                                                  "2001:db8:1::1",
                                                  "2001:db8:2::1",
                                                  "2001:db8:2::9",
                                                  "2001:db8:3::1",
                                                  "2001:db8:ffff::9",
                                                  "fe80::ff:fe00:1",
                                                  "fe80::ff:fe00:2",
                                                  "fe80::ff:fe00:3",
                                                  "fe80::9",
                                                  "::1",
                                                  "::",
                                                  "ff02::1",
                                                  "ff02::1:ff00:1",
                                                  "ff02::9",
                                                  "::ffff:10.0.0.1",
                                                  "::ffff:10.0.0.9"};

/// Ours, of each interface.
constexpr std::array<std::string_view, 4> kOurs4 = {"10.0.0.1", "10.1.0.1", "10.2.0.1", "10.3.0.1"};
constexpr std::array<std::string_view, 4> kOurs6 = {"2001:db8::1", "2001:db8:1::1", "2001:db8:2::1",
                                                    "2001:db8:3::1"};

struct Draft {
  std::uint8_t interface = 0;
  Bytes packet;
  std::size_t padding = 0;
  bool good_checksum = true;
  wire::EthernetHeader frame{};
};

class Drafts {
 public:
  explicit Drafts(Random& random) : random_(random) {}

  [[nodiscard]] Draft next() {
    Draft draft;
    draft.interface = static_cast<std::uint8_t>(random_.below(4));
    const bool v4 = random_.chance(0.5);
    draft.packet = packet(v4, draft.interface);
    draft.frame = {.destination = mac(static_cast<std::uint8_t>(draft.interface + 1)),
                   .source = mac(9),
                   .type = v4 ? wire::EtherType::ipv4 : wire::EtherType::ipv6};
    if (random_.chance(0.3)) draft.padding = random_.below(40);
    for (std::uint64_t left = random_.below(3); left > 0; --left) {
      if (random_.chance(0.3)) {
        spoil_frame(draft);
      } else if (v4) {
        spoil_v4(draft);
      } else {
        spoil_v6(draft);
      }
    }
    if (v4 && draft.good_checksum) fix_checksum(draft.packet);
    return draft;
  }

  [[nodiscard]] Bytes bytes_of(const Draft& draft) const {
    const Bytes padded = join({draft.packet, Bytes(draft.padding, 0x5a)});
    if (draft.interface == 3) return padded;
    Bytes header(draft.frame.size());
    wire::emit_ethernet(draft.frame, std::as_writable_bytes(std::span(header)));
    return join({header, padded});
  }

 private:
  template <std::size_t Count>
  IpAddress one_of(const std::array<std::string_view, Count>& addresses) {
    return ip(addresses[random_.below(Count)]);
  }

  Bytes packet(bool v4, std::uint8_t interface) {
    IpAddress from = v4 ? ip("192.0.2.9") : ip("2001:db8:ffff::9");
    IpAddress to = ip(v4 ? kOurs4[interface] : kOurs6[interface]);
    if (random_.chance(0.3)) from = v4 ? one_of(kV4) : one_of(kV6);
    if (random_.chance(0.3)) to = v4 ? one_of(kV4) : one_of(kV6);
    std::uint8_t protocol = 6;
    if (random_.chance(0.1)) protocol = random_.chance(0.5) ? 200 : 59;
    return ip_packet(from, to, protocol, counted(random_.below(200), 1));
  }

  static void fix_checksum(Bytes& packet) {
    const std::size_t size = (packet.empty() ? 0U : packet[0] & 0x0fU) * 4U;
    if (size < wire::Ipv4Header::kMinSize || size > packet.size()) return;
    packet[10] = packet[11] = 0;
    const std::uint16_t sum = wire::checksum_of(std::as_bytes(std::span(packet).first(size)));
    packet[10] = static_cast<std::uint8_t>(sum >> 8);
    packet[11] = static_cast<std::uint8_t>(sum);
  }

  void put16(Bytes& packet, std::size_t at, std::size_t value) {
    if (packet.size() < at + 2) return;
    packet[at] = static_cast<std::uint8_t>(value >> 8);
    packet[at + 1] = static_cast<std::uint8_t>(value);
  }
  std::size_t near(std::size_t size) { return size + random_.below(50) - 25; }

  void spoil_v4(Draft& draft) {
    Bytes& packet = draft.packet;
    if (packet.size() < wire::Ipv4Header::kMinSize) return;
    switch (random_.below(9)) {
      case 0: {
        const Bytes options =
            random_.chance(0.5) ? Bytes{1, 1, 1, 1} : Bytes{131, 7, 4, 10, 9, 9, 9, 0};
        packet.insert(packet.begin() + 20, options.begin(), options.end());
        packet[0] = static_cast<std::uint8_t>(0x45 + options.size() / 4);
        put16(packet, 2, packet.size());
        break;
      }
      case 1:
        put16(packet, 6, std::size_t{1} << random_.between(13, 15));
        break;
      case 2:
        put16(packet, 6, random_.below(8'000));
        break;
      case 3:
        put16(packet, 2, near(packet.size()));
        break;
      case 4:
        put16(packet, 2, random_.below(42));
        break;
      case 5:
        draft.good_checksum = false;
        packet[10 + random_.below(2)] ^= static_cast<std::uint8_t>(random_.between(1, 255));
        break;
      case 6:
        packet[0] = random_.between<std::uint8_t>(0x40, 0x6f);
        break;
      case 7:
        packet[random_.chance(0.5) ? 1 : 8] = random_.between<std::uint8_t>(0, 255);
        break;
      default:
        packet.resize(random_.below(packet.size() + 1));
        break;
    }
  }

  void spoil_v6(Draft& draft) {
    Bytes& packet = draft.packet;
    if (packet.size() < wire::Ipv6Header::kSize) return;
    switch (random_.below(6)) {
      case 0: {
        constexpr std::array<std::uint8_t, 4> kExtensions = {0, 43, 44, 60};
        Bytes extension = {packet[6], 0, 1, 4, 0, 0, 0, 0};
        packet[6] = kExtensions[random_.below(kExtensions.size())];
        if (packet[6] == 44) extension[3] = random_.between<std::uint8_t>(0, 17);
        packet.insert(packet.begin() + 40, extension.begin(), extension.end());
        put16(packet, 4, packet.size() - 40);
        break;
      }
      case 1:
        put16(packet, 4, near(packet.size() - 40));
        break;
      case 2:
        put16(packet, 4, 0);
        break;
      case 3:
        packet[0] = random_.between<std::uint8_t>(0x40, 0x6f);
        break;
      case 4:
        packet[random_.chance(0.5) ? 1 : 7] = random_.between<std::uint8_t>(0, 255);
        break;
      default:
        packet.resize(random_.below(packet.size() + 1));
        break;
    }
  }

  void spoil_frame(Draft& draft) {
    wire::EthernetHeader& frame = draft.frame;
    switch (random_.below(6)) {
      case 0:
        frame.destination =
            random_.chance(0.5) ? wire::kBroadcastMac : MacAddress{0x33, 0x33, 0, 0, 0, 1};
        break;
      case 1:
        frame.destination = mac(77);
        break;
      case 2:
        frame.source = frame.destination;
        break;
      case 3:
        frame.tag_count = random_.between<std::uint8_t>(1, 2);
        for (wire::VlanTag& tag : frame.tags) {
          tag.priority = 3;
          tag.id = random_.chance(0.7) ? 0 : 5;
          if (random_.chance(0.2)) tag.type = wire::EtherType::service_vlan;
        }
        break;
      case 4:
        frame.type =
            frame.type == wire::EtherType::ipv4 ? wire::EtherType::ipv6 : wire::EtherType::ipv4;
        break;
      default:
        frame.type = wire::EtherType::arp;
        break;
    }
  }

  Random& random_;
};

/// One that knows flows, one that doesn't, and one that is given packets in pieces, which are of no
/// known flow whoever knows it.
class IpWays : public testing::Test {
 protected:
  void make_hosts(std::uint64_t of_hosts) {
    known = std::make_unique<WaysHost>(true, of_hosts);
    whole = std::make_unique<WaysHost>(false, of_hosts);
    pieces = std::make_unique<WaysHost>(true, of_hosts);
  }
  /// `cut`: where the pieces are cut.
  void inject(const Bytes& bytes, WaysHost::How how, std::size_t cut) {
    known->inject(bytes, how);
    whole->inject(bytes, how);
    how.first_segment = cut;
    pieces->inject(bytes, how);
  }
  void pass(Delay time) {
    for (WaysHost* const host : {known.get(), whole.get(), pieces.get()}) host->pass(time);
  }
  /// What differs; empty if nothing does.
  std::string difference() {
    const std::string expected = whole->seen();
    if (const std::string seen = known->seen(); seen != expected) {
      return "known:\n" + seen + "long:\n" + expected;
    }
    if (const std::string seen = pieces->seen(); seen != expected) {
      return "in pieces:\n" + seen + "long:\n" + expected;
    }
    return {};
  }

  std::unique_ptr<WaysHost> known;
  std::unique_ptr<WaysHost> whole;
  std::unique_ptr<WaysHost> pieces;
};

TEST_F(IpWays, OfKnownFlowsAndOfAllPacketsHaveTheSameOutcome) {
  Random random(seed());
  Drafts drafts(random);
  std::size_t taken_as_known = 0;
  for (std::uint64_t round = 0; round < scaled(15); ++round) {
    make_hosts(random.next());
    for (int step = 0; step < 600; ++step) {
      const Draft draft = drafts.next();
      const Bytes bytes = drafts.bytes_of(draft);
      WaysHost::How how{.interface = draft.interface};
      if (random.chance(0.1)) how.marks.push_back(PacketMark::ip_checksum_good);
      if (random.chance(0.1)) how.marks.push_back(PacketMark::transport_checksum_good);
      how.shared = random.chance(0.1);
      // The frame's header lies in one piece, and so does what isn't IP.
      const bool is_arp = draft.interface != 3 && draft.frame.type == wire::EtherType::arp;
      const std::size_t least = draft.interface == 3 ? 1 : draft.frame.size();
      const std::size_t cut =
          is_arp || bytes.size() <= least ? SIZE_MAX : least + random.below(bytes.size() - least);
      inject(bytes, how, cut);
      if (random.chance(0.3)) pass(std::chrono::milliseconds{random.between(1, 60)});
      std::string text;
      for (const std::uint8_t byte : bytes) text += fmt::format("{:02x}", byte);
      ASSERT_EQ(difference(), "") << "interface " << int{draft.interface} << ": " << text
                                  << "\npieces of " << cut << ", PINION_SEED=" << seed();
    }
    taken_as_known += known->known();
    EXPECT_EQ(pieces->known(), 0U);
  }
  EXPECT_GT(taken_as_known, 0U);
}

/// A connection to ourselves has such ends.
TEST_F(IpWays, WhatHasOurOwnSourceIsRefusedThoughItsFlowIsKnown) {
  make_hosts(seed());
  const std::vector<std::pair<IpAddress, IpAddress>> cases = {
      {ip("10.0.0.1"), ip("10.0.0.1")},        {ip("10.0.0.2"), ip("10.0.0.1")},
      {ip("127.0.0.1"), ip("10.0.0.1")},       {ip("10.1.0.1"), ip("10.0.0.1")},
      {ip("2001:db8::1"), ip("2001:db8::1")},  {ip("::1"), ip("2001:db8::1")},
      {ip("2001:db8:1::1"), ip("2001:db8::1")}};
  for (const auto& [from, to] : cases) {
    Bytes header(wire::EthernetHeader::kMinSize);
    const auto type = from.is_v4() ? wire::EtherType::ipv4 : wire::EtherType::ipv6;
    wire::emit_ethernet({.destination = mac(1), .source = mac(9), .type = type},
                        std::as_writable_bytes(std::span(header)));
    inject(join({header, ip_packet(from, to, 6, counted(40))}), {}, header.size() + 20);
    EXPECT_EQ(difference(), "") << to_string(from);
  }
  EXPECT_EQ(known->known(), 0U);
  EXPECT_EQ(known->counters().source_ours + known->counters().source_martian, cases.size());
}

TEST_F(IpWays, AFrameThatTellsOneFamilyBringsNoPacketOfTheOther) {
  make_hosts(seed());
  const Bytes four = ip_packet(ip("10.0.0.9"), ip("10.0.0.1"), 6, counted(40));
  const Bytes six = ip_packet(ip("2001:db8::9"), ip("2001:db8::1"), 6, counted(40));
  for (const auto& [type, packet] :
       {std::pair{wire::EtherType::ipv6, four}, {wire::EtherType::ipv4, six}}) {
    Bytes header(wire::EthernetHeader::kMinSize);
    wire::emit_ethernet({.destination = mac(1), .source = mac(9), .type = type},
                        std::as_writable_bytes(std::span(header)));
    inject(join({header, packet}), {}, header.size() + 20);
    EXPECT_EQ(difference(), "");
  }
  EXPECT_EQ(known->known(), 0U);
}

}  // namespace
}  // namespace pinion::test
