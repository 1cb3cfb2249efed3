#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <pinion/eventloop/idle.h>
#include <pinion/lib/time.h>
#include <pinion/net/address.h>

#include "common/settings.h"
#include "common/submission_settings.h"

/// What pinion-load is asked to do, and when each request is due.

namespace pinion::apps {

struct LoadOptions {
  Endpoint connect{.address = IpAddress::v4({127, 0, 0, 1}), .port = 7007};
  std::uint32_t connections = 50;
  std::uint32_t silent = 0;
  ByteCount size{64};
  std::uint64_t rate = 0;
  Delay duration = std::chrono::seconds{10};
  Delay warmup = std::chrono::seconds{1};
  Delay think{};
  Delay timeout = std::chrono::seconds{10};
  bool reconnect = false;
  std::uint32_t lcores = 1;
  std::vector<unsigned> cpus;
  IdlePolicy idle = IdlePolicy::adaptive;
  SubmissionSettings submission;
  std::uint64_t seed = 1;
  std::string json;
};

/// Fills `options` from the command line, the environment and a file. False when there is nothing
/// left to do. Throws ProgramError.
[[nodiscard]] bool read_load_options(LoadOptions& options, int argc, const char* const* argv);

/// The options on the loops' clock.
struct LoadPlan {
  LoadOptions options;
  Instant opening{};  ///< The first connection opens.
  Instant start{};    ///< The first request is sent.
  Instant measure_from{};
  Instant end{};

  /// Every lcore is ready: connections open one after the other, so that a listen queue isn't
  /// flooded, and then, after a moment for the last of them, the time begins to count.
  void begin(Instant now) noexcept {
    opening = now;
    start = saturating_add(opens_at(options.connections), kOpeningTime);
    measure_from = saturating_add(start, options.warmup);
    end = saturating_add(measure_from, options.duration);
  }

  [[nodiscard]] Instant opens_at(std::uint64_t connection) const noexcept {
    return saturating_add(opening, connection * kOpeningDistance);
  }

  /// When a run that was broken off at `now` ends: what was measured is what came before.
  [[nodiscard]] Instant end_at(Instant now) const noexcept {
    return std::clamp(now, measure_from, end);
  }
  void cut_off(Instant now) noexcept { end = end_at(now); }

  /// How long requests are measured: the whole --duration, unless the run was cut off.
  [[nodiscard]] Delay measured() const noexcept { return saturating_sub(end, measure_from); }

  /// What isn't answered by then is given up.
  [[nodiscard]] Instant last_moment() const noexcept {
    return saturating_add(end, options.timeout);
  }

  [[nodiscard]] bool open_loop() const noexcept { return options.rate != 0; }
  [[nodiscard]] bool measures(Instant due) const noexcept {
    return due >= measure_from && due < end;
  }

  /// At --rate, when request `sequence` of `connection` is due: all connections together send at
  /// even distances.
  [[nodiscard]] Instant due(std::uint64_t connection, std::uint64_t sequence) const noexcept {
    const std::uint64_t number = sequence * options.connections + connection;
    const std::uint64_t seconds = number / options.rate;
    const std::uint64_t rest = number % options.rate;
    return saturating_add(saturating_add(start, std::chrono::seconds(seconds)),
                          std::chrono::nanoseconds(rest * 1'000'000'000 / options.rate));
  }

  /// The first request of `connection` that is due at `when` or later.
  [[nodiscard]] std::uint64_t first_due(std::uint64_t connection, Instant when) const noexcept {
    std::uint64_t low = 0;
    std::uint64_t high = kMostRequests;
    while (low < high) {
      const std::uint64_t middle = low + (high - low) / 2;
      if (due(connection, middle) < when) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

 private:
  static constexpr std::chrono::microseconds kOpeningDistance{20};
  static constexpr std::chrono::milliseconds kOpeningTime{50};

  /// Per connection; more than a day at 10 million a second.
  static constexpr std::uint64_t kMostRequests = std::uint64_t{1} << 40;
};

}  // namespace pinion::apps
