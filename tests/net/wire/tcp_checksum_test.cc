#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>

#include <pinion/lib/random.h>
#include <pinion/net/packet.h>
#include <pinion/test/packets.h>
#include <pinion/test/seed.h>

#include "tcp_cases.h"
#include "wire/tcp_checksum.h"

namespace pinion::test {
namespace {

IpAddress random_address(Random& random, bool v6) {
  std::array<std::uint8_t, 16> bytes{};
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random.next());
  return v6 ? IpAddress::v6(bytes) : IpAddress::v4({bytes[0], bytes[1], bytes[2], bytes[3]});
}

/// `bytes` in segments of random sizes, odd ones too, the whole header in the first one.
PacketPtr chain_of(PacketPool& pool, std::span<const std::byte> bytes, Random& random) {
  PacketPtr first(pool.allocate());
  Packet* last = first.get();
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t least = at == 0 ? wire::kTcpHeaderSize : 1;
    const auto size = random.between(least, std::max(least, bytes.size() - at));
    std::memcpy(last->append(size), bytes.data() + at, size);
    at += size;
    if (at == bytes.size()) break;
    Packet* const more = pool.allocate();
    last->set_next_segment(more);
    last = more;
  }
  return first;
}

/// A segment with its right checksum, by the slow writer, and its addresses.
struct Case {
  explicit Case(Random& random) {
    const bool v6 = random.chance(0.5);
    source = random_address(random, v6);
    destination = random_address(random, v6);
    Segment segment;
    segment.source_port = segment.destination_port = 7;
    segment.sequence = static_cast<std::uint32_t>(random.next());
    segment.flags = kAck;
    segment.payload.resize(random.below(300));
    for (std::byte& byte : segment.payload) byte = static_cast<std::byte>(random.next());
    const PacketBytes packet = write_packet(source, destination, segment);
    bytes.assign(packet.begin() + (v6 ? 40 : 20), packet.end());
  }

  IpAddress source;
  IpAddress destination;
  PacketBytes bytes;
};

TEST(TcpChecksum, IsThatOfTheSlowWriterOverChainsOfBothFamilies) {
  Random random(seed());
  const TestPool pool;
  for (std::uint64_t i = 0; i < scaled(2'000); ++i) {
    Case given(random);
    const std::array right = {given.bytes[wire::kTcpChecksumOffset],
                              given.bytes[wire::kTcpChecksumOffset + 1]};
    given.bytes[wire::kTcpChecksumOffset] = given.bytes[wire::kTcpChecksumOffset + 1] = {};
    const PacketPtr packet = chain_of(*pool, given.bytes, random);
    wire::store_tcp_checksum(*packet, given.bytes.size(), given.source, given.destination);
    ASSERT_EQ(std::memcmp(packet->data() + wire::kTcpChecksumOffset, right.data(), 2), 0)
        << "case " << i;
    ASSERT_TRUE(
        wire::tcp_checksum_good(*packet, given.bytes.size(), given.source, given.destination));
  }
}

TEST(TcpChecksum, NoticesEveryByteThatChanges) {
  Random random(seed());
  const TestPool pool;
  const Case given(random);
  for (std::size_t at = 0; at < given.bytes.size(); ++at) {
    PacketBytes changed = given.bytes;
    changed[at] ^= static_cast<std::byte>(random.between(1, 255));
    const PacketPtr packet = chain_of(*pool, changed, random);
    ASSERT_FALSE(wire::tcp_checksum_good(*packet, changed.size(), given.source, given.destination))
        << "byte " << at;
  }
}

TEST(TcpChecksum, CoversTheAddresses) {
  Random random(seed());
  const TestPool pool;
  const Case given(random);
  const PacketPtr packet = chain_of(*pool, given.bytes, random);
  const IpAddress other = random_address(random, given.source.is_v6());
  EXPECT_FALSE(wire::tcp_checksum_good(*packet, given.bytes.size(), other, given.destination));
  EXPECT_FALSE(wire::tcp_checksum_good(*packet, given.bytes.size(), given.source, other));
}

// N4: a checksum that its sender has left to a NIC, which would put that of all bytes there.
TEST(TcpChecksum, N4_TellsPartialOnesFromOthers) {
  Random random(seed());
  const TestPool pool;
  for (std::uint64_t i = 0; i < scaled(500); ++i) {
    const Case given(random);
    const std::size_t size = given.bytes.size();
    PacketBytes left = given.bytes;
    std::byte* const field = left.data() + wire::kTcpChecksumOffset;
    const std::uint16_t right = wire::load_be16(field);
    const std::uint16_t partial =
        wire::partial_checksum(given.source, given.destination, wire::kTcpProtocol, size);
    if (right == partial) continue;  // One in 65,536.
    const PacketPtr packet = chain_of(*pool, given.bytes, random);
    EXPECT_FALSE(wire::tcp_checksum_partial(*packet, size, given.source, given.destination));
    wire::store_be16(field, partial);
    EXPECT_EQ(wire::checksum_of(left), right);
    wire::store_be16(packet->data() + wire::kTcpChecksumOffset, partial);
    EXPECT_TRUE(wire::tcp_checksum_partial(*packet, size, given.source, given.destination));
    EXPECT_FALSE(wire::tcp_checksum_good(*packet, size, given.source, given.destination));
  }
}

TEST(TcpChecksum, BelievesTheDevice) {
  Random random(seed());
  const TestPool pool;
  Case given(random);
  given.bytes.back() ^= std::byte{1};
  const PacketPtr packet = chain_of(*pool, given.bytes, random);
  packet->set(PacketMark::transport_checksum_good);
  EXPECT_TRUE(
      wire::tcp_checksum_good(*packet, given.bytes.size(), given.source, given.destination));
}

}  // namespace
}  // namespace pinion::test
