#include <gtest/gtest.h>
#include <liburing.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <memory>
#include <thread>
#include <vector>

#include <pinion/eventloop/ring.h>

#include "ring_wait.h"

namespace pinion {
namespace {

using namespace std::chrono_literals;

std::unique_ptr<Ring> make_ring(RingOptions options = {}) {
  auto ring = Ring::create(options);
  if (!ring) {
    ADD_FAILURE() << to_string(ring.error());
    std::abort();
  }
  return std::move(*ring);
}

struct Counting : Completion {
  Counting() : Completion(&on_done) {}
  static void on_done(Completion& self, std::int32_t result, std::uint32_t) noexcept {
    Counting& counting = static_cast<Counting&>(self);
    ++counting.count;
    counting.last_result = result;
  }
  int count = 0;
  int last_result = 0;
};

void queue_nop(Ring& ring, Completion& completion) {
  io_uring_prep_nop(&ring.get_sqe(completion));
}

TEST(Ring, DeliversOneCompletionPerOperation) {
  const auto ring = make_ring();
  ASSERT_TRUE(ring->enable());
  Counting counting;
  queue_nop(*ring, counting);
  queue_nop(*ring, counting);
  EXPECT_EQ(counting.in_flight(), 2U);
  EXPECT_FALSE(ring->ready());
  ring->submit();
  EXPECT_TRUE(ring->ready());
  EXPECT_EQ(ring->poll(100), 2U);
  EXPECT_EQ(counting.count, 2);
  EXPECT_EQ(counting.in_flight(), 0U);
  EXPECT_EQ(ring->in_flight(), 0U);
}

// L13: more operations at once than the submission queue holds.
TEST(Ring, L13_MoreOperationsThanTheQueueHoldsAreSubmittedOnTheWay) {
  const auto ring = make_ring({.submission_entries = 4, .completion_entries = 8});
  ASSERT_TRUE(ring->enable());
  Counting counting;
  for (int i = 0; i < 100; ++i) queue_nop(*ring, counting);
  ring->submit();
  while (ring->in_flight() > 0) ring->poll(7);
  EXPECT_EQ(counting.count, 100);
}

// L16: a completion queue that is too small loses nothing.
TEST(Ring, L16_ASmallCompletionQueueLosesNothing) {
  const auto ring = make_ring({.submission_entries = 16, .completion_entries = 16});
  ASSERT_TRUE(ring->enable());
  std::vector<Counting> completions(1000);
  for (Counting& completion : completions) queue_nop(*ring, completion);
  ring->submit();
  for (int i = 0; i < 1000 && ring->in_flight() > 0; ++i) ring->poll(100);
  for (const Counting& completion : completions) ASSERT_EQ(completion.count, 1);
  EXPECT_GT(ring->stats().overflows, 0U);
  EXPECT_FALSE(ring->ready());
}

TEST(Ring, AnIdlePollMakesNoSystemCall) {
  const auto ring = make_ring();
  ASSERT_TRUE(ring->enable());
  test::SocketPair pair;
  ASSERT_TRUE(pair.ok);
  Counting counting;
  std::array<std::byte, 16> buffer;
  io_uring_prep_read(&ring->get_sqe(counting), pair.ends[0], buffer.data(), buffer.size(), 0);
  ring->submit();
  const std::uint64_t before = ring->stats().enters;
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(ring->poll(64), 0U);
  EXPECT_EQ(ring->stats().enters, before);
  ASSERT_EQ(write(pair.ends[1], "x", 1), 1);
  EXPECT_EQ(ring->poll(64), 1U);
  EXPECT_EQ(ring->stats().enters, before + 1);
  EXPECT_EQ(counting.last_result, 1);
}

TEST(Ring, CancelEndsEveryOperationOfACompletionAndNoOther) {
  const auto ring = make_ring();
  ASSERT_TRUE(ring->enable());
  test::SocketPair pair;
  ASSERT_TRUE(pair.ok);
  Counting cancelled;
  Counting other;
  std::array<std::byte, 16> buffer;
  const auto read = [&](Counting& completion) {
    io_uring_prep_read(&ring->get_sqe(completion), pair.ends[0], buffer.data(), 16, 0);
  };
  read(cancelled);
  read(other);
  read(cancelled);
  ring->cancel(cancelled);
  ring->submit();
  while (cancelled.in_flight() > 0) ring->poll(64);
  EXPECT_EQ(cancelled.count, 2);
  EXPECT_EQ(cancelled.last_result, -ECANCELED);
  EXPECT_EQ(other.count, 0);
  ring->cancel(cancelled);  // Nothing left to cancel.
  EXPECT_TRUE(ring->quiesce(1s));
  EXPECT_EQ(other.last_result, -ECANCELED);
}

TEST(Ring, AHandlerMayTakeEntriesAndDestroyItsCompletion) {
  struct Chain : Completion {
    Chain(Ring& owner, int& total) : Completion(&on_done), ring(owner), count(total) {}
    static void on_done(Completion& completion, std::int32_t, std::uint32_t) noexcept {
      Chain& self = static_cast<Chain&>(completion);
      if (++self.count < 100) queue_nop(self.ring, *new Chain(self.ring, self.count));
      delete &self;
    }
    Ring& ring;
    int& count;
  };
  const auto ring = make_ring({.submission_entries = 1, .completion_entries = 2});
  ASSERT_TRUE(ring->enable());
  int count = 0;
  queue_nop(*ring, *new Chain(*ring, count));
  while (ring->in_flight() > 0) {
    ring->submit();
    ring->poll(64);
  }
  EXPECT_EQ(count, 100);
}

TEST(Ring, MayBeFilledOnOneThreadAndRunOnAnother) {
  const auto ring = make_ring();
  Counting counting;
  queue_nop(*ring, counting);
  ring->submit();
  std::thread([&] {
    ASSERT_TRUE(ring->enable());
    ring->submit();
    while (ring->in_flight() > 0) ring->poll(64);
  }).join();
  EXPECT_EQ(counting.count, 1);
}

TEST(Ring, ADoorbellForAClosedRingIsRefused) {
  const auto ring = make_ring();
  ASSERT_TRUE(ring->enable());
  const int closed = dup(0);
  close(closed);
  EXPECT_FALSE(ring->ring_doorbell(closed));
  EXPECT_FALSE(ring->ring_doorbell(make_ring()->fd()));
  while (ring->poll(64) > 0) {
  }
}

TEST(Ring, FlushSaysWhetherTheKernelHasEverything) {
  const auto ring = make_ring();
  Counting counting;
  EXPECT_TRUE(ring->flush());
  queue_nop(*ring, counting);
  EXPECT_FALSE(ring->flush());  // Not before it is enabled.
  ASSERT_TRUE(ring->enable());
  EXPECT_TRUE(ring->flush());
  EXPECT_EQ(ring->poll(64), 1U);
}

TEST(Ring, QuiesceEndsInTimeAlthoughAHandlerStartsAgain) {
  struct Obstinate : Completion {
    explicit Obstinate(Ring& owner) : Completion(&on_done), ring(owner) {}
    static void on_done(Completion& completion, std::int32_t, std::uint32_t) noexcept {
      Obstinate& self = static_cast<Obstinate&>(completion);
      ++self.told;
      if (!self.ring.quiescing()) ++self.told_outside;
      if (self.obstinate) queue_nop(self.ring, self);
    }
    Ring& ring;
    bool obstinate = true;
    int told = 0;
    int told_outside = 0;
  };
  const auto ring = make_ring();
  ASSERT_TRUE(ring->enable());
  Obstinate obstinate(*ring);
  queue_nop(*ring, obstinate);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(ring->quiesce(50ms));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 50ms);  // Not as many rounds, but the time.
  EXPECT_GT(obstinate.told, 0);
  EXPECT_EQ(obstinate.told_outside, 0);
  EXPECT_FALSE(ring->quiescing());
  obstinate.obstinate = false;
  EXPECT_TRUE(ring->quiesce(1s));
}

TEST(Ring, QuiesceOfOneThatIsNotEnabledEndsWhatIsQueued) {
  const auto ring = make_ring();
  Counting first;
  Counting second;
  const int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  const std::uint64_t one = 1;
  queue_nop(*ring, first);
  ring->cancel(first);
  io_uring_prep_write(&ring->get_sqe(second), fd, &one, sizeof(one), 0);
  EXPECT_TRUE(ring->quiesce(1s));
  EXPECT_EQ(first.last_result, -ECANCELED);
  EXPECT_EQ(second.last_result, -ECANCELED);
  EXPECT_EQ(first.count + second.count, 2);
  queue_nop(*ring, first);
  ASSERT_TRUE(ring->enable());
  ring->submit();
  EXPECT_EQ(ring->poll(64), 1U);
  EXPECT_EQ(first.last_result, 0);
  EXPECT_EQ(first.count + second.count, 3);
  std::uint64_t written = 0;
  EXPECT_LT(read(fd, &written, sizeof(written)), 0);
  close(fd);
}

// Whether or not it submits something, and on kernels that report the end of the time and on those
// that report the submissions.
TEST(Ring, ASleepWhoseTimeIsUpIsNoCompletion) {
  const auto ring = make_ring();
  ASSERT_TRUE(ring->enable());
  EXPECT_EQ(ring->sleep(1ms), RingWake::timeout);
  Counting counting;
  const int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  io_uring_prep_poll_add(&ring->get_sqe(counting), fd, POLLIN);
  EXPECT_EQ(ring->sleep(1ms), RingWake::timeout);
  EXPECT_EQ(ring->poll(64), 0U);
  EXPECT_EQ(ring->stats().completions, 0U);
  const std::uint64_t one = 1;
  ASSERT_EQ(write(fd, &one, sizeof(one)), ssize_t{sizeof(one)});
  EXPECT_EQ(ring->sleep(10s), RingWake::completion);
  EXPECT_EQ(ring->poll(64), 1U);
  close(fd);
}

TEST(Ring, OnePollHandlesAllThatIsThere) {
  const auto ring = make_ring();
  ASSERT_TRUE(ring->enable());
  Counting counting;
  for (int i = 0; i < 200; ++i) queue_nop(*ring, counting);
  ring->submit();
  EXPECT_EQ(ring->poll(1000), 200U);
}

TEST(Ring, AMultishotIsInFlightUntilItsLastCompletion) {
  const auto ring = make_ring();
  ASSERT_TRUE(ring->enable());
  Counting counting;
  const int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  io_uring_prep_poll_multishot(&ring->get_sqe(counting), fd, POLLIN);
  ring->submit();
  const std::uint64_t one = 1;
  for (int i = 1; i <= 3; ++i) {
    ASSERT_EQ(write(fd, &one, sizeof(one)), static_cast<ssize_t>(sizeof(one)));
    EXPECT_EQ(ring->poll(64), 1U);
    EXPECT_EQ(counting.count, i);
    EXPECT_EQ(counting.in_flight(), 1U);
  }
  EXPECT_TRUE(ring->quiesce(1s));
  EXPECT_EQ(counting.last_result, -ECANCELED);
  close(fd);
}

TEST(Ring, OptionsOutOfRangeAreRefusedWithTheRange) {
  const auto refused = Ring::create({.submission_entries = 0, .completion_entries = 16});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(refused.error().hint, "choose 1 to 32768");
  EXPECT_FALSE(Ring::create({.submission_entries = 64, .completion_entries = 32}));
  EXPECT_FALSE(Ring::create({.submission_entries = 64, .completion_entries = 1U << 20}));
}

// In a child process, since a filter can't be taken off again. Its exit code tells what happened.
int refuse_system_call(unsigned number, int error) {
  std::array<sock_filter, 4> program = {{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog filter{.len = program.size(), .filter = program.data()};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return 2;
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) return 3;
  return 0;
}

int flush_where_the_kernel_has_no_memory() {
  const auto ring = make_ring();
  if (!ring->enable()) return 5;
  Counting counting;
  queue_nop(*ring, counting);
  if (const int failed = refuse_system_call(__NR_io_uring_enter, EAGAIN); failed != 0) {
    return failed;
  }
  const bool flushed = ring->flush();
  ring->abandon(counting);
  return flushed ? 6 : 0;
}

TEST(RingDeathTest, FlushGivesUpWhereTheKernelHasNoMemory) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(_exit(flush_where_the_kernel_has_no_memory()), ::testing::ExitedWithCode(0), "");
}

int create_under_filter(unsigned number, int error) {
  if (const int failed = refuse_system_call(number, error); failed != 0) return failed;
  const auto ring = Ring::create({});
  if (ring) return 4;
  std::fputs((to_string(ring.error()) + "\n").c_str(), stderr);
  return 0;
}

struct Refusal {
  unsigned number;
  int error;
  const char* text;
};

TEST(RingDeathTest, WhatIsInTheWayIsNamedWithItsRemedy) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const char* const blocked = "error: io_uring is blocked.*seccomp.*\n.*fix: .*io_uring_setup";
  const Refusal refusals[] = {
      {__NR_io_uring_setup, EPERM, blocked},
      {__NR_io_uring_register, EPERM, blocked},
      {__NR_io_uring_setup, ENOSYS,
       "error: this kernel .* lacks io_uring\n.*fix: run Linux 6.1 or newer"},
      {__NR_io_uring_setup, EINVAL,
       "error: this kernel .* lacks io_uring with DEFER_TASKRUN\n.*fix: run Linux 6.1 or newer"},
      {__NR_io_uring_register, EINVAL,
       "error: this kernel .* lacks the io_uring probe\n.*fix: run Linux 6.1 or newer"},
      {__NR_io_uring_setup, ENOMEM,
       "error: no memory for an io_uring with 512 . 4096 entries.*\n.*fix: more memory"},
      {__NR_io_uring_setup, EMFILE,
       "error: no descriptor left for an io_uring.*\n.*fix: ulimit -n 65536"},
  };
  for (const Refusal& refusal : refusals) {
    EXPECT_EXIT(_exit(create_under_filter(refusal.number, refusal.error)),
                ::testing::ExitedWithCode(0), refusal.text);
  }
}

}  // namespace
}  // namespace pinion
