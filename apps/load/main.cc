// pinion-load: sends requests to an echo server, verifies every byte that comes back, and says how
// long it took. The client side of the connection API.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <pinion/eventloop/runtime.h>
#include <pinion/net/kernel_transport.h>
#include <pinion/timers/time_source.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/figures.h"
#include "common/preflight.h"
#include "common/program.h"
#include "load/client.h"
#include "load/json_file.h"
#include "load/plan.h"
#include "load/report.h"

namespace pinion::apps {
namespace {

using namespace std::chrono_literals;

/// Shows the progress on stderr: a bar that is drawn over on a terminal, otherwise a line a second.
class Progress {
 public:
  Progress(const LoadPlan& plan, FiguresDesk<LoadResults>& desk)
      : plan_(plan), desk_(desk), terminal_(isatty(STDERR_FILENO) == 1) {
    ticker_.emplace(terminal_ ? 200ms : 1000ms, [this] { show(); });
  }

  /// The plan has begun.
  void begin() { begun_ = true; }

  /// Ends it and clears the bar.
  void finish() {
    ticker_.reset();
    if (!terminal_) return;
    say(stderr, "\r\x1b[K");
    settle(stderr);  // What follows on stdout comes after it on the terminal.
  }

 private:
  void show() {
    if (!begun_) return;
    LoadResults total;
    for (const LoadResults& lcore : desk_.collect()) total.merge(lcore);
    const Instant now = clock_.now();
    const double passed = std::chrono::duration<double>(now - last_).count();
    const double rate = static_cast<double>(total.answered - answered_) / passed;
    const std::string line =
        progress_line(plan_, now, total, rate, terminal_, terminal_ ? columns() : 0);
    if (terminal_) {
      say(stderr, fmt::format("\r{}\x1b[K", line));
    } else {
      say(stderr, fmt::format("{}\n", line));
    }
    last_ = now;
    answered_ = total.answered;
  }

  static std::size_t columns() {
    winsize size{};
    const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    return known ? size.ws_col : 80;
  }

  const LoadPlan& plan_;
  FiguresDesk<LoadResults>& desk_;
  bool terminal_;
  std::atomic<bool> begun_ = false;
  MonotonicTime clock_;
  Instant last_ = clock_.now();
  std::uint64_t answered_ = 0;
  std::optional<Ticker> ticker_;
};

/// Runs when every lcore is set up.
Task<> announce(const LoadOptions& options, Progress& progress) {
  say(stdout, fmt::format("{}\n", first_line(options)));
  progress.begin();
  co_return;
}

/// Runs the plan on all lcores, and begins it when the last of them is ready.
RunReport run_clients(LoadPlan& plan, const std::vector<unsigned>& cpus,
                      FiguresDesk<LoadResults>& desk, Progress& progress) {
  const LoopOptions loop{.idle = plan.options.idle,
                         .submission = plan.options.submission.options(),
                         .drain_timeout = 2s};
  const auto runtime = must(Runtime::create({.cpus = cpus, .loop = loop}));
  std::mutex mutex;
  return must(runtime->run([&](Lcore& lcore) -> Result<> {
    auto transport = KernelTransport::create(lcore.loop());
    if (!transport) return tl::unexpected(transport.error());
    Transport& shared = lcore.keep(std::move(*transport));
    lcore.add_report([&shared](ReportText& text) { add_to(text, shared.stats()); });
    Client& client = lcore.keep(std::make_unique<Client>(plan, lcore.loop(), shared, lcore.index(),
                                                         static_cast<unsigned>(cpus.size())));
    lcore.keep(desk.join(lcore.index(), lcore.loop(),
                         [&client](LoadResults& results) { results = client.results(); }));
    client.start();
    if (lcore.index() == 0) {
      lcore.loop().spawn(announce(plan.options, progress), "announcement");
    }
    const std::lock_guard lock(mutex);
    plan.begin(lcore.loop().fresh_now());  // The last one counts: no task runs before.
    return {};
  }));
}

int run(const LoadOptions& options) {
  require_descriptors(
      std::uint64_t{options.connections} + options.silent, options.lcores,
      options.silent == 0 ? "--connections" : "--connections and --silent together");
  const auto cpus = choose_cpus(options.lcores, options.cpus, CpuOrder::from_last);
  JsonFile json_file(options.json);
  hold_signals();

  LoadPlan plan{.options = options};
  FiguresDesk<LoadResults> desk(cpus.size());
  Progress progress(plan, desk);
  const RunReport ended = run_clients(plan, cpus, desk, progress);
  progress.finish();

  const auto total = std::make_unique<LoadResults>();
  for (const LoadResults& lcore : desk.collect()) total->merge(lcore);
  Breakoff broken{.interrupted = ended.signal != 0};
  broken.early =
      options.connections > 0 && total->spoke_until < std::min(total->interrupted, plan.end);
  plan.cut_off(broken.early ? total->spoke_until : total->interrupted);
  say(stdout, summary(plan, *total, broken));
  json_file.write(json(plan, *total, broken));
  must(verdict(plan, *total, broken));
  return kExitDone;
}

}  // namespace
}  // namespace pinion::apps

int main(int argc, char** argv) {
  using namespace pinion::apps;
  return run_program([&] {
    LoadOptions options;
    return read_load_options(options, argc, argv) ? run(options) : kExitDone;
  });
}
