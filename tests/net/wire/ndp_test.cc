#include "wire/ndp.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include <gtest/gtest.h>

#include <pinion/test/seed.h>

#include "wire_support.h"

namespace pinion::test {
namespace {

using wire::IcmpV6Type;
using wire::Ipv6Address;
using wire::NdpEnvelope;
using wire::NdpMessage;
using wire::WireFault;

constexpr Ipv6Address kNode = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
constexpr Ipv6Address kTarget = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2};
constexpr Ipv6Address kAllNodes = {0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};

const Bytes kSolicitation = from_hex(
    "87 00 0000 00000000 fe800000000000000000000000000002"
    "0101 020000000001");
const Bytes kAdvertisement = from_hex(
    "88 00 0000 e0000000 fe800000000000000000000000000002"
    "0201 020000000002");
const Bytes kRouterSolicitation = from_hex("85 00 0000 00000000 0101 020000000001");
const Bytes kRouterAdvertisement = from_hex(
    "86 00 0000 40 00 0708 00000000 00000000"
    "0101 020000000001");

wire::Parsed<NdpMessage> parse(std::span<const std::byte> bytes,
                               const NdpEnvelope& envelope = {.source = kNode,
                                                              .destination = kTarget}) {
  const auto header = wire::parse_icmp(bytes);
  if (!header) return tl::unexpected(header.error());
  return wire::parse_ndp(*header, bytes, envelope);
}

TEST(Ndp, ReadsANeighborSolicitation) {
  const NdpMessage expected{.type = IcmpV6Type::neighbor_solicitation,
                            .target = kTarget,
                            .mac = MacAddress{2, 0, 0, 0, 0, 1}};
  EXPECT_EQ(parse(kSolicitation), expected);
  EXPECT_EQ(parse(cut(kSolicitation, 24))->mac, std::nullopt);
  EXPECT_EQ(parse(with_byte(kSolicitation, 4, 0xff)), expected) << "reserved bits mean nothing";
}

TEST(Ndp, ReadsANeighborAdvertisement) {
  const NdpMessage expected{.type = IcmpV6Type::neighbor_advertisement,
                            .router = true,
                            .solicited = true,
                            .overrides = true,
                            .target = kTarget,
                            .mac = MacAddress{2, 0, 0, 0, 0, 2}};
  EXPECT_EQ(parse(kAdvertisement), expected);
  EXPECT_FALSE(parse(with_byte(kAdvertisement, 4, 0x60))->router);
  EXPECT_FALSE(parse(with_byte(kAdvertisement, 4, 0xa0))->solicited);
  EXPECT_FALSE(parse(with_byte(kAdvertisement, 4, 0xc0))->overrides);
}

TEST(Ndp, RecognisesRouterMessages) {
  EXPECT_EQ(parse(kRouterSolicitation)->type, IcmpV6Type::router_solicitation);
  EXPECT_EQ(parse(kRouterAdvertisement)->type, IcmpV6Type::router_advertisement);
  EXPECT_EQ(parse(kRouterAdvertisement)->mac, (MacAddress{2, 0, 0, 0, 0, 1}));
  EXPECT_FALSE(wire::is_ndp({.type = 137})) << "a redirect";
  EXPECT_FALSE(wire::is_ndp({.type = 128}));
}

TEST(Ndp, PassesOverOptionsItDoesNotKnow) {
  const Bytes nonce = from_hex("0e01 112233445566");
  const Bytes option = from_hex("0101 020000000001");
  const Bytes bytes = joined(joined(cut(kSolicitation, 24), nonce), option);
  EXPECT_EQ(parse(bytes), parse(kSolicitation));
  EXPECT_EQ(parse(joined(kSolicitation, from_hex("0101 020000000009"))), parse(kSolicitation))
      << "the first of several counts";
  EXPECT_EQ(parse(with_byte(kSolicitation, 24, 2))->mac, std::nullopt)
      << "a target's in a solicitation";
}

TEST(Ndp, RefusesWhatComesFromBeyondTheLink) {
  for (const Bytes& bytes :
       {kSolicitation, kAdvertisement, kRouterSolicitation, kRouterAdvertisement}) {
    EXPECT_TRUE(parse(bytes));
    EXPECT_EQ(parse(bytes, {.source = kNode, .destination = kTarget, .hop_limit = 254}).error(),
              WireFault::ndp_hop_limit);
  }
}

TEST(Ndp, RefusesOtherCodes) {
  EXPECT_EQ(parse(with_byte(kSolicitation, 1, 1)).error(), WireFault::ndp_code);
  EXPECT_EQ(parse(with_byte(kRouterAdvertisement, 1, 1)).error(), WireFault::ndp_code);
}

TEST(Ndp, RefusesTargetsThatAreNoNode) {
  EXPECT_EQ(parse(with_byte(kSolicitation, 8, 0xff)).error(), WireFault::ndp_target);
  EXPECT_EQ(parse(with_byte(kAdvertisement, 8, 0xff)).error(), WireFault::ndp_target);
  Bytes bytes = kSolicitation;
  std::fill(&bytes[8], &bytes[24], std::byte{0});
  EXPECT_EQ(parse(bytes).error(), WireFault::ndp_target);
}

TEST(Ndp, RefusesOptionsThatDoNotFit) {
  EXPECT_EQ(parse(with_byte(kSolicitation, 25, 0)).error(), WireFault::ndp_option_length);
  EXPECT_EQ(parse(with_byte(kSolicitation, 25, 2)).error(), WireFault::ndp_option_overrun);
  EXPECT_EQ(parse(joined(kSolicitation, from_hex("0e"))).error(), WireFault::ndp_option_overrun);
  const Bytes longer = with_byte(joined(kSolicitation, Bytes(8)), 25, 2);
  EXPECT_EQ(parse(longer).error(), WireFault::ndp_option_length) << "no Ethernet address";
  EXPECT_EQ(parse(with_byte(longer, 24, 14))->mac, std::nullopt) << "another option may be longer";
  EXPECT_EQ(parse(with_byte(kRouterSolicitation, 9, 0)).error(), WireFault::ndp_option_length);
}

TEST(Ndp, BelievesAProbeOnlyToItsGroupAndWithoutALinkLayerAddress) {
  const NdpEnvelope probe = {.source = {}, .destination = wire::solicited_node_of(kTarget)};
  EXPECT_TRUE(parse(cut(kSolicitation, 24), probe));
  EXPECT_EQ(parse(kSolicitation, probe).error(), WireFault::ndp_source_option);
  EXPECT_EQ(parse(cut(kSolicitation, 24), {.source = {}, .destination = kTarget}).error(),
            WireFault::ndp_destination);
  EXPECT_EQ(parse(kRouterSolicitation, {.source = {}, .destination = kAllNodes}).error(),
            WireFault::ndp_source_option);
  EXPECT_TRUE(parse(cut(kRouterSolicitation, 8), {.source = {}, .destination = kAllNodes}));
}

TEST(Ndp, RefusesAnAnswerToEverybody) {
  const NdpEnvelope to_all = {.source = kTarget, .destination = kAllNodes};
  EXPECT_EQ(parse(kAdvertisement, to_all).error(), WireFault::ndp_solicited);
  EXPECT_TRUE(parse(with_byte(kAdvertisement, 4, 0xa0), to_all));
}

TEST(Ndp, BelievesRoutersOnTheLinkAlone) {
  Ipv6Address global = kNode;
  global[0] = 0x20;
  EXPECT_EQ(parse(kRouterAdvertisement, {.source = global, .destination = kAllNodes}).error(),
            WireFault::ndp_source);
}

TEST(Ndp, RefusesEachTruncation) {
  const auto check = [](const Bytes& whole, std::size_t fixed) {
    for (std::size_t size = wire::IcmpMessage::kHeaderSize; size < whole.size(); ++size) {
      const auto parsed = parse(cut(whole, size));
      if (size == fixed) {
        EXPECT_TRUE(parsed);
        continue;
      }
      ASSERT_FALSE(parsed) << size;
      EXPECT_EQ(parsed.error(),
                size < fixed ? WireFault::ndp_truncated : WireFault::ndp_option_overrun)
          << size;
    }
  };
  check(kSolicitation, 24);
  check(kAdvertisement, 24);
  check(kRouterSolicitation, 8);
  check(kRouterAdvertisement, 16);
}

TEST(Ndp, ReadsWhatItWrites) {
  Random random(seed());
  for (std::uint64_t round = 0; round < scaled(2000); ++round) {
    NdpMessage message{.target = random_address<Ipv6Address>(random)};
    message.target[0] = 0x20;
    if (random_bool(random)) {
      message.type = IcmpV6Type::neighbor_advertisement;
      message.router = random_bool(random);
      message.solicited = random_bool(random);
      message.overrides = random_bool(random);
    }
    if (random_bool(random)) message.mac = random_address<MacAddress>(random);
    Bytes bytes(wire::kMaxNdpSize, std::byte{0x5a});
    const std::size_t size = wire::emit_ndp(message, bytes);
    ASSERT_EQ(size, message.mac ? 32U : 24U);
    ASSERT_EQ(parse(cut(bytes, size)), message);
  }
}

}  // namespace
}  // namespace pinion::test
