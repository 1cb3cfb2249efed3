#include "wire/ipv6_extensions.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include <pinion/test/seed.h>

#include "wire/byte_order.h"
#include "wire_support.h"

namespace pinion::test {
namespace {

using wire::Ipv6Answer;
using wire::Ipv6Extensions;
using wire::Ipv6Fragment;
using wire::Ipv6Header;
using wire::Ipv6Refusal;
using wire::Ipv6Walk;
using wire::Ipv6WalkFrom;
using wire::WireFault;

constexpr std::uint8_t kHopByHop = 0;
constexpr std::uint8_t kTcp = 6;
constexpr std::uint8_t kRouting = 43;
constexpr std::uint8_t kFragment = 44;
constexpr std::uint8_t kDestination = 60;

Ipv6Walk walk(std::uint8_t next, const Bytes& payload, Ipv6WalkFrom from = Ipv6WalkFrom::packet) {
  Ipv6Header header{.payload_size = static_cast<std::uint16_t>(payload.size())};
  header.next_header = next;
  return wire::walk_ipv6_extensions(header, payload, from);
}

Ipv6Walk walk(std::uint8_t next, const char* payload) {
  return walk(next, from_hex(payload));
}

Ipv6Refusal quietly(WireFault fault) {
  return {.fault = fault};
}

/// An options header of `size` bytes, all of it padding that is allowed.
Bytes padded(std::uint8_t next, std::size_t size) {
  Bytes bytes = {std::byte{next}, static_cast<std::byte>(size / 8 - 1)};
  bytes.resize(size);
  for (std::size_t at = 2; at < size;) {
    const std::size_t part = std::min<std::size_t>(size - at, 6);
    bytes[at] = std::byte{1};
    bytes[at + 1] = static_cast<std::byte>(part - 2);
    at += part;
    if (at < size) {  // an option that is skipped, between
      bytes[at] = std::byte{0x1e};
      bytes[at + 1] = std::byte{0};
      at += 2;
    }
  }
  return bytes;
}

/// RFC 8200, 4, option by option, without bounds of its own but the ones that are promised.
class SlowWalk {
 public:
  SlowWalk(const Ipv6Header& header, std::span<const std::byte> payload, Ipv6WalkFrom from)
      : payload_size_(header.payload_size), reassembled_(from == Ipv6WalkFrom::reassembled) {
    for (const std::byte byte : payload) bytes_.push_back(std::to_integer<unsigned>(byte));
    if (bytes_.size() > payload_size_) bytes_.resize(payload_size_);
    found_.protocol = header.next_header;
  }

  Ipv6Walk answer() {
    try {
      for (int count = 0; !found_.fragment; ++count) {
        const unsigned next = found_.protocol;
        if (next != 0 && next != 43 && next != 44 && next != 60) break;
        if (count == 8) throw quietly(WireFault::ipv6_extension_count);
        one(next);
      }
      return found_;
    } catch (const Ipv6Refusal& refusal) {
      return tl::unexpected(refusal);
    }
  }

 private:
  [[nodiscard]] unsigned at(std::size_t offset) const { return bytes_.at(found_.size + offset); }

  [[noreturn]] void complain(WireFault fault, Ipv6Answer answer, std::size_t pointer) const {
    throw Ipv6Refusal{
        .fault = fault, .answer = answer, .pointer = static_cast<std::uint16_t>(pointer)};
  }

  void one(unsigned next) {
    if (next == 0 && (found_.size != 0 || reassembled_)) {
      complain(WireFault::ipv6_extension_order, Ipv6Answer::unknown_header, found_.protocol_offset);
    }
    const std::size_t left = bytes_.size() - found_.size;
    if (left < 8) throw quietly(WireFault::ipv6_extension_truncated);
    if (next == 44) return fragment();
    const std::size_t size = 8 * (at(1) + 1);
    if (left < size) throw quietly(WireFault::ipv6_extension_truncated);
    if (next == 43 && at(3) != 0) {
      complain(WireFault::ipv6_routing, Ipv6Answer::bad_field, 40 + found_.size + 2);
    }
    if (next != 43) options(size, next == 0);
    skip(size);
  }

  void skip(std::size_t size) {
    found_.protocol = static_cast<std::uint8_t>(at(0));
    found_.protocol_offset = static_cast<std::uint16_t>(40 + found_.size);
    found_.size = static_cast<std::uint16_t>(found_.size + size);
  }

  void fragment() {
    if (reassembled_ || seen_fragment_) throw quietly(WireFault::ipv6_extension_order);
    seen_fragment_ = true;
    found_.fragmented = true;
    const unsigned offset = (at(2) << 8 | at(3)) / 8 * 8;
    const bool more = at(3) % 2 == 1;
    if (offset == 0 && !more) return skip(8);
    const std::size_t carried = payload_size_ - found_.size - 8;
    if (carried == 0) throw quietly(WireFault::ipv6_fragment_size);
    if (more && carried % 8 != 0) {
      complain(WireFault::ipv6_fragment_size, Ipv6Answer::bad_field, 4);
    }
    if (found_.size + offset + carried > 65535) {
      complain(WireFault::ipv6_fragment_overrun, Ipv6Answer::bad_field, 40 + found_.size + 2);
    }
    found_.fragment = Ipv6Fragment{
        .identification = at(4) << 24 | at(5) << 16 | at(6) << 8 | at(7),
        .offset = static_cast<std::uint16_t>(offset),
        .more = more,
    };
    found_.protocol = static_cast<std::uint8_t>(at(0));
    found_.size = static_cast<std::uint16_t>(found_.size + 8);
  }

  void options(std::size_t size, bool hop_by_hop) {
    std::size_t padding = 0;
    int known_or_not = 0;
    for (std::size_t place = 2; place < size;) {
      const unsigned type = at(place);
      std::size_t length = 1;
      if (type != 0) {
        if (place + 1 == size) throw quietly(WireFault::ipv6_option_overrun);
        length = 2 + at(place + 1);
      }
      if (place + length > size) throw quietly(WireFault::ipv6_option_overrun);
      padding = type <= 1 ? padding + length : 0;
      if (type > 1) ++known_or_not;
      if (type >= 192) {
        complain(WireFault::ipv6_option_unknown, Ipv6Answer::unknown_option_unless_multicast,
                 40 + found_.size + place);
      }
      if (type >= 128) {
        complain(WireFault::ipv6_option_unknown, Ipv6Answer::unknown_option,
                 40 + found_.size + place);
      }
      if (type >= 64) {
        complain(WireFault::ipv6_option_unknown, Ipv6Answer::none, 40 + found_.size + place);
      }
      if (padding > 7 || known_or_not > 8) throw quietly(WireFault::ipv6_option_count);
      if (hop_by_hop && type == 5 && length == 4) found_.router_alert = true;
      place += length;
    }
  }

  std::size_t payload_size_;
  bool reassembled_;
  bool seen_fragment_ = false;
  std::vector<unsigned> bytes_;
  Ipv6Extensions found_;
};

TEST(Ipv6Extensions, AreNoneInFrontOfATransport) {
  EXPECT_EQ(walk(kTcp, "1f90c350"), Ipv6Extensions{.protocol = kTcp});
  EXPECT_EQ(walk(59, ""), Ipv6Extensions{.protocol = 59}) << "no next header";
  EXPECT_EQ(walk(50, "00"), Ipv6Extensions{.protocol = 50}) << "ESP is the stack's to refuse";
}

TEST(Ipv6Extensions, AreWalkedUpToTheTransport) {
  const auto found = walk(kHopByHop,
                          "3c00 0104 00000000"
                          "2b00 0104 00000000"
                          "0600 0000 00000000"
                          "1f90c350");
  const Ipv6Extensions expected{.protocol = kTcp, .protocol_offset = 56, .size = 24};
  EXPECT_EQ(found, expected);
}

TEST(Ipv6Extensions, SayWhenRoutersAreAlerted) {
  EXPECT_TRUE(walk(kHopByHop, "3a00 0502 0000 0100")->router_alert);
  EXPECT_FALSE(walk(kHopByHop, "3a00 0104 00000000")->router_alert);
  EXPECT_FALSE(walk(kHopByHop, "3a00 0501 00 010000")->router_alert) << "of another length";
  EXPECT_FALSE(walk(kDestination, "3a00 0502 0000 0100")->router_alert);
}

TEST(Ipv6Extensions, TakeHopByHopOptionsInFirstPlaceAlone) {
  const Ipv6Refusal refusal{.fault = WireFault::ipv6_extension_order,
                            .answer = Ipv6Answer::unknown_header,
                            .pointer = 40};
  EXPECT_EQ(walk(kDestination, "0000 0104 00000000 0600 0104 00000000").error(), refusal);
  const Bytes options = from_hex("0600 0104 00000000");
  EXPECT_EQ(walk(kHopByHop, options, Ipv6WalkFrom::reassembled).error().fault,
            WireFault::ipv6_extension_order);
  EXPECT_TRUE(walk(kDestination, options, Ipv6WalkFrom::reassembled));
}

TEST(Ipv6Extensions, EndBehindAFragmentsHeader) {
  const auto found = walk(kDestination, "2c00 0104 00000000 0600 0011 12345678 0102030405060708");
  ASSERT_TRUE(found);
  const Ipv6Fragment fragment{.identification = 0x12345678, .offset = 16, .more = true};
  EXPECT_EQ(found->fragment, fragment);
  EXPECT_EQ(found->protocol, kTcp);
  EXPECT_EQ(found->size, 16);
  EXPECT_TRUE(found->fragmented);
  EXPECT_EQ(found->protocol_offset, 40) << "where the fragment header is named";
  EXPECT_EQ(walk(kFragment, "3c00 0008 12345678 ff")->protocol, kDestination)
      << "what a later fragment carries is no header";
}

TEST(Ipv6Extensions, PassOverAFragmentThatIsTheWhole) {
  const auto found = walk(kFragment, "0600 0000 12345678 1f90");
  const Ipv6Extensions expected{
      .protocol = kTcp, .protocol_offset = 40, .size = 8, .fragmented = true};
  EXPECT_EQ(found, expected) << "RFC 6946";
}

TEST(Ipv6Extensions, HoldNoFragmentWithinAFragment) {
  EXPECT_EQ(walk(kFragment, "2c00 0000 12345678 0600 0000 12345678").error(),
            quietly(WireFault::ipv6_extension_order));
  EXPECT_EQ(walk(kFragment, from_hex("0600 0000 12345678"), Ipv6WalkFrom::reassembled).error(),
            quietly(WireFault::ipv6_extension_order));
}

TEST(Ipv6Extensions, RefuseFragmentsThatNoDatagramHas) {
  const Ipv6Refusal odd{
      .fault = WireFault::ipv6_fragment_size, .answer = Ipv6Answer::bad_field, .pointer = 4};
  EXPECT_EQ(walk(kFragment, "0600 0001 12345678 01020304").error(), odd);
  EXPECT_EQ(walk(kFragment, "0600 0001 12345678").error(), quietly(WireFault::ipv6_fragment_size));
  EXPECT_EQ(walk(kFragment, "0600 0008 12345678").error(), quietly(WireFault::ipv6_fragment_size));
  const Ipv6Refusal beyond{
      .fault = WireFault::ipv6_fragment_overrun, .answer = Ipv6Answer::bad_field, .pointer = 42};
  EXPECT_EQ(walk(kFragment, "0600 fff8 12345678 0102030405060708").error(), beyond);
  EXPECT_TRUE(walk(kFragment, "0600 fff8 12345678 01020304050607")) << "65,535 bytes";
}

TEST(Ipv6Extensions, RefuseRoutesWithSegmentsLeft) {
  const Ipv6Refusal refusal{
      .fault = WireFault::ipv6_routing, .answer = Ipv6Answer::bad_field, .pointer = 42};
  EXPECT_EQ(walk(kRouting, "0600 0001 00000000").error(), refusal) << "type 0";
  EXPECT_EQ(walk(kRouting, "0600 0401 00000000").error(), refusal) << "segment routing";
  EXPECT_EQ(walk(kRouting, "0600 0400 00000000")->protocol, kTcp);
}

TEST(Ipv6Extensions, DoWithUnknownOptionsWhatTheirTypeSays) {
  const auto with = [](const char* payload, Ipv6Answer answer) {
    const Ipv6Refusal expected{
        .fault = WireFault::ipv6_option_unknown, .answer = answer, .pointer = 44};
    EXPECT_EQ(walk(kDestination, payload).error(), expected) << payload;
  };
  EXPECT_TRUE(walk(kDestination, "0600 0100 3e02 0000"));
  with("0600 0100 7e02 0000", Ipv6Answer::none);
  with("0600 0100 be02 0000", Ipv6Answer::unknown_option);
  with("0600 0100 fe02 0000", Ipv6Answer::unknown_option_unless_multicast);
  EXPECT_EQ(walk(kHopByHop, "0600 c204 00010000").error().fault, WireFault::ipv6_option_unknown)
      << "a jumbogram";
}

TEST(Ipv6Extensions, RefuseOptionsThatDoNotFit) {
  EXPECT_EQ(walk(kDestination, "0600 0105 00000000").error(),
            quietly(WireFault::ipv6_option_overrun));
  EXPECT_EQ(walk(kDestination, "0600 0103 00000001").error(),
            quietly(WireFault::ipv6_option_overrun))
      << "no room for a length";
  EXPECT_EQ(walk(kHopByHop, "0600 1eff 00000000").error(), quietly(WireFault::ipv6_option_overrun));
}

TEST(Ipv6Extensions, AreBoundedInNumber) {
  Bytes eight;
  for (int i = 0; i < 8; ++i) eight = joined(eight, from_hex("3c00 0104 00000000"));
  eight[56] = std::byte{kTcp};
  EXPECT_EQ(walk(kDestination, eight)->size, 64);
  eight[56] = std::byte{kDestination};
  const Bytes nine = joined(eight, from_hex("0600 0104 00000000"));
  EXPECT_EQ(walk(kDestination, nine).error(), quietly(WireFault::ipv6_extension_count));
}

TEST(Ipv6Extensions, HoldABoundedNumberOfOptions) {
  const char* const eight = "0602 1e00 1e00 1e00 1e00 1e00 1e00 1e00 1e00 0104 00000000";
  EXPECT_TRUE(walk(kDestination, eight));
  const char* const nine = "0602 1e00 1e00 1e00 1e00 1e00 1e00 1e00 1e00 1e00 0102 0000";
  EXPECT_EQ(walk(kDestination, nine).error(), quietly(WireFault::ipv6_option_count));
}

TEST(Ipv6Extensions, HoldNoMorePaddingThanAlignmentNeeds) {
  EXPECT_TRUE(walk(kDestination, "0600 00 00 00 00 00 00"));
  EXPECT_TRUE(walk(kDestination, "0601 0105 0000000000 1e05 0000000000"));
  EXPECT_EQ(walk(kDestination, "0601 010c 000000000000000000000000").error(),
            quietly(WireFault::ipv6_option_count));
  EXPECT_EQ(walk(kDestination, "0601 00 0105 0000000000 00 1e03 000000").error(),
            quietly(WireFault::ipv6_option_count))
      << "eight in several";
}

TEST(Ipv6Extensions, RefuseEachTruncation) {
  for (const std::uint8_t type : {kHopByHop, kDestination, kRouting, kFragment}) {
    const Bytes whole = type == kRouting    ? from_hex("0601 0000 000000000000000000000000")
                        : type == kFragment ? from_hex("0600 0000 12345678")
                                            : padded(kTcp, 24);
    for (std::size_t size = 0; size < whole.size(); ++size) {
      EXPECT_EQ(walk(type, cut(whole, size)).error(), quietly(WireFault::ipv6_extension_truncated))
          << "type " << int{type} << ", " << size << " bytes";
    }
    EXPECT_TRUE(walk(type, whole)) << int{type};
  }
}

TEST(Ipv6Extensions, EndWithThePayloadWhateverHasArrived) {
  const Bytes payload = from_hex("0600 0104 00000000");
  const Ipv6Header shorter{.payload_size = 7, .next_header = kDestination};
  EXPECT_EQ(wire::walk_ipv6_extensions(shorter, payload).error(),
            quietly(WireFault::ipv6_extension_truncated));
  const Ipv6Header longer{.payload_size = 1000, .next_header = kDestination};
  EXPECT_EQ(wire::walk_ipv6_extensions(longer, payload)->protocol, kTcp)
      << "the rest is in the next segment";
}

TEST(Ipv6Extensions, ReadTheHeadersThatAreWritten) {
  Random random(seed());
  for (std::uint64_t round = 0; round < scaled(2000); ++round) {
    const Ipv6Fragment fragment{
        .identification = random_number<std::uint32_t>(random),
        .offset = static_cast<std::uint16_t>(8 * random.between(1, 8000)),
        .more = random_bool(random),
    };
    const auto protocol = random_number<std::uint8_t>(random);
    Bytes bytes(Ipv6Fragment::kSize + 8);
    ASSERT_EQ(wire::emit_ipv6_fragment(fragment, protocol, bytes), Ipv6Fragment::kSize);
    const auto found = walk(kFragment, bytes);
    ASSERT_TRUE(found);
    ASSERT_EQ(found->fragment, fragment);
    ASSERT_EQ(found->protocol, protocol);
  }
  Bytes alert(wire::kIpv6RouterAlertSize, std::byte{0x5a});
  ASSERT_EQ(wire::emit_ipv6_router_alert(58, alert), alert.size());
  EXPECT_EQ(alert, from_hex("3a00 0502 0000 0100"));
  EXPECT_TRUE(walk(kHopByHop, alert)->router_alert);
}

/// Headers that are mostly right, of every type.
Bytes random_payload(Random& random, std::uint8_t& first) {
  constexpr std::array<std::uint8_t, 5> kTypes = {kHopByHop, kRouting, kFragment, kDestination,
                                                  kTcp};
  first = kTypes[random.below(kTypes.size())];
  std::uint8_t type = first;
  Bytes payload;
  for (std::uint64_t left = random.below(11); left != 0 && type != kTcp; --left) {
    const std::uint8_t next = kTypes[1 + random.below(kTypes.size() - 1)];
    Bytes header = padded(next, 8 * (1 + random.below(3)));
    if (type == kRouting) header[3] = static_cast<std::byte>(random.below(8) == 0 ? 1 : 0);
    if (type == kFragment) {
      header = joined(from_hex("0000"), random_bytes(random, 6));
      header[0] = std::byte{next};
      if (random.below(4) != 0) wire::store_be16(&header[2], 0);
    }
    payload = joined(payload, header);
    type = next;
  }
  return joined(payload, random_bytes(random, random.below(24)));
}

TEST(Ipv6Extensions, AgreeWithTheSlowWalkOnAnyBytes) {
  Random random(seed());
  for (std::uint64_t round = 0; round < scaled(50000); ++round) {
    Ipv6Header header;
    Bytes payload = random_payload(random, header.next_header);
    for (std::uint64_t spoilt = random.below(3); spoilt != 0 && !payload.empty(); --spoilt) {
      payload[random.below(payload.size())] =
          static_cast<std::byte>(random_bool(random) ? random.below(8) : random.next());
    }
    header.payload_size = static_cast<std::uint16_t>(payload.size());
    if (random.below(4) == 0) header.payload_size = random_number<std::uint16_t>(random);
    const auto from = random.below(4) == 0 ? Ipv6WalkFrom::reassembled : Ipv6WalkFrom::packet;
    ASSERT_EQ(wire::walk_ipv6_extensions(header, payload, from),
              SlowWalk(header, payload, from).answer());
  }
}

}  // namespace
}  // namespace pinion::test
