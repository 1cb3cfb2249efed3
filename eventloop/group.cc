#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include <pinion/eventloop/loop.h>

/// Groups of tasks: which of them runs next, and what it is charged with.

namespace pinion {
namespace {

/// How far a group may get ahead of one that is ready, in time of its own; and how often it is
/// looked whether the turn has to go on, between resumptions. A switch and a turn cost less than
/// 1 us.
constexpr double kLeadNs = 25'000;
constexpr Delay kLookEvery = std::chrono::microseconds{25};

constexpr Delay kMostCharged = std::chrono::milliseconds{100};

/// Beyond that, a double that counts it may no longer see 1 ns of kMostShares shares.
constexpr double kMostUsed = static_cast<double>(std::uint64_t{1} << 40);

/// Calls `use` with the index of each bit that is set.
template <class Use>
void for_each_bit(std::uint32_t bits, Use use) {
  for (; bits != 0; bits &= bits - 1) use(static_cast<std::size_t>(std::countr_zero(bits)));
}

}  // namespace

Result<TaskGroup> Loop::make_group(const char* name, std::uint32_t shares) {
  PINION_ASSERT(name != nullptr);
  PINION_ASSERT(on_the_loops_thread());
  if (shares == 0 || shares > TaskGroup::kMostShares) {
    return fail(ErrorCode::invalid_argument, fmt::format("a group with {} shares", shares),
                fmt::format("from 1 to {} shares", TaskGroup::kMostShares));
  }
  for (detail::TaskQueue& queue : queues_) {
    if (queue.shares > 0) continue;
    queue.shares = shares;
    queue.closed = false;
    queue.used = 0;  // When it first has something to run, as much as the others.
    *queue.stats = {.name = name, .shares = shares};
    ++groups_;
    return TaskGroup(queue);
  }
  return fail(ErrorCode::resource_exhausted,
              fmt::format("the loop has {} groups of tasks", queues_.size()),
              "close() those that are not used any more");
}

TaskGroup Loop::default_group() noexcept {
  return TaskGroup(queues_.front());
}

TaskHandle Loop::spawn(Task<> task, const char* name, TaskGroup group) noexcept {
  detail::TaskQueue& queue = group.open_queue();
  PINION_ASSERT(queue.loop == this);
  return spawn_into(queue, std::move(task), name);
}

void Loop::release_group(detail::TaskQueue& queue) noexcept {
  ++queue.generation;
  queue.shares = 0;
  known_ &= ~queue.bit;
  *queue.stats = {};
  --groups_;
}

/// What a loop begins another life with is what it began the first one with.
void Loop::close_groups() noexcept {
  for (detail::TaskQueue& queue : queues_) {
    const bool is_open = queue.shares > 0 && !queue.closed;
    if (is_open && &queue != &queues_.front()) TaskGroup(queue).close();
  }
  default_group().set_shares(TaskGroup::kStandardShares);
  submission_.reset_mode();
}

/// What was put on a list meanwhile waits for the next turn, in each group.
void Loop::fill_due(detail::TaskQueue& queue) noexcept {
  if (queue.turn == stats_.turns) return;
  queue.turn = stats_.turns;
  queue.due.splice(queue.ready);
}

/// The group that goes on; nullptr when the turn has to, since none may run any more, or one that
/// waits for the next turn is too far behind.
detail::TaskQueue* Loop::pick_group() noexcept {
  const detail::TaskQueue* least = nullptr;
  detail::TaskQueue* best = nullptr;
  for_each_bit(active_, [&](std::size_t index) {
    detail::TaskQueue& queue = queues_[index];
    if (queue.idle()) {
      active_ &= ~queue.bit;
      known_ &= ~queue.bit;
      return;
    }
    if ((known_ & queue.bit) == 0) {
      known_ |= queue.bit;
      queue.used = std::max(queue.used, least_used_);
    }
    fill_due(queue);
    if (least == nullptr || queue.used < least->used) least = &queue;
    if (!queue.due.empty() && (best == nullptr || queue.used < best->used)) best = &queue;
  });
  if (best == nullptr || (best->used - least->used) * best->shares > kLeadNs) return nullptr;
  least_used_ = std::max(least_used_, least->used);
  return best;
}

/// Takes the time since the last call as used by a group. However short it was, it counts. The
/// group may have ended with its last task.
void Loop::charge(detail::TaskQueue& queue, std::uint64_t resumptions) noexcept {
  const Instant read = std::max(now_, time_.now());
  const Delay ran =
      std::max(saturating_sub(read, charged_until_), Delay{std::chrono::nanoseconds{1}});
  charged_until_ = read;
  if (queue.shares == 0) return;
  queue.used += static_cast<double>(std::min(ran, kMostCharged).count()) / queue.shares;
  queue.stats->run_ns += static_cast<std::uint64_t>(ran.count());
  queue.stats->resumptions += resumptions;
}

/// What groups have used matters by its differences only.
void Loop::rebase_groups() noexcept {
  for (detail::TaskQueue& queue : queues_) queue.used = std::max(queue.used - least_used_, 0.0);
  least_used_ = 0;
}

/// The phase of tasks of a loop with groups. It leaves what it has no time for on the lists.
std::size_t Loop::run_groups() {
  if (ready_count_ == 0) return 0;
  if (least_used_ > kMostUsed) rebase_groups();
  charged_until_ = std::max(now_, time_.now());
  Instant look_at = saturating_add(charged_until_, kLookEvery);
  other_group_waits_ = false;
  bool turn_goes_on = false;
  std::size_t done = 0;
  while (done < options_.ready_budget && !other_group_waits_ && !turn_goes_on) {
    detail::TaskQueue* const queue = pick_group();
    if (queue == nullptr) break;
    ran_last_ = queue;
    const std::uint64_t before = stats_.resumptions;
    run_first(queue->due);
    ++done;
    charge(*queue, stats_.resumptions - before);
    if (charged_until_ < look_at) continue;
    look_at = saturating_add(charged_until_, kLookEvery);
    turn_goes_on = something_arrived() || charged_until_ >= end_of_slice();
  }
  for_each_bit(active_, [this](std::size_t index) {
    detail::TaskQueue& queue = queues_[index];
    queue.due.splice(queue.ready);
    queue.ready.splice(queue.due);
  });
  return done;
}

/// Whether a group that is ready should run instead of the running task's: one that was not when
/// that task was picked, as soon as it isn't ahead; another when it is too far behind.
bool Loop::other_group_first(Instant now) const noexcept {
  const detail::TaskQueue& mine = *detail::running_task->queue;
  const auto ran = static_cast<double>(saturating_sub(now, charged_until_).count());
  const double used = mine.used + ran / mine.shares;
  bool first = false;
  for_each_bit(active_ & ~mine.bit, [&](std::size_t index) {
    const detail::TaskQueue& other = queues_[index];
    if (other.idle()) return;
    const bool known = (known_ & other.bit) != 0;
    const double theirs = known ? other.used : std::max(other.used, least_used_);
    const double lead = (used - theirs) * mine.shares;
    first = first || (known ? lead > kLeadNs : lead >= 0);
  });
  return first;
}

detail::TaskQueue& TaskGroup::open_queue() const noexcept {
  const bool group_is_open = static_cast<bool>(*this);
  PINION_ASSERT(group_is_open);
  return *queue_;
}

void TaskGroup::set_shares(std::uint32_t shares) const noexcept {
  PINION_ASSERT(shares > 0);
  PINION_ASSERT(shares <= kMostShares);
  detail::TaskQueue& queue = open_queue();
  PINION_ASSERT(queue.loop->on_the_loops_thread());
  queue.shares = shares;
  queue.stats->shares = shares;
}

void TaskGroup::cancel() const noexcept {
  if (queue_ == nullptr || queue_->generation != generation_) return;
  Loop& loop = *queue_->loop;
  PINION_ASSERT(loop.on_the_loops_thread());
  for (detail::TaskContext& context : loop.live_tasks_) {
    if (context.queue == queue_) loop.cancel(context);
  }
}

void TaskGroup::close() const noexcept {
  detail::TaskQueue& queue = open_queue();
  const bool default_group = queue.bit == 1;
  PINION_ASSERT(!default_group);
  PINION_ASSERT(queue.loop->on_the_loops_thread());
  queue.closed = true;
  if (queue.stats->tasks_live == 0) queue.loop->release_group(queue);
}

}  // namespace pinion
