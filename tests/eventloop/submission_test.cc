#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include <pinion/eventloop/submission.h>
#include <pinion/lib/random.h>
#include <pinion/test/seed.h>

// The rules by which a loop holds operations, on a clock of the test's own.

namespace pinion {
namespace {

using namespace std::chrono_literals;
using Turn = SubmissionController::Turn;

/// A controller, and turns that end as the test says.
struct Ends {
  explicit Ends(SubmissionRules which) : rules(which), controller(rules, stats) {}

  /// A turn that began at `at` ends with `queued` operations; the next one has something to do.
  bool holds(Delay at, unsigned queued, bool more = true, bool urgent = false) {
    return controller.holds({.now = saturating_add(Instant{}, at),
                             .queued = queued,
                             .handed_over = handed_over,
                             .more = more,
                             .urgent = urgent});
  }

  SubmissionRules rules;
  SubmissionStats stats;
  SubmissionController controller;
  std::uint64_t handed_over = 0;
};

SubmissionRules rules(SubmissionMode mode, std::uint32_t batch = 8, Delay max_wait = 50us) {
  return {.mode = mode, .batch = batch, .max_wait = max_wait};
}

TEST(SubmissionMode, NamesAreReadBack) {
  for (const SubmissionMode mode :
       {SubmissionMode::low_latency, SubmissionMode::throughput, SubmissionMode::adaptive}) {
    EXPECT_EQ(parse_submission_mode(to_string(mode)), mode);
  }
  EXPECT_EQ(to_string(SubmissionMode::low_latency), "low-latency");
  EXPECT_EQ(parse_submission_mode("fast"), std::nullopt);
}

TEST(Submission, LowLatencyHoldsNothing) {
  Ends ends(rules(SubmissionMode::low_latency));
  EXPECT_FALSE(ends.holds(1us, 1));
  EXPECT_EQ(ends.stats.holds, 0U);
}

TEST(Submission, ThroughputHoldsUntilTheBatchIsFull) {
  Ends ends(rules(SubmissionMode::throughput, 3));
  EXPECT_FALSE(ends.holds(1us, 0)) << "there is nothing";
  EXPECT_TRUE(ends.holds(2us, 1));
  EXPECT_TRUE(ends.holds(3us, 2));
  EXPECT_FALSE(ends.holds(4us, 3));
  EXPECT_EQ(ends.stats.holds, 2U);
  EXPECT_EQ(ends.stats.waits.count(), 1U);
  EXPECT_EQ(ends.stats.waits.max(), 2000U);
}

TEST(Submission, TheWaitIsTheOldestOnes) {
  Ends ends(rules(SubmissionMode::throughput, 100, 50us));
  EXPECT_TRUE(ends.holds(0us, 1));
  EXPECT_TRUE(ends.holds(30us, 2));
  EXPECT_TRUE(ends.holds(49us, 3));
  EXPECT_FALSE(ends.holds(50us, 4)) << "the first one has waited for 50 us";
  EXPECT_EQ(ends.stats.waits.max(), 50'000U);
}

TEST(Submission, NothingIsHeldWhenTheNextTurnHasNothingToDo) {
  Ends ends(rules(SubmissionMode::throughput));
  EXPECT_FALSE(ends.holds(0us, 1, false));
  EXPECT_TRUE(ends.holds(1us, 1));
  EXPECT_FALSE(ends.holds(2us, 1, false));
}

TEST(Submission, NothingIsHeldBesideWhatIsUrgent) {
  Ends ends(rules(SubmissionMode::throughput));
  EXPECT_FALSE(ends.holds(0us, 1, true, true));
  EXPECT_TRUE(ends.holds(1us, 1));
  EXPECT_FALSE(ends.holds(2us, 2, true, true));
}

TEST(Submission, WhatAnotherCallTookAlongIsHeldNoMore) {
  Ends ends(rules(SubmissionMode::throughput, 100, 50us));
  EXPECT_TRUE(ends.holds(0us, 1));
  ends.handed_over = 1;  // The next turn fetched completions.
  EXPECT_TRUE(ends.holds(49us, 1)) << "another one, queued in this turn";
  EXPECT_EQ(ends.stats.waits.max(), 49'000U);
  EXPECT_TRUE(ends.holds(98us, 2)) << "which hasn't waited for 50 us yet";
  EXPECT_FALSE(ends.holds(99us, 2));
}

TEST(Submission, WithoutAWaitOrABatchNothingIsHeld) {
  Ends no_wait(rules(SubmissionMode::throughput, 8, 0us));
  EXPECT_FALSE(no_wait.holds(0us, 1));
  Ends no_batch(rules(SubmissionMode::throughput, 1));
  EXPECT_FALSE(no_batch.holds(0us, 1));
}

TEST(Submission, ThroughputHoldsNothingWhileTurnsAreLongerThanTheWait) {
  Ends ends(rules(SubmissionMode::throughput, 100, 50us));
  EXPECT_FALSE(ends.holds(0us, 0));
  EXPECT_FALSE(ends.holds(51us, 1)) << "the next turn will be as long";
  ++ends.handed_over;
  EXPECT_FALSE(ends.holds(102us, 1));
  ++ends.handed_over;
  EXPECT_FALSE(ends.holds(202us, 0));
  EXPECT_TRUE(ends.holds(252us, 1)) << "it took no longer than the wait";
  EXPECT_FALSE(ends.holds(400us, 1));
  ++ends.handed_over;
  EXPECT_FALSE(ends.holds(500us, 1)) << "what was held says it, too";
}

TEST(Submission, WhatIsHandedOverElsewhereEndsTheHold) {
  Ends ends(rules(SubmissionMode::adaptive, 100, 1s));
  ends.controller.learn(1us, 1, 400ns);
  ends.controller.end(Instant{5us});
  EXPECT_EQ(ends.stats.waits.count(), 0U) << "nothing was held";
  bool held = false;
  std::int64_t at = 0;
  for (; !held && at < 2000; ++at) held = ends.holds(std::chrono::nanoseconds{100 * at}, 1);
  ASSERT_TRUE(held);
  ends.controller.end(saturating_add(Instant{}, std::chrono::nanoseconds{100 * at}));
  ++ends.handed_over;
  EXPECT_EQ(ends.stats.waits.count(), 1U);
  EXPECT_EQ(ends.stats.waits.max(), 100U);
  EXPECT_FALSE(ends.holds(1h, 1)) << "how long turns are isn't known, nor is it that";
  EXPECT_EQ(ends.stats.waits.count(), 1U);
}

TEST(Submission, AClockThatStandsHoldsNothingForEver) {
  Ends ends(rules(SubmissionMode::throughput));
  std::uint32_t turns = 0;
  while (ends.holds(0us, 1) && turns < 1000) ++turns;
  EXPECT_EQ(turns, SubmissionController::kMostTurns);
}

// The rules of throughput against their plain statement.
TEST(Submission, ThroughputIsWhatItsRulesSay) {
  SCOPED_TRACE(testing::Message() << "PINION_SEED=" << test::seed());
  Random random(test::seed());
  for (std::uint64_t run = 0; run < test::scaled(200); ++run) {
    const auto batch = static_cast<std::uint32_t>(1 + random.below(20));
    const Delay max_wait = std::chrono::nanoseconds(random.below(200));
    Ends ends(rules(SubmissionMode::throughput, batch, max_wait));
    std::int64_t now = 0;
    std::int64_t oldest = 0;  // Of what is queued.
    unsigned queued = 0;
    bool held = false;
    for (int turn = 0; turn < 200; ++turn) {
      const auto last_took = static_cast<std::int64_t>(1 + random.below(100));
      now += last_took;
      if (random.below(8) == 0) {  // Something entered the kernel.
        ends.handed_over += queued;
        held = held && queued == 0;
        queued = 0;
      }
      const auto fresh = static_cast<unsigned>(random.below(3));
      if (queued == 0) oldest = now;
      queued += fresh;
      const bool more = random.below(8) != 0;
      const bool urgent = random.below(16) == 0;
      const bool short_turns = held || turn == 0 || last_took <= max_wait.count();
      const bool waits = queued > 0 && queued < batch && more && !urgent && short_turns &&
                         now - oldest < max_wait.count();
      ASSERT_EQ(ends.holds(std::chrono::nanoseconds{now}, queued, more, urgent), waits)
          << "run " << run << " turn " << turn;
      held = waits;
      if (waits) continue;
      ends.handed_over += queued;
      queued = 0;
    }
  }
}

/// Turns of `work`, and calls of 400 ns and 100 ns for each operation; then turns that submit,
/// until it has tried to hold often enough to know them.
void show(Ends& ends, Delay work, int calls = 200) {
  for (int i = 0; i < calls; ++i) {
    const auto count = static_cast<unsigned>(1 + i % 4);
    ends.controller.learn(work, count, std::chrono::nanoseconds{400 + 100 * count});
  }
  Delay now{};
  for (std::uint32_t i = 0; i < 64 * SubmissionController::kTurnsPerTry; ++i) {
    now = std::chrono::nanoseconds{now.count() + work.count()};
    if (!ends.holds(now, 1)) ++ends.handed_over;
  }
  ends.holds(now, 1, false);
  ++ends.handed_over;
}

TEST(AdaptiveSubmission, HoldsNothingBeforeItKnowsTheTurns) {
  Ends ends(rules(SubmissionMode::adaptive));
  EXPECT_FALSE(ends.holds(0us, 1));
}

TEST(AdaptiveSubmission, KnowsWhatACallCostsWhateverItsOperationsCost) {
  for (const int each : {10, 100, 1000}) {
    Ends ends(rules(SubmissionMode::adaptive));
    for (int i = 0; i < 200; ++i) {
      const int count = 1 + i % 4;
      ends.controller.learn(1us, static_cast<unsigned>(count),
                            std::chrono::nanoseconds{400 + each * count});
    }
    EXPECT_NEAR(static_cast<double>(ends.controller.call_cost().count()), 400, 60) << each;
  }
}

TEST(AdaptiveSubmission, BelievesTheUsualCostWhereAllCallsAreAlike) {
  Ends ends(rules(SubmissionMode::adaptive));
  for (int i = 0; i < 200; ++i) ends.controller.learn(1us, 1, 5us);
  EXPECT_EQ(ends.controller.call_cost(), Delay{SubmissionController::kUsualCall});
  for (int i = 0; i < 200; ++i) ends.controller.learn(1us, 1, 120ns);
  EXPECT_LE(ends.controller.call_cost(), Delay{140ns}) << "no call costs more than all of it";
}

TEST(AdaptiveSubmission, OneCallThatWasHeldUpChangesLittle) {
  Ends ends(rules(SubmissionMode::adaptive));
  show(ends, 100ns);
  ends.controller.learn(100ns, 4, 10ms);
  EXPECT_LE(ends.controller.call_cost(), Delay{SubmissionController::kDearestCall});
  show(ends, 100ns, 100);
  EXPECT_NEAR(static_cast<double>(ends.controller.call_cost().count()), 400, 60);
}

TEST(AdaptiveSubmission, HoldsForSomeCallsWhereTurnsAreShorterThanTwo) {
  Ends ends(rules(SubmissionMode::adaptive, 1000));
  show(ends, 300ns);
  unsigned held = 0;
  while (held < 200 && ends.holds(std::chrono::nanoseconds{300 * held}, held + 1)) ++held;
  EXPECT_GE(held, 36U) << "32 calls of 400 ns are 43 turns";
  EXPECT_LE(held, 48U);
}

TEST(AdaptiveSubmission, IsBoundByTheLongestWaitToo) {
  Ends ends(rules(SubmissionMode::adaptive, 1000, 1us));
  show(ends, 300ns);
  EXPECT_TRUE(ends.holds(0ns, 1));
  EXPECT_TRUE(ends.holds(999ns, 1));
  EXPECT_FALSE(ends.holds(1us, 1));
}

TEST(AdaptiveSubmission, HoldsNothingWhereTurnsAreLong) {
  Ends ends(rules(SubmissionMode::adaptive));
  show(ends, 900ns);
  EXPECT_LE(ends.stats.holds, 64U) << "it tries now and then";
  EXPECT_FALSE(ends.holds(1us, 1));
  const std::uint64_t tried = ends.stats.holds;
  show(ends, 3us);
  const std::uint64_t tried_then = ends.stats.holds;
  show(ends, 3us);
  EXPECT_LE(tried_then, tried + 1);
  EXPECT_EQ(ends.stats.holds, tried_then) << "turns longer than any call are not tried";
}

// Where all is held no call is timed any more: what was held tells how long turns have become.
TEST(AdaptiveSubmission, HoldingTellsWhenTurnsHaveBecomeLong) {
  Ends ends(rules(SubmissionMode::adaptive, 100, 1s));
  show(ends, 100ns);
  Delay now{};
  int held = 0;
  for (int turn = 0; turn < 100; ++turn) {
    now = std::chrono::nanoseconds{now.count() + 5000};
    if (ends.holds(now, 1)) {
      ++held;
    } else {
      ++ends.handed_over;
    }
  }
  EXPECT_LE(held, 16);
}

TEST(AdaptiveSubmission, NeverHoldsWhatThroughputDoesNot) {
  SCOPED_TRACE(testing::Message() << "PINION_SEED=" << test::seed());
  Random random(test::seed());
  Ends ends(rules(SubmissionMode::adaptive, 4, 1us));
  show(ends, 1ns);
  Delay now{};
  Delay oldest{};
  bool holding = false;
  for (std::uint64_t turn = 0; turn < test::scaled(10'000); ++turn) {
    now = std::chrono::nanoseconds{now.count() + static_cast<std::int64_t>(random.below(400))};
    const auto queued = static_cast<unsigned>(1 + random.below(5));
    const bool more = random.below(4) != 0;
    if (!holding) oldest = now;
    holding = ends.holds(now, queued, more);
    if (holding) {
      ASSERT_TRUE(more);
      ASSERT_LT(queued, 4U);
      ASSERT_LT(now.count() - oldest.count(), 1000);
      continue;
    }
    ends.handed_over += queued;
  }
}

TEST(Submission, TheModeChangesWhileSomethingIsHeld) {
  Ends ends(rules(SubmissionMode::throughput));
  EXPECT_TRUE(ends.holds(0us, 1));
  ends.controller.set_mode(SubmissionMode::low_latency);
  EXPECT_FALSE(ends.holds(1us, 1));
  EXPECT_FALSE(ends.holds(2us, 1));
  ends.controller.set_mode(SubmissionMode::throughput);
  ends.controller.set_mode(SubmissionMode::throughput);
  EXPECT_TRUE(ends.holds(3us, 1));
  EXPECT_EQ(ends.stats.mode, SubmissionMode::throughput);
  EXPECT_EQ(ends.stats.mode_changes, 2U);
}

/// Sets a variable, and restores it.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* const before = getenv(name)) before_ = before;
    value == nullptr ? unsetenv(name) : setenv(name, value, 1);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  ~Variable() { before_ ? setenv(name_, before_->c_str(), 1) : unsetenv(name_); }

 private:
  const char* name_;
  std::optional<std::string> before_;
};

class SubmissionEnvironment : public testing::Test {
 protected:
  /// The error, in the two lines that a person sees; empty when there is none.
  static std::string error(const char* name, const char* value) {
    const Variable variable(name, value);
    const auto resolved = SubmissionOptions{}.resolve();
    return resolved ? "" : to_string(resolved.error());
  }

 private:
  Variable mode_{"PINION_SUBMIT_MODE", nullptr};
  Variable batch_{"PINION_SUBMIT_BATCH", nullptr};
  Variable max_wait_{"PINION_SUBMIT_MAX_WAIT_US", nullptr};
};

TEST_F(SubmissionEnvironment, WithoutAnythingTheDefaultsHold) {
  const auto resolved = SubmissionOptions{}.resolve();
  ASSERT_TRUE(resolved);
  EXPECT_EQ(resolved->mode, SubmissionMode::adaptive);
  EXPECT_EQ(resolved->batch, SubmissionRules{}.batch);
  EXPECT_EQ(resolved->max_wait, SubmissionRules{}.max_wait);
}

TEST_F(SubmissionEnvironment, OptionsGoBeforeIt) {
  const Variable mode("PINION_SUBMIT_MODE", "throughput");
  const Variable batch("PINION_SUBMIT_BATCH", "7");
  const Variable max_wait("PINION_SUBMIT_MAX_WAIT_US", "300");
  const auto from_it = SubmissionOptions{}.resolve();
  ASSERT_TRUE(from_it);
  EXPECT_EQ(from_it->mode, SubmissionMode::throughput);
  EXPECT_EQ(from_it->batch, 7U);
  EXPECT_EQ(from_it->max_wait, Delay{300us});
  const SubmissionOptions options{
      .mode = SubmissionMode::low_latency, .batch = 9, .max_wait = 10us};
  const auto from_options = options.resolve();
  ASSERT_TRUE(from_options);
  EXPECT_EQ(from_options->mode, SubmissionMode::low_latency);
  EXPECT_EQ(from_options->batch, 9U);
  EXPECT_EQ(from_options->max_wait, Delay{10us});
}

TEST_F(SubmissionEnvironment, WhatIsWrongIsNamedWithTheRemedy) {
  EXPECT_EQ(error("PINION_SUBMIT_MODE", "fast"),
            "error: PINION_SUBMIT_MODE=fast: no such mode\n"
            "fix: PINION_SUBMIT_MODE=low-latency, throughput or adaptive");
  EXPECT_EQ(error("PINION_SUBMIT_BATCH", "0"),
            "error: PINION_SUBMIT_BATCH=0: out of range\n"
            "fix: PINION_SUBMIT_BATCH=N, a whole number from 1 to 32768");
  EXPECT_EQ(error("PINION_SUBMIT_BATCH", "32769"),
            "error: PINION_SUBMIT_BATCH=32769: out of range\n"
            "fix: PINION_SUBMIT_BATCH=N, a whole number from 1 to 32768");
  for (const char* const text : {"1x", "-1", " 1", "1.5", "many"}) {
    EXPECT_EQ(error("PINION_SUBMIT_MAX_WAIT_US", text),
              std::string("error: PINION_SUBMIT_MAX_WAIT_US=") + text +
                  ": not a whole number\n"
                  "fix: PINION_SUBMIT_MAX_WAIT_US=N, a whole number from 0 to 1000000");
  }
  EXPECT_NE(error("PINION_SUBMIT_MAX_WAIT_US", "1000001"), "");
  EXPECT_NE(error("PINION_SUBMIT_MAX_WAIT_US", "99999999999999999999999"), "");
  EXPECT_EQ(error("PINION_SUBMIT_MAX_WAIT_US", "1000000"), "");
  EXPECT_EQ(error("PINION_SUBMIT_MODE", ""), "") << "an empty one is none";
}

TEST_F(SubmissionEnvironment, OptionsOutOfRangeAreNamed) {
  EXPECT_EQ(to_string(SubmissionOptions{.batch = 0}.resolve().error()),
            "error: submission.batch is 0\n"
            "fix: set LoopOptions::submission.batch to 1 to 32768");
  EXPECT_EQ(to_string(SubmissionOptions{.max_wait = -1us}.resolve().error()),
            "error: submission.max_wait is -1000 ns\n"
            "fix: set LoopOptions::submission.max_wait to 0 to 1000000 us");
}

}  // namespace
}  // namespace pinion
