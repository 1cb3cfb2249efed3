#include <pinion/eventloop/task.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <utility>

#include <pinion/eventloop/loop.h>
#include <pinion/lib/guarded.h>

/// Tasks on the loop: memory of their frames, the ready list, their end.

namespace pinion {
namespace {

/// Before each frame: where its memory came from. No pool: the heap, for a frame that was made on a
/// thread without a loop.
struct alignas(16) FrameHeader {
  FramePool* pool;
};

thread_local void* newest = nullptr;

/// How often a task may call and return before others have their turn.
constexpr unsigned kMaxHops = 64;

}  // namespace

namespace detail {

void* PromiseBase::operator new(std::size_t size) noexcept {
  const std::size_t whole = size + sizeof(FrameHeader);
  Loop* const loop = Loop::current_or_null();
  FramePool* const pool = loop == nullptr ? nullptr : &loop->frame_pool();
  void* const memory =
      pool == nullptr ? ::operator new(whole, std::nothrow) : pool->allocate(whole);
  if (memory == nullptr) return nullptr;
  newest = new (memory) FrameHeader{pool} + 1;
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
  if (linked()) context->loop->forget(*this);
}

void PromiseBase::start_for(PromiseBase& parent) noexcept {
  PINION_ASSERT(context == nullptr);
  context = parent.context;
  continuation = &parent;
  context->loop->hand_over(*this);
}

void PromiseBase::finish() noexcept {
  if (continuation != nullptr) {
    context->loop->hand_over(*continuation);
  } else {
    context->loop->ended_ = context;
  }
}

void PromiseBase::exception_escaped() noexcept {
  exception_left("a task");
}

}  // namespace detail

void TaskHandle::cancel() const noexcept {
  if (done() || context_->cancel_requested) return;
  context_->cancel_requested = true;
  if (Wait* const wait = context_->wait; wait != nullptr) wait->cancel_(*wait);
}

bool cancelled() noexcept {
  const Loop* const loop = Loop::current_or_null();
  return loop != nullptr && loop->current_task_ != nullptr && loop->current_task_->cancel_requested;
}

TaskHandle Loop::spawn(Task<> task, const char* name) noexcept {
  detail::TaskContext* const context = task ? take_context() : nullptr;
  if (context == nullptr) {
    ++stats_.tasks_refused;
    return {};
  }
  detail::PromiseBase* const root = task.release();
  PINION_ASSERT(root->context == nullptr);
  root->context = context;
  context->loop = this;
  context->root = root;
  context->name = name;
  context->cancel_requested = false;
  context->started = false;
  live_tasks_.push_back(*context);
  ++stats_.tasks_live;
  ++stats_.tasks_spawned;
  make_ready(*root);
  return TaskHandle(*context);
}

detail::TaskContext* Loop::take_context() noexcept {
  if (detail::TaskContext* const used = free_contexts_.pop_front(); used != nullptr) return used;
  return contexts_->allocate();
}

void Loop::make_ready(detail::PromiseBase& promise) noexcept {
  ready_.push_back(promise);
  ++ready_count_;
}

void Loop::hand_over(detail::PromiseBase& promise) noexcept {
  PINION_DCHECK(current_task_ == promise.context);
  PINION_DCHECK(handed_over_ == nullptr);
  handed_over_ = &promise;
}

void Loop::forget(detail::PromiseBase& promise) noexcept {
  List<detail::PromiseBase>::erase(promise);
  --ready_count_;
}

std::size_t Loop::run_ready() {
  // What becomes ready meanwhile waits for the next turn, so that a task that yields for ever can't
  // keep the turn from ending.
  const std::size_t count = std::min(ready_count_, options_.ready_budget);
  std::size_t done = 0;
  for (; done < count; ++done) {
    detail::PromiseBase* const promise = ready_.pop_front();
    if (promise == nullptr) break;
    --ready_count_;
    run_task(*promise);
  }
  return done;
}

void Loop::run_task(detail::PromiseBase& first) {
  detail::TaskContext& context = *first.context;
  current_task_ = &context;
  context.started = true;
  detail::PromiseBase* promise = &first;
  for (unsigned hops = 0; promise != nullptr; ++hops) {
    if (hops == kMaxHops) {
      make_ready(*promise);
      break;
    }
    // A frame begins with the address of the code that goes on.
    note_running("task", context.name, *static_cast<void**>(promise->frame.address()));
    ++stats_.resumptions;
    promise->frame.resume();
    promise = std::exchange(handed_over_, nullptr);
  }
  if (ended_ != nullptr) end_task(*std::exchange(ended_, nullptr));
  current_task_ = nullptr;
}

void Loop::end_task(detail::TaskContext& context) noexcept {
  context.root->frame.destroy();
  context.root = nullptr;
  ++context.generation;
  List<detail::TaskContext>::erase(context);
  free_contexts_.push_front(context);
  --stats_.tasks_live;
}

void Loop::cancel_tasks() noexcept {
  for (detail::TaskContext& context : live_tasks_) TaskHandle(context).cancel();
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
