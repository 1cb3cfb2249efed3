#include <pinion/net/dpdk_port.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <pinion/lib/assert.h>
#include <pinion/lib/log.h>
#include <pinion/net/dpdk_eal.h>
#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_ethdev.h>

#include "dpdk_checks.h"
#include "dpdk_kernel.h"
#include "dpdk_port_plan.h"
#include "dpdk_setup.h"
#include "dpdk_wait.h"

namespace pinion {
namespace {

constexpr std::uint16_t kQueueSize = 512;
constexpr std::size_t kRingFrames = 512;  // Of af_packet, as its plan says.
constexpr auto kAnyNode = static_cast<unsigned>(SOCKET_ID_ANY);
constexpr std::uint64_t kRxChecksums =
    RTE_ETH_RX_OFFLOAD_IPV4_CKSUM | RTE_ETH_RX_OFFLOAD_UDP_CKSUM | RTE_ETH_RX_OFFLOAD_TCP_CKSUM;

tl::unexpected<Error> refused(const DpdkPortPlan& plan, std::string_view what, int error,
                              std::string hint) {
  return fail(
      error == ENOMEM ? ErrorCode::resource_exhausted : ErrorCode::io_error,
      fmt::format("cannot open {}: {}: {}", to_string(plan.name), what, std::strerror(error)),
      std::move(hint));
}

/// An error of DPDK's, with what it said about it.
tl::unexpected<Error> refused(const DpdkPortPlan& plan, std::string_view what, int error,
                              const detail::DpdkWords& words, std::string hint) {
  return refused(plan, fmt::format("{} ({})", what, words.or_else("without a word")), error,
                 std::move(hint));
}

/// Makes the port; its number.
Result<std::uint16_t> probe(const DpdkPortPlan& plan, const detail::DpdkWords& words) {
  if (const int error = rte_eal_hotplug_add("vdev", plan.vdev.c_str(), plan.arguments.c_str());
      error != 0) {
    return refused(plan, fmt::format("DPDK's driver {} refuses it", plan.driver), std::abs(error),
                   words,
                   fmt::format("the interface's state (ip link show {}); a driver that is missing: "
                               "apt-get install 'librte-net-*'",
                               plan.name.name));
  }
  std::uint16_t port = 0;
  if (rte_eth_dev_get_port_by_name(plan.vdev.c_str(), &port) == 0) return port;
  rte_eal_hotplug_remove("vdev", plan.vdev.c_str());
  return refused(plan, fmt::format("DPDK's driver {} made no port", plan.driver), ENODEV, words,
                 "apt-get install 'librte-net-*'");
}

/// Of a tap, both ends would have the address that its driver drew; addresses are for one host.
MacAddress our_end_of(MacAddress kernels) noexcept {
  kernels.back() ^= 1U;
  return kernels;
}

}  // namespace

Result<std::unique_ptr<DpdkPort>> DpdkPort::open(DpdkEal& eal, DpdkPacketPool& pool,
                                                 const PortName& name) {
  if (const Result<> checked = detail::check_port(name); !checked) {
    return tl::unexpected(checked.error());
  }
  const Result<DpdkPortPlan> plan =
      DpdkPortPlan::make(name, detail::interface_mtu(name.name.c_str()));
  if (!plan) return tl::unexpected(plan.error());
  if (std::uint16_t port = 0; rte_eth_dev_get_port_by_name(plan->vdev.c_str(), &port) == 0) {
    return fail(ErrorCode::already_exists,
                fmt::format("cannot open {}: it is open in this process", to_string(name)),
                "one port for each interface");
  }
  const detail::DpdkSetUp setup;
  const std::vector<int> before = detail::open_descriptors();
  const Result<std::uint16_t> number = probe(*plan, setup.words());
  if (!number) return tl::unexpected(number.error());

  // From here on its destructor takes back what was made.
  std::unique_ptr<DpdkPort> port(new DpdkPort(eal, pool, *plan, *number));
  if (Result<> done = port->configure(*plan, setup.words()); !done)
    return tl::unexpected(done.error());
  if (Result<> done = port->start(*plan, setup.words()); !done) return tl::unexpected(done.error());
  detail::close_on_exec(before);
  port->wait_fd_ = detail::find_wait_descriptor(*number, name.kind, before);
  if (Result<> done = port->filter(*plan); !done) return tl::unexpected(done.error());
  // Tap misses a qdisc of the kernel's and a second process, and works without.
  setup.words().forgive();
  return port;
}

DpdkPort::DpdkPort(DpdkEal& eal, DpdkPacketPool& pool, const DpdkPortPlan& plan,
                   std::uint16_t port) noexcept
    : eal_(eal),
      pool_(pool),
      kind_(plan.name.kind),
      interface_(plan.name.name),
      vdev_(plan.vdev),
      port_(port) {
  ++eal_.users_;
}

DpdkPort::~DpdkPort() {
  const detail::DpdkSetUp setup;
  if (started_) rte_eth_dev_stop(port_);
  rte_eth_dev_close(port_);
  rte_eal_hotplug_remove("vdev", vdev_.c_str());
  --eal_.users_;
}

/// Asks for what the port has, and nothing else.
Result<> DpdkPort::configure(const DpdkPortPlan& plan, const detail::DpdkWords& words) {
  rte_eth_dev_info has{};
  if (const int error = rte_eth_dev_info_get(port_, &has); error != 0) {
    return refused(plan, "DPDK tells nothing about it", -error, {});
  }
  const std::size_t room = pool_.buffer_size() - kPacketHeadroom;
  const std::size_t frame = std::max(plan.mtu + kFrameOverhead, plan.ring_frame);
  const bool scatters = frame > room;
  if (scatters && (has.rx_offload_capa & RTE_ETH_RX_OFFLOAD_SCATTER) == 0) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("cannot open {}: it needs packets of {} bytes, and those of its pool "
                            "have {}",
                            to_string(plan.name), frame, room),
                fmt::format("DpdkPoolOptions::packet_size = {}", frame));
  }
  gathers_ = (has.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS) != 0;
  rx_checksum_flags_ = has.rx_offload_capa & kRxChecksums;

  rte_eth_conf wanted{};
  wanted.rxmode.mtu = static_cast<std::uint32_t>(plan.mtu);
  wanted.rxmode.offloads = rx_checksum_flags_ | (scatters ? RTE_ETH_RX_OFFLOAD_SCATTER : 0);
  wanted.txmode.offloads = gathers_ ? RTE_ETH_TX_OFFLOAD_MULTI_SEGS : 0;
  wanted.intr_conf.rxq = plan.name.kind == PortKind::tap ? 1 : 0;
  if (const int error = rte_eth_dev_configure(port_, 1, 1, &wanted); error != 0) {
    return refused(plan, "DPDK can't configure it", -error, words, "mtu=1500");
  }

  info_.mtu = plan.mtu;
  info_.max_tx_segments = kMaxTxSegments;
  rte_ether_addr address{};
  rte_eth_macaddr_get(port_, &address);
  std::ranges::copy(address.addr_bytes, info_.mac.begin());
  if (plan.name.kind == PortKind::tap) info_.mac = plan.mac.value_or(our_end_of(info_.mac));
  return {};
}

Result<> DpdkPort::start(const DpdkPortPlan& plan, const detail::DpdkWords& words) {
  std::uint16_t rx = kQueueSize;
  std::uint16_t tx = kQueueSize;
  int error = 0;
  if (plan.name.kind == PortKind::tap) {
    // The queue is the kernel's. What tap calls its descriptors are the pieces of one frame, each
    // of which the kernel looks at for every packet.
    rx = static_cast<std::uint16_t>((plan.mtu + kFrameOverhead) / pool_.buffer_size() + 2);
    // Sets the interface's, which in the other kinds is the operator's.
    error = rte_eth_dev_set_mtu(port_, static_cast<std::uint16_t>(plan.mtu));
  } else {
    error = rte_eth_dev_adjust_nb_rx_tx_desc(port_, &rx, &tx);
  }
  auto* const mempool = static_cast<rte_mempool*>(pool_.mempool_);
  if (error == 0) error = rte_eth_rx_queue_setup(port_, 0, rx, kAnyNode, nullptr, mempool);
  if (error == 0) error = rte_eth_tx_queue_setup(port_, 0, tx, kAnyNode, nullptr);
  if (error == 0) error = rte_eth_dev_start(port_);
  if (error != 0) {
    return refused(plan, "DPDK can't start it", -error, words,
                   "more packets in its pool, or more memory for DPDK: --memory=medium");
  }
  started_ = true;
  if (plan.name.kind == PortKind::tap) drops_before_ = detail::unsent_packets(interface_);
  return {};
}

/// A packet socket receives what the kernel sends, too, and cuts what its ring has no room for.
Result<> DpdkPort::filter(const DpdkPortPlan& plan) {
  if (plan.name.kind != PortKind::af_packet) return {};
  if (wait_fd_ < 0) {
    return refused(plan, "its packet socket can't be found in /proc/self/fd", ENOENT,
                   "mount -t proc proc /proc");
  }
  if (const int error = detail::filter_packets(wait_fd_, plan.mtu + kFrameOverhead); error != 0) {
    return refused(plan, "the kernel takes no filter", error,
                   "sysctl -w net.core.optmem_max=20480");
  }
  // What came before there was one is as if it had come before there was a port.
  std::array<Packet*, kMostAtOnce> early{};
  for (std::size_t left = kRingFrames; left > 0;) {
    const std::size_t count = rx_burst({}, early);
    for (Packet* const packet : std::span(early).first(count)) packet->release();
    if (count == 0) break;
    left -= std::min(left, count);
  }
  rte_eth_stats_reset(port_);
  rx_cut_ = rx_cut_bytes_ = 0;
  static_cast<void>(detail::take_overruns(wait_fd_));
  if (detail::joins_segments(interface_)) {
    log_warn(
        "{}: the kernel joins segments before the port receives them (GRO or LRO), and what is "
        "longer than the MTU is dropped; fix: ethtool -K {} gro off lro off",
        to_string(plan.name), interface_);
  }
  return {};
}

}  // namespace pinion
