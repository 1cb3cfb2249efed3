#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <pinion/eventloop/loop_stats.h>
#include <pinion/lib/time.h>
#include <pinion/net/transport.h>

#include "common/figures.h"

/// What pinion-echo says about itself while it runs and when it ends.

namespace pinion::apps {

/// Of one lcore, or of all together.
struct EchoFigures {
  std::uint64_t requests = 0;  ///< Received chunks that were echoed.
  TransportStats transport;
  LoopStats loop;

  void merge(const EchoFigures& other);
  static EchoFigures sum(const std::vector<EchoFigures>& lcores);
};

/// "   3s  50 connections  51234 requests/s  timeouts read 0 write 0 …  busy 9.1% …": the rate and
/// the shares are those between `before` and `now`, the rest counts from the start. Ends in how
/// often accepting paused ("full") and connections "gave way" or "starved" in between, if any did.
[[nodiscard]] std::string stats_line(const EchoFigures& before, const EchoFigures& now,
                                     Delay interval, Delay since_start);

/// The last lines.
[[nodiscard]] std::string summary(const EchoFigures& total, Delay since_start);

/// Prints the first line, a line per period and the summary, off the lcores.
///
/// Threading:  begin() on one lcore; finish() on the thread that made it, when all have ended.
class EchoReport {
 public:
  /// A period of 0 s: no lines in between.
  EchoReport(std::size_t lcores, std::chrono::seconds period);

  [[nodiscard]] FiguresDesk<EchoFigures>& desk() noexcept { return desk_; }

  /// Everything is set up: prints `first_line` and starts to count time.
  void begin(const std::string& first_line);
  void finish();

 private:
  using Clock = std::chrono::steady_clock;

  void print_line();
  [[nodiscard]] Delay since_start() const { return Clock::now() - start_; }

  FiguresDesk<EchoFigures> desk_;
  std::atomic<bool> begun_ = false;
  Clock::time_point start_;
  Delay last_line_;
  EchoFigures before_;
  std::optional<Ticker> ticker_;
};

}  // namespace pinion::apps
