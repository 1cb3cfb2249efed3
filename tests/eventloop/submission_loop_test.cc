#include <gtest/gtest.h>
#include <liburing.h>

#include <array>
#include <cerrno>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include <pinion/eventloop/loop.h>
#include <pinion/eventloop/snapshot.h>

#include "loop_fixture.h"
#include "ring_wait.h"

// When a loop's operations reach the kernel. A task that yields keeps the turns coming.

namespace pinion {
namespace {

using namespace std::chrono_literals;

struct Nop : Completion {
  Nop() : Completion(&on_done) {}
  static void on_done(Completion& self, std::int32_t, std::uint32_t) noexcept {
    ++static_cast<Nop&>(self).done;
  }
  int done = 0;
};

class HeldOperations : public testing::Test {
 protected:
  static constexpr Instant kStart{1h};

  void SetUp() override { ASSERT_TRUE(loop->adopt_thread()); }
  void TearDown() override {
    busy = false;
    while (loop->turn() > 0 || loop->ring().queued() > 0) {
    }
  }

  /// Until `busy` is taken back, each turn has something to do and enters no kernel for it.
  void keep_busy() {
    loop->spawn([](const bool& on) -> Task<> {
      while (on) co_await yield();
    }(busy));
    loop->turn();
  }

  void queue() { io_uring_prep_nop(&loop->ring().get_sqe(nop)); }

  /// A turn, `step` later, at whose end so many operations are left.
  unsigned left_after(Delay step) {
    time.advance(step);
    loop->turn();
    return loop->ring().queued();
  }

  ManualTime time{kStart};
  Nop nop;  // May end as the loop does.
  bool busy = true;
  std::unique_ptr<Loop> loop = test::make_loop(time, {.submission = {
                                                          .mode = SubmissionMode::throughput,
                                                          .batch = 4,
                                                          .max_wait = 50us,
                                                      }});
};

TEST_F(HeldOperations, GoOutWhenTheyAreABatch) {
  keep_busy();
  for (unsigned count = 1; count < 4; ++count) {
    queue();
    EXPECT_EQ(left_after(1us), count);
  }
  queue();
  EXPECT_EQ(left_after(1us), 0U);
  EXPECT_EQ(loop->ring().stats().batches.max(), 4U);
  EXPECT_EQ(loop->stats().submission.holds, 3U);
  EXPECT_EQ(loop->stats().submission.waits.max(), 3000U);
  EXPECT_EQ(left_after(1us), 0U);
  EXPECT_EQ(nop.done, 4);
}

TEST_F(HeldOperations, GoOutWhenTheOldestHasWaited) {
  keep_busy();
  queue();
  EXPECT_EQ(left_after(1us), 1U);
  queue();
  EXPECT_EQ(left_after(49us), 2U);
  EXPECT_EQ(left_after(1us), 0U);
}

TEST_F(HeldOperations, GoOutOnceTheNextTurnHasNothingToDo) {
  keep_busy();
  queue();
  EXPECT_EQ(left_after(0us), 1U);
  busy = false;
  EXPECT_EQ(left_after(0us), 0U) << "the task has ended in this turn";
}

TEST_F(HeldOperations, GoWithACallThatFetchesCompletions) {
  keep_busy();
  test::SocketPair pair;
  ASSERT_TRUE(pair.ok);
  queue();
  EXPECT_EQ(left_after(1us), 1U);
  std::array<std::byte, 4> buffer{};
  Nop read;
  io_uring_prep_read(&loop->ring().get_sqe(read), pair.ends[0], buffer.data(), buffer.size(), 0);
  loop->ring().submit();
  EXPECT_EQ(left_after(1us), 0U);
  queue();
  EXPECT_EQ(left_after(1us), 1U);
  ASSERT_EQ(write(pair.ends[1], "pong", 4), 4);
  EXPECT_EQ(left_after(1us), 0U) << "the kernel was entered for what has arrived";
  EXPECT_EQ(read.done, 1);
}

TEST_F(HeldOperations, GoOutWithACancellation) {
  keep_busy();
  test::SocketPair pair;
  ASSERT_TRUE(pair.ok);
  std::array<std::byte, 4> buffer{};
  Nop read;
  io_uring_prep_read(&loop->ring().get_sqe(read), pair.ends[0], buffer.data(), buffer.size(), 0);
  loop->ring().submit();
  queue();
  EXPECT_EQ(left_after(1us), 1U);
  loop->ring().cancel(read);
  EXPECT_TRUE(loop->ring().urgent());
  EXPECT_EQ(left_after(1us), 0U);
  EXPECT_FALSE(loop->ring().urgent());
  left_after(1us);
  EXPECT_EQ(read.done, 1);
  queue();
  EXPECT_EQ(left_after(1us), 1U) << "the hurry is over";
}

TEST_F(HeldOperations, GoOutWithWhatSomebodyWaitsFor) {
  keep_busy();
  queue();
  loop->ring().hurry();
  EXPECT_EQ(left_after(1us), 0U);
  queue();
  loop->ring().expect_quiet();
  EXPECT_EQ(left_after(1us), 0U);
}

TEST_F(HeldOperations, GoWithADoorbellWhichWaitsForNothing) {
  auto other = Ring::create({});
  ASSERT_TRUE(other);
  ASSERT_TRUE((*other)->enable());
  if (!loop->ring().has(RingFeature::message)) GTEST_SKIP() << "no IORING_OP_MSG_RING";
  keep_busy();
  queue();
  EXPECT_EQ(left_after(1us), 1U);
  EXPECT_TRUE(loop->ring().ring_doorbell((*other)->fd()));
  EXPECT_EQ(loop->ring().queued(), 0U);
}

TEST_F(HeldOperations, TheModeChangesInTheNextTurn) {
  keep_busy();
  queue();
  EXPECT_EQ(left_after(1us), 1U);
  loop->set_submission_mode(SubmissionMode::low_latency);
  EXPECT_EQ(left_after(1us), 0U);
  queue();
  EXPECT_EQ(left_after(1us), 0U);
  loop->set_submission_mode(SubmissionMode::throughput);
  queue();
  EXPECT_EQ(left_after(1us), 1U);
  EXPECT_EQ(loop->stats().submission.mode_changes, 2U);
}

TEST_F(HeldOperations, TheModeChangesFromAnotherThreadByAMessage) {
  struct Change : Message {
    Change() : Message(&on_message) {}
    static void on_message(Message&) noexcept {
      Loop::current().set_submission_mode(SubmissionMode::low_latency);
    }
  } change;
  keep_busy();
  queue();
  EXPECT_EQ(left_after(1us), 1U);
  std::thread([&] { loop->post(change); }).join();
  EXPECT_EQ(left_after(1us), 0U);
  EXPECT_EQ(loop->stats().submission.mode, SubmissionMode::low_latency);
}

TEST_F(HeldOperations, AreHeldNoMoreWhenARunEnds) {
  keep_busy();
  queue();
  int looks = 0;
  static_cast<void>(loop->run_until(
      [this, &looks]() noexcept {
        time.advance(1us);
        return ++looks >= 3;
      },
      1s));
  EXPECT_EQ(loop->ring().queued(), 0U);
  const auto& stats = loop->stats().submission;
  EXPECT_EQ(stats.waits.count(), 1U);
  EXPECT_EQ(stats.waits.max(), 1000U);
  EXPECT_EQ(left_after(1s), 0U) << "nothing is left of it";
  EXPECT_EQ(stats.waits.count(), 1U);
}

TEST_F(HeldOperations, TheReportTellsOfThem) {
  keep_busy();
  for (int i = 0; i < 4; ++i) {
    queue();
    left_after(1us);
  }
  const auto snapshot = std::make_unique<LoopSnapshot>();
  snapshot->take(*loop);
  const std::string text = to_text(*snapshot);
  EXPECT_NE(
      text.find("submit    throughput, 0 mode changes; batches of 4.0 on average, p50 4 p99 4 "
                "max 4"),
      std::string::npos)
      << text;
  EXPECT_NE(text.find("submit    held at the end of 3 turns; 1 batches waited p50 3us"),
            std::string::npos)
      << text;
}

// By the real clock: a loop that goes to sleep takes along what it held.
TEST(HeldBeforeASleep, NothingStaysBehind) {
  for (const SubmissionMode mode :
       {SubmissionMode::low_latency, SubmissionMode::throughput, SubmissionMode::adaptive}) {
    for (const IdlePolicy idle : {IdlePolicy::park, IdlePolicy::adaptive, IdlePolicy::spin}) {
      MonotonicTime time;
      const auto loop = test::make_loop(
          time, {.idle = idle, .submission = {.mode = mode, .batch = 32768, .max_wait = 1s}});
      Nop nop;
      loop->spawn([](Ring& ring, Nop& done) -> Task<> {
        for (int i = 0; i < 20; ++i) {
          io_uring_prep_nop(&ring.get_sqe(done));
          co_await yield();
        }
      }(loop->ring(), nop));
      EXPECT_TRUE(loop->run_until([&nop]() noexcept { return nop.done == 20; }, 10s))
          << to_string(mode) << ", idle policy " << to_string(idle) << ": " << nop.done;
      EXPECT_EQ(loop->stats().submission.mode, mode);
      const bool gathers = mode == SubmissionMode::throughput;
      EXPECT_TRUE(!gathers || loop->ring().stats().batches.max() == 20U);
    }
  }
}

TEST(SubmissionOptionsOfALoop, AreCheckedWhenItIsMade) {
  ManualTime time{Instant{1h}};
  const auto loop = Loop::create({.submission = {.batch = 0}}, time);
  ASSERT_FALSE(loop);
  EXPECT_EQ(loop.error().code, ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace pinion
