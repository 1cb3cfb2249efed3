#include "wire/ipv4.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <pinion/test/seed.h>

#include "wire_support.h"

namespace pinion::test {
namespace {

using wire::Ipv4Header;
using wire::WireFault;

wire::Parsed<Ipv4Header> parse(std::span<const std::byte> bytes) {
  return wire::parse_ipv4(bytes);
}

/// A TCP datagram with a payload of four bytes.
const Bytes kPlain = from_hex("4502 0018 1c46 4000 4006 0000 c0000201 c6336402 01020304");

/// The header of `kPlain` with these options, and no payload.
Bytes with_options(const Bytes& options) {
  Bytes bytes = joined(cut(kPlain, Ipv4Header::kMinSize), options);
  bytes[0] = static_cast<std::byte>(0x40 | bytes.size() / 4);
  wire::store_be16(&bytes[2], static_cast<std::uint16_t>(bytes.size()));
  return bytes;
}

Bytes with_be16(Bytes bytes, std::size_t at, std::uint16_t value) {
  wire::store_be16(&bytes[at], value);
  return bytes;
}

void refuse_bad_options(std::span<const std::byte> options) {
  std::vector<unsigned> left;
  for (const std::byte byte : options) left.push_back(std::to_integer<unsigned>(byte));
  while (!left.empty() && left[0] != 0) {
    std::size_t length = 1;
    if (left[0] != 1) {
      if (left.size() == 1) throw Refused(WireFault::ipv4_option_overrun);
      length = left[1];
      if (length == 0 || length == 1) throw Refused(WireFault::ipv4_option_length);
      if (length > left.size()) throw Refused(WireFault::ipv4_option_overrun);
      const bool route = left[0] == 7 || left[0] == 131 || left[0] == 137;
      if (route || left[0] == 68) {
        const std::size_t first_slot = route ? 4 : 5;
        if (length + 1 < first_slot) throw Refused(WireFault::ipv4_option_length);
        const std::size_t pointer = left[2];
        if (pointer < first_slot) throw Refused(WireFault::ipv4_option_pointer);
        const std::size_t last_of_slot = pointer + 3;
        if (pointer <= length && last_of_slot > length) {
          throw Refused(WireFault::ipv4_option_pointer);
        }
      }
    }
    left.erase(left.begin(), left.begin() + static_cast<std::ptrdiff_t>(length));
  }
}

/// RFC 791, 3.1, as it is drawn there.
Ipv4Header slow_parse(std::span<const std::byte> bytes, std::size_t arrived) {
  BitReader reader(bytes, WireFault::ipv4_truncated);
  if (bytes.size() < 20) throw Refused(WireFault::ipv4_truncated);
  if (reader.bits(4) != 4) throw Refused(WireFault::ipv4_version);
  const std::uint64_t words = reader.bits(4);
  if (words < 5 || words * 4 > arrived) throw Refused(WireFault::ipv4_header_length);
  if (words * 4 > bytes.size()) throw Refused(WireFault::ipv4_truncated);
  Ipv4Header header;
  header.traffic_class = static_cast<std::uint8_t>(reader.bits(8));
  const std::uint64_t total = reader.bits(16);
  if (total < words * 4 || total > arrived) throw Refused(WireFault::ipv4_total_length);
  header.payload_size = static_cast<std::uint16_t>(total - words * 4);
  header.identification = static_cast<std::uint16_t>(reader.bits(16));
  reader.bits(1);
  header.dont_fragment = reader.bits(1) != 0;
  header.more_fragments = reader.bits(1) != 0;
  header.fragment_offset = static_cast<std::uint16_t>(reader.bits(13) * 8);
  header.hop_limit = static_cast<std::uint8_t>(reader.bits(8));
  header.protocol = static_cast<std::uint8_t>(reader.bits(8));
  reader.bits(16);
  header.source = reader.address<wire::Ipv4Address>();
  header.destination = reader.address<wire::Ipv4Address>();
  header.options = bytes.subspan(20, words * 4 - 20);
  refuse_bad_options(header.options);
  if (header.more_fragments || header.fragment_offset != 0) {
    const bool whole_units = header.payload_size % 8 == 0;
    if (header.payload_size == 0) throw Refused(WireFault::ipv4_fragment_size);
    if (header.more_fragments && !whole_units) throw Refused(WireFault::ipv4_fragment_size);
    if (header.fragment_offset + total > 65535) throw Refused(WireFault::ipv4_fragment_overrun);
  }
  return header;
}

wire::Parsed<Ipv4Header> slow_answer(std::span<const std::byte> bytes, std::size_t arrived) {
  try {
    return slow_parse(bytes, arrived);
  } catch (const Refused& refused) {
    return tl::unexpected(refused.fault);
  }
}

/// Options that are right, in whole words.
Bytes random_options(Random& random) {
  Bytes options;
  while (random.below(3) != 0) {
    Bytes option;
    switch (random.below(4)) {
      case 0:
        option = from_hex("01");
        break;
      case 1:
        option = from_hex("8303 04");
        break;
      case 2:
        option = from_hex("070b 08 00000000 00000000");
        break;
      default:
        option = joined(from_hex("9406"), random_bytes(random, 4));
        break;
    }
    if (options.size() + option.size() > Ipv4Header::kMaxOptionsSize) break;
    options = joined(options, option);
  }
  while (options.size() % 4 != 0) options.push_back(std::byte{0});
  return options;
}

Ipv4Header random_header(Random& random, std::span<const std::byte> options) {
  Ipv4Header header{
      .source = random_address<wire::Ipv4Address>(random),
      .destination = random_address<wire::Ipv4Address>(random),
      .payload_size = static_cast<std::uint16_t>(random.below(1500)),
      .identification = random_number<std::uint16_t>(random),
      .dont_fragment = random_bool(random),
      .traffic_class = random_number<std::uint8_t>(random),
      .hop_limit = random_number<std::uint8_t>(random),
      .protocol = random_number<std::uint8_t>(random),
      .options = options,
  };
  if (random.below(3) == 0) {
    header.payload_size = static_cast<std::uint16_t>(8 * random.between(1, 180));
    header.more_fragments = random_bool(random);
    header.fragment_offset = static_cast<std::uint16_t>(8 * random.below(8000));
  }
  return header;
}

TEST(Ipv4, ReadsAPlainHeader) {
  const auto header = parse(kPlain);
  ASSERT_TRUE(header);
  EXPECT_EQ(header->source, (wire::Ipv4Address{192, 0, 2, 1}));
  EXPECT_EQ(header->destination, (wire::Ipv4Address{198, 51, 100, 2}));
  EXPECT_EQ(header->payload_size, 4);
  EXPECT_EQ(header->identification, 0x1c46);
  EXPECT_TRUE(header->dont_fragment);
  EXPECT_FALSE(header->is_fragment());
  EXPECT_EQ(header->traffic_class, 2);
  EXPECT_EQ(header->hop_limit, 64);
  EXPECT_EQ(header->protocol, 6);
  EXPECT_EQ(header->size(), 20U);
  EXPECT_FALSE(header->has_source_route());
}

TEST(Ipv4, CutsTheFramesPaddingOff) {
  EXPECT_EQ(parse(joined(kPlain, Bytes(22)))->payload_size, 4);
}

TEST(Ipv4, ReadsTheFirstSegmentOfALongerPacket) {
  const Bytes first = cut(kPlain, 20);
  EXPECT_EQ(wire::parse_ipv4(first, 24), parse(kPlain));
  EXPECT_EQ(wire::parse_ipv4(first, 23).error(), WireFault::ipv4_total_length);
  const Bytes options = with_options(Bytes(8));
  EXPECT_EQ(wire::parse_ipv4(cut(options, 24), 28).error(), WireFault::ipv4_truncated)
      << "the header must be in one piece";
}

TEST(Ipv4, RefusesOtherVersions) {
  for (unsigned version = 0; version < 16; ++version) {
    Bytes bytes = kPlain;
    bytes[0] = static_cast<std::byte>(version << 4 | 5);
    if (version == 4) continue;
    EXPECT_EQ(parse(bytes).error(), WireFault::ipv4_version) << version;
  }
}

TEST(Ipv4, RefusesAHeaderLengthThatDoesNotFit) {
  Bytes bytes = kPlain;
  bytes[0] = std::byte{0x44};
  EXPECT_EQ(parse(bytes).error(), WireFault::ipv4_header_length);
  bytes[0] = std::byte{0x47};
  EXPECT_EQ(parse(bytes).error(), WireFault::ipv4_header_length);
}

TEST(Ipv4, RefusesATotalLengthThatDoesNotFit) {
  EXPECT_EQ(parse(with_be16(kPlain, 2, 19)).error(), WireFault::ipv4_total_length);
  EXPECT_EQ(parse(with_be16(kPlain, 2, 25)).error(), WireFault::ipv4_total_length);
  EXPECT_EQ(parse(with_be16(kPlain, 2, 0)).error(), WireFault::ipv4_total_length);
  EXPECT_EQ(parse(with_be16(kPlain, 2, 20))->payload_size, 0);
  const Bytes options = with_options(Bytes(8));
  EXPECT_EQ(parse(with_be16(options, 2, 27)).error(), WireFault::ipv4_total_length);
}

TEST(Ipv4, RefusesEachTruncation) {
  expect_fault_when_cut(cut(with_be16(kPlain, 2, 20), 20), 20, WireFault::ipv4_truncated, parse);
  const Bytes options = with_options(from_hex("0101 0101"));
  for (std::size_t size = 20; size < 24; ++size) {
    EXPECT_EQ(parse(cut(options, size)).error(), WireFault::ipv4_header_length);
  }
}

TEST(Ipv4, RefusesOptionsThatDoNotFit) {
  const auto fault = [](const char* options) {
    return parse(with_options(from_hex(options))).error();
  };
  EXPECT_EQ(fault("8800 0000"), WireFault::ipv4_option_length);
  EXPECT_EQ(fault("8801 0000"), WireFault::ipv4_option_length);
  EXPECT_EQ(fault("8805 0000"), WireFault::ipv4_option_overrun);
  EXPECT_EQ(fault("0101 0188"), WireFault::ipv4_option_overrun) << "no room for a length";
  EXPECT_EQ(fault("8302 0000"), WireFault::ipv4_option_length) << "a route without a pointer";
  EXPECT_EQ(fault("4403 0500"), WireFault::ipv4_option_length) << "a timestamp without flags";
  EXPECT_EQ(fault("8303 0300"), WireFault::ipv4_option_pointer);
  EXPECT_EQ(fault("0707 0300 0000 0000"), WireFault::ipv4_option_pointer);
  EXPECT_EQ(fault("4404 0400"), WireFault::ipv4_option_pointer);
  EXPECT_EQ(fault("0707 0500 0000 0000"), WireFault::ipv4_option_pointer) << "half a slot";
}

TEST(Ipv4, TakesOptionsThatFitKnownOrNot) {
  for (const char* const options :
       {"00ff ffff", "0101 0100", "8804 1234", "9404 0000", "0707 0400 0000 0000",
        "0707 0800 0000 0000", "4408 0500 0000 0000", "4404 ff00", "8303 0400", "0189 0304"}) {
    const Bytes bytes = with_options(from_hex(options));
    const auto header = parse(bytes);
    ASSERT_TRUE(header) << options;
    EXPECT_EQ(header->size(), bytes.size());
    EXPECT_EQ(header->payload_size, 0);
    EXPECT_TRUE(std::ranges::equal(header->options, from_hex(options)));
  }
}

TEST(Ipv4, RecognisesSourceRoutesWhereverTheyStand) {
  const auto has = [](const char* options) {
    const Bytes bytes = with_options(from_hex(options));
    return parse(bytes).value().has_source_route();
  };
  EXPECT_TRUE(has("8303 0400"));
  EXPECT_TRUE(has("8903 0400"));
  EXPECT_TRUE(has("9404 0000 0183 0304"));
  EXPECT_FALSE(has("0083 0304")) << "behind the list's end";
  EXPECT_FALSE(has("8804 8304")) << "within an option";
  EXPECT_FALSE(has("0703 0400"));
}

TEST(Ipv4, RefusesFragmentsThatNoDatagramHas) {
  const auto fragment = [](std::uint16_t field, std::uint16_t payload) {
    Bytes bytes = joined(kPlain, Bytes(2000));
    wire::store_be16(&bytes[6], field);
    wire::store_be16(&bytes[2], static_cast<std::uint16_t>(20 + payload));
    return parse(bytes);
  };
  EXPECT_EQ(fragment(0x2000, 12).error(), WireFault::ipv4_fragment_size);
  EXPECT_EQ(fragment(0x2000, 0).error(), WireFault::ipv4_fragment_size);
  EXPECT_EQ(fragment(0x0001, 0).error(), WireFault::ipv4_fragment_size);
  EXPECT_EQ(fragment(0x1fff, 8).error(), WireFault::ipv4_fragment_overrun) << "ping of death";
  EXPECT_EQ(fragment(0x1ffc, 12).error(), WireFault::ipv4_fragment_overrun);
  EXPECT_TRUE(fragment(0x1ffc, 11)) << "65,535 bytes with the header";
  const auto first = fragment(0x2000, 16);
  ASSERT_TRUE(first);
  EXPECT_TRUE(first->is_fragment());
  EXPECT_TRUE(first->more_fragments);
  const auto last = fragment(0x0002, 5);
  ASSERT_TRUE(last);
  EXPECT_TRUE(last->is_fragment());
  EXPECT_EQ(last->fragment_offset, 16);
  EXPECT_FALSE(fragment(0xc000, 5)->is_fragment()) << "the reserved bit means nothing";
}

TEST(Ipv4, VerifiesTheHeadersChecksumAlone) {
  Bytes bytes = from_hex("4500 0073 0000 4000 4011 b861 c0a80001 c0a800c7 ff");
  EXPECT_TRUE(wire::ipv4_checksum_good(std::span(bytes).first(20)));
  for (std::size_t bit = 0; bit < 20 * 8; ++bit) {
    bytes[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
    EXPECT_FALSE(wire::ipv4_checksum_good(std::span(bytes).first(20))) << bit;
    bytes[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
  }
}

TEST(Ipv4, ReadsWhatItWritesWithAGoodChecksum) {
  Random random(seed());
  for (std::uint64_t round = 0; round < scaled(5000); ++round) {
    const Bytes options = random_options(random);
    const Ipv4Header header = random_header(random, options);
    Bytes bytes(header.size());
    ASSERT_EQ(wire::emit_ipv4(header, bytes), header.size());
    ASSERT_TRUE(wire::ipv4_checksum_good(bytes));
    const auto parsed = wire::parse_ipv4(bytes, header.size() + header.payload_size);
    ASSERT_TRUE(parsed);
    ASSERT_EQ(*parsed, header);
  }
}

TEST(Ipv4, WritesAPlainHeaderAsAnyOther) {
  Random random(seed());
  for (std::uint64_t round = 0; round < scaled(20'000); ++round) {
    Ipv4Header header = random_header(random, {});
    header.fragment_offset = 0;
    header.more_fragments = false;
    Bytes expected(Ipv4Header::kMinSize);
    ASSERT_EQ(wire::emit_ipv4(header, expected), expected.size());
    Bytes bytes(expected.size() + 4, std::byte{0x5a});
    wire::emit_plain_ipv4(header, bytes.data());
    ASSERT_EQ(bytes, joined(expected, Bytes(4, std::byte{0x5a}))) << "round " << round;
    ASSERT_TRUE(wire::is_plain_ipv4(bytes.data()));
  }
}

TEST(Ipv4, PadsOptionsToWholeWords) {
  const Bytes alert = from_hex("9404 0000 01");
  const Ipv4Header header{.options = alert};
  Bytes bytes(28, std::byte{0x5a});
  EXPECT_EQ(wire::emit_ipv4(header, bytes), 28U);
  EXPECT_TRUE(std::ranges::equal(parse(bytes)->options, from_hex("9404 0000 0100 0000")));
  EXPECT_TRUE(wire::ipv4_checksum_good(bytes));
}

TEST(Ipv4, AgreesWithTheSlowParserOnAnyBytes) {
  Random random(seed());
  for (std::uint64_t round = 0; round < scaled(50000); ++round) {
    const Bytes options = random_options(random);
    const Ipv4Header header = random_header(random, options);
    Bytes bytes(header.size() + header.payload_size % 100);
    wire::emit_ipv4(header, bytes);
    if (random_bool(random)) {
      wire::store_be16(&bytes[2], static_cast<std::uint16_t>(bytes.size()));
    }
    for (std::uint64_t spoilt = random.below(4); spoilt != 0; --spoilt) {
      bytes[random.below(header.size())] = static_cast<std::byte>(random.next());
    }
    bytes = cut(bytes, random.below(8) == 0 ? random.below(bytes.size() + 1) : bytes.size());
    const std::size_t arrived = bytes.size() + (random_bool(random) ? random.below(1500) : 0);
    const auto expected = slow_answer(bytes, arrived);
    ASSERT_EQ(wire::parse_ipv4(bytes, arrived), expected);
  }
}

}  // namespace
}  // namespace pinion::test
