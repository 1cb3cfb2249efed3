#include <gtest/gtest.h>

#include <algorithm>

#include <pinion/lib/random.h>
#include <pinion/test/seed.h>

#include "tcp_cases.h"

namespace pinion::test {
namespace {

using wire::SequenceNumber;
using wire::TcpOptions;

PacketBytes emitted(const wire::TcpSegment& segment) {
  PacketBytes bytes(60, std::byte{0xee});
  bytes.resize(wire::emit_tcp(bytes, segment.header, segment.options));
  return bytes;
}

/// What is behind the header, as numbers.
std::vector<int> option_bytes(const TcpOptions& options) {
  wire::TcpHeader header;
  header.source_port = header.destination_port = 1;
  const PacketBytes bytes = emitted({header, options});
  std::vector<int> numbers;
  for (std::size_t at = 20; at < bytes.size(); ++at) {
    numbers.push_back(std::to_integer<int>(bytes[at]));
  }
  return numbers;
}

TEST(TcpEmitter, IsReadBackAsItWas) {
  Random random(seed());
  for (std::uint64_t i = 0; i < scaled(50'000); ++i) {
    const wire::TcpSegment segment = random_segment(random);
    const PacketBytes bytes = emitted(segment);
    const auto parsed = wire::parse_tcp(bytes);
    ASSERT_TRUE(parsed) << "case " << i << ": " << to_string(parsed.error());
    ASSERT_EQ(*parsed, segment) << "case " << i;
    ASSERT_EQ(difference(bytes), "") << "case " << i;
  }
}

TEST(TcpEmitter, WritesWholeWordsAndNothingBehindThem) {
  Random random(seed());
  for (std::uint64_t i = 0; i < scaled(5'000); ++i) {
    const wire::TcpSegment segment = random_segment(random);
    PacketBytes bytes(80, std::byte{0xee});
    const std::size_t size = wire::emit_tcp(bytes, segment.header, segment.options);
    ASSERT_EQ(size % 4, 0U);
    ASSERT_EQ(size, wire::kTcpHeaderSize + wire::tcp_options_size(segment.options));
    ASSERT_TRUE(std::all_of(bytes.begin() + static_cast<std::ptrdiff_t>(size), bytes.end(),
                            [](std::byte byte) { return byte == std::byte{0xee}; }));
  }
}

TEST(TcpEmitter, LaysOutASynAsOthersDo) {
  TcpOptions options;
  options.mss = 1460;
  options.sack_permitted = true;
  options.timestamps = {0x01020304, 0};
  options.window_scale = 7;
  EXPECT_EQ(option_bytes(options),
            (std::vector<int>{2, 4, 5, 0xb4, 4, 2, 8, 10, 1, 2, 3, 4, 0, 0, 0, 0, 1, 3, 3, 7}));
  options.timestamps.reset();
  EXPECT_EQ(option_bytes(options), (std::vector<int>{2, 4, 5, 0xb4, 1, 1, 4, 2, 1, 3, 3, 7}));
}

TEST(TcpEmitter, LaysOutTimestampsForTheFastPath) {
  TcpOptions options;
  options.timestamps = {0x01020304, 0x05060708};
  EXPECT_EQ(option_bytes(options), (std::vector<int>{1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8}));
}

TEST(TcpEmitter, LaysOutSackBlocksBehindTimestamps) {
  TcpOptions options;
  options.timestamps = {1, 2};
  options.sack.push_back({SequenceNumber(0x0a0b0c0d), SequenceNumber(0x0a0b0c0e)});
  EXPECT_EQ(option_bytes(options),
            (std::vector<int>{1, 1, 8, 10, 0,    0,    0,    1,    0,    0,    0,    2,
                              1, 1, 5, 10, 0x0a, 0x0b, 0x0c, 0x0d, 0x0a, 0x0b, 0x0c, 0x0e}));
}

TEST(TcpEmitter, FillsAHeaderWithThreeBlocksBesideTimestampsAndFourWithout) {
  TcpOptions options;
  options.timestamps = {1, 2};
  for (int i = 0; i < 3; ++i) options.sack.push_back({});
  EXPECT_EQ(wire::tcp_options_size(options), wire::kTcpMaxOptionsSize);
  options.timestamps.reset();
  options.sack.push_back({});
  EXPECT_EQ(wire::tcp_options_size(options), 36U);
}

TEST(TcpEmitter, WritesAPlainHeaderAsAnyOther) {
  Random random(seed());
  for (std::uint64_t i = 0; i < scaled(20'000); ++i) {
    wire::TcpSegment segment = random_segment(random);
    const bool with_timestamps = random.chance(0.5);
    const wire::TcpTimestamps timestamps{.value = static_cast<std::uint32_t>(random.next()),
                                         .echo_reply = static_cast<std::uint32_t>(random.next())};
    segment.options = {};
    if (with_timestamps) segment.options.timestamps = timestamps;
    const PacketBytes expected = emitted(segment);
    PacketBytes bytes(expected.size() + 4, std::byte{0x5a});
    ASSERT_EQ(wire::plain_tcp_size(with_timestamps), expected.size());
    wire::emit_plain_tcp(segment.header, with_timestamps ? &timestamps : nullptr, bytes.data());
    ASSERT_TRUE(std::equal(expected.begin(), expected.end(), bytes.begin())) << "case " << i;
    ASSERT_TRUE(std::all_of(bytes.end() - 4, bytes.end(),
                            [](std::byte byte) { return byte == std::byte{0x5a}; }));
  }
}

TEST(TcpEmitter, LeavesTheChecksumZero) {
  Random random(seed());
  const PacketBytes bytes = emitted(random_segment(random));
  EXPECT_EQ(bytes[16], std::byte{0});
  EXPECT_EQ(bytes[17], std::byte{0});
}

using TcpEmitterDeathTest = testing::Test;

TEST(TcpEmitterDeathTest, RefusesOptionsThatDoNotFit) {
  TcpOptions options;
  options.timestamps = {1, 2};
  for (int i = 0; i < 4; ++i) options.sack.push_back({});
  PacketBytes bytes(80);
  EXPECT_DEATH(wire::emit_tcp(bytes, {}, options), "options_size <= kTcpMaxOptionsSize");
}

TEST(TcpEmitterDeathTest, RefusesTooLittleRoom) {
  PacketBytes bytes(19);
  EXPECT_DEATH(wire::emit_tcp(bytes, {}, {}), "size <= to.size");
}

}  // namespace
}  // namespace pinion::test
