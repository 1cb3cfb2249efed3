#include <algorithm>
#include <array>
#include <optional>

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
  // Fewer connections stay in the cache.
  constexpr std::size_t kLeastConnections = 4'096;
  constexpr std::size_t kAtOnce = 64;
  if (connections_.size() < kLeastConnections) return;
  while (burst.size() > 1) {
    const std::span some = burst.first(std::min(burst.size(), kAtOnce));
    std::array<std::optional<std::uint64_t>, kAtOnce> hashes;
    for (std::size_t i = 0; i < some.size(); ++i) {
      const std::span bytes = std::as_const(*some[i]).bytes();
      if (bytes.size() < link_header) continue;
      hashes[i] = hash_of(table_secret_, bytes.subspan(link_header));
      if (hashes[i]) table_.prefetch(*hashes[i]);
    }
    for (std::size_t i = 0; i < some.size(); ++i) {
      if (!hashes[i]) continue;
      if (const auto index = table_.likely(*hashes[i])) connections_.prefetch(*index);
    }
    burst = burst.subspan(some.size());
  }
}

}  // namespace pinion
