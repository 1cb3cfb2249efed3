#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "../tcp/segment_size.h"
#include "stack_core.h"

// A stack transport begins: options are checked, then memory is taken, then the loop hears of it.

namespace pinion::detail {
namespace {

constexpr std::size_t kMostConnections = std::size_t{1} << 20;

Result<> check_range(const char* name, std::size_t value, std::size_t least, std::size_t most) {
  if (least <= value && value <= most) return {};
  return fail(ErrorCode::invalid_argument,
              fmt::format("a stack transport's {} of {} is out of range", name, value),
              fmt::format("{} from {} to {}", name, least, most));
}

Result<> check_limits(const StackOptions& options) {
  const struct {
    const char* name;
    std::size_t value;
    std::size_t least;
    std::size_t most;
  } limits[] = {
      {"max_connections", options.max_connections, 1, kMostConnections},
      {"max_waiting", options.max_waiting, 1, 65'535},
      {"max_listeners", options.max_listeners, 1, 1024},
      {"max_half_open", options.max_half_open, 1, 65'535},
      {"max_time_waits", options.max_time_waits, 1, kMostConnections},
      {"send_buffer", options.send_buffer, kLeastBuffer, kLargestBuffer},
      {"receive_buffer", options.receive_buffer, kLeastBuffer, kLargestBuffer},
      {"small_packets", options.small_packets, 1, std::size_t{1} << 24},
  };
  for (const auto& limit : limits) {
    if (Result<> good = check_range(limit.name, limit.value, limit.least, limit.most); !good) {
      return good;
    }
  }
  if (options.linger < Delay{} || options.time_wait < Delay{}) {
    return fail(ErrorCode::invalid_argument, "a stack transport's linger or time_wait is negative",
                "linger and time_wait from 0");
  }
  return {};
}

Result<> check_interface(const StackInterface& interface, std::size_t index) {
  const auto refuse = [index](std::string_view what, std::string hint) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("interface {} of a stack transport {}", index, what), std::move(hint));
  };
  if (interface.device == nullptr) return refuse("has no device", "set StackInterface::device");
  if (interface.addresses.empty()) {
    return refuse("has no address", "an address and its prefix, such as 10.9.0.1/24");
  }
  if (interface.tx_queue == 0) return refuse("queues no packet", "tx_queue from 1");
  const auto count = [&interface](bool v4) {
    const auto is_one = [v4](const IpAddress& gateway) { return gateway.is_v4() == v4; };
    return std::ranges::count_if(interface.gateways, is_one);
  };
  if (count(true) > 1 || count(false) > 1) {
    return refuse("has two gateways of one family", "one gateway for each family at most");
  }
  return {};
}

Result<> check(const StackOptions& options) {
  if (options.interfaces.empty()) {
    return fail(ErrorCode::invalid_argument, "a stack transport without an interface",
                "StackOptions::interfaces with a device and its addresses");
  }
  for (std::size_t i = 0; i < options.interfaces.size(); ++i) {
    if (Result<> good = check_interface(options.interfaces[i], i); !good) return good;
  }
  return check_limits(options);
}

Result<std::uint64_t> secret_seed(const StackOptions& options) {
  if (options.seed) return *options.seed;
  std::uint64_t seed = 0;
  if (getrandom(&seed, sizeof seed, 0) != static_cast<ssize_t>(sizeof seed)) {
    return tl::unexpected(errno_error(errno, "no random numbers for a stack transport's secrets"));
  }
  return seed;
}

TcpConfig tcp_config(const StackOptions& options) {
  TcpConfig config;
  config.max_connections = options.max_connections + options.max_waiting;
  config.max_listeners = options.max_listeners;
  config.max_waiting = options.max_waiting;
  config.max_half_open = options.max_half_open;
  config.max_time_waits = options.max_time_waits;
  config.timestamps = options.timestamps;
  config.trust_partial_checksums = options.trust_partial_checksums;
  config.time_wait = options.time_wait;
  config.linger = options.linger;
  config.fin_wait_2 = options.linger;  // Whoever hasn't closed by then keeps no place here.
  return config;
}

/// The longest chain that all devices send.
std::size_t max_segments(const StackOptions& options) {
  std::size_t most = SIZE_MAX;
  for (const StackInterface& interface : options.interfaces) {
    most = std::min(most, interface.device->info().max_tx_segments);
  }
  return most;
}

}  // namespace

Result<StackCore*> StackCore::create(Loop& loop, PacketPool& packets, const StackOptions& options) {
  if (Result<> good = check(options); !good) return tl::unexpected(good.error());
  std::unique_ptr<StackCore, void (*)(StackCore*)> core(new StackCore(loop, packets, options),
                                                        [](StackCore* unused) { delete unused; });
  if (Result<> ready = core->set_up(); !ready) return tl::unexpected(ready.error());
  for (const std::unique_ptr<Port>& port : core->ports_) port->serve(loop);
  loop.add_poller(*core);
  loop.add_drainable(*core);
  return core.release();
}

StackCore::StackCore(Loop& loop, PacketPool& packets, const StackOptions& options) noexcept
    : loop_(loop),
      packets_(packets),
      options_(options),
      told_of_checksums_(options.trust_partial_checksums),
      connections_(options.max_connections + options.max_waiting),
      lowest_available_(packets.available()),
      last_listen_port_(0),
      relief_timer_(*this) {}

/// Takes all memory. The loop knows nothing of it yet but timers, which end with the host.
Result<> StackCore::set_up() {
  const Result<std::uint64_t> seed = secret_seed(options_);
  if (!seed) return tl::unexpected(seed.error());
  auto small = SlabPacketPool::create(
      {.packets = options_.small_packets, .views = 0, .buffer_size = kPacketHeadroom + 256});
  if (!small) return tl::unexpected(small.error());
  small_packets_ = std::move(*small);
  if (!connections_.reserve(connections_.limit())) {
    return fail(ErrorCode::resource_exhausted, "no memory for a stack transport's connections",
                "a smaller max_connections");
  }
  const Instant now = loop_.fresh_now();
  auto host = Host::create({.ip = {},
                            .tcp = tcp_config(options_),
                            .udp = {.trust_partial_checksums = options_.trust_partial_checksums}},
                           {.wheel = loop_.wheel(),
                            .packets = packets_,
                            .small_packets = *small_packets_,
                            .max_segments = max_segments(options_)},
                           *seed, now);
  if (!host) return tl::unexpected(host.error());
  host_ = std::move(*host);
  for (const StackInterface& interface : options_.interfaces) {
    if (Result<> added = add_interface(interface, now); !added) return added;
  }
  return {};
}

Result<> StackCore::add_interface(const StackInterface& interface, Instant now) {
  const DeviceInfo& info = interface.device->info();
  std::vector<IpPrefix> prefixes;
  for (const HostAddress& own : interface.addresses) {
    prefixes.push_back({.address = own.address, .length = own.prefix_length});
  }
  const Result<std::uint8_t> index =
      host_->ip().add_interface({.mac = info.mac,
                                 .mtu = info.mtu,
                                 .tx_queue = interface.tx_queue,
                                 .max_segments = info.max_tx_segments,
                                 .addresses = prefixes,
                                 .check_duplicates = interface.check_duplicates},
                                now);
  if (!index) return tl::unexpected(index.error());
  for (const IpAddress& gateway : interface.gateways) {
    const IpAddress everything = gateway.is_v4() ? IpAddress::v4({}) : IpAddress::v6({});
    Result<> added = host_->ip().add_route({.destination = {.address = everything, .length = 0},
                                            .gateway = gateway,
                                            .interface = *index});
    if (!added) return added;
  }
  ports_.push_back(std::make_unique<Port>(*this, *interface.device, *index));
  return {};
}

}  // namespace pinion::detail
