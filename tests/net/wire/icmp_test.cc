#include "wire/icmp.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include <gtest/gtest.h>

#include <pinion/test/seed.h>

#include "wire/byte_order.h"
#include "wire_support.h"

namespace pinion::test {
namespace {

using wire::IcmpMessage;
using wire::IcmpType;
using wire::IcmpV6Type;
using wire::WireFault;

wire::Parsed<IcmpMessage> parse(std::span<const std::byte> bytes) {
  return wire::parse_icmp(bytes);
}

const Bytes kError4 = from_hex("0304 0000 0000 0514");
const Bytes kError6 = from_hex("0200 0000 0000 0500");

/// A TCP datagram of 1500 bytes, as a router quotes it.
const Bytes kQuote4 = from_hex(
    "4500 05dc 0000 4000 3f06 0000 c0000201 c6336402"
    "1f90 c350 deadbeef");

const Bytes kQuote6 = from_hex(
    "6000 0000 05b4 06 3f"
    "20010db8000000000000000000000001 20010db8000000000000000000000002"
    "1f90 c350 deadbeef");

wire::Parsed<wire::QuotedDatagram> quote4(const Bytes& quote) {
  return wire::parse_icmp_quote(joined(kError4, quote));
}

/// The quoted IPv6 header, naming `next`, and what is behind it.
Bytes quote_with(unsigned next, const char* behind) {
  Bytes bytes = joined(cut(kQuote6, 40), from_hex(behind));
  bytes[6] = static_cast<std::byte>(next);
  return bytes;
}

/// Whether IPv6's quote gives port 8080, and of which protocol.
void expect_transport6(const Bytes& quote, unsigned protocol) {
  const Bytes message = joined(kError6, quote);
  const auto quoted = wire::parse_icmp_v6_quote(message);
  ASSERT_TRUE(quoted);
  EXPECT_EQ(quoted->protocol, protocol);
  EXPECT_EQ(wire::load_be16(quoted->transport.data()), 8080);
}

WireFault fault6(const Bytes& quote) {
  const Bytes message = joined(kError6, quote);
  return wire::parse_icmp_v6_quote(message).error();
}

TEST(Icmp, ReadsAHeader) {
  const auto message = parse(from_hex("0800 ffff 1234 0001 6162"));
  ASSERT_TRUE(message);
  EXPECT_TRUE(message->is(IcmpType::echo_request));
  EXPECT_EQ(message->code, 0);
  EXPECT_EQ(message->detail, 0x12340001U);
}

TEST(Icmp, RefusesEachTruncation) {
  expect_fault_when_cut(kError4, 8, WireFault::icmp_truncated, parse);
}

TEST(Icmp, TellsErrorsFromQuestions) {
  for (unsigned type = 0; type < 256; ++type) {
    const IcmpMessage message{.type = static_cast<std::uint8_t>(type)};
    EXPECT_EQ(is_icmp_error(message),
              type == 3 || type == 4 || type == 5 || type == 11 || type == 12);
    EXPECT_EQ(is_icmp_v6_error(message), type < 128);
  }
}

TEST(Icmp, ReadsWhatItWrites) {
  Random random(seed());
  for (std::uint64_t round = 0; round < scaled(2000); ++round) {
    const IcmpMessage message{
        .type = random_number<std::uint8_t>(random),
        .code = random_number<std::uint8_t>(random),
        .detail = random_number<std::uint32_t>(random),
    };
    Bytes bytes(IcmpMessage::kHeaderSize, std::byte{0x5a});
    ASSERT_EQ(wire::emit_icmp(message, bytes), IcmpMessage::kHeaderSize);
    ASSERT_EQ(parse(bytes), message);
    ASSERT_EQ(wire::load_be16(&bytes[IcmpMessage::kChecksumOffset]), 0);
  }
}

TEST(Icmp, SumsTheWholeMessage) {
  Bytes bytes = from_hex("0800 0000 1234 0001 616263");
  const std::array<std::size_t, 2> parts = {9, 2};
  const std::uint16_t sum = wire::icmp_checksum(Chain(bytes, parts).first(), 11);
  EXPECT_NE(sum, 0);
  wire::store_be16(&bytes[IcmpMessage::kChecksumOffset], sum);
  EXPECT_EQ(wire::icmp_checksum(Chain(bytes, parts).first(), 11), 0);
}

TEST(IcmpQuote, ShowsWhoseDatagramItWas) {
  const Bytes message = joined(kError4, kQuote4);
  const auto quoted = wire::parse_icmp_quote(message);
  ASSERT_TRUE(quoted);
  EXPECT_EQ(quoted->source, IpAddress::v4({192, 0, 2, 1}));
  EXPECT_EQ(quoted->destination, IpAddress::v4({198, 51, 100, 2}));
  EXPECT_EQ(quoted->protocol, 6);
  EXPECT_TRUE(std::ranges::equal(quoted->transport, from_hex("1f90 c350 deadbeef")));
}

TEST(IcmpQuote, EndsWithTheDatagram) {
  Bytes quote = joined(kQuote4, from_hex("ffff"));
  wire::store_be16(&quote[2], 28);
  const Bytes message = joined(kError4, quote);
  EXPECT_EQ(wire::parse_icmp_quote(message)->transport.size(), 8U) << "padding, extensions";
}

TEST(IcmpQuote, PassesOverOptions) {
  Bytes quote = joined(joined(cut(kQuote4, 20), from_hex("83ff ffff")), from_hex("1f90c350 0102"));
  quote[0] = std::byte{0x46};
  EXPECT_EQ(quote4(quote).error(), WireFault::icmp_quote) << "six bytes of transport";
  quote = joined(quote, from_hex("0304"));
  const Bytes message = joined(kError4, quote);
  const auto quoted = wire::parse_icmp_quote(message);
  ASSERT_TRUE(quoted);
  EXPECT_EQ(wire::load_be16(quoted->transport.data()), 8080);
}

TEST(IcmpQuote, RefusesWhatDoesNotShowATransport) {
  const auto with = [](std::size_t at, unsigned value) {
    return quote4(with_byte(kQuote4, at, value));
  };
  EXPECT_EQ(with(0, 0x65).error(), WireFault::icmp_quote) << "another version";
  EXPECT_EQ(with(0, 0x44).error(), WireFault::icmp_quote);
  EXPECT_EQ(with(0, 0x46).error(), WireFault::icmp_quote) << "options and nothing behind";
  EXPECT_EQ(with(7, 1).error(), WireFault::icmp_quote) << "a later fragment";
  Bytes shorter = kQuote4;
  wire::store_be16(&shorter[2], 27);
  EXPECT_EQ(quote4(shorter).error(), WireFault::icmp_quote) << "seven bytes of transport";
  EXPECT_TRUE(with(6, 0x20)) << "a first fragment shows it";
}

TEST(IcmpQuote, RefusesEachTruncation) {
  for (const bool v6 : {false, true}) {
    const Bytes whole = v6 ? joined(kError6, kQuote6) : joined(kError4, kQuote4);
    expect_fault_when_cut(whole, whole.size(), WireFault::icmp_quote, [v6](auto bytes) {
      return v6 ? wire::parse_icmp_v6_quote(bytes) : wire::parse_icmp_quote(bytes);
    });
  }
}

TEST(IcmpQuote, ShowsWhoseIpv6DatagramItWas) {
  const Bytes message = joined(kError6, kQuote6);
  const auto quoted = wire::parse_icmp_v6_quote(message);
  ASSERT_TRUE(quoted);
  EXPECT_EQ(quoted->source.bytes()[15], 1);
  EXPECT_EQ(quoted->destination.bytes()[15], 2);
  EXPECT_TRUE(quoted->source.is_v6());
  EXPECT_EQ(quoted->protocol, 6);
  EXPECT_TRUE(std::ranges::equal(quoted->transport, from_hex("1f90 c350 deadbeef")));
}

TEST(IcmpQuote, PassesOverExtensionHeadersWithoutObeyingThem) {
  expect_transport6(quote_with(60, "1100 c2ff ffff ffff 1f90c350 00000000"), 17);
  expect_transport6(quote_with(43, "0601 0005 0000 0000 0000000000000000 1f90c350 00000000"), 6);
  expect_transport6(quote_with(44, "3c00 0001 1234 5678 0600 0104 0000 0000 1f90c350 00000000"), 6);
}

TEST(IcmpQuote, RefusesExtensionHeadersThatHideTheTransport) {
  EXPECT_EQ(fault6(quote_with(44, "0600 0008 1234 5678 1f90c350 00000000")), WireFault::icmp_quote)
      << "a later fragment";
  EXPECT_EQ(fault6(quote_with(60, "0602 0104 0000 0000 1f90c350 00000000")), WireFault::icmp_quote)
      << "longer than the quote";
  Bytes many = cut(kQuote6, 40);
  many[6] = std::byte{60};
  for (int i = 0; i < 8; ++i) many = joined(many, from_hex("3c00 0104 0000 0000"));
  Bytes most = many;
  most[most.size() - 8] = std::byte{6};
  expect_transport6(joined(most, from_hex("1f90c350 00000000")), 6);
  many = joined(many, from_hex("0600 0104 0000 0000 1f90c350 00000000"));
  EXPECT_EQ(fault6(many), WireFault::icmp_quote) << "nine";
}

}  // namespace
}  // namespace pinion::test
