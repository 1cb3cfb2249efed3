#include <pinion/eventloop/task.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <utility>

#include <pinion/eventloop/loop.h>
#include <pinion/eventloop/when.h>
#include <pinion/lib/guarded.h>

/// Tasks on the loop: memory of their frames, the ready list, their end.

namespace pinion {
namespace {

thread_local void* newest = nullptr;

/// How often a task may call and return before others have their turn.
constexpr unsigned kMaxHops = 64;

/// The frames of so many tasks are not in the cache.
constexpr std::size_t kManyTasks = 256;

detail::FrameHeader& header_of(const detail::PromiseBase& promise) noexcept {
  return *(static_cast<detail::FrameHeader*>(promise.frame.address()) - 1);
}

/// While one task runs, what the next one needs is on its way into the cache.
void fetch_frame(const detail::PromiseBase& promise) noexcept {
  constexpr std::size_t kLine = 64;
  constexpr std::size_t kBytes = 6 * kLine;
  const auto* const frame = static_cast<const std::byte*>(promise.frame.address());
  for (std::size_t at = 0; at < kBytes; at += kLine) __builtin_prefetch(frame + at, 1);
  __builtin_prefetch(promise.context, 1);
}

}  // namespace

namespace detail {

void* PromiseBase::operator new(std::size_t size) noexcept {
  const std::size_t whole = size + sizeof(FrameHeader);
  Loop* const loop = Loop::current_or_null();
  FramePool* const pool = loop == nullptr ? nullptr : &loop->frame_pool();
  void* const memory =
      pool == nullptr ? ::operator new(whole, std::nothrow) : pool->allocate(whole);
  if (memory == nullptr) return nullptr;
  newest = new (memory) FrameHeader{pool, nullptr} + 1;
  return newest;
}

void* PromiseBase::newest_frame() noexcept {
  return newest;
}

void PromiseBase::layout_is_wrong() noexcept {
  std::fputs(
      "pinion: GCC 12 has miscompiled this coroutine: it has co_await in a condition and no local "
      "variable\nfix: name the result: `const auto result = co_await ...; if (result) ...`\n",
      stderr);
  std::abort();
}

void PromiseBase::operator delete(void* memory, std::size_t size) noexcept {
  FrameHeader* const header = static_cast<FrameHeader*>(memory) - 1;
  FramePool* const pool = header->pool;
  if (pool == nullptr) {
    ::operator delete(header);
  } else {
    pool->release(header, size + sizeof(FrameHeader));
  }
}

PromiseBase::~PromiseBase() {
  if (linked()) context->queue->loop->forget(*this);
}

}  // namespace detail

/// Its memory goes back to the pool that it came from, which is one thread's. What came from the
/// heap was made without a loop: before this one had a thread, or by whoever may not be here.
inline void Loop::check_frame(const detail::PromiseBase& promise) const noexcept {
  const FramePool* const pool = header_of(promise).pool;
  if (pool == frames_.get()) [[likely]]
    return;
  const bool made_on_the_thread_that_runs_it = pool == nullptr;
  PINION_ASSERT(made_on_the_thread_that_runs_it);
  PINION_ASSERT(on_the_loops_thread());
}

namespace detail {

void PromiseBase::start_for(PromiseBase& parent) noexcept {
  PINION_ASSERT(context == nullptr);
  context = parent.context;
  continuation = &parent;
  Loop& loop = *context->queue->loop;
  loop.check_frame(*this);
  loop.hand_over(*this);
}

void PromiseBase::finish() noexcept {
  if (continuation != nullptr) {
    context->queue->loop->hand_over(*continuation);
  } else {
    context->queue->loop->ended_ = context;
  }
}

void PromiseBase::awaited_empty() noexcept {
  std::fputs(
      "pinion: co_await of an empty task: its frame found no memory, or the task was moved away\n"
      "fix: raise the memory limit; or check `if (task)` first, and do without it\n",
      stderr);
  std::abort();
}

void PromiseBase::exception_escaped() noexcept {
  exception_left("a task");
}

}  // namespace detail

void TaskHandle::cancel() const noexcept {
  if (done()) return;
  Loop& loop = *context_->queue->loop;
  PINION_ASSERT(loop.on_the_loops_thread());
  loop.cancel(*context_);
}

constinit thread_local detail::TaskContext* detail::running_task = nullptr;

TaskHandle Loop::spawn(Task<> task, const char* name) noexcept {
  const detail::TaskContext* const parent = detail::running_task;
  const bool inherits = parent != nullptr && parent->queue->loop == this;
  return spawn_into(inherits ? *parent->queue : queues_.front(), std::move(task), name);
}

TaskHandle Loop::spawn_into(detail::TaskQueue& queue, Task<> task, const char* name) noexcept {
  PINION_DCHECK(on_the_loops_thread());
  detail::TaskContext* const context = task ? take_context(*task.promise_, queue, name) : nullptr;
  if (context == nullptr) {
    ++stats_.tasks_refused;
    return {};
  }
  ++stats_.tasks_spawned;
  live_tasks_.push_back(*context);
  make_ready(*task.release());
  return TaskHandle(*context);
}

/// A context for a task that begins with `root`; nullptr when there is no room.
detail::TaskContext* Loop::take_context(detail::PromiseBase& root, detail::TaskQueue& queue,
                                        const char* name) noexcept {
  PINION_ASSERT(root.context == nullptr);
  check_frame(root);
  detail::TaskContext* context = free_contexts_.pop_front();
  if (context == nullptr) context = contexts_->allocate();
  if (context == nullptr) return nullptr;
  root.context = context;
  context->queue = &queue;
  context->root = &root;
  context->name = name;
  context->group = nullptr;
  context->cancel_requested = false;
  context->started = false;
  ++stats_.tasks_live;
  ++queue.stats->tasks_live;
  return context;
}

/// Takes back the context of a task that has ended, from the list it is in.
void Loop::give_back(detail::TaskContext& context) noexcept {
  context.root = nullptr;
  ++context.generation;
  Contexts::erase(context);
  free_contexts_.push_front(context);
  --stats_.tasks_live;
  detail::TaskQueue& queue = *context.queue;
  if (--queue.stats->tasks_live == 0 && queue.closed) release_group(queue);
}

void Loop::hand_over(detail::PromiseBase& promise) noexcept {
  PINION_DCHECK(detail::running_task != nullptr);
  handed_over_.push_back(promise);
  ++ready_count_;
}

void Loop::forget(detail::PromiseBase& promise) noexcept {
  List<detail::PromiseBase>::erase(promise);
  --ready_count_;
}

std::size_t Loop::run_ready() {
  return groups_ == 1 ? run_only_group() : run_groups();
}

std::size_t Loop::run_only_group() {
  // What becomes ready meanwhile waits for the next turn, so that a task that yields for ever can't
  // keep the turn from ending.
  const std::size_t count = std::min(ready_count_, options_.ready_budget);
  const std::uint64_t before = stats_.resumptions;
  detail::TaskQueue& queue = queues_.front();
  ran_last_ = &queue;
  std::size_t done = 0;
  for (; done < count && !queue.ready.empty(); ++done) run_first(queue.ready);
  queue.stats->resumptions += stats_.resumptions - before;
  return done;
}

void Loop::run_first(List<detail::PromiseBase>& of) {
  detail::PromiseBase& promise = *of.pop_front();
  --ready_count_;
  if (stats_.tasks_live >= kManyTasks && !of.empty()) fetch_frame(of.front());
  run_task(promise);
}

/// Runs a task until it waits, and with it what it hands over to: who awaits it, whom it awaits,
/// and the children that it starts.
void Loop::run_task(detail::PromiseBase& first) {
  detail::PromiseBase* promise = &first;
  for (unsigned hops = 1;; ++hops) {
    detail::TaskContext& context = *promise->context;
    detail::running_task = &context;
    context.started = true;
    detail::go_on_until = 0;
    // A frame begins with the address of the code that goes on.
    note_running("task", context.name, *static_cast<void**>(promise->frame.address()));
    ++stats_.resumptions;
    promise->frame.resume();
    if (ended_ != nullptr) end_task(*std::exchange(ended_, nullptr));
    if (handed_over_.empty()) break;
    if (hops == kMaxHops) {
      // Who hands over to whom is of one group, which is active.
      handed_over_.front().context->queue->ready.splice(handed_over_);
      break;
    }
    promise = handed_over_.pop_front();
    --ready_count_;
  }
  detail::running_task = nullptr;
}

void Loop::end_task(detail::TaskContext& context) noexcept {
  if (detail::ChildGroup* const group = context.group; group != nullptr) {
    group->on_end(context);
    return;
  }
  context.root->frame.destroy();
  give_back(context);
}

/// Asks a task to end. The hooks of groups ask their children in turn: over a list, so that any
/// depth needs no stack.
void Loop::cancel(detail::TaskContext& context) noexcept {
  if (context.cancel_requested) return;
  context.cancel_requested = true;
  if (&context == detail::running_task) detail::go_on_until = 0;
  if (context.wait == nullptr) return;
  // No task runs in between, and so none ends.
  header_of(*context.root).next_to_cancel = nullptr;
  detail::TaskContext* const before = std::exchange(last_to_cancel_, &context);
  if (before != nullptr) {
    header_of(*before->root).next_to_cancel = &context;
    return;
  }
  for (detail::TaskContext* next = &context; next != nullptr;
       next = header_of(*next->root).next_to_cancel) {
    if (Wait* const wait = next->wait; wait != nullptr) wait->cancel_(*wait);
  }
  last_to_cancel_ = nullptr;
}

void Loop::cancel_tasks() noexcept {
  for (detail::TaskContext& context : live_tasks_) cancel(context);
}

void Loop::destroy_unstarted_tasks() noexcept {
  for (auto at = live_tasks_.begin(); at != live_tasks_.end();) {
    detail::TaskContext& context = *at++;
    if (!context.started) end_task(context);
  }
}

void Loop::destroy_tasks() noexcept {
  while (!live_tasks_.empty()) end_task(live_tasks_.front());
}

void Loop::release_contexts() noexcept {
  while (detail::TaskContext* const context = free_contexts_.pop_front()) {
    contexts_->release(*context);
  }
}

}  // namespace pinion
