#include "stack_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>

namespace pinion::bench {
namespace {

using namespace std::chrono_literals;

constexpr Instant kStart{1'000s};
constexpr std::chrono::nanoseconds kStep = 250ns;
constexpr std::chrono::nanoseconds kLongestRound = 25ms;

/// What is not to be measured.
void just(const std::function<void()>& turn) {
  turn();
}

}  // namespace

const char* to_string(StackCase what) noexcept {
  switch (what) {
    case StackCase::receive:
      return "receive";
    case StackCase::send:
      return "send";
    case StackCase::request:
      return "request";
  }
  return "";
}

StackRun::StackRun(const StackSubject& subject, std::size_t connections, std::uint64_t seed)
    : now_(kStart),
      random_(seed),
      server_(subject.make(connections, now_)),
      peer_(connections),
      step_(std::min(kStep, kLongestRound / static_cast<std::int64_t>(connections))),
      order_(connections) {
  std::iota(order_.begin(), order_.end(), 0U);
  open();
  random_.shuffle(order_);
  if (connections == 1) order_.assign(kStackBurst, 0);
}

void StackRun::open() {
  for (std::size_t begin = 0; begin < order_.size(); begin += kStackBurst) {
    const std::size_t count = std::min(kStackBurst, order_.size() - begin);
    const std::span connections = std::span(order_).subspan(begin, count);
    for (const std::uint32_t connection : connections) server_->load(peer_.syn(connection));
    turn({}, count, &just);
    for (const std::uint32_t connection : connections) {
      server_->load(peer_.acknowledgment(connection));
    }
    turn({}, count, &just);
  }
  if (server_->connections() == order_.size()) return;
  fault_ = fmt::format("{} of {} connections opened", server_->connections(), order_.size());
}

void StackRun::turn(std::span<const std::uint32_t> writers, std::size_t operations,
                    const Around& around) {
  now_ += step_ * static_cast<std::int64_t>(operations);
  around([&] { server_->turn(now_, writers); });
  server_->collect([this](std::span<const std::byte> packet) { peer_.take(packet); });
}

/// The next `count` of the order.
std::span<const std::uint32_t> StackRun::draw(std::size_t count) {
  if (next_ + count > order_.size()) {
    random_.shuffle(order_);
    next_ = 0;
  }
  next_ += count;
  return std::span(order_).subspan(next_ - count, count);
}

/// Loads the acknowledgments of what has left.
void StackRun::acknowledge() {
  while (peer_.due() != 0) server_->load(peer_.acknowledgment());
}

std::size_t StackRun::run(StackCase what, std::size_t operations, std::size_t burst,
                          const Around& around) {
  if (!fault_.empty()) return 0;
  burst = std::min(burst, what == StackCase::request ? peer_.connections() : order_.size());
  const Sums before = sums();
  server_->application().answers = what == StackCase::request;
  std::size_t done = 0;
  for (; done < operations; done += burst) {
    acknowledge();
    const std::span connections = draw(burst);
    if (what != StackCase::send) {
      const std::size_t size = what == StackCase::request ? kStackRequest : kStackSegment;
      for (const std::uint32_t connection : connections) {
        server_->load(peer_.data(connection, size));
      }
    }
    const bool writes = what == StackCase::send;
    turn(writes ? connections : std::span<const std::uint32_t>(), burst, around);
  }
  while (peer_.due() != 0) {
    acknowledge();
    turn({}, 0, &just);
  }
  check(what, done, before);
  return done;
}

void StackRun::warm_up(StackCase what, std::size_t burst) {
  constexpr std::size_t kLeast = 4'096;
  if (what == StackCase::send) {
    // The congestion window of an only connection opens.
    for (const std::size_t smaller : {4U, 8U, 16U, 24U}) {
      if (smaller < burst) run(what, 8 * smaller, smaller, &just);
    }
  }
  // An odd number of segments for half of the connections, an even one for the others.
  run(what, std::max(peer_.connections() / 2, kLeast), burst, &just);
}

StackRun::Sums StackRun::sums() const {
  const StackApplication& application = server_->application();
  return {.segments = peer_.segments(),
          .bytes_out = peer_.bytes(),
          .numbers_out = peer_.numbers_taken() - application.numbers_out(),
          .bytes_in = peer_.bytes_made() - application.bytes_in(),
          .numbers_in = peer_.numbers_made() - application.numbers_in()};
}

/// Compares what came and left with what was to. Sums of numbers may wrap; all the same they are
/// equal.
void StackRun::check(StackCase what, std::size_t operations, const Sums& before) {
  const Sums after = sums();
  const std::uint64_t segments = after.segments - before.segments;
  const std::uint64_t bytes = after.bytes_out - before.bytes_out;
  const std::size_t wanted = what == StackCase::receive ? 0 : operations;
  const std::size_t size = what == StackCase::request ? kStackRequest : kStackSegment;
  if (!peer_.fault().empty()) {
    fault_ = peer_.fault();
  } else if (after.bytes_in != 0 || after.numbers_in != 0) {
    fault_ = "the application did not get what was sent to it";
  } else if (segments != wanted || bytes != wanted * size || after.numbers_out != 0) {
    fault_ = fmt::format("{} segments with {} bytes left instead of {} with {}", segments, bytes,
                         wanted, wanted * size);
  }
}

}  // namespace pinion::bench
