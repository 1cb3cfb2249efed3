#include <algorithm>
#include <array>

#include <pinion/lib/assert.h>
#include <pinion/net/dpdk_port.h>
#include <rte_ethdev.h>

#include "dpdk_kernel.h"
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

/// Whether filter_packets() has cut it. The tag that DPDK puts back in doesn't make it whole.
bool is_cut(const rte_mbuf& mbuf) noexcept {
  const std::size_t tag = (mbuf.ol_flags & RTE_MBUF_F_RX_VLAN) != 0 ? 4 : 0;
  return mbuf.pkt_len <= detail::kCutFrame + tag;
}

}  // namespace

std::size_t DpdkPort::rx_burst(Instant, std::span<Packet*> into) noexcept {
  std::size_t count = 0;
  std::size_t taken = 0;
  std::size_t most = 0;
  // A short burst tells that there is nothing more, so it must not come from what was cut.
  do {
    std::array<rte_mbuf*, kMostAtOnce> mbufs;
    most = std::min(into.size() - count, kMostAtOnce);
    taken = rte_eth_rx_burst(port_, 0, mbufs.data(), static_cast<std::uint16_t>(most));
    for (rte_mbuf* const mbuf : std::span(mbufs).first(taken)) {
      if (is_cut(*mbuf)) [[unlikely]] {
        ++rx_cut_;
        rx_cut_bytes_ += mbuf->pkt_len;
        rte_pktmbuf_free(mbuf);
        continue;
      }
      into[count] = chain_of(*mbuf, pool_);
      mark(*into[count], mbuf->ol_flags, rx_checksum_flags_);
      ++count;
    }
  } while (taken == most && count < into.size());
  return count;
}

void DpdkPort::on_wait_error() noexcept {
  if (kind_ == PortKind::af_packet) detail::take_error(wait_fd_);
}

/// The kernel's count of a tap begins with the interface, that of a packet socket when it is read.
std::uint64_t DpdkPort::lost_in_kernel() const noexcept {
  if (kind_ == PortKind::af_packet) {
    kernel_drops_ += detail::take_overruns(wait_fd_);
  } else {
    // The interface may have been moved or deleted since.
    const std::uint64_t drops = std::max(detail::unsent_packets(interface_), drops_before_);
    kernel_drops_ = std::max(kernel_drops_, drops - drops_before_);
  }
  return kernel_drops_;
}

DeviceStats DpdkPort::stats() const noexcept {
  rte_eth_stats counted{};
  rte_eth_stats_get(port_, &counted);
  const std::uint64_t lost = counted.imissed + counted.ierrors + counted.rx_nombuf;
  // Tap counts in its oerrors what it leaves to us, which is offered again; af_packet takes it all.
  const std::uint64_t unsent = kind_ == PortKind::af_packet ? counted.oerrors : 0;
  return {.rx_packets = counted.ipackets - rx_cut_,
          .rx_bytes = counted.ibytes - rx_cut_bytes_,
          .rx_dropped = lost + rx_cut_ + lost_in_kernel(),
          .tx_packets = counted.opackets,
          .tx_bytes = counted.obytes,
          .tx_dropped = tx_dropped_ + unsent};
}

}  // namespace pinion
