#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>

#include <pinion/eventloop/metronome.h>
#include <pinion/lib/random.h>
#include <pinion/test/seed.h>
#include <pinion/timers/time_source.h>

/// A metronome that is beaten by hand, against a clock that is set by hand.

namespace pinion {
namespace {

using namespace std::chrono_literals;
using detail::MetronomeBoard;
using detail::MetronomeSlot;
using detail::Tempo;

constexpr Instant kStart{1h};
constexpr MetronomeOptions kOptions{.resolution = 250us, .widest = 1ms};

/// An eventfd in the place of a loop's doorbell.
class Doorbell {
 public:
  Doorbell() : fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}
  ~Doorbell() { close(fd_); }
  Doorbell(const Doorbell&) = delete;
  Doorbell& operator=(const Doorbell&) = delete;

  [[nodiscard]] int fd() const { return fd_; }
  /// How often it was rung since the last time.
  std::uint64_t take() const {
    std::uint64_t count = 0;
    return read(fd_, &count, sizeof(count)) == sizeof(count) ? count : 0;
  }

 private:
  int fd_;
};

class Metronomes : public ::testing::Test {
 protected:
  /// The real time moves on, then comes a beat; as the thread does it.
  Instant beat_after(Delay delay) {
    real.advance(delay);
    return board.beat(real.now());
  }
  void beats(int count, Delay apart = 250us) {
    for (int i = 0; i < count; ++i) beat_after(apart);
  }
  /// As a loop on this clock that turns without end.
  static void turn(MetronomeTime& clock, std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) static_cast<void>(clock.now());
  }

  ManualTime real{kStart};
  MetronomeBoard board{kOptions, 2};
  MetronomeTime first{board, 0, &real};
  MetronomeTime second{board, 1, &real};
};

TEST(MetronomeTempo, WidensAfterALateBeatAndNarrowsAgainWithinItsBounds) {
  Tempo tempo(kOptions);
  EXPECT_EQ(tempo.period(), Delay{250us});
  EXPECT_FALSE(tempo.on_beat(125us));
  EXPECT_EQ(tempo.period(), Delay{250us});
  EXPECT_TRUE(tempo.on_beat(126us));
  EXPECT_EQ(tempo.period(), Delay{500us});
  EXPECT_TRUE(tempo.on_beat(1h));
  EXPECT_TRUE(tempo.on_beat(1h));
  EXPECT_EQ(tempo.period(), Delay{1ms});
  for (int i = 0; i < Tempo::kInTime - 1; ++i) EXPECT_FALSE(tempo.on_beat({}));
  EXPECT_EQ(tempo.period(), Delay{1ms});
  EXPECT_FALSE(tempo.on_beat({}));
  EXPECT_EQ(tempo.period(), Delay{500us});
  for (int i = 0; i < 10 * Tempo::kInTime; ++i) EXPECT_FALSE(tempo.on_beat({}));
  EXPECT_EQ(tempo.period(), Delay{250us});
}

TEST_F(Metronomes, EachBeatIsShownToEachLcoreWithoutAReadingOfTheKernelsClock) {
  first.note_wake();
  beat_after(250us);
  static_cast<void>(first.fresh());
  static_cast<void>(second.fresh());
  const std::uint64_t before = first.kernel_readings();
  for (int i = 0; i < 100; ++i) {
    beat_after(250us);
    EXPECT_EQ(first.now(), real.now());
    EXPECT_EQ(second.now(), real.now());
    real.advance(100us);
    EXPECT_EQ(first.now(), real.now() - 100us);
  }
  EXPECT_EQ(first.kernel_readings(), before);
}

// Against the clock that it follows, whatever lies between two beats, and between two readings.
TEST_F(Metronomes, NowIsNeverAheadNeverStepsBackAndFreshIsTheKernelsClock) {
  Random random(test::seed());
  Instant last = kStart;
  for (std::uint64_t i = 0; i < test::scaled(300'000); ++i) {
    real.advance(std::chrono::nanoseconds{random.below(random.below(20) == 0 ? 5'000'000 : 3'000)});
    const Instant beaten = real.now();
    switch (random.below(40)) {
      case 0:
        // The thread lost its CPU between its reading and the beat.
        real.advance(std::chrono::nanoseconds{random.below(100'000)});
        board.beat(beaten);
        break;
      case 1:
        ASSERT_EQ(first.fresh(), real.now());
        break;
      case 2:
        first.note_sleep(kNever, -1);
        real.advance(std::chrono::nanoseconds{random.below(20'000'000)});
        board.beat(real.now());
        first.note_wake();
        break;
      default:
        break;
    }
    const Instant now = first.now();
    ASSERT_LE(now, real.now());
    ASSERT_GE(now, last);
    last = now;
  }
}

TEST_F(Metronomes, AMetronomeThatGetsNoCpuIsNoticedWithinABoundOfReadings) {
  beat_after(250us);
  static_cast<void>(first.fresh());
  beat_after(250us);
  ASSERT_EQ(first.now(), real.now());
  // From here on it never beats.
  std::uint32_t stood = 0;
  const Instant seen = first.now();
  do {
    real.advance(1ms);
    ++stood;
  } while (first.now() == seen && stood < 2 * MetronomeTime::kMostTrusted);
  EXPECT_LE(stood, MetronomeTime::kMostTrusted);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(first.now(), real.now());
    real.advance(1ms);
  }
  // It is trusted again as soon as it beats, but not for long.
  beat_after({});
  const Instant shown = first.now();
  ASSERT_EQ(shown, real.now());
  const std::uint64_t before = first.kernel_readings();
  turn(first, MetronomeTime::kLeastTrusted - 1);
  EXPECT_EQ(first.kernel_readings(), before);
  real.advance(10ms);
  EXPECT_EQ(first.now(), real.now());
}

TEST_F(Metronomes, AClockThatStandsForGoodReasonIsTrustedMoreAndMore) {
  beat_after(250us);
  static_cast<void>(first.fresh());
  beat_after(250us);
  const std::uint64_t before = first.kernel_readings();
  turn(first, 100 * MetronomeTime::kMostTrusted);
  EXPECT_LE(first.kernel_readings(), before + 110);
}

TEST_F(Metronomes, PausesWhenAllSleepAndOnlyThen) {
  first.note_wake();
  second.note_wake();
  beats(5 * MetronomeBoard::kQuietBeats);
  first.note_sleep(kNever, -1);
  beats(5 * MetronomeBoard::kQuietBeats);
  EXPECT_FALSE(board.paused());
  second.note_sleep(kNever, -1);
  beats(MetronomeBoard::kQuietBeats - 1);
  EXPECT_FALSE(board.paused());
  const std::uint64_t before = board.stats().beats;
  EXPECT_EQ(beat_after(250us), kNever);
  EXPECT_TRUE(board.paused());
  beats(10, 1s);  // Whatever wakes it.
  EXPECT_EQ(board.stats().beats, before + 1);
  EXPECT_EQ(board.stats().pauses, 1U);
  EXPECT_LT(board.stats().widest_gap, Delay{1ms});  // A pause is no gap.
}

TEST_F(Metronomes, AnLcoreThatWakesForAFewTurnsResumesNothingOneThatStaysAwakeDoes) {
  beats(MetronomeBoard::kQuietBeats);
  ASSERT_TRUE(board.paused());
  for (int i = 0; i < 100; ++i) {
    real.advance(100ms);
    first.note_wake();
    EXPECT_EQ(first.fresh(), real.now());
    for (std::uint32_t turns = 1; turns < MetronomeTime::kReadingsToResume; ++turns) {
      real.advance(1us);
      EXPECT_EQ(first.now(), real.now());
      EXPECT_EQ(first.fresh(), real.now());
    }
    first.note_sleep(kNever, -1);
  }
  EXPECT_TRUE(board.paused());
  const std::uint32_t knocks = board.knocks();
  first.note_wake();
  turn(first, MetronomeTime::kReadingsToResume);
  EXPECT_FALSE(board.paused());
  EXPECT_EQ(board.knocks(), knocks + 1);
  turn(first, 1000);
  EXPECT_EQ(board.knocks(), knocks + 1);
  beats(5 * MetronomeBoard::kQuietBeats);
  EXPECT_FALSE(board.paused());
}

TEST_F(Metronomes, AnLcoreThatSleepsOnPastItsTimeIsRungOnce) {
  const Doorbell doorbell;
  const Doorbell other;
  first.note_sleep(real.now() + 1s, doorbell.fd());
  second.note_sleep(kNever, other.fd());
  beats(MetronomeBoard::kQuietBeats);
  // Paused, it looks again when the sleep should long be over.
  EXPECT_EQ(board.beat(real.now()), kStart + 1s + MetronomeBoard::kPatience);
  real.set(kStart + 1s + MetronomeBoard::kPatience - 1ns);
  board.beat(real.now());
  EXPECT_EQ(doorbell.take(), 0U);
  EXPECT_EQ(beat_after(1ns), kNever);
  EXPECT_EQ(doorbell.take(), 1U);
  beats(10, 1h);
  EXPECT_EQ(doorbell.take(), 0U);
  first.note_wake();
  first.note_sleep(real.now() - 1s, doorbell.fd());
  board.beat(real.now());
  EXPECT_EQ(doorbell.take(), 1U);
  first.note_wake();
  beats(10, 1h);
  EXPECT_EQ(doorbell.take() + other.take(), 0U);
  EXPECT_EQ(board.stats().rings, 2U);
}

// The thread that rings must be done with the descriptor when a sleep ends: it may be closed then.
TEST_F(Metronomes, NobodyIsRungWhoHasWoken) {
  std::atomic<bool> over{false};
  std::thread ringer([&] {
    while (!over) board.beat(kStart + 1h);
  });
  const Doorbell doorbell;
  Random random(test::seed());
  // About as long as it takes to be rung.
  const auto wait = [&] {
    const std::uint64_t before = board.stats().rings;
    const std::uint64_t looks = random.below(300);
    for (std::uint64_t look = 0; look < looks && board.stats().rings == before; ++look) {
    }
  };
  std::uint64_t rung = 0;
  std::uint64_t late = 0;
  for (std::uint64_t i = 0; i < test::scaled(5'000) || (rung == 0 && i < 1'000'000); ++i) {
    first.note_sleep(kStart, doorbell.fd());
    wait();
    first.note_wake();
    rung += doorbell.take();
    wait();
    late += doorbell.take();
  }
  over = true;
  ringer.join();
  EXPECT_GT(rung, 0U);
  EXPECT_EQ(late, 0U);
  EXPECT_EQ(rung, board.stats().rings);
}

// The same, where the ringing takes long: the descriptor has no room.
TEST(MetronomeSlots, ASleepDoesNotEndInTheMiddleOfARing) {
  MetronomeBoard board(kOptions, 1);
  MetronomeSlot& slot = board.take(0);
  const int full = eventfd(0, EFD_CLOEXEC);
  std::uint64_t most = 0xfffffffffffffffe;
  ASSERT_EQ(write(full, &most, sizeof(most)), static_cast<ssize_t>(sizeof(most)));
  slot.sleep(kStart, full);
  std::thread ringer([&] { board.beat(kStart + 1h); });
  while (slot.sleeps_until != MetronomeSlot::kRinging) std::this_thread::yield();
  std::atomic<bool> woken{false};
  std::thread sleeper([&] {
    slot.wake();
    woken = true;
  });
  std::this_thread::sleep_for(20ms);  // For it to go wrong in.
  EXPECT_FALSE(woken);
  EXPECT_EQ(read(full, &most, sizeof(most)), static_cast<ssize_t>(sizeof(most)));
  ringer.join();
  sleeper.join();
  EXPECT_EQ(slot.sleeps_until, MetronomeSlot::kAwake);
  close(full);
}

TEST_F(Metronomes, CountsLateBeatsAndGapsAndStatesItsError) {
  first.note_wake();
  beats(100);
  EXPECT_EQ(board.stats().late_beats, 0U);
  EXPECT_EQ(board.stats().widest_gap, Delay{250us});
  EXPECT_EQ(first.error_bound(), Delay{250us});
  beat_after(700us);
  EXPECT_EQ(board.stats().late_beats, 1U);
  EXPECT_EQ(board.stats().widest_gap, Delay{700us});
  EXPECT_EQ(first.error_bound(), Delay{700us});
  const Instant next = beat_after(500us);
  EXPECT_EQ(next, real.now() + 500us);  // It has widened.
  beats(1000);
  EXPECT_EQ(board.stats().widest_gap, Delay{700us});
  EXPECT_EQ(first.error_bound(), Delay{250us});
}

TEST(MetronomeStart, RefusesWhatItCannotDoWithTheRange) {
  const auto error = [](Delay resolution, Delay widest, std::size_t lcores) {
    const auto started = Metronome::start({.resolution = resolution, .widest = widest}, lcores);
    return started ? std::string() : to_string(started.error());
  };
  EXPECT_EQ(error(100us, 100us, 1), "");
  EXPECT_EQ(error(10ms, 100ms, Metronome::kMaxLcores), "");
  EXPECT_EQ(error(99us, 1ms, 1),
            "error: a metronome can't beat each 99 us\nfix: a resolution from 100 to 10000 us");
  EXPECT_EQ(error(11ms, 11ms, 1),
            "error: a metronome can't beat each 11000 us\nfix: a resolution from 100 to 10000 us");
  EXPECT_EQ(error(250us, 200us, 1),
            "error: a metronome's beats can't widen to 200 us\n"
            "fix: from its resolution, 250 us, to 100000 us");
  EXPECT_EQ(error(250us, 101ms, 1),
            "error: a metronome's beats can't widen to 101000 us\n"
            "fix: from its resolution, 250 us, to 100000 us");
  EXPECT_EQ(error(250us, 1ms, 0), "error: a metronome for 0 lcores\nfix: 1 to 1024 lcores");
  EXPECT_EQ(error(250us, 1ms, 1025), "error: a metronome for 1025 lcores\nfix: 1 to 1024 lcores");
}

TEST(MetronomeDeathTest, ASlotHasOneClock) {
  MetronomeBoard board(kOptions, 1);
  {
    const MetronomeTime before(board, 0);
  }
  const MetronomeTime clock(board, 0);
  EXPECT_DEATH({ const MetronomeTime another(board, 0); }, "another_clock_has_it");
}

}  // namespace
}  // namespace pinion
