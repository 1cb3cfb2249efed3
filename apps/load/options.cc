#include <chrono>

#include <fmt/format.h>

#include "common/net_values.h"
#include "common/program.h"
#include "common/settings.h"
#include "load/plan.h"

namespace pinion::apps {
namespace {

using namespace std::chrono_literals;

const char* const kExamples =
    "  pinion-load --connections 100 --duration 30s\n"
    "      how fast: each connection sends its next request when it has its answer\n"
    "  pinion-load --rate 50000 --warmup 5s\n"
    "      how late: 50,000 requests a second, latency from when each was due\n"
    "  pinion-load --silent 20 --think 3s --reconnect\n"
    "      how patient: connections that say nothing or too little for the timeouts\n";

void declare(Settings& settings, LoadOptions& options) {
  settings.add(options.connect, {.name = "connect", .help = "the server"});
  settings.add(options.connections,
               {.name = "connections", .help = "connections that send requests"},
               Range<std::uint32_t>{0, 1'000'000});
  settings.add(options.silent,
               {.name = "silent", .help = "further connections that connect and send nothing"},
               Range<std::uint32_t>{0, 1'000'000});
  settings.add(options.size, {.name = "size", .help = "bytes of a request and of its answer"},
               Range<ByteCount>{{1}, {64 << 20}});
  settings.add(options.rate,
               {.name = "rate",
                .help = "requests a second over all connections, whether or not they are "
                        "answered; 0: each connection waits for its answer (closed loop)"},
               Range<std::uint64_t>{0, 100'000'000});
  settings.add(options.duration, {.name = "duration", .help = "how long to measure"},
               Range<Delay>{1ms, 24h});
  settings.add(options.warmup, {.name = "warmup", .help = "warm-up before measuring"},
               Range<Delay>{0s, 24h});
  settings.add(options.think,
               {.name = "think", .help = "pause between an answer and the next request"},
               Range<Delay>{0s, 24h});
  settings.add(options.timeout,
               {.name = "timeout", .help = "how long to wait for a connection or an answer"},
               Range<Delay>{1ms, 1h});
  settings.add(options.reconnect,
               {.name = "reconnect", .help = "open a connection again when it ended or failed"});
  settings.add(options.lcores,
               {.name = "lcores", .help = "polling lcores, one CPU each; as many as --cpus names"},
               Range<std::uint32_t>{1, 256});
  settings.add(
      options.cpus,
      {.name = "cpus", .help = "the lcores' CPUs; auto: the last that this process may use"});
  settings.follow("lcores", "cpus", [&options] { return fmt::format("{}", options.cpus.size()); });
  settings.add(options.idle, {.name = "idle", .help = "what an lcore does with nothing to do"});
  declare(settings, options.submission);
  settings.add(options.seed, {.name = "seed", .help = "seed of the request bytes"});
  settings.add(options.json, {.name = "json",
                              .help = "write the results to this file, too, as JSON",
                              .value_name = "FILE"});
}

}  // namespace

bool read_load_options(LoadOptions& options, int argc, const char* const* argv) {
  Settings settings({.name = "pinion-load",
                     .summary = "sends requests to an echo server and verifies every byte",
                     .examples = kExamples});
  declare(settings, options);
  if (!settings.read(argc, argv)) return false;
  if (options.connect.port == 0) {
    throw_usage_error(
        fmt::format("--connect {}: port 0 can't be connected to", to_string(options.connect)),
        "--connect ADDR:PORT, with the port that the server's first line names");
  }
  if (options.connections == 0 && options.silent == 0) {
    throw_usage_error("there is nothing to do: no connections and no silent ones",
                      "--connections 50");
  }
  if (options.connections == 0 && options.rate != 0) {
    throw_usage_error("a rate needs connections", "--connections 50");
  }
  if (options.rate != 0 && options.think > Delay{}) {
    throw_usage_error("--rate and --think exclude each other: a rate has its own pauses",
                      "leave one of them out");
  }
  return true;
}

}  // namespace pinion::apps
