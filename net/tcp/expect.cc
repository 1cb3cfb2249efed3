#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "packet_tuple.h"
#include "tcp.h"

/// What a burst will look at, asked for before it comes, so that its cache misses overlap.

namespace pinion {
namespace {

/// The connection that the segment in an IP packet is of, if its headers are like most; nothing of
/// it was checked.
std::optional<std::uint64_t> hash_of(const SipKey& key,
                                     std::span<const std::byte> packet) noexcept {
  const std::byte* const at = packet.data();
  constexpr std::size_t kV4 = wire::Ipv4Header::kMinSize;
  constexpr std::size_t kV6 = wire::Ipv6Header::kSize;
  constexpr auto kTcp = static_cast<std::uint8_t>(IpProtocol::tcp);
  if (packet.size() >= kV4 + kPortsSize && wire::load_u8(at) == 0x45) {
    if (wire::load_u8(at + 9) != kTcp) return std::nullopt;
    return table_hash(key, tuple_of_v4(at));
  }
  if (packet.size() < kV6 + kPortsSize || wire::load_u8(at) >> 4 != 6) return std::nullopt;
  if (wire::load_u8(at + 6) != kTcp) return std::nullopt;
  return table_hash(key, tuple_of_v6(at));
}

}  // namespace

/// In two passes: the table's lines for all, then the connections that these name.
void Tcp::expect(std::span<Packet* const> burst, std::size_t link_header) noexcept {
  // Fewer connections stay in the cache, and fewer packets have few misses to overlap.
  constexpr std::size_t kLeastConnections = 4'096;
  constexpr std::size_t kLeastPackets = 4;
  constexpr std::size_t kAtOnce = 64;
  if (connections_.size() < kLeastConnections) return;
  while (burst.size() >= kLeastPackets) {
    const std::span some = burst.first(std::min(burst.size(), kAtOnce));
    std::array<std::uint64_t, kAtOnce> hashes;
    std::size_t count = 0;
    for (const Packet* const packet : some) {
      if (packet->size() < link_header) continue;
      const auto hash = hash_of(table_secret_, packet->bytes().subspan(link_header));
      if (!hash) continue;
      table_.prefetch(*hash);
      hashes[count++] = *hash;
    }
    for (const std::uint64_t hash : std::span(hashes).first(count)) {
      if (const auto index = table_.likely(hash)) connections_.prefetch(*index);
    }
    burst = burst.subspan(some.size());
  }
}

}  // namespace pinion
