#include <pinion/eventloop/ring.h>

#include <liburing.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <utility>
#include <vector>

#include "ring_setup.h"

namespace pinion {
namespace {

// Completions that belong to nobody: below Ring::kReservedData.
constexpr std::uint64_t kNobody = 0;
constexpr std::uint64_t kDoorbell = 1;
constexpr std::uint64_t kDoorbellFailed = 2;

constexpr std::size_t kBatch = 64;
/// The owners of so many operations are not in the cache: what a handler needs is fetched while
/// those before it run.
constexpr std::uint64_t kManyInFlight = 256;
constexpr std::size_t kFetchAhead = 4;
constexpr unsigned kSubmitAttempts = 100'000;
constexpr unsigned kFlushAttempts = 1000;
/// How often what is started again on a ring that never ran is ended again.
constexpr int kEndRounds = 16;

std::uint64_t user_data_of(const Completion& completion) noexcept {
  return reinterpret_cast<std::uintptr_t>(&completion);
}

/// The owner of an operation usually lies around its Completion.
void fetch_owner(std::uint64_t completion) noexcept {
  constexpr std::uint64_t kLine = 64;
  constexpr std::uint64_t kBefore = 2 * kLine;
  constexpr std::uint64_t kAfter = 4 * kLine;
  for (std::uint64_t at = completion - kBefore; at <= completion + kAfter; at += kLine) {
    __builtin_prefetch(reinterpret_cast<const void*>(at), 1);
  }
}

// The words that are shared with the kernel.
unsigned load_acquire(const unsigned* word) noexcept {
  return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}
// NOLINTNEXTLINE(readability-non-const-parameter): the builtin writes through it.
void store_release(unsigned* word, unsigned value) noexcept {
  __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

}  // namespace

Result<std::unique_ptr<Ring>> Ring::create(RingOptions options) {
  auto raw = std::make_unique<io_uring>();
  Result<RingFeatures> features = detail::set_up_ring(*raw, options);
  if (!features) return tl::unexpected(std::move(features.error()));
  return std::unique_ptr<Ring>(new Ring(std::move(raw), *features));
}

Ring::Ring(std::unique_ptr<io_uring> ring, RingFeatures features)
    : ring_(std::move(ring)), features_(features) {
  // Entry i of the queue is always slot i, so that submitting is one store.
  for (unsigned i = 0; i < ring_->sq.ring_entries; ++i) ring_->sq.array[i] = i;
}

Ring::~Ring() {
  io_uring_queue_exit(ring_.get());
}

Result<> Ring::enable() {
  PINION_ASSERT(!enabled_);
  // liburing 2.3 declares io_uring_enable_rings() but doesn't export it.
  const int result = io_uring_register(static_cast<unsigned>(ring_->ring_fd),
                                       IORING_REGISTER_ENABLE_RINGS, nullptr, 0);
  if (result < 0) {
    return tl::unexpected(errno_error(result, "cannot enable the io_uring of this thread"));
  }
  enabled_ = true;
  return {};
}

int Ring::fd() const noexcept {
  return ring_->ring_fd;
}

unsigned Ring::queued() const noexcept {
  return ring_->sq.sqe_tail - load_acquire(ring_->sq.khead);
}

io_uring_sqe& Ring::next_sqe() {
  if (queued() == ring_->sq.ring_entries) [[unlikely]]
    reserve(1);
  io_uring_sqe& sqe = ring_->sq.sqes[ring_->sq.sqe_tail & ring_->sq.ring_mask];
  ++ring_->sq.sqe_tail;
  std::memset(&sqe, 0, sizeof(sqe));
  return sqe;
}

io_uring_sqe& Ring::get_sqe(Completion& completion) {
  io_uring_sqe& sqe = next_sqe();
  sqe.user_data = user_data_of(completion);
  ++completion.in_flight_;
  ++in_flight_;
  return sqe;
}

io_uring_sqe& Ring::get_quiet_sqe(QuietCompletion& completion, std::int32_t success) {
  PINION_ASSERT(completion.in_flight_ == 0);
  io_uring_sqe& sqe = get_sqe(completion);
  sqe.user_data |= kQuiet;
  completion.success_ = success;
  return sqe;
}

void Ring::reserve(unsigned count) {
  PINION_ASSERT(count <= ring_->sq.ring_entries);
  for (unsigned attempt = 0; ring_->sq.ring_entries - queued() < count; ++attempt) {
    PINION_ASSERT(enabled_);                   // Before that, what fits is all there is.
    PINION_ASSERT(attempt < kSubmitAttempts);  // The kernel is out of memory.
    if (attempt > 0) sched_yield();
    submit();
  }
}

void Ring::cancel(Completion& completion) {
  if (completion.in_flight_ == 0) return;
  io_uring_sqe& sqe = next_sqe();
  io_uring_prep_cancel64(&sqe, user_data_of(completion), IORING_ASYNC_CANCEL_ALL);
  sqe.flags |= IOSQE_CQE_SKIP_SUCCESS;
  sqe.user_data = kNobody;
  urgent_ = true;
}

void Ring::abandon(Completion& completion) noexcept {
  in_flight_ -= completion.in_flight_;
  completion.in_flight_ = 0;
}

unsigned Ring::flush_queue() noexcept {
  store_release(ring_->sq.ktail, ring_->sq.sqe_tail);
  return queued();
}

int Ring::enter(unsigned submit, unsigned wait, unsigned flags, void* argument,
                std::size_t size) noexcept {
  ++stats_.enters;
  const unsigned before = load_acquire(ring_->sq.khead);
  const int result = io_uring_enter2(static_cast<unsigned>(ring_->ring_fd), submit, wait, flags,
                                     static_cast<sigset_t*>(argument), size);
  const unsigned taken = load_acquire(ring_->sq.khead) - before;
  if (taken > 0) {
    stats_.submitted += taken;
    stats_.batches.record(taken);
    if (queued() == 0) urgent_ = false;
  }
  if (result < 0) {
    const bool kernel_lost_a_completion = result == -EBADR;  // It had no memory to keep it.
    PINION_ASSERT(!kernel_lost_a_completion);
    // EEXIST: this is not the ring's thread. EBADF, EINVAL, EFAULT: the ring is broken.
    const bool passes = result == -EINTR || result == -EAGAIN || result == -EBUSY ||
                        result == -ETIME || result == -ENOMEM;
    PINION_ASSERT(passes);
  }
  return result;
}

void Ring::submit() {
  const unsigned count = flush_queue();
  // Refused for lack of memory or by a signal, they stay queued for the next call.
  if (count > 0 && enabled_) enter(count, 0, IORING_ENTER_GETEVENTS, nullptr, 0);
  note_submitted();
}

bool Ring::flush() {
  for (unsigned attempt = 0; queued() > 0 && attempt < kFlushAttempts; ++attempt) {
    if (!enabled_) return false;
    if (attempt > 0) sched_yield();
    submit();
  }
  return queued() == 0;
}

bool Ring::ready() const noexcept {
  return !quiet_.empty() || load_acquire(ring_->cq.ktail) != *ring_->cq.khead ||
         (load_acquire(ring_->sq.kflags) & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW)) != 0;
}

std::size_t Ring::copy_out(Entry* entries, std::size_t limit) noexcept {
  const unsigned head = *ring_->cq.khead;
  const unsigned there = load_acquire(ring_->cq.ktail) - head;
  const unsigned count = std::min(there, static_cast<unsigned>(limit));
  for (unsigned i = 0; i < count; ++i) {
    const io_uring_cqe& cqe = ring_->cq.cqes[(head + i) & ring_->cq.ring_mask];
    entries[i] = claim(cqe.user_data, cqe.res, cqe.flags);
  }
  if (count > 0) store_release(ring_->cq.khead, head + count);
  return count;
}

/// The quiet operation that user data means; nullptr: another one's.
QuietCompletion* Ring::quiet_completion(std::uint64_t user_data) noexcept {
  if (user_data < kReservedData || (user_data & kQuiet) == 0) return nullptr;
  return static_cast<QuietCompletion*>(reinterpret_cast<Completion*>(user_data - kQuiet));
}

/// A quiet operation that the kernel speaks of is not among those of whose success it says nothing.
Ring::Entry Ring::claim(std::uint64_t user_data, std::int32_t result,
                        std::uint32_t flags) noexcept {
  QuietCompletion* const completion = quiet_completion(user_data);
  if (completion == nullptr) return {user_data, result, flags};
  if (completion->linked()) quiet_.erase(*completion);
  return {user_data - kQuiet, result, flags};
}

/// What the coming sleep submits ends it only by failing.
void Ring::quieten_queued() noexcept {
  if (quiet_expected_) return;
  for (unsigned at = load_acquire(ring_->sq.khead); at != ring_->sq.sqe_tail; ++at) {
    io_uring_sqe& sqe = ring_->sq.sqes[at & ring_->sq.ring_mask];
    QuietCompletion* const completion = quiet_completion(sqe.user_data);
    if (completion == nullptr || completion->linked()) continue;  // Linked: refused last time.
    sqe.flags |= IOSQE_CQE_SKIP_SUCCESS;
    completion->position_ = at;
    quiet_.push_back(*completion);
  }
}

/// Notes how far the kernel has come: what it has to say of the operations that it has taken over
/// is in the completion queue, unless that has spilled.
void Ring::mark_quiet() noexcept {
  if (quiet_.empty() || marked_) return;
  if ((load_acquire(ring_->sq.kflags) & IORING_SQ_CQ_OVERFLOW) != 0) return;
  marked_ = true;
  marked_submission_ = load_acquire(ring_->sq.khead);
  marked_completion_ = load_acquire(ring_->cq.ktail);
}

/// Tells those whose submission is over that they have succeeded, once the completions that were
/// there after it have been copied out: what the kernel had to say of them was among these.
std::size_t Ring::settle_quiet() {
  if (!marked_ || static_cast<int>(*ring_->cq.khead - marked_completion_) < 0) return 0;
  marked_ = false;
  std::size_t done = 0;
  const unsigned submitted = marked_submission_;
  while (!quiet_.empty()) {
    QuietCompletion& first = quiet_.front();
    if (static_cast<int>(submitted - first.position_) <= 0) break;
    quiet_.erase(first);
    ++done;
    deliver({user_data_of(first), first.success_, 0});
  }
  return done;
}

std::size_t Ring::poll(std::size_t budget, Reap reap) {
  if (!enabled_) return 0;
  std::size_t done = 0;
  while (done < budget) {
    mark_quiet();
    std::array<Entry, kBatch> entries;
    const std::size_t count = copy_out(entries.data(), std::min(kBatch, budget - done));
    const std::size_t ahead = in_flight_ < kManyInFlight ? count : kFetchAhead;
    for (std::size_t i = ahead; i < count; ++i) {
      fetch_owner(entries[i].user_data);
      deliver(entries[i - ahead]);
    }
    for (std::size_t i = count - std::min(count, ahead); i < count; ++i) deliver(entries[i]);
    done += count + settle_quiet();
    if (count > 0) continue;
    if (done > 0 && reap == Reap::some) break;
    // One call of the kernel runs a part of its deferred work: after a stall there is more.
    const unsigned flags = load_acquire(ring_->sq.kflags);
    if ((flags & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW)) == 0) break;
    if ((flags & IORING_SQ_CQ_OVERFLOW) != 0) ++stats_.overflows;
    fetch();
    if (load_acquire(ring_->cq.ktail) == *ring_->cq.khead) break;
  }
  stats_.completions += done;
  return done;
}

/// The kernel sets TASKRUN after it has queued work, and clears it only when it runs some. When the
/// work was run in between, the flag stays, and a loop that trusts it neither sleeps nor stops
/// making calls that find nothing. So it is taken away before the call, which runs whatever is
/// queued by then; what is queued later sets it again.
void Ring::fetch() {
  __atomic_fetch_and(ring_->sq.kflags, ~unsigned{IORING_SQ_TASKRUN}, __ATOMIC_SEQ_CST);
  enter(flush_queue(), 0, IORING_ENTER_GETEVENTS, nullptr, 0);
}

RingWake Ring::sleep(Delay timeout) {
  PINION_ASSERT(timeout.count() > 0);
  const std::int64_t nanoseconds = timeout.count();
  __kernel_timespec limit{.tv_sec = nanoseconds / 1'000'000'000,
                          .tv_nsec = nanoseconds % 1'000'000'000};
  io_uring_getevents_arg argument{};
  argument.sigmask_sz = _NSIG / 8;
  if (timeout != kNoTimeout) argument.ts = reinterpret_cast<std::uintptr_t>(&limit);
  quieten_queued();
  const int result = enter(flush_queue(), 1, IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG,
                           &argument, sizeof(argument));
  note_submitted();
  if (load_acquire(ring_->cq.ktail) != *ring_->cq.khead) return RingWake::completion;
  if (result == -EINTR) return RingWake::signal;
  if (result == -ETIME) return RingWake::timeout;
  // A positive count of submissions hides what ended the sleep.
  return result >= 0 ? RingWake::timeout : RingWake::refused;
}

bool Ring::ring_doorbell(int ring_fd) {
  if (!has(RingFeature::message)) return false;
  const unsigned before = load_acquire(ring_->cq.ktail);
  io_uring_sqe& sqe = next_sqe();
  io_uring_prep_msg_ring(&sqe, ring_fd, 0, kDoorbell, 0);
  sqe.flags |= IOSQE_CQE_SKIP_SUCCESS;
  sqe.user_data = kDoorbellFailed;
  submit();
  if (queued() > 0) return false;
  if ((load_acquire(ring_->sq.kflags) & IORING_SQ_CQ_OVERFLOW) != 0) return false;
  // The kernel answers at once, and only when it refused.
  const unsigned after = load_acquire(ring_->cq.ktail);
  for (unsigned at = before; at != after; ++at) {
    if (ring_->cq.cqes[at & ring_->cq.ring_mask].user_data == kDoorbellFailed) return false;
  }
  return true;
}

/// Takes what is queued back, which the kernel hasn't seen, and tells the owners.
void Ring::end_queued() {
  const unsigned head = load_acquire(ring_->sq.khead);
  std::vector<std::uint64_t> ended;
  for (unsigned at = head; at != ring_->sq.sqe_tail; ++at) {
    ended.push_back(ring_->sq.sqes[at & ring_->sq.ring_mask].user_data);
  }
  ring_->sq.sqe_tail = head;
  flush_queue();
  for (const std::uint64_t user_data : ended) deliver(claim(user_data, -ECANCELED, 0));
}

bool Ring::quiesce(Delay bound) {
  using Clock = std::chrono::steady_clock;  // The kernel's time, whatever the loop's is.
  constexpr Delay kRound = std::chrono::milliseconds{1};
  constexpr std::size_t kRoundBudget = 4096;
  const Clock::time_point begin = Clock::now();
  const bool outer = std::exchange(quiescing_, true);
  // Again in each round: a handler may start what it has been told is over.
  for (int round = 0; !enabled_ && in_flight_ > 0 && round < kEndRounds; ++round) end_queued();
  for (bool first = true; enabled_ && in_flight_ > 0; first = false) {
    if (!first && Delay(Clock::now() - begin) >= bound) break;
    io_uring_sqe& sqe = next_sqe();
    io_uring_prep_cancel64(&sqe, 0, IORING_ASYNC_CANCEL_ALL | IORING_ASYNC_CANCEL_ANY);
    sqe.flags |= IOSQE_CQE_SKIP_SUCCESS;
    sqe.user_data = kNobody;
    submit();
    if (poll(kRoundBudget) == 0 && in_flight_ > 0) static_cast<void>(sleep(kRound));
  }
  quiescing_ = outer;
  return in_flight_ == 0;
}

}  // namespace pinion
