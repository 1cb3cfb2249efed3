#include <gtest/gtest.h>

#include <initializer_list>

#include <pinion/lib/random.h>
#include <pinion/test/seed.h>

#include "tcp_cases.h"

namespace pinion::test {
namespace {

using wire::WireFault;

PacketBytes bytes_of(std::initializer_list<int> values) {
  PacketBytes bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

Segment plain_segment() {
  Segment segment;
  segment.source_port = 0x1234;
  segment.destination_port = 0xabcd;
  segment.sequence = 0x01020304;
  segment.acknowledgment = 0xf1f2f3f4;
  segment.flags = kAck | kPsh;
  segment.window = 0x4567;
  segment.urgent_pointer = 0x89ef;
  segment.payload = bytes_of({1, 2, 3});
  return segment;
}

/// A segment whose options are these bytes and, up to a word, EOL.
PacketBytes with_options(std::initializer_list<int> options) {
  return write_tcp(plain_segment(), {.raw_options = bytes_of(options)});
}

wire::Parsed<wire::TcpOptions> options_in(std::initializer_list<int> options) {
  const auto segment = wire::parse_tcp(with_options(options));
  if (!segment) return tl::unexpected(segment.error());
  return segment->options;
}

WireFault fault_of(std::initializer_list<int> options) {
  const auto segment = wire::parse_tcp(with_options(options));
  EXPECT_FALSE(segment) << "no fault";
  return segment ? WireFault::tcp_truncated : segment.error();
}

TEST(TcpParser, ReadsEveryField) {
  const auto segment = wire::parse_tcp(write_tcp(plain_segment()));
  ASSERT_TRUE(segment);
  EXPECT_EQ(segment->header.source_port, 0x1234);
  EXPECT_EQ(segment->header.destination_port, 0xabcd);
  EXPECT_EQ(segment->header.sequence.value(), 0x01020304U);
  EXPECT_EQ(segment->header.acknowledgment.value(), 0xf1f2f3f4U);
  EXPECT_EQ(segment->header.data_offset, 5);
  EXPECT_EQ(segment->header.flags, wire::TcpFlag::ack | wire::TcpFlag::psh);
  EXPECT_EQ(segment->header.window, 0x4567);
  EXPECT_EQ(segment->header.urgent_pointer, 0x89ef);
  EXPECT_EQ(segment->options, wire::TcpOptions{});
}

TEST(TcpParser, IgnoresTheReservedBits) {
  PacketBytes bytes = write_tcp(plain_segment());
  const auto before = wire::parse_tcp(bytes);
  bytes[12] |= std::byte{0x0f};
  EXPECT_EQ(wire::parse_tcp(bytes), before);
}

TEST(TcpParser, RefusesWhatEndsWithinTheHeaderAtEveryByte) {
  const PacketBytes bytes = with_options({8, 10, 1, 2, 3, 4, 5, 6, 7, 8, 1, 1});
  for (std::size_t size = 0; size < 32; ++size) {
    // In a block of its own, so that AddressSanitizer sees who reads on.
    const PacketBytes front(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
    const auto segment = wire::parse_tcp(front);
    ASSERT_FALSE(segment) << size;
    const WireFault fault = size < 20 ? WireFault::tcp_truncated : WireFault::tcp_header_length;
    EXPECT_EQ(segment.error(), fault) << size;
  }
  EXPECT_TRUE(wire::parse_tcp(std::span(bytes).first(32)));
}

TEST(TcpParser, RefusesEveryWrongDataOffset) {
  const PacketBytes payload(16);
  for (std::uint8_t words = 0; words < 16; ++words) {
    Segment segment = plain_segment();
    segment.payload = payload;  // 36 bytes: up to 9 words may be the header.
    const auto parsed = wire::parse_tcp(write_tcp(segment, {.data_offset = words}));
    const bool right = words >= 5 && words <= 9;
    ASSERT_EQ(parsed.has_value(), right) << int{words};
    EXPECT_TRUE(right || parsed.error() == WireFault::tcp_header_length);
  }
}

TEST(TcpParser, RefusesPortZero) {
  Segment segment = plain_segment();
  segment.source_port = 0;
  EXPECT_EQ(wire::parse_tcp(write_tcp(segment)).error(), WireFault::tcp_port);
  segment = plain_segment();
  segment.destination_port = 0;
  EXPECT_EQ(wire::parse_tcp(write_tcp(segment)).error(), WireFault::tcp_port);
}

TEST(TcpParser, RefusesSynWithFinOrRstAndTakesAllOtherFlags) {
  for (unsigned flags = 0; flags < 256; ++flags) {
    Segment segment = plain_segment();
    segment.flags = static_cast<std::uint8_t>(flags);
    const auto parsed = wire::parse_tcp(write_tcp(segment));
    const bool contradict = (flags & 2U) != 0 && (flags & 5U) != 0;
    ASSERT_EQ(parsed.has_value(), !contradict) << flags;
    if (parsed) {
      ASSERT_EQ(parsed->header.flags.bits(), flags);
    } else {
      ASSERT_EQ(parsed.error(), WireFault::tcp_flags);
    }
  }
}

TEST(TcpParser, ReadsTheOptionsOfASyn) {
  const auto options = options_in({2, 4, 5, 0xb4, 4, 2, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8, 1, 3, 3, 7});
  ASSERT_TRUE(options);
  EXPECT_EQ(options->mss, 1460);
  EXPECT_TRUE(options->sack_permitted);
  EXPECT_EQ(options->timestamps, (wire::TcpTimestamps{0x01020304, 0x05060708}));
  EXPECT_EQ(options->window_scale, 7);
  EXPECT_TRUE(options->sack.empty());
}

TEST(TcpParser, ReadsTimestampsWhateverStandsAround) {
  const wire::TcpTimestamps timestamps{0x01020304, 0x05060708};
  EXPECT_EQ(options_in({1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8})->timestamps, timestamps);
  EXPECT_EQ(options_in({8, 10, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0})->timestamps, timestamps);
  EXPECT_EQ(options_in({8, 10, 1, 2, 3, 4, 5, 6, 7, 8, 1, 1})->timestamps, timestamps);
  EXPECT_EQ(options_in({1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8, 1})->timestamps, timestamps);
  EXPECT_EQ(options_in({30, 3, 9, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8})->timestamps, timestamps);
}

TEST(TcpParser, ReadsOneToFourSackBlocks) {
  for (int count = 1; count <= 4; ++count) {
    Segment segment = plain_segment();
    SegmentOption& sack = segment.options.emplace_back();
    sack.kind = kOptionSack;
    for (int i = 0; i < 8 * count; ++i) sack.data.push_back(static_cast<std::byte>(i + 1));
    const auto parsed = wire::parse_tcp(write_tcp(segment));
    ASSERT_TRUE(parsed);
    ASSERT_EQ(parsed->options.sack.size(), static_cast<std::size_t>(count));
    EXPECT_EQ(parsed->options.sack[0].left.value(), 0x01020304U);
    EXPECT_EQ(parsed->options.sack[0].right.value(), 0x05060708U);
    EXPECT_EQ(difference(write_tcp(segment)), "");
  }
}

TEST(TcpParser, TakesAWindowScaleAboveFourteenAsFourteen) {
  EXPECT_EQ(options_in({3, 3, 14})->window_scale, 14);
  EXPECT_EQ(options_in({3, 3, 15})->window_scale, 14);
  EXPECT_EQ(options_in({3, 3, 255})->window_scale, 14);
}

TEST(TcpParser, SkipsUnknownOptionsByTheirLength) {
  EXPECT_EQ(options_in({253, 4, 2, 4, 2, 4, 0, 99})->mss, 99);
  EXPECT_EQ(options_in({6, 2, 7, 2, 2, 4, 0, 99})->mss, 99);
  EXPECT_EQ(*options_in({19, 18, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}),
            wire::TcpOptions{});
}

TEST(TcpParser, StopsAtTheEndOfTheList) {
  EXPECT_FALSE(options_in({0, 2, 4, 0})->mss);
  EXPECT_EQ(options_in({2, 4, 0, 99, 0, 8, 0, 1})->mss, 99);
  EXPECT_EQ(*options_in({0, 255, 255, 255}), wire::TcpOptions{});
}

TEST(TcpParser, TakesTheLastOfTwo) {
  EXPECT_EQ(options_in({2, 4, 0, 1, 2, 4, 0, 2})->mss, 2);
}

TEST(TcpParser, RefusesLengthsBelowTwo) {
  for (int kind = 2; kind < 256; ++kind) {
    EXPECT_EQ(fault_of({kind, 0, 0, 0}), WireFault::tcp_option_length) << kind;
    EXPECT_EQ(fault_of({kind, 1, 0, 0}), WireFault::tcp_option_length) << kind;
  }
}

TEST(TcpParser, RefusesLengthsPastTheEnd) {
  for (int kind = 2; kind < 256; ++kind) {
    EXPECT_EQ(fault_of({kind, 5, 0, 0}), WireFault::tcp_option_overrun) << kind;
    EXPECT_EQ(fault_of({kind, 255, 0, 0}), WireFault::tcp_option_overrun) << kind;
    EXPECT_EQ(fault_of({1, 1, 1, kind}), WireFault::tcp_option_overrun) << kind;
  }
}

TEST(TcpParser, RefusesEveryWrongLengthOfAKnownOption) {
  for (const int kind : {2, 3, 4, 5, 8}) {
    for (int size = 2; size <= 40; ++size) {
      PacketBytes options(40, std::byte{1});
      options[0] = static_cast<std::byte>(kind);
      options[1] = static_cast<std::byte>(size);
      const PacketBytes bytes = write_tcp(plain_segment(), {.raw_options = options});
      const bool right = kind == 2   ? size == 4
                         : kind == 3 ? size == 3
                         : kind == 4 ? size == 2
                         : kind == 8 ? size == 10
                                     : size == 10 || size == 18 || size == 26 || size == 34;
      const auto parsed = wire::parse_tcp(bytes);
      ASSERT_EQ(parsed.has_value(), right) << kind << " of " << size;
      ASSERT_TRUE(right || parsed.error() == WireFault::tcp_option_length);
      ASSERT_EQ(difference(bytes), "");
    }
  }
}

TEST(TcpParser, AgreesWithTheSlowReaderOnRandomBytes) {
  Random random(seed());
  for (std::uint64_t i = 0; i < scaled(50'000); ++i) {
    PacketBytes bytes(random.below(70));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next());
    // Mostly a data offset that may be, and options of small numbers: else little is reached.
    if (bytes.size() > 20 && random.chance(0.9)) {
      bytes[12] = static_cast<std::byte>((5 + random.below(bytes.size() / 4 - 4)) << 4);
      bytes[13] &= std::byte{0xf8};
      for (std::size_t at = 20; at < bytes.size(); ++at) {
        if (random.chance(0.8)) bytes[at] = static_cast<std::byte>(random.below(12));
      }
    }
    ASSERT_EQ(difference(bytes), "") << "case " << i;
  }
}

}  // namespace
}  // namespace pinion::test
