#include "wire/arp.h"

#include <cstddef>
#include <cstdint>

#include <gtest/gtest.h>

#include <pinion/test/seed.h>

#include "wire_support.h"

namespace pinion::test {
namespace {

using wire::ArpMessage;
using wire::ArpOperation;
using wire::WireFault;

wire::Parsed<ArpMessage> parse(std::span<const std::byte> bytes) {
  return wire::parse_arp(bytes);
}

const Bytes kRequest = from_hex(
    "0001 0800 06 04 0001"
    "020000000001 c0000201"
    "000000000000 c0000202");

TEST(Arp, ReadsARequest) {
  const auto message = parse(kRequest);
  ASSERT_TRUE(message);
  EXPECT_EQ(message->operation, ArpOperation::request);
  EXPECT_EQ(message->sender_mac, (MacAddress{2, 0, 0, 0, 0, 1}));
  EXPECT_EQ(message->sender, (wire::Ipv4Address{192, 0, 2, 1}));
  EXPECT_EQ(message->target_mac, MacAddress{});
  EXPECT_EQ(message->target, (wire::Ipv4Address{192, 0, 2, 2}));
}

TEST(Arp, PassesOverTheFramesPadding) {
  EXPECT_EQ(parse(joined(kRequest, Bytes(18))), parse(kRequest));
}

TEST(Arp, RefusesWhatIsNotIpv4OverEthernet) {
  const auto with = [](std::size_t at, unsigned value) {
    return parse(with_byte(kRequest, at, value));
  };
  EXPECT_EQ(with(0, 1).error(), WireFault::arp_hardware);
  EXPECT_EQ(with(1, 6).error(), WireFault::arp_hardware) << "IEEE 802";
  EXPECT_EQ(with(4, 8).error(), WireFault::arp_hardware);
  EXPECT_EQ(with(2, 0x86).error(), WireFault::arp_protocol);
  EXPECT_EQ(with(3, 1).error(), WireFault::arp_protocol);
  EXPECT_EQ(with(5, 16).error(), WireFault::arp_protocol);
  EXPECT_EQ(with(6, 1).error(), WireFault::arp_operation);
  EXPECT_EQ(with(7, 0).error(), WireFault::arp_operation);
  EXPECT_EQ(with(7, 3).error(), WireFault::arp_operation) << "a reverse request";
  EXPECT_EQ(with(7, 2)->operation, ArpOperation::reply);
}

TEST(Arp, RefusesEachTruncation) {
  expect_fault_when_cut(kRequest, kRequest.size(), WireFault::arp_truncated, parse);
}

TEST(Arp, ReadsWhatItWrites) {
  Random random(seed());
  for (std::uint64_t round = 0; round < scaled(2000); ++round) {
    const ArpMessage message{
        .operation = random_bool(random) ? ArpOperation::request : ArpOperation::reply,
        .sender_mac = random_address<MacAddress>(random),
        .sender = random_address<wire::Ipv4Address>(random),
        .target_mac = random_address<MacAddress>(random),
        .target = random_address<wire::Ipv4Address>(random),
    };
    Bytes bytes(ArpMessage::kSize);
    ASSERT_EQ(wire::emit_arp(message, bytes), ArpMessage::kSize);
    const auto parsed = parse(bytes);
    ASSERT_TRUE(parsed);
    ASSERT_EQ(*parsed, message);
  }
}

}  // namespace
}  // namespace pinion::test
