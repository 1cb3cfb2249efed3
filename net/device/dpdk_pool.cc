#include <pinion/net/dpdk_pool.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include <fmt/format.h>
#include <pinion/lib/assert.h>
#include <pinion/net/dpdk_eal.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_mempool.h>
#include <rte_ring.h>

#include "dpdk_mbuf.h"
#include "dpdk_setup.h"

namespace pinion {
namespace {

/// A cache gives back what is above this when it has half as much again.
constexpr unsigned kMostCached = 250;
/// Free packets are in a ring, whose count is one load or two: DPDK's own way to count looks at the
/// caches of 128 threads.
constexpr const char* kRing = "ring_mp_mc";

rte_mempool* mempool_of(void* mempool) noexcept {
  return static_cast<rte_mempool*>(mempool);
}

/// `count` mbufs with packets behind them, each with `room` bytes; nullptr without memory for them.
rte_mempool* make_mempool(std::size_t count, std::size_t room) {
  // DPDK wants pools to be told apart by name.
  static std::atomic<std::size_t> made{0};
  const std::string name = fmt::format("pinion_{}", made++);
  const auto mbufs = static_cast<unsigned>(count);
  return rte_pktmbuf_pool_create_by_ops(name.c_str(), mbufs, std::min(kMostCached, mbufs / 4),
                                        sizeof(Packet), static_cast<std::uint16_t>(room),
                                        SOCKET_ID_ANY, kRing);
}

Result<> check_options(const DpdkPoolOptions& options) {
  constexpr std::size_t kMost = (std::size_t{1} << 24) - 1;
  for (const std::size_t count : {options.packets, options.views}) {
    if (count >= 64 && count <= kMost) continue;
    return fail(ErrorCode::invalid_argument,
                fmt::format("a pool of {} packets and {} views is not possible", options.packets,
                            options.views),
                fmt::format("64 to {} of each", kMost));
  }
  if (options.packet_size < 256 || options.packet_size > 16384) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("packets of {} bytes are not possible", options.packet_size),
                "256 to 16384 bytes; a tap receives longer frames in several");
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<DpdkPacketPool>> DpdkPacketPool::create(DpdkEal& eal,
                                                               DpdkPoolOptions options) {
  if (const Result<> checked = check_options(options); !checked) {
    return tl::unexpected(checked.error());
  }
  const std::size_t room = kPacketHeadroom + options.packet_size;
  const detail::DpdkSetUp setup;
  rte_mempool* const mempool = make_mempool(options.packets, room);
  rte_mempool* const views = mempool == nullptr ? nullptr : make_mempool(options.views, 0);
  if (views == nullptr) {
    const std::string why = setup.words().or_else(rte_strerror(rte_errno));
    rte_mempool_free(mempool);
    const std::size_t bytes = options.packets * (sizeof(rte_mbuf) + sizeof(Packet) + room);
    return fail(ErrorCode::resource_exhausted,
                fmt::format("no memory for {} packets, which take {} MiB: {}", options.packets,
                            (bytes >> 20) + 1, why),
                "fewer packets, or more memory for DPDK: --memory=medium");
  }
  return std::unique_ptr<DpdkPacketPool>(new DpdkPacketPool(eal, options, mempool, views));
}

DpdkPacketPool::DpdkPacketPool(DpdkEal& eal, DpdkPoolOptions options, void* mempool,
                               void* views) noexcept
    : eal_(eal), options_(options), mempool_(mempool), views_(views) {
  ++eal_.users_;
}

DpdkPacketPool::~DpdkPacketPool() {
  PINION_ASSERT(lent() == 0);
  rte_mempool_free(mempool_of(views_));
  rte_mempool_free(mempool_of(mempool_));
  --eal_.users_;
}

Packet* DpdkPacketPool::allocate() noexcept {
  rte_mbuf* const mbuf = rte_pktmbuf_alloc(mempool_of(mempool_));
  if (mbuf == nullptr) return nullptr;
  return &detail::make_packet(*mbuf, *this);
}

/// An indirect mbuf: whoever frees it, we or a driver, gives back its reference to the owner's.
Packet* DpdkPacketPool::view(Packet& of, std::size_t offset, std::size_t size) noexcept {
  rte_mbuf& owner = detail::mbuf_of(of.owner());
  if (rte_mbuf_refcnt_read(&owner) == UINT16_MAX) return nullptr;
  rte_mbuf* const mbuf = rte_pktmbuf_alloc(mempool_of(views_));
  if (mbuf == nullptr) return nullptr;
  rte_pktmbuf_attach(mbuf, &owner);
  return std::construct_at(&detail::packet_of(*mbuf), *this, mbuf->refcnt, of, offset, size);
}

void DpdkPacketPool::give_back(Packet& segment) noexcept {
  rte_pktmbuf_free_seg(&detail::mbuf_of(segment));
}

std::size_t DpdkPacketPool::available() const noexcept {
  rte_mempool* const mempool = mempool_of(mempool_);
  const rte_mempool_cache* const cache = rte_mempool_default_cache(mempool, rte_lcore_id());
  const auto* const ring = static_cast<const rte_ring*>(mempool->pool_data);
  return rte_ring_count(ring) + (cache == nullptr ? 0 : cache->len);
}

std::size_t DpdkPacketPool::lent() const noexcept {
  return rte_mempool_in_use_count(mempool_of(mempool_)) +
         rte_mempool_in_use_count(mempool_of(views_));
}

}  // namespace pinion
