#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "stack_callgrind.h"
#include "stack_run.h"
#include "stack_subjects.h"
#include "stack_targets.h"

/// The subjects of the bench of stacks do what they are asked for, a server that doesn't is found
/// out, and the figures are judged by what was promised.

namespace pinion::bench {
namespace {

void just(const std::function<void()>& turn) {
  turn();
}

struct Done {
  std::size_t operations = 0;
  std::uint64_t bytes_in = 0;
  std::uint64_t segments = 0;
  std::uint64_t bytes_out = 0;
  std::uint64_t acknowledgments = 0;
};

Done done_by(StackRun& run, StackCase what, std::size_t operations, std::size_t burst) {
  const auto bytes_in = run.server().application().bytes_in();
  const StackPeer before = run.peer();
  Done done;
  done.operations = run.run(what, operations, burst, &just);
  done.bytes_in = run.server().application().bytes_in() - bytes_in;
  done.segments = run.peer().segments() - before.segments();
  done.bytes_out = run.peer().bytes() - before.bytes();
  done.acknowledgments = run.peer().empty_segments() - before.empty_segments();
  return done;
}

TEST(StackBench, EverySubjectTakesAndSendsEveryByte) {
  for (const StackSubject& subject : stack_subjects()) {
    for (const std::size_t connections : {1U, 3U, 1'000U}) {
      SCOPED_TRACE(testing::Message() << subject.name << ", " << connections << " connections");
      StackRun run(subject, connections, 7);
      EXPECT_EQ(run.server().connections(), connections);
      for (const std::size_t burst : {1U, 32U}) {
        run.warm_up(StackCase::receive, burst);
        const Done received = done_by(run, StackCase::receive, 3'200, burst);
        EXPECT_GE(received.operations, 3'200U);
        EXPECT_EQ(received.bytes_in, received.operations * kStackSegment);
        EXPECT_EQ(received.segments, 0U);
        EXPECT_GE(received.acknowledgments, received.operations / 32);

        run.warm_up(StackCase::send, burst);
        const Done sent = done_by(run, StackCase::send, 3'200, burst);
        EXPECT_EQ(sent.segments, sent.operations);
        EXPECT_EQ(sent.bytes_out, sent.operations * kStackSegment);
        EXPECT_EQ(sent.bytes_in, 0U);

        run.warm_up(StackCase::request, burst);
        const Done answered = done_by(run, StackCase::request, 3'200, burst);
        EXPECT_EQ(answered.bytes_in, answered.operations * kStackRequest);
        EXPECT_EQ(answered.segments, answered.operations);
        EXPECT_EQ(answered.bytes_out, answered.operations * kStackRequest);
        EXPECT_EQ(run.fault(), "");
      }
    }
  }
}

/// Pinion behind a line that loses a packet, or changes a byte of one.
class FaultyServer final : public StackServer {
 public:
  FaultyServer(std::unique_ptr<StackServer> behind, std::size_t good, bool loses)
      : behind_(std::move(behind)), good_(good), loses_(loses) {}

  void load(std::span<const std::byte> packet) override {
    if (good_ != 0) {
      --good_;
      return behind_->load(packet);
    }
    if (std::exchange(loses_, false)) return;
    behind_->load(packet);
  }
  void turn(Instant now, std::span<const std::uint32_t> writers) override {
    behind_->application().answers = application_.answers;
    behind_->turn(now, writers);
  }
  void collect(const std::function<void(std::span<const std::byte>)>& packet) override {
    behind_->collect([&](std::span<const std::byte> left) {
      std::vector<std::byte> changed(left.begin(), left.end());
      if (good_ == 0 && !loses_) changed.back() ^= std::byte{1};
      packet(changed);
    });
  }
  [[nodiscard]] std::size_t connections() const override { return behind_->connections(); }

 private:
  std::unique_ptr<StackServer> behind_;
  std::size_t good_;
  bool loses_;
};

StackSubject faulty(std::size_t good, bool loses) {
  return {.name = "faulty",
          .make =
              [good, loses](std::size_t connections, Instant now) {
                return std::make_unique<FaultyServer>(make_pinion_stack(connections, now), good,
                                                      loses);
              },
          .most_connections = 1'000};
}

TEST(StackBench, WhatIsLostOrWrongIsSeen) {
  StackRun loses(faulty(2 * 10 + 5, true), 10, 1);
  EXPECT_EQ(loses.fault(), "");
  loses.run(StackCase::request, 100, 5, &just);
  EXPECT_NE(loses.fault(), "");

  StackRun changes(faulty(2 * 10 + 5, false), 10, 1);
  EXPECT_EQ(changes.fault(), "");
  changes.run(StackCase::request, 100, 5, &just);
  EXPECT_THAT(changes.fault(), testing::HasSubstr("a wrong checksum of TCP"));

  StackRun closed(faulty(15, true), 10, 1);
  EXPECT_EQ(closed.fault(), "9 of 10 connections opened");
}

TEST(StackBench, CallgrindsTotalsAreRead) {
  const std::string plain = "events: Ir\nfn=(1) a\n1 5\n\ntotals: 1000\n";
  EXPECT_EQ(read_callgrind(plain, 10)->instructions, 100);
  EXPECT_EQ(read_callgrind(plain, 10)->lines, 0);
  const std::string caches =
      "events: Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw\ntotals: 900 1 2 3 4 5 6 70 20\n";
  EXPECT_EQ(read_callgrind(caches, 30)->instructions, 30);
  EXPECT_EQ(read_callgrind(caches, 30)->lines, 3);
  EXPECT_FALSE(read_callgrind("", 10));
  EXPECT_FALSE(read_callgrind("events: Ir\ntotals: 0\n", 10));
  EXPECT_FALSE(read_callgrind(plain, 0));
}

class StackTargets : public testing::Test {
 protected:
  void add(StackCase what, std::size_t n, const char* metric, const char* subject, double value) {
    report_.add_sample({to_string(what), n, metric, subject}, "", value);
  }

  [[nodiscard]] std::string states() const {
    std::string states;
    for (const TargetOutcome& outcome : check_stack_targets(report_)) {
      states += outcome.state == TargetOutcome::State::met      ? 'y'
                : outcome.state == TargetOutcome::State::missed ? 'n'
                                                                : '-';
    }
    return states;
  }

  Report report_{"stack", {}};
};

TEST_F(StackTargets, NothingMeasuredIsNothingPromised) {
  EXPECT_EQ(states(), "-----------");
}

TEST_F(StackTargets, InstructionsAreComparedWithLwips) {
  add(StackCase::receive, 1, kStackInstructions, "pinion", 500);
  add(StackCase::receive, 1, kStackInstructions, "lwip", 1'000);
  add(StackCase::receive, 1, kStackInstructionsAlone, "pinion", 501);
  add(StackCase::receive, 1, kStackInstructionsAlone, "lwip", 1'000);
  add(StackCase::request, 1, kStackInstructions, "lwip", 1'000);
  EXPECT_EQ(states(), "yn---------");
}

TEST_F(StackTargets, InstructionsOfManyConnectionsAreComparedWithThoseOfOne) {
  add(StackCase::receive, 1, kStackInstructionsAlone, "pinion", 1'000);
  add(StackCase::receive, 10'000, kStackInstructionsAlone, "pinion", 1'099);
  add(StackCase::request, 1, kStackInstructionsAlone, "pinion", 1'000);
  add(StackCase::request, 10'000, kStackInstructionsAlone, "pinion", 1'101);
  EXPECT_EQ(states(), "-----y-n---");
}

TEST_F(StackTargets, TimeGrowsByCacheMissesOfTheSameRound) {
  for (const double miss : {50.0, 60.0, 100.0}) {
    report_.add_sample({kMemoryCase, 1'000'000, kMemoryMiss, "floor"}, "ns", miss);
    add(StackCase::send, 1'000, kStackNs, "pinion", 200);
    add(StackCase::send, 1'000'000, kStackNs, "pinion", 199 + 6 * miss);
    add(StackCase::request, 1'000, kStackNs, "pinion", 200);
    add(StackCase::request, 1'000'000, kStackNs, "pinion", 201 + 6 * miss);
  }
  add(StackCase::send, 50'000, kStackLines, "pinion", 6);
  add(StackCase::request, 50'000, kStackLines, "pinion", 6);
  EXPECT_EQ(states(), "---------yn");
}

}  // namespace
}  // namespace pinion::bench
