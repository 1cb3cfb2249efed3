#include <pinion/lib/mpsc_queue.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <pinion/lib/random.h>
#include <pinion/test/seed.h>

namespace pinion {

/// Takes the two steps of a push() apart.
template <class T>
class MpscQueueProbe {
 public:
  explicit MpscQueueProbe(MpscQueue<T>& queue) : queue_(queue) {}
  void enter(T& item) {
    item_ = &item;
    before_ = queue_.enter(item);
  }
  void link() { queue_.link(*before_, *item_); }

  /// A pop() that calls `between` before and after its own enter().
  template <class Between>
  static T* pop(MpscQueue<T>& queue, Between between) {
    return queue.pop_between(between);
  }

 private:
  MpscQueue<T>& queue_;
  T* item_ = nullptr;
  MpscNode* before_ = nullptr;
};

namespace {

struct Letter : MpscNode {
  std::uint64_t sender = 0;
  std::uint64_t number = 0;
};

TEST(MpscQueue, GivesElementsInOrder) {
  MpscQueue<Letter> queue;
  Letter a, b, c;
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.pop(), nullptr);
  EXPECT_TRUE(queue.push(a));
  EXPECT_FALSE(queue.push(b));
  EXPECT_FALSE(queue.empty());
  EXPECT_EQ(queue.pop(), &a);
  EXPECT_FALSE(queue.push(c));
  EXPECT_EQ(queue.pop(), &b);
  EXPECT_FALSE(queue.empty());
  EXPECT_EQ(queue.pop(), &c);
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.pop(), nullptr);
}

TEST(MpscQueue, LetsAnElementGoForGood) {
  MpscQueue<Letter> queue;
  Letter kept;
  for (int round = 0; round < 3; ++round) {
    auto brief = std::make_unique<Letter>();
    EXPECT_TRUE(queue.push(*brief));
    EXPECT_FALSE(queue.push(kept));
    EXPECT_EQ(queue.pop(), brief.get());
    brief.reset();
    EXPECT_EQ(queue.pop(), &kept);
    EXPECT_EQ(queue.pop(), nullptr);
    EXPECT_TRUE(queue.push(kept));
    EXPECT_EQ(queue.pop(), &kept);
  }
}

TEST(MpscQueue, BehavesLikeADeque) {
  Random random(test::seed());
  std::vector<Letter> letters(20);
  std::deque<Letter*> waiting;
  std::vector<Letter*> idle;
  for (Letter& letter : letters) idle.push_back(&letter);
  MpscQueue<Letter> queue;
  for (std::uint64_t step = 0; step < test::scaled(100'000); ++step) {
    if (!idle.empty() && random.chance(0.5)) {
      Letter* letter = idle.back();
      idle.pop_back();
      ASSERT_EQ(queue.push(*letter), waiting.empty());
      waiting.push_back(letter);
    } else {
      Letter* letter = queue.pop();
      ASSERT_EQ(letter, waiting.empty() ? nullptr : waiting.front());
      if (letter == nullptr) continue;
      waiting.pop_front();
      idle.push_back(letter);
    }
    ASSERT_EQ(queue.empty(), waiting.empty());
  }
}

/// Producers that push one element each and then look whether the consumer sleeps, and a consumer
/// that keeps to the header's protocol. A schedule names who takes the next step; kConsumer stands
/// for a step of pop(), too, which has up to three.
class Interleaving {
 public:
  static constexpr std::size_t kProducers = 3;
  static constexpr std::size_t kConsumer = kProducers;

  void run(const std::vector<std::size_t>& schedule) {
    schedule_ = schedule;
    for (next_ = 0; next_ < schedule_.size();) step(schedule_[next_++]);
  }

  /// Lets everybody go on until nothing is left: each element comes out, and nobody sleeps then.
  void finish() {
    for (std::size_t who = 0; who < kProducers; ++who) {
      while (steps_.at(who) < 3) step(who);
    }
    for (int steps = 0; !entered_.empty(); ++steps) {
      ASSERT_FALSE(sleeping_) << "a lost wake-up";
      ASSERT_LT(steps, 30) << "an element that doesn't come out";
      step(kConsumer);
    }
    ASSERT_EQ(queue_.pop(), nullptr);
    ASSERT_TRUE(queue_.empty());
  }

 private:
  void step(std::size_t who) {
    if (who == kConsumer) {
      consume();
    } else {
      produce(who);
    }
    EXPECT_EQ(queue_.empty(), entered_.empty());
  }

  void produce(std::size_t who) {
    ++producer_steps_;
    switch (steps_.at(who)++) {
      case 0:
        probes_.at(who).enter(letters_.at(who));
        entered_.push_back(who);
        return;
      case 1:
        return probes_.at(who).link();
      default:
        if (asleep_) asleep_ = sleeping_ = false;  // wakes it
    }
  }

  void consume() {
    if (sleeping_) return;
    if (!asleep_) {
      asleep_ = true;
      return;
    }
    if (pop()) {
      asleep_ = false;
    } else {
      sleeping_ = asleep_;  // the doorbell may have rung meanwhile
    }
  }

  /// In the order in which they entered, once they are linked. The first comes out for certain when
  /// what entered behind it is linked, or nothing has. True when one came.
  bool pop() {
    const auto linked = [&](std::size_t place) { return steps_.at(entered_[place]) >= 2; };
    const bool certain = !entered_.empty() && linked(0) && (entered_.size() == 1 || linked(1));
    const std::size_t before = producer_steps_;
    Letter* const got = MpscQueueProbe<Letter>::pop(queue_, [&] { let_others_go_on(); });
    if (got == nullptr) {
      EXPECT_FALSE(certain && producer_steps_ == before);
      return false;
    }
    EXPECT_FALSE(entered_.empty());
    if (entered_.empty()) return false;
    EXPECT_EQ(got, &letters_.at(entered_.front()));
    EXPECT_TRUE(linked(0));
    entered_.pop_front();
    return true;
  }

  /// In the middle of a pop(), up to the consumer's next step.
  void let_others_go_on() {
    while (next_ < schedule_.size()) {
      const std::size_t who = schedule_[next_++];
      if (who == kConsumer) return;
      produce(who);
    }
  }

  MpscQueue<Letter> queue_;
  std::array<Letter, kProducers> letters_;
  std::array<MpscQueueProbe<Letter>, kProducers> probes_{
      MpscQueueProbe(queue_), MpscQueueProbe(queue_), MpscQueueProbe(queue_)};
  std::array<int, kProducers> steps_{};
  std::deque<std::size_t> entered_;
  std::vector<std::size_t> schedule_;
  std::size_t next_ = 0;
  std::size_t producer_steps_ = 0;
  bool asleep_ = false;    ///< The flag that producers look at.
  bool sleeping_ = false;  ///< The consumer waits for the doorbell.
};

/// Runs every schedule that begins with `schedule`, in which each party may take `left` more steps.
void run_all(std::vector<std::size_t>& schedule, std::array<int, 4>& left, std::uint64_t& count) {
  Interleaving interleaving;
  interleaving.run(schedule);
  interleaving.finish();
  ASSERT_FALSE(testing::Test::HasFailure()) << testing::PrintToString(schedule);
  ++count;
  for (std::size_t who = 0; who < left.size(); ++who) {
    if (left[who] == 0) continue;
    --left[who];
    schedule.push_back(who);
    ASSERT_NO_FATAL_FAILURE(run_all(schedule, left, count));
    schedule.pop_back();
    ++left[who];
  }
}

/// All that the queue and the protocol of the wake-up do with what others see is seq_cst, so that
/// the orders of these steps are all that there is to a weak memory model as well; but for the null
/// links, which are stored before the element is entered and after it has come out.
TEST(MpscQueue, HoldsInEveryOrderOfSteps) {
  std::vector<std::size_t> schedule;
  std::uint64_t count = 0;
  for (std::array<int, 4> left : {std::array{3, 3, 0, 9}, {2, 2, 2, 5}, {3, 0, 0, 12}}) {
    ASSERT_NO_FATAL_FAILURE(run_all(schedule, left, count));
  }
  EXPECT_GT(count, 100'000U);
}

TEST(MpscQueue, HidesWhatStandsBehindAProducerThatStopped) {
  MpscQueue<Letter> queue;
  MpscQueueProbe<Letter> stopped(queue);
  Letter a, b;
  stopped.enter(a);
  queue.push(b);
  EXPECT_EQ(queue.pop(), nullptr);
  EXPECT_FALSE(queue.empty());
  stopped.link();
  EXPECT_EQ(queue.pop(), &a);
  EXPECT_EQ(queue.pop(), &b);
}

/// Nothing but pushes against each other, which a push that isn't atomic loses.
TEST(MpscQueue, LosesNothingUnderContention) {
  constexpr std::size_t kProducers = 3;
  const std::size_t each = test::scaled(50'000);
  MpscQueue<Letter> queue;
  std::vector<std::vector<Letter>> letters(kProducers);
  for (auto& of_producer : letters) of_producer = std::vector<Letter>(each);
  std::atomic<std::size_t> waiting{kProducers};
  std::vector<std::thread> threads;
  for (auto& of_producer : letters) {
    threads.emplace_back([&] {
      --waiting;
      while (waiting.load() != 0) std::this_thread::yield();
      for (Letter& letter : of_producer) queue.push(letter);
    });
  }
  std::size_t taken = 0;
  while (waiting.load() != 0) std::this_thread::yield();
  for (int i = 0; i < 1000; ++i) {
    if (queue.pop() != nullptr) ++taken;
  }
  for (std::thread& thread : threads) thread.join();
  while (queue.pop() != nullptr) ++taken;
  EXPECT_EQ(taken, kProducers * each);
}

/// Several senders, each with a few letters that go round: pushed, popped, given back, pushed
/// again.
class Post {
 public:
  Post(std::uint64_t senders, std::uint64_t rounds) : rounds_(rounds), mailbags_(senders) {
    for (Mailbag& bag : mailbags_) {
      for (auto& slot : bag) slot.home.store(true);
    }
  }

  void send(std::uint64_t sender) {
    Mailbag& bag = mailbags_[sender];
    for (std::uint64_t number = 0; number < rounds_; ++number) {
      Slot& slot = bag[number % bag.size()];
      while (!slot.home.load(std::memory_order_acquire)) std::this_thread::yield();
      slot.home.store(false, std::memory_order_relaxed);
      slot.sender = sender;
      slot.number = number;
      queue_.push(slot);
    }
  }

  /// Takes everything; each sender's letters must come in order, none lost, none twice.
  void receive() {
    std::vector<std::uint64_t> next(mailbags_.size());
    std::uint64_t left = rounds_ * mailbags_.size();
    while (left != 0) {
      Slot* slot = queue_.pop();
      if (slot == nullptr) {
        std::this_thread::yield();
        continue;
      }
      ASSERT_EQ(slot->number, next.at(slot->sender)++);
      slot->home.store(true, std::memory_order_release);
      --left;
    }
    ASSERT_EQ(queue_.pop(), nullptr);
    ASSERT_TRUE(queue_.empty());
  }

 private:
  struct Slot : Letter {
    std::atomic<bool> home{false};
  };
  using Mailbag = std::array<Slot, 5>;

  const std::uint64_t rounds_;
  std::vector<Mailbag> mailbags_;
  MpscQueue<Slot> queue_;
};

TEST(MpscQueue, LosesNothingFromManyThreads) {
  constexpr std::uint64_t kSenders = 4;
  Post post(kSenders, test::scaled(20'000));
  std::vector<std::thread> threads;
  for (std::uint64_t sender = 0; sender < kSenders; ++sender) {
    threads.emplace_back([&post, sender] { post.send(sender); });
  }
  post.receive();
  for (std::thread& thread : threads) thread.join();
}

/// The wake-up protocol of the header, with a semaphore made of an atomic for the sleep.
TEST(MpscQueue, LosesNoWakeUp) {
  constexpr std::uint64_t kSenders = 3;
  const std::uint64_t rounds = test::scaled(5'000);
  MpscQueue<Letter> queue;
  std::atomic<bool> asleep{false};
  std::atomic<std::uint32_t> doorbell{0};
  std::vector<std::vector<Letter>> letters(kSenders);
  for (auto& of_sender : letters) of_sender = std::vector<Letter>(rounds);
  std::vector<std::thread> threads;
  for (std::uint64_t sender = 0; sender < kSenders; ++sender) {
    threads.emplace_back([&, sender] {
      Random random(test::seed() + sender);
      for (Letter& letter : letters[sender]) {
        queue.push(letter);
        if (asleep.load() && asleep.exchange(false)) {
          doorbell.fetch_add(1);
          doorbell.notify_one();
        }
        if (random.chance(0.1)) std::this_thread::yield();
      }
    });
  }
  for (std::uint64_t left = rounds * kSenders; left != 0;) {
    if (queue.pop() != nullptr) {
      --left;
      continue;
    }
    const std::uint32_t rung = doorbell.load();
    asleep.exchange(true);
    if (queue.pop() != nullptr) {
      --left;
      asleep.exchange(false);
      continue;
    }
    doorbell.wait(rung);
    asleep.exchange(false);
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(queue.empty());
}

#ifndef PINION_NO_DCHECK
TEST(MpscQueueDeathTest, RefusesAnElementThatIsQueued) {
  MpscQueue<Letter> queue;
  Letter letter;
  queue.push(letter);
  EXPECT_DEATH(queue.push(letter), "assertion failed");
}
#endif

}  // namespace
}  // namespace pinion
