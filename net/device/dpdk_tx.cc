#include <algorithm>
#include <array>
#include <cstring>

#include <pinion/lib/assert.h>
#include <pinion/net/dpdk_port.h>
#include <rte_ethdev.h>

#include "dpdk_mbuf.h"

namespace pinion {
namespace {

constexpr std::size_t kLeastFrame = 14;  // Ethernet's header. A shorter one no port ever takes.

struct Shape {
  std::size_t size = 0;
  std::size_t segments = 0;
  bool all_of_pool = true;
};

Shape shape_of(const Packet& head, const PacketPool& pool) noexcept {
  Shape shape;
  for (const Packet* at = &head; at != nullptr; at = at->next_segment()) {
    shape.size += at->size();
    ++shape.segments;
    shape.all_of_pool = shape.all_of_pool && &at->pool() == &pool;
  }
  return shape;
}

/// Links the mbufs of a chain as its packets are linked, which may have changed since they came or
/// since they were offered last.
rte_mbuf* link(Packet& head, const Shape& shape) noexcept {
  rte_mbuf& first = detail::mbuf_of(head);
  detail::set_window(first, head);
  rte_mbuf* last = &first;
  for (Packet* at = head.next_segment(); at != nullptr; at = at->next_segment()) {
    rte_mbuf& mbuf = detail::mbuf_of(*at);
    detail::set_window(mbuf, *at);
    last->next = &mbuf;
    last = &mbuf;
  }
  last->next = nullptr;
  first.pkt_len = static_cast<std::uint32_t>(shape.size);
  first.nb_segs = static_cast<std::uint16_t>(shape.segments);
  first.ol_flags &= RTE_MBUF_F_INDIRECT;  // What was said of it when it came.
  return &first;
}

void append_all(rte_mbuf& copy, const Packet& head) noexcept {
  for (const Packet* at = &head; at != nullptr; at = at->next_segment()) {
    if (at->empty()) continue;
    char* const room = rte_pktmbuf_append(&copy, static_cast<std::uint16_t>(at->size()));
    PINION_DCHECK(room != nullptr);
    std::memcpy(room, at->data(), at->size());
  }
}

}  // namespace

/// Packets in a row that the port can be offered together.
struct DpdkPort::Run {
  std::array<rte_mbuf*, kMostAtOnce> mbufs;
  std::array<bool, kMostAtOnce> copied;
  std::size_t count = 0;
  bool unfit_next = false;  ///< The packet behind them can't be sent at all.
};

/// Fills `run` from the front of `packets`, up to one that can't be sent or for which there is no
/// memory.
void DpdkPort::collect(Run& run, std::span<Packet* const> packets) noexcept {
  run.count = 0;
  run.unfit_next = false;
  const std::size_t room = pool_.buffer_size() - kPacketHeadroom;
  for (Packet* const packet : packets.first(std::min(packets.size(), kMostAtOnce))) {
    const Shape shape = shape_of(*packet, pool_);
    const bool as_it_is = shape.all_of_pool && (gathers_ || shape.segments == 1);
    run.unfit_next = shape.size < kLeastFrame || shape.size > info_.mtu + kFrameOverhead ||
                     shape.segments > kMaxTxSegments || (!as_it_is && shape.size > room);
    if (run.unfit_next) return;
    rte_mbuf* mbuf = nullptr;
    if (as_it_is) {
      mbuf = link(*packet, shape);
    } else {
      mbuf = rte_pktmbuf_alloc(static_cast<rte_mempool*>(pool_.mempool_));
      if (mbuf == nullptr) return;
      append_all(*mbuf, *packet);
    }
    run.mbufs[run.count] = mbuf;
    run.copied[run.count] = !as_it_is;
    ++run.count;
  }
}

/// Offers the run, which is the front of `packets`; returns how many the port took.
std::size_t DpdkPort::hand_over(Run& run, std::span<Packet* const> packets) noexcept {
  const std::size_t taken =
      rte_eth_tx_burst(port_, 0, run.mbufs.data(), static_cast<std::uint16_t>(run.count));
  for (std::size_t i = 0; i < run.count; ++i) {
    if (!run.copied[i]) continue;
    if (i < taken) {
      packets[i]->release();
    } else {
      rte_pktmbuf_free(run.mbufs[i]);
    }
  }
  return taken;
}

std::size_t DpdkPort::tx_burst(Instant, std::span<Packet* const> packets) noexcept {
  Run run;
  std::size_t done = 0;
  while (done < packets.size()) {
    const std::span<Packet* const> rest = packets.subspan(done);
    collect(run, rest);
    const std::size_t taken = run.count > 0 ? hand_over(run, rest) : 0;
    done += taken;
    if (taken < run.count) break;
    if (run.unfit_next) {
      packets[done]->release();
      ++done;
      ++tx_dropped_;
    } else if (run.count == 0) {
      break;  // No memory for a copy.
    }
  }
  return done;
}

}  // namespace pinion
