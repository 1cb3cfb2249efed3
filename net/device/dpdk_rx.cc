#include <algorithm>
#include <array>

#include <pinion/lib/assert.h>
#include <pinion/net/dpdk_port.h>
#include <rte_ethdev.h>

#include "dpdk_mbuf.h"

namespace pinion {
namespace {

/// The packet of an mbuf's whole chain.
Packet* chain_of(rte_mbuf& first, PacketPool& pool) noexcept {
  Packet& head = detail::make_packet(first, pool);
  Packet* last = &head;
  for (rte_mbuf* at = first.next; at != nullptr; at = at->next) {
    Packet& behind = detail::make_packet(*at, pool);
    last->set_next_segment(&behind);
    last = &behind;
  }
  return &head;
}

/// What the port was asked to verify and says is good. Without having been asked, or with another
/// word, it is unknown.
void mark(Packet& packet, std::uint64_t flags, std::uint64_t asked) noexcept {
  const bool ip = (asked & RTE_ETH_RX_OFFLOAD_IPV4_CKSUM) != 0;
  const bool transport =
      (asked & RTE_ETH_RX_OFFLOAD_TCP_CKSUM) != 0 && (asked & RTE_ETH_RX_OFFLOAD_UDP_CKSUM) != 0;
  if (ip && (flags & RTE_MBUF_F_RX_IP_CKSUM_MASK) == RTE_MBUF_F_RX_IP_CKSUM_GOOD) {
    packet.set(PacketMark::ip_checksum_good);
  }
  if (transport && (flags & RTE_MBUF_F_RX_L4_CKSUM_MASK) == RTE_MBUF_F_RX_L4_CKSUM_GOOD) {
    packet.set(PacketMark::transport_checksum_good);
  }
}

}  // namespace

std::size_t DpdkPort::rx_burst(Instant, std::span<Packet*> into) noexcept {
  std::array<rte_mbuf*, kMostAtOnce> mbufs;
  const std::size_t most = std::min(into.size(), kMostAtOnce);
  const std::size_t count =
      rte_eth_rx_burst(port_, 0, mbufs.data(), static_cast<std::uint16_t>(most));
  for (std::size_t i = 0; i < count; ++i) {
    into[i] = chain_of(*mbufs[i], pool_);
    mark(*into[i], mbufs[i]->ol_flags, rx_checksum_flags_);
  }
  return count;
}

DeviceStats DpdkPort::stats() const noexcept {
  rte_eth_stats counted{};
  rte_eth_stats_get(port_, &counted);
  // Not its oerrors: most drivers count there what they leave to us, and are offered again.
  return {.rx_packets = counted.ipackets,
          .rx_bytes = counted.ibytes,
          .rx_dropped = counted.imissed + counted.ierrors + counted.rx_nombuf,
          .tx_packets = counted.opackets,
          .tx_bytes = counted.obytes,
          .tx_dropped = tx_dropped_};
}

}  // namespace pinion
