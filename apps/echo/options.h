#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <pinion/eventloop/idle.h>
#include <pinion/eventloop/runtime.h>
#include <pinion/lib/time.h>
#include <pinion/net/address.h>
#include <pinion/net/port_name.h>
#include <pinion/net/stream.h>

#include "common/net_values.h"
#include "common/port_values.h"
#include "common/program.h"
#include "common/settings.h"
#include "common/submission_settings.h"

/// What pinion-echo can be told. The initial values are the defaults.

namespace pinion::apps {

struct EchoOptions {
  static constexpr std::uint16_t kPort = 7007;

  Endpoint listen{.address = IpAddress::v4({127, 0, 0, 1}), .port = kPort};
  std::optional<PortName> port;
  std::vector<HostAddress> ip;
  std::vector<IpAddress> gateway;
  bool trust_partial_checksums = false;
  std::string memory = "small";
  std::uint32_t lcores = 1;
  std::vector<unsigned> cpus;
  bool share_cpus = false;
  IdlePolicy idle = IdlePolicy::adaptive;
  SubmissionSettings submission;
  ClockChoice clock = ClockChoice::automatic;
  Delay read_timeout = std::chrono::seconds{30};
  Delay write_timeout = std::chrono::seconds{10};
  Keepalive keepalive{
      .idle = std::chrono::seconds{60}, .interval = std::chrono::seconds{10}, .probes = 3};
  std::uint32_t max_connections = 10000;
  std::uint32_t stats = 1;
  Delay drain_timeout = std::chrono::seconds{5};
};

inline void declare(Settings& settings, EchoOptions& options) {
  using namespace std::chrono_literals;
  settings.add(options.listen,
               {"listen", "where to accept connections; port 0: any free one; [::]: IPv6 alone"});
  settings.add(options.port,
               {"port", "the own TCP/IP stack on this port, by DPDK; none: the kernel's"});
  settings.add(options.ip, {"ip", "the own stack's addresses, with the prefix of the port's link"});
  settings.follow("listen", "ip", [&options] {
    return to_string(Endpoint{options.ip.front().address, EchoOptions::kPort});
  });
  settings.add(options.gateway, {"gateway", "where the own stack sends what is not on its link"});
  settings.add(options.trust_partial_checksums,
               {"trust-partial-checksums", "take what a local sender left to a NIC to compute"});
  settings.add(options.memory,
               {"memory", "DPDK's: small, medium, large, or a size such as 256M", "SIZE"});
  settings.add(options.lcores, {"lcores", "polling lcores, one CPU each; as many as --cpus names"},
               {{1, 256}});
  settings.add(options.cpus, {"cpus", "the lcores' CPUs; auto: the first this process may use"});
  settings.follow("lcores", "cpus", [&options] { return fmt::format("{}", options.cpus.size()); });
  settings.add(options.share_cpus, {"share-cpus", "let several lcores run on one CPU"});
  settings.add(options.idle, {"idle", "what an lcore does with nothing to do"});
  declare(settings, options.submission);
  settings.add(options.clock, {"clock", "where the lcores' time comes from"});
  settings.add(options.read_timeout, {"read-timeout", "close a connection that sends nothing"},
               {{1ms, kNoTimeout}});
  settings.add(options.write_timeout, {"write-timeout", "reset a connection that stops reading"},
               {{1ms, kNoTimeout}});
  settings.add(options.keepalive, {"keepalive", "probe silent peers, reset those that are gone"});
  settings.add(options.max_connections,
               {"max-connections", "limit of connections at once; further ones wait"},
               {{1, 1'000'000}});
  settings.add(options.stats, {"stats", "time between lines of statistics; 0: none", "SECONDS"},
               {{0, 3600}});
  settings.add(options.drain_timeout,
               {"drain-timeout", "how long connections may take to finish after SIGTERM"},
               {{0s, kNoTimeout}});
}

/// Of the port and what belongs to it.
inline void check_port(const EchoOptions& options) {
  if (!options.port) {
    if (!options.ip.empty() || !options.gateway.empty()) {
      throw_usage_error("--ip and --gateway are for the own stack, and no --port is given",
                        "--port tap:ptap0, or neither");
    }
    if (options.trust_partial_checksums) {
      throw_usage_error("--trust-partial-checksums is for the own stack, and no --port is given",
                        "--port af_packet:veth0 --ip 10.9.0.1/24, or not");
    }
    if (options.memory == EchoOptions{}.memory) return;
    throw_usage_error(
        fmt::format("--memory {} is for DPDK, and no --port is given", options.memory),
        "--port tap:ptap0 --ip 10.9.0.1/24, or no --memory");
  }
  const std::string port = to_string(*options.port);
  if (options.ip.empty()) {
    throw_usage_error(fmt::format("--port {} needs an address", port), "--ip 10.9.0.1/24");
  }
  if (options.lcores != 1) {
    throw_usage_error(
        fmt::format("--port {} has one queue, and --lcores is {}", port, options.lcores),
        "--lcores 1");
  }
  const IpAddress& address = options.listen.address;
  const bool all = address == IpAddress::v4({}) || address == IpAddress::v6({});
  const auto is_it = [&address](const HostAddress& own) { return own.address == address; };
  if (all || std::ranges::any_of(options.ip, is_it)) return;
  throw_usage_error(
      fmt::format("--listen {} is no address of --port {}", to_string(options.listen), port),
      fmt::format("--listen {}",
                  to_string(Endpoint{options.ip.front().address, options.listen.port})));
}

/// Throws ProgramError when the options don't go together.
inline void check(const EchoOptions& options) {
  check_port(options);
  if (options.max_connections >= options.lcores) return;
  throw_usage_error(fmt::format("--max-connections {} is less than one for each of {} lcores",
                                options.max_connections, options.lcores),
                    fmt::format("--max-connections {}, or fewer lcores", options.lcores));
}

}  // namespace pinion::apps
