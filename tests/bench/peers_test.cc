#include <gtest/gtest.h>
#include <pinion/lib/random.h>
#include <pinion/test/seed.h>

#include <algorithm>
#include <memory>
#include <type_traits>
#include <vector>

#include "peers/heap4.h"
#include "peers/multimap_timers.h"
#include "peers/pinion_wheel.h"
#include "peers/plain_wheel.h"
#include "peers/table_timers.h"
#ifdef PINION_BENCH_RTE
#include "peers/rte_timers.h"
#endif
#ifdef PINION_BENCH_LIBUV
#include "peers/libuv_timers.h"
#endif
#ifdef PINION_BENCH_ASIO
#include "peers/asio_timers.h"
#endif

// A comparison is fair only if all subjects do the same: on a small seeded workload each must fire
// the same entries in the same advance as a plain array of deadlines.

namespace pinion::bench {
namespace {

/// The slow, obvious subject.
class DeadlineArray {
 public:
  explicit DeadlineArray(std::size_t count) : deadlines_(count, kNeverTick) {}

  bool armed(std::uint32_t index) const { return deadlines_[index] != kNeverTick; }
  Tick deadline(std::uint32_t index) const { return deadlines_[index]; }
  void set(std::uint32_t index, Tick deadline) { deadlines_[index] = deadline; }
  Tick earliest() const { return *std::ranges::min_element(deadlines_); }

  std::vector<std::uint32_t> take_due(Tick target) {
    std::vector<std::uint32_t> due;
    for (std::uint32_t i = 0; i < deadlines_.size(); ++i) {
      if (deadlines_[i] > target) continue;
      deadlines_[i] = kNeverTick;
      due.push_back(i);
    }
    return due;
  }

 private:
  std::vector<Tick> deadlines_;
};

template <class S>
class PeersTest : public testing::Test {
 protected:
  static constexpr std::uint32_t kEntries = 300;

  void SetUp() override {
#ifdef PINION_BENCH_RTE
    if constexpr (std::is_same_v<S, RteTimers>) {
      const std::string why = RteTimers::prepare(0);
      if (!why.empty()) GTEST_SKIP() << "rte_timer: " << why;
    }
#endif
    fired_sink = {.count = 0, .log = &fired_};
    subject_ = std::make_unique<S>(kEntries, kStart);
  }

  void TearDown() override {
    fired_sink = {};
    subject_.reset();
  }

  /// Distances of every order of magnitude, so that every level and the overflow are visited.
  Tick draw_delay() {
    const auto bits = static_cast<unsigned>(random_.below(31));
    return 1 + random_.below(Tick{2} << bits);
  }

  void touch_random_entry() {
    const auto index = static_cast<std::uint32_t>(random_.below(kEntries));
    if (!model_.armed(index)) {
      model_.set(index, now_ + draw_delay());
      subject_->arm(index, model_.deadline(index));
    } else if (random_.chance(0.6)) {
      model_.set(index, model_.deadline(index) + random_.below(10'000));
      subject_->extend(index, model_.deadline(index));
    } else {
      model_.set(index, kNeverTick);
      subject_->cancel(index);
    }
  }

  void advance_and_compare() {
    now_ += random_.chance(0.5) ? 1 : draw_delay();
    fired_.clear();
    subject_->advance(now_);
    std::ranges::sort(fired_);
    ASSERT_EQ(fired_, model_.take_due(now_)) << "at tick " << now_;
    const Tick next = subject_->next_expiry();
    ASSERT_LE(next, model_.earliest());
    ASSERT_GT(next, now_);
  }

  static constexpr Tick kStart = (Tick{7} << 30) - 100'000;

  Random random_{test::seed()};
  DeadlineArray model_{kEntries};
  std::vector<std::uint32_t> fired_;
  std::unique_ptr<S> subject_;
  Tick now_ = kStart;
};

using Subjects =
    testing::Types<PinionWheel, TableTimers, PlainWheel, Heap4, Heap4Lazy, MultimapTimers
#ifdef PINION_BENCH_RTE
                   ,
                   RteTimers
#endif
#ifdef PINION_BENCH_LIBUV
                   ,
                   LibuvTimers
#endif
#ifdef PINION_BENCH_ASIO
                   ,
                   AsioTimers
#endif
                   >;

struct SubjectNames {
  template <class S>
  static std::string GetName(int) {
    return S::kName;
  }
};

TYPED_TEST_SUITE(PeersTest, Subjects, SubjectNames);

TYPED_TEST(PeersTest, FiresWhatAnArrayOfDeadlinesFires) {
  for (int step = 0; step < 20'000 && !this->HasFatalFailure(); ++step) {
    for (std::uint64_t touches = this->random_.below(8); touches > 0; --touches) {
      this->touch_random_entry();
    }
    this->advance_and_compare();
  }
}

}  // namespace
}  // namespace pinion::bench
