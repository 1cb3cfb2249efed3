// pinion-echo: a keepalive echo server. Every lcore listens on the same address, the kernel spreads
// the connections, and each connection is a coroutine on the lcore that accepted it. On a port of
// its own (--port) it does without the kernel, on one lcore.

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <pinion/eventloop/runtime.h>
#include <pinion/net/transport.h>

#include "common/net_values.h"
#include "common/preflight.h"
#include "common/program.h"
#include "common/settings.h"
#include "common/version.h"
#include "echo/backend.h"
#include "echo/options.h"
#include "echo/report.h"

namespace pinion::apps {
namespace {

/// What one lcore owns.
struct Shard {
  const EchoOptions& options;
  Loop& loop;
  Transport& transport;
  std::uint64_t requests = 0;
};

/// One connection: whatever arrives goes back, from the buffer that it arrived in. A read or write
/// that fails, for whatever reason, ends the loop, and the end of `conn` closes the connection.
Task<> serve(Shard& shard, Stream conn) {
  conn.set_keepalive(shard.options.keepalive);
  while (auto chunk = co_await conn.read(shard.options.read_timeout)) {
    if (!co_await conn.write(std::move(*chunk), shard.options.write_timeout)) break;
    ++shard.requests;
  }
}

/// Ends when the lcore drains.
Task<> accept_all(Shard& shard, Listener listener) {
  while (auto conn = co_await listener.accept()) {
    shard.loop.spawn(serve(shard, std::move(*conn)), "connection");
  }
}

class Server {
 public:
  Server(const EchoOptions& options, const Settings& settings)
      : options_(options),
        settings_(settings),
        cpus_(options.share_cpus ? choose_shared_cpus(options.lcores, options.cpus)
                                 : choose_cpus(options.lcores, options.cpus, CpuOrder::from_first)),
        report_(cpus_.size(), std::chrono::seconds(options.stats)),
        endpoint_(options.listen),
        backends_(options.port ? port_backends(options) : kernel_backends()) {}

  /// Serves until a signal; returns the exit code.
  int run() {
    if (!options_.port) {
      require_descriptors(options_.max_connections, cpus_.size(), "--max-connections");
    }
    hold_signals();
    const LoopOptions loop{.idle = options_.idle,
                           .submission = options_.submission.options(),
                           .drain_timeout = options_.drain_timeout};
    const auto runtime = must(Runtime::create({.cpus = cpus_,
                                               .loop = loop,
                                               .clock = options_.clock,
                                               .allow_shared_cpus = options_.share_cpus}));
    const RunReport ended = must(runtime->run([this](Lcore& lcore) { return set_up(lcore); }));
    report_.finish();
    return ended.exit_code();
  }

 private:
  /// On each lcore's thread, before any of them serves.
  Result<> set_up(Lcore& lcore) {
    const std::lock_guard lock(mutex_);
    auto backend = backends_->open(lcore.loop(), share(lcore));
    if (!backend) return tl::unexpected(backend.error());
    Transport& transport = lcore.keep(std::move(*backend)).transport();
    auto listener = transport.listen(endpoint_, {.share = true});
    if (!listener) return tl::unexpected(listener.error());
    endpoint_ = listener->local();  // When port 0 was asked for, all lcores take the same.

    Shard& shard = lcore.keep(std::make_unique<Shard>(options_, lcore.loop(), transport));
    lcore.add_report([&shard](ReportText& text) {
      text.add("requests {}\n", shard.requests);
      add_to(text, shard.transport.stats());
    });
    lcore.keep(report_.desk().join(lcore.index(), lcore.loop(), [&shard](EchoFigures& figures) {
      figures = {shard.requests, shard.transport.stats(), shard.loop.stats()};
    }));
    lcore.loop().spawn(accept_all(shard, std::move(*listener)), "acceptor");
    if (lcore.index() == 0) lcore.loop().spawn(announce(), "announcement");
    return {};
  }

  /// The lcores' parts of --max-connections, which are its sum.
  [[nodiscard]] std::size_t share(const Lcore& lcore) const {
    return options_.max_connections / cpus_.size() +
           (lcore.index() < options_.max_connections % cpus_.size() ? 1 : 0);
  }

  /// Runs when every lcore is set up.
  Task<> announce() {
    report_.begin(
        fmt::format("pinion-echo {}: listening on {}, backend {}, {} lcore{} ({}) on CPU {} ({}), "
                    "idle policy {} "
                    "({}: {})",
                    kVersion, to_string(endpoint_), backends_->name(), cpus_.size(),
                    cpus_.size() == 1 ? "" : "s", settings_.source("lcores"),
                    format_cpu_list(cpus_), settings_.source("cpus"), to_string(options_.idle),
                    settings_.source("idle"), meaning(options_.idle)));
    co_return;
  }

  const EchoOptions& options_;
  const Settings& settings_;
  std::vector<unsigned> cpus_;
  EchoReport report_;
  std::mutex mutex_;
  Endpoint endpoint_;
  const std::unique_ptr<Backends> backends_;
};

}  // namespace
}  // namespace pinion::apps

int main(int argc, char** argv) {
  using namespace pinion::apps;
  return run_program([&] {
    EchoOptions options;
    Settings settings({.name = "pinion-echo", .summary = "a keepalive echo server"});
    declare(settings, options);
    if (!settings.read(argc, argv)) return kExitDone;
    check(options);
    return Server(options, settings).run();
  });
}
