#include <gtest/gtest.h>
#include <liburing.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <pinion/eventloop/ring.h>
#include <pinion/lib/random.h>
#include <pinion/test/seed.h>

#include "ring_wait.h"

// Operations whose success ends no sleep.

namespace pinion::test {
namespace {

using namespace std::chrono_literals;

struct Sent : QuietCompletion {
  Sent() : QuietCompletion(&on_done) {}
  static void on_done(Completion& self, std::int32_t result, std::uint32_t) noexcept {
    Sent& sent = static_cast<Sent&>(self);
    ++sent.told;
    sent.result = result;
  }
  int told = 0;
  std::int32_t result = 0;
};

struct Noted : Completion {
  Noted() : Completion([](Completion&, std::int32_t, std::uint32_t) {}) {}
};

class Quiet : public testing::Test {
 protected:
  void SetUp() override {
    auto made = Ring::create({.submission_entries = 8, .completion_entries = 16});
    ASSERT_TRUE(made.has_value());
    ring_ = std::move(*made);
    ASSERT_TRUE(pair_.ok);
  }
  void enable() { ASSERT_TRUE(ring_->enable()); }

  Ring& ring() { return *ring_; }
  SocketPair& pair() { return pair_; }

  void send(Sent& sent, std::size_t size) {
    io_uring_sqe& entry = ring().get_quiet_sqe(sent, static_cast<std::int32_t>(size));
    io_uring_prep_send(&entry, pair().ends[0], bytes_.data(), size,
                       MSG_NOSIGNAL | MSG_WAITALL | MSG_DONTWAIT);
  }

  /// How many bytes the other end had.
  std::size_t drain() {
    std::array<std::byte, 65536> into;
    std::size_t total = 0;
    for (;;) {
      const ssize_t got = recv(pair().ends[1], into.data(), into.size(), MSG_DONTWAIT);
      if (got <= 0) return total;
      total += static_cast<std::size_t>(got);
    }
  }

 private:
  std::vector<std::byte> bytes_ = std::vector<std::byte>(1U << 20);
  std::unique_ptr<Ring> ring_;
  SocketPair pair_;
};

// What this rests on: the kernel sends while it takes the entry over, or says at once what it left.
TEST_F(Quiet, TheKernelKnowsEveryOutcomeAtOnce) {
  enable();
  Sent whole;
  Sent part;
  Sent nothing;
  send(whole, 64);
  send(part, 1U << 20);
  send(nothing, 64);
  ring().submit();
  EXPECT_EQ(io_uring_cq_ready(&ring().raw()), 3U);
  EXPECT_EQ(ring().poll(64), 3U);
  EXPECT_EQ(whole.result, 64);
  EXPECT_GT(part.result, 0);
  EXPECT_LT(part.result, 1 << 20);
  EXPECT_EQ(nothing.result, -EAGAIN);
  EXPECT_EQ(drain(), 64U + static_cast<std::size_t>(part.result));
  EXPECT_EQ(ring().in_flight(), 0U);
}

// The same in a sleep, of which only failure says anything.
TEST_F(Quiet, ASleepHearsOfFailureAlone) {
  enable();
  Sent whole;
  Sent part;
  send(whole, 64);
  send(part, 1U << 20);
  EXPECT_EQ(ring().sleep(10s), RingWake::completion);
  EXPECT_EQ(io_uring_cq_ready(&ring().raw()), 1U);
  EXPECT_EQ(ring().poll(64), 2U);
  EXPECT_EQ(whole.result, 64);
  EXPECT_GT(part.result, 0);
  EXPECT_LT(part.result, 1 << 20);
  EXPECT_EQ(drain(), 64U + static_cast<std::size_t>(part.result));
}

TEST_F(Quiet, SuccessEndsNoSleepAndIsToldByTheNextPoll) {
  enable();
  Sent sent;
  send(sent, 64);
  EXPECT_EQ(ring().poll(64), 0U) << "nothing was submitted";
  EXPECT_EQ(ring().sleep(20ms), RingWake::timeout);
  EXPECT_EQ(sent.told, 0);
  EXPECT_EQ(sent.in_flight(), 1U);
  EXPECT_TRUE(ring().ready()) << "nobody sleeps again before it is told";
  EXPECT_EQ(ring().poll(64), 1U);
  EXPECT_EQ(sent.told, 1);
  EXPECT_EQ(sent.result, 64);
  EXPECT_FALSE(ring().ready());
  EXPECT_EQ(drain(), 64U);
}

TEST_F(Quiet, SuccessEndsTheSleepOfWhoExpectsIt) {
  enable();
  Sent before;
  Sent after;
  Sent later;
  send(before, 64);
  ring().expect_quiet();
  send(after, 64);
  EXPECT_EQ(ring().sleep(10s), RingWake::completion);
  EXPECT_EQ(ring().poll(64), 2U);
  EXPECT_FALSE(ring().ready());
  send(later, 64);
  EXPECT_EQ(ring().sleep(20ms), RingWake::timeout) << "nobody expects this one";
  EXPECT_EQ(ring().poll(64), 1U);
  drain();
}

// A queue of completions that never gets empty holds nobody up.
TEST_F(Quiet, SuccessIsToldWhileMoreCompletionsComeThanAPollHandles) {
  enable();
  Noted others;
  Sent sent;
  const auto two_more = [&] {
    for (int i = 0; i < 2; ++i) io_uring_prep_nop(&ring().get_sqe(others));
    ring().submit();
  };
  send(sent, 64);
  EXPECT_EQ(ring().sleep(1ms), RingWake::timeout);
  for (int i = 0; i < 4; ++i) two_more();
  for (int polls = 0; polls < 12 && sent.told == 0; ++polls) {
    two_more();
    ring().poll(1);
  }
  EXPECT_EQ(sent.told, 1);
  EXPECT_TRUE(ring().quiesce(1s));
}

TEST_F(Quiet, FailureEndsASleep) {
  enable();
  close(std::exchange(pair().ends[1], dup(pair().ends[0])));
  Sent sent;
  send(sent, 64);
  EXPECT_EQ(ring().sleep(10s), RingWake::completion);
  ring().poll(64);
  EXPECT_EQ(sent.result, -EPIPE);
}

TEST_F(Quiet, WhatNeverReachesTheKernelIsCancelled) {
  Sent sent;
  send(sent, 64);
  EXPECT_TRUE(ring().quiesce(1s));
  EXPECT_EQ(sent.told, 1);
  EXPECT_EQ(sent.result, -ECANCELED);
}

TEST_F(Quiet, QuiescingTellsOfSuccess) {
  enable();
  Sent sent;
  send(sent, 64);
  EXPECT_TRUE(ring().quiesce(1s));
  EXPECT_EQ(sent.told, 1);
  EXPECT_EQ(drain(), 64U);
}

// Through a queue of 8 entries and 16 completions, with other operations between: each is told
// once, and the bytes that it says it sent are those that arrive.
TEST_F(Quiet, EachHasOneOutcomeWhateverTheSocketTakes) {
  enable();
  Random random(seed());
  std::array<Sent, 64> sends;
  std::array<Noted, 64> others;
  std::uint64_t claimed = 0;
  std::uint64_t arrived = 0;
  for (std::uint64_t round = 0; round < scaled(200); ++round) {
    const std::size_t count = 1 + random.below(sends.size());
    for (std::size_t i = 0; i < count; ++i) {
      send(sends[i], 1 + random.below(std::uint64_t{1} << random.below(17)));
      if (random.below(4) == 0) io_uring_prep_nop(&ring().get_sqe(others[i]));
      if (random.below(16) == 0) arrived += drain();
    }
    while (ring().in_flight() > 0) {
      if (random.below(4) == 0) {
        static_cast<void>(ring().sleep(1us));
      } else {
        ring().submit();
      }
      ring().poll(1 + random.below(64), random.below(2) == 0 ? Reap::some : Reap::all);
    }
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_EQ(std::exchange(sends[i].told, 0), 1);
      if (sends[i].result > 0) claimed += static_cast<std::uint64_t>(sends[i].result);
    }
    if (random.below(3) != 0) arrived += drain();
  }
  arrived += drain();
  EXPECT_EQ(arrived, claimed);
}

}  // namespace
}  // namespace pinion::test
