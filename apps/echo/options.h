#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include <fmt/format.h>
#include <pinion/eventloop/idle.h>
#include <pinion/eventloop/runtime.h>
#include <pinion/lib/time.h>
#include <pinion/net/address.h>
#include <pinion/net/stream.h>

#include "common/net_values.h"
#include "common/program.h"
#include "common/settings.h"
#include "common/submission_settings.h"

/// What pinion-echo can be told. The initial values are the defaults.

namespace pinion::apps {

struct EchoOptions {
  Endpoint listen{.address = IpAddress::v4({127, 0, 0, 1}), .port = 7007};
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

/// Throws ProgramError when the options don't go together.
inline void check(const EchoOptions& options) {
  if (options.max_connections >= options.lcores) return;
  throw_usage_error(fmt::format("--max-connections {} is less than one for each of {} lcores",
                                options.max_connections, options.lcores),
                    fmt::format("--max-connections {}, or fewer lcores", options.lcores));
}

}  // namespace pinion::apps
