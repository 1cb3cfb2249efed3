#include <fmt/format.h>
#include <pthread.h>

#include <utility>

#include "runtime_parts.h"

/// What a thread of the runtime does, from its set-up to the death of its loop. Why a loop outlives
/// the drain of its lcore: docs/decisions/lcores-come-and-go.md.

namespace pinion {
namespace {

/// How many turns a loop has to handle what others posted when they came to their end.
constexpr int kLastTurns = 100;

/// How often they do: a message that was posted at the end, an answer, and an answer to that.
constexpr int kLastMeetings = 3;

}  // namespace

void Runtime::Start::wait_for_verdict(std::size_t expected) {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return set_up == expected; });
}

Runtime::Start::Verdict Runtime::Start::arrive_and_wait() {
  std::unique_lock lock(mutex);
  ++set_up;
  changed.notify_all();
  changed.wait(lock, [&] { return verdict != Verdict::open; });
  return verdict;
}

void Runtime::Start::decide(Verdict decision) {
  const std::scoped_lock lock(mutex);
  verdict = decision;
  lcores = set_up;
  changed.notify_all();
}

void Runtime::Start::wait_for_release() {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return released; });
}

void Runtime::Start::release(std::size_t count) {
  const std::scoped_lock lock(mutex);
  lcores = count;
  released = true;
  changed.notify_all();
}

void Runtime::Start::meet() {
  std::unique_lock lock(mutex);
  const std::size_t meeting = arrivals++ / lcores;
  changed.notify_all();
  changed.wait(lock, [&] { return arrivals / lcores > meeting; });
}

void Lcore::destroy_kept() noexcept {
  reports_.clear();
  while (!kept_.empty()) {
    const Kept last = kept_.back();
    kept_.pop_back();
    last.destroy(last.object);
  }
}

void Runtime::run_thread(Thread& thread) {
  const std::string name = fmt::format("pinion-{}", thread.lcore.index());
  pthread_setname_np(pthread_self(), name.c_str());
  std::unique_ptr<TimeSource> time;
  std::unique_ptr<Loop> loop;
  const Result<> made = make_loop(thread, time, loop);
  const bool serves = first_set_up(thread, loop.get(), made);
  if (thread.late && !made) {
    loop.reset();
    thread.enter(Thread::Phase::failed);
    return;
  }
  // One that was added and isn't set up may be known to others already: it retires at once.
  if (!serves && thread.late) loop->end_calls();  // As at the end of a run.
  if (serves || thread.late) live(thread, *loop, serves);
  end(thread, loop.get());
}

/// Life after life, until the loop ends with all others.
void Runtime::live(Thread& thread, Loop& loop, bool serves) {
  for (;;) {
    if (serves && !serve(thread, loop)) return;
    retire(thread, loop);
    while (thread.order.load(std::memory_order_acquire) == Thread::Order::none) {
      loop.stopping_ = false;  // That was for a run.
      loop.run_until([&] { return thread.order.load() != Thread::Order::none; }, kNoTimeout);
    }
    if (thread.order.exchange(Thread::Order::none) == Thread::Order::end) return;
    serves = serve_again(thread, loop);
  }
}

Result<> Runtime::make_loop(Thread& thread, std::unique_ptr<TimeSource>& time,
                            std::unique_ptr<Loop>& loop) {
  const RuntimeOptions& options = thread.runtime.options_;
  Result<std::unique_ptr<TimeSource>> clock = thread.start.clocks.make(thread.lcore.index());
  if (!clock) return tl::unexpected(std::move(clock.error()));
  time = std::move(*clock);
  Result<std::unique_ptr<Loop>> created = Loop::create(options.loop, *time);
  if (!created) return tl::unexpected(std::move(created.error()));
  loop = std::move(*created);
  thread.lcore.loop_ = loop.get();
  return loop->adopt_thread();
}

/// Returns whether the lcore serves now.
bool Runtime::first_set_up(Thread& thread, Loop* loop, const Result<>& made) {
  const Result<> ready = made && loop != nullptr ? thread.setup(thread.lcore) : made;
  if (!ready) thread.error = ready.error();
  if (!thread.late) return thread.start.arrive_and_wait() == Start::Verdict::go;
  if (ready) thread.enter(Thread::Phase::serving);
  return ready.has_value();
}

/// Runs the loop to its end. Returns whether this lcore was drained alone, and may come back.
bool Runtime::serve(Thread& thread, Loop& loop) {
  thread.ending = loop.run();
  loop.end_pollers();
  thread.lcore.ended_.store(true, std::memory_order_release);
  if (thread.drains_alone.load(std::memory_order_acquire)) return true;
  loop.time_.note_sleep(kNever, -1);  // It is read no more but for what others still post.
  thread.enter(Thread::Phase::ended);
  // Other lcores may still post to this loop.
  thread.start.wait_for_release();
  await_answers(loop);
  return false;
}

/// Tasks whose calls had no answer in time end when they have it, before what they use dies. There
/// is one, unless the called lcore hangs for ever, and with it the runtime's end.
void Runtime::await_answers(Loop& loop) {
  if (loop.calls_in_flight_ == 0) return;
  while (loop.calls_in_flight_ > 0) {
    loop.stopping_ = false;  // That was for a run.
    loop.run_until([&] { return loop.calls_in_flight_ == 0; }, kNoTimeout);
  }
  loop.wind_down();
}

/// What was kept goes, with what it leaves in the loop.
void Runtime::retire(Thread& thread, Loop& loop) {
  thread.lcore.ended_.store(true, std::memory_order_release);
  await_answers(loop);
  thread.lcore.destroy_kept();
  for (int turns = 0; turns < kLastTurns && loop.turn() > 0; ++turns) {
  }
  loop.finish();
  loop.over_ = false;  // It has more lives.
  loop.close_groups();
  loop.idle_controller_ = IdleController(IdlePolicy::park, {});
  thread.enter(Thread::Phase::retired);
}

bool Runtime::serve_again(Thread& thread, Loop& loop) {
  thread.drains_alone.store(false, std::memory_order_relaxed);
  loop.requests_.store(0);  // Those were for the life before.
  loop.stopping_ = false;
  loop.wheel_.cancel(loop.drain_timer_);
  loop.drain_ = Loop::Drain::no;
  loop.idle_controller_ = IdleController(loop.options_.idle, loop.spin_max());
  const Result<> ready = thread.setup(thread.lcore);
  if (!ready) {
    thread.error = ready.error();
    return false;
  }
  thread.lcore.ended_.store(false, std::memory_order_release);
  loop.call_gate_.open();  // Whoever is told that it serves may call it.
  thread.enter(Thread::Phase::serving);
  return true;
}

void Runtime::end(Thread& thread, Loop* loop) {
  const bool served = thread.look() != Thread::Phase::starting;
  thread.lcore.destroy_kept();
  // What is kept may post when it dies, and so may what ends with a loop; and be answered. No loop
  // goes before all that is over.
  thread.start.meet();
  for (int turns = 0; served && turns < kLastTurns && loop->turn() > 0; ++turns) {
  }
  for (int meeting = 0; meeting < kLastMeetings; ++meeting) {
    if (loop != nullptr) loop->finish();
    thread.start.meet();
  }
  if (loop != nullptr) loop->over_ = true;
}

}  // namespace pinion
