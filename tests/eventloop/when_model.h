#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include <pinion/eventloop/loop.h>
#include <pinion/eventloop/when.h>
#include <pinion/lib/random.h>

#include "when_tasks.h"

/// Random compositions of tasks, and what has to become of them: plain sums, minima and maxima of
/// milliseconds. A node ends when its parts have, and whoever is cancelled ends at that moment, but
/// for stubborn sleeps.

namespace pinion::test {

struct Node {
  enum class Kind : std::uint8_t {
    at_once,
    yields,
    sleeps,
    stubborn,
    sequence,
    all,
    any,
    deadline
  };
  static constexpr std::int64_t kNotYet = -1;

  Kind kind = Kind::at_once;
  int id = 0;
  std::int64_t ms = 0;  ///< Of the sleep or the deadline.
  std::vector<Node> children;

  // What happened.
  std::int64_t start = kNotYet;
  std::int64_t end = kNotYet;
  std::size_t first = 0;      ///< any
  bool cancelled = false;     ///< sleeps
  bool late = false;          ///< deadline
  bool right_results = true;  ///< Every child gave its own.
};

inline Node random_node(Random& random, int depth, int& id) {
  using Kind = Node::Kind;
  Node node;
  node.id = ++id;
  const std::uint64_t kinds = depth == 0 ? 4 : 8;
  node.kind =
      static_cast<Kind>(depth > 2 ? random.between<std::uint64_t>(4, 7) : random.below(kinds));
  // Short ones, so that many things happen in one turn, and long ones.
  node.ms = random.chance(0.5) ? random.between<std::int64_t>(0, 8)
                               : random.between<std::int64_t>(0, 20'000);
  // A timer that is due when it is armed fires a tick later.
  if (node.kind == Kind::stubborn) node.ms += 1;
  if (node.kind < Kind::sequence) return node;
  const std::size_t count = node.kind == Kind::deadline ? 1 : random.between<std::size_t>(1, 5);
  for (std::size_t i = 0; i < count; ++i) {
    node.children.push_back(random_node(random, depth - 1, id));
  }
  return node;
}

/// When it ends that starts at `start` and is cancelled at `cancel`, if it still runs then.
inline std::int64_t end_of(const Node& node, std::int64_t start, std::int64_t cancel);

/// When the first of its children ends.
inline std::int64_t first_end(const Node& node, std::int64_t start, std::int64_t cancel) {
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  for (const Node& child : node.children) first = std::min(first, end_of(child, start, cancel));
  return first;
}

/// When its children are cancelled.
inline std::int64_t inner_cancel(const Node& node, std::int64_t start, std::int64_t cancel) {
  if (node.kind == Node::Kind::deadline) return std::min(cancel, start + node.ms);
  if (node.kind == Node::Kind::any) return std::min(cancel, first_end(node, start, cancel));
  return cancel;
}

inline std::int64_t end_of(const Node& node, std::int64_t start, std::int64_t cancel) {
  using Kind = Node::Kind;
  if (node.kind == Kind::at_once || node.kind == Kind::yields) return start;
  if (node.kind == Kind::stubborn) return start + node.ms;
  if (node.kind == Kind::sleeps) return std::max(start, std::min(cancel, start + node.ms));
  const std::int64_t inner = inner_cancel(node, start, cancel);
  std::int64_t end = start;
  for (const Node& child : node.children) {
    const std::int64_t from = node.kind == Kind::sequence ? end : start;
    end = std::max(end, end_of(child, from, inner));
  }
  return end;
}

/// Whether what happened is what had to happen. Where two things happen in one millisecond, either
/// may come first.
inline bool as_predicted(const Node& node, std::int64_t start, std::int64_t cancel) {
  using Kind = Node::Kind;
  if (node.start != start || node.end != end_of(node, start, cancel) || !node.right_results) {
    return false;
  }
  if (node.kind == Kind::sleeps && cancel != start + node.ms) {
    return node.cancelled == (cancel < start + node.ms || cancel <= start);
  }
  if (node.kind == Kind::any) {
    if (end_of(node.children[node.first], start, cancel) != first_end(node, start, cancel)) {
      return false;
    }
  }
  if (node.kind == Kind::deadline) {
    const std::int64_t alone = first_end(node, start, cancel);
    if (alone != start + node.ms && node.late != (alone > start + node.ms)) return false;
  }
  const std::int64_t inner = inner_cancel(node, start, cancel);
  std::int64_t from = start;
  for (const Node& child : node.children) {
    if (!as_predicted(child, from, inner)) return false;
    if (node.kind == Kind::sequence) from = child.end;
  }
  return true;
}

/// Tells the time of a run in milliseconds.
struct ModelClock {
  Loop& loop;
  Instant begin;

  [[nodiscard]] std::int64_t now() const noexcept {
    return saturating_sub(loop.now(), begin).count() / 1'000'000;
  }
};

/// Does what `node` says, notes what happens, and gives the node's id.
Task<int> perform(Node& node, const ModelClock& clock);

}  // namespace pinion::test
