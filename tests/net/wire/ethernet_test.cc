#include "wire/ethernet.h"

#include <cstddef>
#include <cstdint>

#include <gtest/gtest.h>

#include <pinion/test/seed.h>

#include "wire_support.h"

namespace pinion::test {
namespace {

using wire::EthernetHeader;
using wire::EtherType;
using wire::WireFault;

wire::Parsed<EthernetHeader> parse(std::span<const std::byte> bytes) {
  return wire::parse_ethernet(bytes);
}

EthernetHeader random_header(Random& random) {
  EthernetHeader header{
      .destination = random_address<MacAddress>(random),
      .source = random_address<MacAddress>(random),
      .tag_count = static_cast<std::uint8_t>(random.below(3)),
  };
  do {
    header.type = static_cast<EtherType>(random.between(0x600, 0xffff));
  } while (is_vlan(header.type));
  for (std::size_t i = 0; i < header.tag_count; ++i) {
    header.tags[i] = {
        .type = random_bool(random) ? EtherType::vlan : EtherType::service_vlan,
        .priority = static_cast<std::uint8_t>(random.below(8)),
        .drop_eligible = random_bool(random),
        .id = static_cast<std::uint16_t>(random.below(4096)),
    };
  }
  return header;
}

TEST(Ethernet, ReadsAnUntaggedHeader) {
  const Bytes frame = from_hex("ffffffffffff 020000000001 0806 aa");
  const auto header = parse(frame);
  ASSERT_TRUE(header);
  EXPECT_EQ(header->destination, wire::kBroadcastMac);
  EXPECT_EQ(header->source, (MacAddress{2, 0, 0, 0, 0, 1}));
  EXPECT_EQ(header->type, EtherType::arp);
  EXPECT_EQ(header->tag_count, 0);
  EXPECT_EQ(header->size(), 14U);
  EXPECT_TRUE(wire::is_multicast(header->destination));
  EXPECT_FALSE(wire::is_multicast(header->source));
}

TEST(Ethernet, ReadsTwoTagsTheOuterOneFirst) {
  const Bytes frame = from_hex("020000000002 020000000001 88a8 f064 8100 4fff 86dd 60");
  const auto header = parse(frame);
  ASSERT_TRUE(header);
  EXPECT_EQ(header->type, EtherType::ipv6);
  EXPECT_EQ(header->size(), 22U);
  ASSERT_EQ(header->tag_count, 2);
  const wire::VlanTag outer{
      .type = EtherType::service_vlan, .priority = 7, .drop_eligible = true, .id = 100};
  const wire::VlanTag inner{
      .type = EtherType::vlan, .priority = 2, .drop_eligible = false, .id = 4095};
  EXPECT_EQ(header->tags[0], outer);
  EXPECT_EQ(header->tags[1], inner);
}

TEST(Ethernet, RefusesAThirdTag) {
  const Bytes frame = from_hex("020000000002 020000000001 8100 0001 8100 0002 8100 0003 0800");
  EXPECT_EQ(parse(frame).error(), WireFault::ethernet_vlan_depth);
}

TEST(Ethernet, RefusesALengthInTheTypesPlace) {
  EXPECT_EQ(parse(from_hex("020000000002 020000000001 05ff")).error(), WireFault::ethernet_type);
  EXPECT_EQ(parse(from_hex("020000000002 020000000001 0026 4242 03")).error(),
            WireFault::ethernet_type)
      << "spanning tree";
  EXPECT_EQ(parse(from_hex("020000000002 020000000001 8100 0001 0026")).error(),
            WireFault::ethernet_type);
  EXPECT_TRUE(parse(from_hex("020000000002 020000000001 0600")));
}

TEST(Ethernet, RefusesEachTruncation) {
  Random random(seed());
  for (std::uint8_t tags = 0; tags <= 2; ++tags) {
    EthernetHeader header = random_header(random);
    header.tag_count = tags;
    Bytes bytes(header.size());
    wire::emit_ethernet(header, bytes);
    expect_fault_when_cut(bytes, bytes.size(), WireFault::ethernet_truncated, parse);
  }
}

TEST(Ethernet, ReadsWhatItWrites) {
  Random random(seed());
  for (std::uint64_t round = 0; round < scaled(5000); ++round) {
    const EthernetHeader header = random_header(random);
    Bytes bytes(header.size());
    ASSERT_EQ(wire::emit_ethernet(header, bytes), header.size());
    const auto parsed = parse(bytes);
    ASSERT_TRUE(parsed);
    ASSERT_EQ(*parsed, header);
  }
}

TEST(EthernetDeathTest, WritesNoMoreThanThereIsRoomFor) {
  Bytes small(13);
  EXPECT_DEATH(wire::emit_ethernet({}, small), "into.size");
}

}  // namespace
}  // namespace pinion::test
