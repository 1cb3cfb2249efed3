#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <rte_mbuf.h>

#include <pinion/net/packet.h>

/// A packet lies in its mbuf's private area. They describe the same buffer: DPDK's side by data_off
/// and data_len, ours by the packet, and whoever hands over brings the other side up to date.
///
/// The reference count is the mbuf's refcnt, so that a device which sends a segment that the stack
/// holds too leaves it alone. DPDK changes that atomically where it is above one, we don't: a
/// segment is on one thread at a time.

namespace pinion::detail {

static_assert(sizeof(rte_mbuf) % alignof(Packet) == 0);
static_assert(sizeof(Packet) % RTE_MBUF_PRIV_ALIGN == 0);
static_assert(kPacketHeadroom == RTE_PKTMBUF_HEADROOM);

[[nodiscard]] inline Packet& packet_of(rte_mbuf& mbuf) noexcept {
  return *static_cast<Packet*>(rte_mbuf_to_priv(&mbuf));
}

[[nodiscard]] inline rte_mbuf& mbuf_of(Packet& packet) noexcept {
  return *reinterpret_cast<rte_mbuf*>(reinterpret_cast<std::byte*>(&packet) - sizeof(rte_mbuf));
}

/// The packet of an mbuf that DPDK has filled or allocated, of one segment, with the window that
/// the mbuf says. Made anew each time: what was there before may be gone without a word to us,
/// since drivers free and fill mbufs by themselves.
inline Packet& make_packet(rte_mbuf& mbuf, PacketPool& pool) noexcept {
  const std::span buffer(static_cast<std::byte*>(mbuf.buf_addr), mbuf.buf_len);
  Packet* const packet =
      std::construct_at(&packet_of(mbuf), pool, mbuf.refcnt, buffer, mbuf.data_off);
  packet->reset(buffer, mbuf.data_off, mbuf.data_len);
  return *packet;
}

/// The other way: the mbuf's window becomes that of its packet.
inline void set_window(rte_mbuf& mbuf, const Packet& packet) noexcept {
  mbuf.data_off =
      static_cast<std::uint16_t>(packet.data() - static_cast<std::byte*>(mbuf.buf_addr));
  mbuf.data_len = static_cast<std::uint16_t>(packet.size());
}

}  // namespace pinion::detail
