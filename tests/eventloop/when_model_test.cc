#include "when_model.h"

#include <gtest/gtest.h>

#include <pinion/test/seed.h>

#include "loop_fixture.h"

/// Random compositions on virtual time against a model that is plain arithmetic (when_model.h).

namespace pinion {
namespace test {
namespace {

using Children = std::vector<Node>;

/// By pairs and triples as they are written, by spans what is more.
Task<> perform_all(Node& node, const ModelClock& clock) {
  Children& part = node.children;
  if (part.size() == 1) {
    const auto one = co_await when_all(perform(part[0], clock));
    node.right_results = one && *one == std::tuple(part[0].id);
  } else if (part.size() == 2) {
    const auto two = co_await when_all(perform(part[0], clock), perform(part[1], clock));
    node.right_results = two && *two == std::tuple(part[0].id, part[1].id);
  } else {
    std::vector<Task<int>> tasks;
    for (Node& child : part) tasks.push_back(perform(child, clock));
    const auto all = co_await when_all(std::span(tasks));
    node.right_results = all.has_value();
    for (std::size_t i = 0; i < part.size(); ++i) {
      node.right_results = node.right_results && tasks[i].take() == part[i].id;
    }
  }
}

Task<> perform_any(Node& node, const ModelClock& clock) {
  Children& part = node.children;
  if (part.size() == 2) {
    const auto two = co_await when_any(perform(part[0], clock), perform(part[1], clock));
    node.first = two->first;
    node.right_results = two->results == std::tuple(part[0].id, part[1].id);
  } else {
    std::vector<Task<int>> tasks;
    for (Node& child : part) tasks.push_back(perform(child, clock));
    const auto first = co_await when_any(std::span(tasks));
    node.first = *first;
    for (std::size_t i = 0; i < part.size(); ++i) {
      node.right_results = node.right_results && tasks[i].take() == part[i].id;
    }
  }
}

Task<> perform_in_sequence(Node& node, const ModelClock& clock) {
  for (Node& child : node.children) {
    const int result = co_await perform(child, clock);
    node.right_results = node.right_results && result == child.id;
  }
}

Task<> perform_until_deadline(Node& node, const ModelClock& clock) {
  Node& child = node.children[0];
  if (node.id % 2 == 0) {
    const auto result =
        co_await with_deadline(Delay{std::chrono::milliseconds{node.ms}}, perform(child, clock));
    node.late = result == tl::unexpected(TaskFailure::deadline);
    node.right_results = node.late || result == child.id;
  } else {
    const Instant deadline = clock.loop.now() + std::chrono::milliseconds{node.ms};
    const auto result = co_await with_deadline(deadline, perform(child, clock));
    node.late = result == tl::unexpected(TaskFailure::deadline);
    node.right_results = node.late || result == child.id;
  }
}

}  // namespace

Task<int> perform(Node& node, const ModelClock& clock) {
  using Kind = Node::Kind;
  node.start = clock.now();
  if (node.kind == Kind::yields) co_await yield();
  if (node.kind == Kind::sleeps) {
    const Wake wake = co_await sleep_for(std::chrono::milliseconds{node.ms});
    node.cancelled = wake == Wake::cancelled;
  }
  if (node.kind == Kind::stubborn) {
    co_await StubbornSleep(std::chrono::milliseconds{node.ms});
  }
  if (node.kind == Kind::sequence) co_await perform_in_sequence(node, clock);
  if (node.kind == Kind::all) co_await perform_all(node, clock);
  if (node.kind == Kind::any) co_await perform_any(node, clock);
  if (node.kind == Kind::deadline) co_await perform_until_deadline(node, clock);
  node.end = clock.now();
  co_return node.id;
}

}  // namespace test

namespace {

using test::ModelClock;
using test::Node;

constexpr std::int64_t kNever64 = std::numeric_limits<std::int64_t>::max() / 2;

struct Root {
  Node node;
  std::int64_t cancel = kNever64;
  TaskHandle task;
};

class WhenModelTest : public test::ManualLoop {
 protected:
  static constexpr int kAtOnce = 50;

  void make_roots(Random& random) {
    roots_ = std::vector<Root>(kAtOnce);
    for (Root& root : roots_) {
      int id = 0;
      root.node = test::random_node(random, random.between(1, 4), id);
      if (random.chance(0.5)) root.cancel = random.between<std::int64_t>(0, 30);
    }
  }

  /// Goes from event to event; nothing is left to do at one before the next.
  void perform_roots() {
    const ModelClock clock{*loop, time.now()};
    for (Root& root : roots_) root.task = loop->spawn(perform_root(root.node, clock));
    for (std::int64_t ms = 0;;) {
      if (ms > 0) settle();
      std::int64_t next_cancel = kNever64;
      for (const Root& root : roots_) {
        if (root.cancel == ms) root.task.cancel();
        if (root.cancel > ms) next_cancel = std::min(next_cancel, root.cancel);
      }
      settle();
      const Instant expiry = loop->wheel().next_expiry();
      if (expiry == kNever && loop->stats().tasks_live == 0) return;
      const Instant cancel = saturating_add(clock.begin, std::chrono::milliseconds{next_cancel});
      time.set(std::min(expiry, cancel));
      ms = saturating_sub(time.now(), clock.begin).count() / 1'000'000;
    }
  }

  void check_roots() {
    for (const Root& root : roots_) {
      ASSERT_TRUE(root.task.done());
      ASSERT_TRUE(test::as_predicted(root.node, 0, root.cancel));
    }
    ASSERT_EQ(loop->stats().tasks_live, 0U);
    ASSERT_EQ(loop->frame_pool().stats().live, 0U);
    ASSERT_EQ(loop->wheel().armed_count(), 0U);
  }

 private:
  static Task<> perform_root(Node& node, ModelClock clock) {
    const int id = co_await test::perform(node, clock);
    EXPECT_EQ(id, node.id);
  }

  std::vector<Root> roots_;
};

TEST_F(WhenModelTest, RandomCompositionsDoWhatArithmeticSays) {
  Random random(test::seed());
  const std::uint64_t rounds = test::scaled(100'000 / kAtOnce);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    make_roots(random);
    perform_roots();
    check_roots();
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace pinion
