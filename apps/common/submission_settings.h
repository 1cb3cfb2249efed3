#pragma once

#include <chrono>
#include <cstdint>

#include <pinion/eventloop/submission.h>

#include "net_values.h"
#include "settings.h"

/// The settings of a loop's submission policy, the same for every program.

namespace pinion::apps {

struct SubmissionSettings {
  static constexpr std::uint32_t kMostWaitUs = SubmissionRules::kLongestWait.count() / 1000;

  SubmissionMode mode = SubmissionRules{}.mode;
  std::uint32_t batch = SubmissionRules{}.batch;
  std::uint32_t max_wait_us = static_cast<std::uint32_t>(SubmissionRules{}.max_wait.count() / 1000);

  /// All of it: the environment has had its say already.
  [[nodiscard]] SubmissionOptions options() const {
    return {.mode = mode, .batch = batch, .max_wait = std::chrono::microseconds{max_wait_us}};
  }
};

inline void declare(Settings& settings, SubmissionSettings& submission) {
  settings.add(submission.mode,
               {"submit-mode", "when operations go to the kernel: each turn, or in batches"});
  settings.add(submission.batch, {"submit-batch", "operations that are no longer held for more"},
               {{1, SubmissionRules::kMostBatch}});
  settings.add(submission.max_wait_us,
               {"submit-max-wait-us", "how long they are held at most, in microseconds"},
               {{0, SubmissionSettings::kMostWaitUs}});
}

}  // namespace pinion::apps
