#include "wire/ipv6.h"

#include <cstddef>
#include <cstdint>

#include <gtest/gtest.h>

#include <pinion/test/seed.h>

#include "wire_support.h"

namespace pinion::test {
namespace {

using wire::Ipv6Address;
using wire::Ipv6Header;
using wire::WireFault;

wire::Parsed<Ipv6Header> parse(std::span<const std::byte> bytes) {
  return wire::parse_ipv6(bytes);
}

const Bytes kPlain = from_hex(
    "6eba bcde 0002 11 3f"
    "20010db8000000000000000000000001"
    "20010db8000000000000000000000002"
    "0102");

Ipv6Header random_header(Random& random) {
  return {
      .source = random_address<Ipv6Address>(random),
      .destination = random_address<Ipv6Address>(random),
      .flow_label = static_cast<std::uint32_t>(random.below(1U << 20)),
      .payload_size = random_number<std::uint16_t>(random),
      .traffic_class = random_number<std::uint8_t>(random),
      .hop_limit = random_number<std::uint8_t>(random),
      .next_header = random_number<std::uint8_t>(random),
  };
}

/// RFC 8200, 3, as it is drawn there.
wire::Parsed<Ipv6Header> slow_parse(std::span<const std::byte> bytes, std::size_t arrived) {
  if (bytes.size() < 40) return tl::unexpected(WireFault::ipv6_truncated);
  BitReader reader(bytes, WireFault::ipv6_truncated);
  if (reader.bits(4) != 6) return tl::unexpected(WireFault::ipv6_version);
  Ipv6Header header;
  header.traffic_class = static_cast<std::uint8_t>(reader.bits(8));
  header.flow_label = static_cast<std::uint32_t>(reader.bits(20));
  header.payload_size = static_cast<std::uint16_t>(reader.bits(16));
  header.next_header = static_cast<std::uint8_t>(reader.bits(8));
  header.hop_limit = static_cast<std::uint8_t>(reader.bits(8));
  header.source = reader.address<Ipv6Address>();
  header.destination = reader.address<Ipv6Address>();
  if (arrived < 40U + header.payload_size) return tl::unexpected(WireFault::ipv6_payload_length);
  return header;
}

TEST(Ipv6, ReadsAHeader) {
  const auto header = parse(kPlain);
  ASSERT_TRUE(header);
  EXPECT_EQ(header->traffic_class, 0xeb);
  EXPECT_EQ(header->flow_label, 0xabcdeU);
  EXPECT_EQ(header->payload_size, 2);
  EXPECT_EQ(header->next_header, 17);
  EXPECT_EQ(header->hop_limit, 63);
  EXPECT_EQ(header->source[15], 1);
  EXPECT_EQ(header->destination[15], 2);
  EXPECT_EQ(parse(joined(kPlain, Bytes(4))), header) << "what is behind the payload is padding";
}

TEST(Ipv6, RefusesOtherVersions) {
  Bytes bytes = kPlain;
  bytes[0] = std::byte{0x45};
  EXPECT_EQ(parse(bytes).error(), WireFault::ipv6_version);
  bytes[0] = std::byte{0x70};
  EXPECT_EQ(parse(bytes).error(), WireFault::ipv6_version);
}

TEST(Ipv6, RefusesMorePayloadThanHasArrived) {
  const Bytes first = cut(kPlain, 40);
  EXPECT_EQ(parse(first).error(), WireFault::ipv6_payload_length);
  EXPECT_EQ(wire::parse_ipv6(first, 41).error(), WireFault::ipv6_payload_length);
  EXPECT_EQ(wire::parse_ipv6(first, 42), parse(kPlain));
}

TEST(Ipv6, RefusesEachTruncation) {
  Bytes bytes = cut(kPlain, 40);
  bytes[5] = std::byte{0};
  expect_fault_when_cut(bytes, 40, WireFault::ipv6_truncated, parse);
}

TEST(Ipv6, ReadsWhatItWritesAndAgreesWithTheSlowParser) {
  Random random(seed());
  for (std::uint64_t round = 0; round < scaled(5000); ++round) {
    const Ipv6Header header = random_header(random);
    Bytes bytes(Ipv6Header::kSize);
    ASSERT_EQ(wire::emit_ipv6(header, bytes), Ipv6Header::kSize);
    ASSERT_EQ(wire::parse_ipv6(bytes, 40U + header.payload_size), header);
    const std::size_t arrived = 40 + random.below(65536);
    ASSERT_EQ(wire::parse_ipv6(bytes, arrived), slow_parse(bytes, arrived));
    bytes[random.below(8)] = static_cast<std::byte>(random.next());
    ASSERT_EQ(wire::parse_ipv6(bytes, arrived), slow_parse(bytes, arrived));
  }
}

TEST(Ipv6Address, IsOfTheKindItsFirstBitsSay) {
  Ipv6Address address{};
  EXPECT_TRUE(wire::is_unspecified(address));
  address[15] = 1;
  EXPECT_FALSE(wire::is_unspecified(address));
  EXPECT_FALSE(wire::is_multicast(address));
  EXPECT_FALSE(wire::is_link_local(address));
  address[0] = 0xfe;
  address[1] = 0xbf;
  EXPECT_TRUE(wire::is_link_local(address));
  address[1] = 0xc0;
  EXPECT_FALSE(wire::is_link_local(address));
  address[0] = 0xff;
  EXPECT_TRUE(wire::is_multicast(address));
}

TEST(Ipv6Address, HasASolicitedNodeGroup) {
  const Ipv6Address address = {0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xab, 0xcd, 0xef, 0x12};
  const Ipv6Address group = {0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0xcd, 0xef, 0x12};
  EXPECT_EQ(wire::solicited_node_of(address), group);
  EXPECT_TRUE(wire::is_solicited_node(group));
  EXPECT_FALSE(wire::is_solicited_node(address));
  Ipv6Address other = group;
  other[12] = 0;
  EXPECT_FALSE(wire::is_solicited_node(other));
}

}  // namespace
}  // namespace pinion::test
