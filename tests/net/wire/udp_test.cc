#include "wire/udp.h"

#include <array>
#include <cstddef>
#include <cstdint>

#include <gtest/gtest.h>

#include <pinion/test/seed.h>

#include "wire/byte_order.h"
#include "wire/checksum.h"
#include "wire_support.h"

namespace pinion::test {
namespace {

using wire::UdpHeader;
using wire::WireFault;

wire::Parsed<UdpHeader> parse(std::span<const std::byte> bytes) {
  return wire::parse_udp(bytes, bytes.size());
}

const IpAddress kSource4 = IpAddress::v4({192, 0, 2, 1});
const IpAddress kDestination4 = IpAddress::v4({192, 0, 2, 2});
const IpAddress kSource6 = IpAddress::v6({0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1});
const IpAddress kDestination6 =
    IpAddress::v6({0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2});

/// A datagram with its checksum.
Bytes sealed(const Bytes& payload, const IpAddress& source, const IpAddress& destination) {
  Bytes bytes(UdpHeader::kSize);
  wire::emit_udp({.source_port = 53,
                  .destination_port = 4000,
                  .payload_size = static_cast<std::uint16_t>(payload.size())},
                 bytes);
  bytes = joined(bytes, payload);
  const std::array<std::size_t, 1> whole = {bytes.size()};
  Chain chain(bytes, whole);
  const std::uint16_t sum =
      wire::transport_checksum(chain.first(), bytes.size(), source, destination, 17);
  wire::store_be16(&bytes[UdpHeader::kChecksumOffset], wire::udp_checksum_field(sum));
  return bytes;
}

bool good(const Bytes& bytes, const IpAddress& source, const IpAddress& destination) {
  const std::array<std::size_t, 2> parts = {9, bytes.size() - 9};
  Chain chain(bytes, parts);
  return wire::udp_checksum_good(chain.first(), parse(bytes).value(), source, destination);
}

TEST(Udp, ReadsAHeader) {
  const auto header = parse(from_hex("0035 0fa0 000a beef 6869 ffff"));
  ASSERT_TRUE(header);
  const UdpHeader expected{
      .source_port = 53, .destination_port = 4000, .payload_size = 2, .checksum = 0xbeef};
  EXPECT_EQ(*header, expected) << "what is behind it is not UDP's";
}

TEST(Udp, RefusesALengthThatDoesNotFit) {
  EXPECT_EQ(parse(from_hex("0035 0fa0 0007 0000")).error(), WireFault::udp_length);
  EXPECT_EQ(parse(from_hex("0035 0fa0 0000 0000")).error(), WireFault::udp_length)
      << "0 is for jumbograms";
  EXPECT_EQ(parse(from_hex("0035 0fa0 000a 0000 11")).error(), WireFault::udp_length);
  EXPECT_TRUE(parse(from_hex("0035 0fa0 0008 0000")));
  const Bytes first_segment = from_hex("0035 0fa0 000a 0000");
  EXPECT_TRUE(wire::parse_udp(first_segment, 10)) << "the rest is in the next segment";
  EXPECT_EQ(wire::parse_udp(first_segment, 9).error(), WireFault::udp_length);
}

TEST(Udp, RefusesEachTruncation) {
  expect_fault_when_cut(from_hex("0035 0fa0 0008 0000"), 8, WireFault::udp_truncated, parse);
}

TEST(Udp, VerifiesTheChecksumOfEitherFamily) {
  Random random(seed());
  for (int round = 0; round < 500; ++round) {
    const bool v4 = random_bool(random);
    const IpAddress& source = v4 ? kSource4 : kSource6;
    const IpAddress& destination = v4 ? kDestination4 : kDestination6;
    Bytes bytes = sealed(random_bytes(random, 1 + random.below(60)), source, destination);
    ASSERT_TRUE(good(bytes, source, destination));
    ASSERT_TRUE(good(joined(bytes, random_bytes(random, 5)), source, destination))
        << "bytes behind the datagram don't count";
    ASSERT_FALSE(good(bytes, v4 ? kSource6 : kSource4, destination));
    const std::size_t spoilt = UdpHeader::kSize + random.below(bytes.size() - UdpHeader::kSize);
    bytes[spoilt] ^= std::byte{0x10};
    ASSERT_FALSE(good(bytes, source, destination));
  }
}

TEST(Udp, TakesAMissingChecksumOverIpv4Alone) {
  Bytes bytes = sealed(from_hex("01 02"), kSource4, kDestination4);
  wire::store_be16(&bytes[UdpHeader::kChecksumOffset], 0);
  EXPECT_TRUE(good(bytes, kSource4, kDestination4));
  EXPECT_FALSE(good(bytes, kSource6, kDestination6)) << "RFC 8200, 8.1";
}

TEST(Udp, WritesAllOnesForAChecksumOfZero) {
  Bytes payload = from_hex("00 00");
  const Bytes plain = sealed(payload, kSource4, kDestination4);
  // Adding what the checksum is brings the sum to all ones, whose complement is zero.
  wire::store_be16(payload.data(), wire::load_be16(&plain[UdpHeader::kChecksumOffset]));
  const Bytes bytes = sealed(payload, kSource4, kDestination4);
  EXPECT_EQ(wire::load_be16(&bytes[UdpHeader::kChecksumOffset]), 0xffff);
  EXPECT_TRUE(good(bytes, kSource4, kDestination4));
}

TEST(Udp, ReadsWhatItWrites) {
  Random random(seed());
  for (std::uint64_t round = 0; round < scaled(2000); ++round) {
    const UdpHeader header{
        .source_port = random_number<std::uint16_t>(random),
        .destination_port = random_number<std::uint16_t>(random),
        .payload_size = static_cast<std::uint16_t>(random.below(65528)),
        .checksum = random_number<std::uint16_t>(random),
    };
    Bytes bytes(UdpHeader::kSize);
    ASSERT_EQ(wire::emit_udp(header, bytes), UdpHeader::kSize);
    const auto parsed = wire::parse_udp(bytes, 65535);
    ASSERT_TRUE(parsed);
    ASSERT_EQ(*parsed, header);
  }
}

}  // namespace
}  // namespace pinion::test
