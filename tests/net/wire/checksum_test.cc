#include "wire/checksum.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include <pinion/test/seed.h>

#include "wire/byte_order.h"
#include "wire_support.h"

namespace pinion::test {
namespace {

using wire::InternetChecksum;

/// RFC 1071, as its first page has it.
std::uint16_t slow_checksum(std::span<const std::byte> bytes) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const auto byte = std::to_integer<std::uint32_t>(bytes[i]);
    sum += i % 2 == 0 ? byte << 8 : byte;
    if (sum > 0xffff) sum -= 0xffff;
  }
  return static_cast<std::uint16_t>(0xffff - sum);
}

/// Random bytes, and the ones whose sums carry most and least.
Bytes bytes_of_kind(Random& random, std::size_t size) {
  switch (random.below(4)) {
    case 0:
      return Bytes(size, std::byte{0xff});
    case 1:
      return Bytes(size, std::byte{0});
    default:
      return random_bytes(random, size);
  }
}

IpAddress random_ip(Random& random, bool v4) {
  if (v4) return IpAddress::v4(random_address<std::array<std::uint8_t, 4>>(random));
  return IpAddress::v6(random_address<std::array<std::uint8_t, 16>>(random));
}

/// RFC 9293, 3.1 and RFC 8200, 8.1.
Bytes pseudo_header(const IpAddress& source, const IpAddress& destination, std::uint8_t protocol,
                    std::size_t size) {
  Bytes bytes;
  const std::size_t address_size = source.is_v4() ? 4 : 16;
  for (const IpAddress& address : {source, destination}) {
    for (std::size_t i = 0; i < address_size; ++i) bytes.push_back(std::byte{address.bytes()[i]});
  }
  std::array<std::byte, 8> rest{};
  if (source.is_v4()) {
    rest[1] = std::byte{protocol};
    wire::store_be16(&rest[2], static_cast<std::uint16_t>(size));
    return joined(bytes, std::span(rest).first(4));
  }
  wire::store_be32(rest.data(), static_cast<std::uint32_t>(size));
  rest[7] = std::byte{protocol};
  return joined(bytes, rest);
}

TEST(InternetChecksum, AgreesWithTheExampleOfTheRfc) {
  const Bytes bytes = from_hex("0001 f203 f4f5 f6f7");
  EXPECT_EQ(wire::checksum_of(bytes), 0x220d);
  EXPECT_EQ(slow_checksum(bytes), 0x220d);
}

TEST(InternetChecksum, IsAllOnesOfNothing) {
  EXPECT_EQ(wire::checksum_of({}), 0xffff);
  EXPECT_EQ(InternetChecksum().value(), 0xffff);
}

TEST(InternetChecksum, AgreesWithTheSlowOneAtEachSizeAndAlignment) {
  Random random(seed());
  for (std::size_t size = 0; size < 200; ++size) {
    for (std::size_t offset = 0; offset < 9; ++offset) {
      const Bytes bytes = bytes_of_kind(random, offset + size);
      const auto piece = std::span<const std::byte>(bytes).subspan(offset);
      ASSERT_EQ(wire::checksum_of(piece), slow_checksum(piece)) << size << " at " << offset;
    }
  }
}

/// Wherever a cache line begins. What lies around the bytes differs from them, so that one too many
/// shows, also of ones or zeros.
TEST(InternetChecksum, AgreesWithTheSlowOneOfEachSizeOfAPacketAtEachPlaceInALine) {
  constexpr std::size_t kMost = 4'096;
  constexpr std::size_t kLine = 64;
  struct alignas(kLine) Line {
    std::array<std::byte, kLine> bytes;
  };
  Random random(seed());
  std::vector<Line> lines(kMost / kLine + 3);
  const std::span<std::byte> room(lines[0].bytes.data(), lines.size() * kLine);
  const Bytes noise = random_bytes(random, room.size());
  for (const int kind : {0x00, 0xff, -1}) {
    for (std::size_t offset = 0; offset < kLine; ++offset) {
      std::ranges::copy(noise, room.begin());
      const auto bytes = room.subspan(kLine + offset, kMost);
      if (kind >= 0) std::ranges::fill(bytes, static_cast<std::byte>(kind));
      // The sum of each size from that of the one before.
      std::uint32_t sum = 0;
      for (std::size_t size = 0; size <= kMost; ++size) {
        const auto piece = std::span<const std::byte>(bytes).first(size);
        ASSERT_EQ(wire::checksum_of(piece), 0xffff - sum)
            << size << " of kind " << kind << " at " << offset << ", PINION_SEED=" << seed();
        if (size == kMost) break;
        const auto byte = std::to_integer<std::uint32_t>(bytes[size]);
        sum += size % 2 == 0 ? byte << 8 : byte;
        if (sum > 0xffff) sum -= 0xffff;
      }
    }
  }
}

TEST(InternetChecksum, AgreesWithTheSlowOneOnWhatIsLargest) {
  Random random(seed());
  for (const std::size_t size : {65534U, 65535U, 65536U, 1U << 20}) {
    for (const std::byte byte : {std::byte{0xff}, std::byte{0}}) {
      const Bytes same(size, byte);
      ASSERT_EQ(wire::checksum_of(same), slow_checksum(same)) << size;
    }
    for (std::size_t offset = 0; offset < 64; offset += 7) {
      const Bytes bytes = random_bytes(random, offset + size);
      const auto piece = std::span<const std::byte>(bytes).subspan(offset);
      ASSERT_EQ(wire::checksum_of(piece), slow_checksum(piece)) << size << " at " << offset;
    }
  }
}

TEST(InternetChecksum, CarriesWhatComesOfCarrying) {
  // Words of 64 bits: all ones twice and a one, in either byte order. The sum's lower half is all
  // ones and a carry waits to be added to it.
  for (const char* const last : {"0100 0000 0000 0000", "0000 0000 0000 0001"}) {
    const Bytes bytes = joined(Bytes(16, std::byte{0xff}), from_hex(last));
    EXPECT_EQ(wire::checksum_of(bytes), slow_checksum(bytes)) << last;
  }
}

TEST(InternetChecksum, IsTheSameHoweverTheBytesAreCut) {
  Random random(seed());
  for (std::uint64_t round = 0; round < scaled(2000); ++round) {
    const Bytes bytes = bytes_of_kind(random, random.below(300));
    std::span<const std::byte> rest = bytes;
    InternetChecksum sum;
    for (const std::size_t part : random_parts(random, bytes.size())) {
      sum.add(rest.first(part));
      rest = rest.subspan(part);
    }
    ASSERT_EQ(sum.value(), slow_checksum(bytes));
  }
}

TEST(InternetChecksum, SumsAChainAndStopsWhereItIsTold) {
  Random random(seed());
  for (std::uint64_t round = 0; round < scaled(2000); ++round) {
    const Bytes bytes = bytes_of_kind(random, random.below(300));
    const auto parts = random_parts(random, bytes.size());
    Chain chain(bytes, parts);
    const std::size_t size = random.below(bytes.size() + 1);
    InternetChecksum sum;
    sum.add(chain.first(), size);
    ASSERT_EQ(sum.value(), slow_checksum(std::span(bytes).first(size)));
  }
}

TEST(InternetChecksum, CopiesWhatItSumsAndNothingElse) {
  Random random(seed());
  for (std::size_t size = 0; size < 150; ++size) {
    const std::size_t offset = random.below(8);
    const Bytes bytes = random_bytes(random, size);
    Bytes into(offset + size + 8, std::byte{0x5a});
    InternetChecksum sum;
    sum.add_copied(into.data() + offset, bytes);
    ASSERT_EQ(sum.value(), slow_checksum(bytes));
    const Bytes before(offset, std::byte{0x5a});
    const Bytes after(8, std::byte{0x5a});
    ASSERT_EQ(into, joined(joined(before, bytes), after));
  }
}

TEST(InternetChecksum, GoesOnBehindACopyOfOddSize) {
  const Bytes bytes = from_hex("01 02 03 04 05 06 07");
  Bytes into(7);
  InternetChecksum sum;
  sum.add_copied(into.data(), std::span(bytes).first(3));
  sum.add_copied(into.data() + 3, std::span(bytes).subspan(3));
  EXPECT_EQ(sum.value(), slow_checksum(bytes));
  EXPECT_EQ(into, bytes);
}

TEST(InternetChecksum, AddsFieldsAsIfTheyWereBytes) {
  Random random(seed());
  for (int round = 0; round < 200; ++round) {
    const Bytes bytes = random_bytes(random, 22);
    InternetChecksum sum;
    sum.add_words<2>(bytes.data());
    sum.add_half_word(bytes.data() + 16);
    sum.add_be16(wire::load_be16(bytes.data() + 20));
    ASSERT_EQ(sum.value(), slow_checksum(bytes));
  }
}

TEST(InternetChecksum, CoversThePseudoHeaderOfEitherFamily) {
  Random random(seed());
  for (std::uint64_t round = 0; round < scaled(2000); ++round) {
    const bool v4 = random_bool(random);
    const IpAddress source = random_ip(random, v4);
    const IpAddress destination = random_ip(random, v4);
    const auto protocol = random_number<std::uint8_t>(random);
    const Bytes bytes = random_bytes(random, random.below(100));
    Chain chain(bytes, random_parts(random, bytes.size()));
    const Bytes pseudo = pseudo_header(source, destination, protocol, bytes.size());
    ASSERT_EQ(wire::transport_checksum(chain.first(), bytes.size(), source, destination, protocol),
              slow_checksum(joined(pseudo, bytes)));
  }
}

TEST(InternetChecksum, CountsTheUpperHalfOfALengthOver65535) {
  Random random(seed());
  const IpAddress source = random_ip(random, false);
  InternetChecksum sum;
  sum.add_pseudo_header(source, source, 6, 0x12345);
  EXPECT_EQ(sum.value(), slow_checksum(pseudo_header(source, source, 6, 0x12345)));
}

TEST(InternetChecksum, IsZeroOverBytesThatHoldIt) {
  Random random(seed());
  for (int round = 0; round < 500; ++round) {
    Bytes bytes = random_bytes(random, 2 + random.below(100));
    wire::store_be16(bytes.data(), 0);
    wire::store_be16(bytes.data(), wire::checksum_of(bytes));
    ASSERT_EQ(wire::checksum_of(bytes), 0);
    const std::size_t spoilt = random.below(bytes.size());
    bytes[spoilt] ^= static_cast<std::byte>(1U << random.below(8));
    ASSERT_NE(wire::checksum_of(bytes), 0) << "one bit at " << spoilt;
  }
}

TEST(UpdatedChecksum, AgreesWithTheExampleOfTheRfc) {
  EXPECT_EQ(wire::updated_checksum(0xdd2f, 0x5555, 0x3285), 0x0000) << "RFC 1624, 4";
}

TEST(UpdatedChecksum, AgreesWithSummingAgain) {
  Random random(seed());
  constexpr std::array<std::uint16_t, 6> kEdges = {0, 1, 0x7fff, 0x8000, 0xfffe, 0xffff};
  for (std::uint64_t round = 0; round < scaled(20000); ++round) {
    // The last word is no zero, so that the sum isn't: of all zeros there are two checksums.
    Bytes bytes = bytes_of_kind(random, 12);
    bytes.back() = std::byte{1};
    const bool edges = random_bool(random);
    const std::uint16_t before = wire::load_be16(&bytes[4]);
    const auto after =
        edges ? kEdges[random.below(kEdges.size())] : random_number<std::uint16_t>(random);
    const std::uint16_t old_checksum = slow_checksum(bytes);
    wire::store_be16(&bytes[4], after);
    const std::uint16_t updated = wire::updated_checksum(old_checksum, before, after);
    ASSERT_EQ(updated, slow_checksum(bytes)) << before << " to " << after;
    const std::uint32_t wide_before = wire::load_be32(&bytes[4]);
    const auto wide_after = random_number<std::uint32_t>(random);
    wire::store_be32(&bytes[4], wide_after);
    ASSERT_EQ(wire::updated_checksum32(updated, wide_before, wide_after), slow_checksum(bytes));
  }
}

}  // namespace
}  // namespace pinion::test
