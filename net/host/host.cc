#include "host.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace pinion {

Host::Host(const HostOptions& options, const HostParts& parts, SecretNumbers& seeds)
    : ip_(options.ip, parts.wheel, parts.packets, seeds.next()),
      udp_(ip_, parts.packets, seeds.next(), options.udp) {}

Result<std::unique_ptr<Host>> Host::create(const HostOptions& options, const HostParts& parts,
                                           std::uint64_t seed, Instant now) {
  if (const Result<> good = IpStack::check(options.ip); !good) {
    return tl::unexpected(good.error());
  }
  SecretNumbers seeds(seed);
  std::unique_ptr<Host> host(new Host(options, parts, seeds));
  auto tcp = Tcp::create(options.tcp,
                         {.ip = host->ip_,
                          .wheel = parts.wheel,
                          .packets = parts.packets,
                          .small_packets = parts.small_packets,
                          .max_segments = parts.max_segments},
                         seeds.next(), now);
  if (!tcp) return tl::unexpected(std::move(tcp.error()));
  host->tcp_ = std::move(*tcp);
  host->ip_.attach(IpProtocol::tcp, *host->tcp_);
  return host;
}

}  // namespace pinion
