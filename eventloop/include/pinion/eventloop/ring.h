#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <pinion/eventloop/ring_features.h>
#include <pinion/eventloop/running.h>
#include <pinion/lib/assert.h>
#include <pinion/lib/export.h>
#include <pinion/lib/histogram.h>
#include <pinion/lib/list.h>
#include <pinion/lib/result.h>
#include <pinion/lib/time.h>

struct io_uring;
struct io_uring_sqe;

/// The io_uring of one loop: where its operations go in, its completions come out, and the one
/// place where its thread sleeps.
///
/// Ownership:  a Completion belongs to the caller. Its address travels through the kernel, so it
///             neither moves nor dies while an operation is in flight (asserted).
/// Threading:  one thread, the one that enabled the ring. The ring may be created on another, which
///             may register buffers and queue operations up to the queue's size before that.
/// Cost:       get_sqe is a store of 64 bytes; poll without completions reads two words of user
///             memory; operations of a whole turn go to the kernel in one system call.
/// Full:       a full submission queue is submitted at once; a full completion queue spills into
///             the kernel's own list, which poll fetches.
/// Errors:     a kernel that is too old, or that forbids io_uring, is refused by create() with the
///             setting that allows it.

namespace pinion {

/// Where the outcome of an operation is delivered. One Completion may serve several operations at
/// once, if its handler can tell them apart.
class Completion {
 public:
  /// `result` and `flags` as the kernel gives them: a negative errno, or what the operation says.
  /// While `flags` has IORING_CQE_F_MORE the operation goes on; otherwise it has ended, and when
  /// nothing else is in flight the handler may destroy the Completion. An exception that leaves it
  /// ends the process with a message.
  using Handler = void (*)(Completion&, std::int32_t result, std::uint32_t flags);

  explicit Completion(Handler handler) noexcept : handler_(handler) {}
  Completion(const Completion&) = delete;
  Completion& operator=(const Completion&) = delete;
  ~Completion() { PINION_ASSERT(in_flight_ == 0); }

  /// How many operations have been taken from the ring (submitted or not) and not yet ended.
  [[nodiscard]] std::uint32_t in_flight() const noexcept { return in_flight_; }

 private:
  friend class Ring;
  Handler handler_;
  std::uint32_t in_flight_ = 0;
};

/// For operations that the kernel carries out while it takes them over: a send that doesn't wait.
/// When the call that submits one also sleeps, the kernel is told to keep quiet about its success,
/// which then ends no sleep; the handler hears of it in a poll after that.
class QuietCompletion : public Completion, public ListNode {
 public:
  explicit QuietCompletion(Handler handler) noexcept : Completion(handler) {}

 private:
  friend class Ring;
  unsigned position_ = 0;  // Of its entry in the submission queue.
  std::int32_t success_ = 0;
};

struct RingOptions {
  unsigned submission_entries = 512;   ///< 1 to 32768, rounded up to a power of two.
  unsigned completion_entries = 4096;  ///< At least that many, at most 65536, rounded up likewise.
  RingFeatures masked = {};            ///< Not used although the kernel has it; for tests.
};

struct RingStats {
  std::uint64_t enters = 0;       ///< System calls, those that slept included.
  std::uint64_t submitted = 0;    ///< Operations handed to the kernel.
  std::uint64_t completions = 0;  ///< Completions handled.
  std::uint64_t overflows = 0;    ///< Times when completions had spilled into the kernel's list.
  CoarseHistogram batches;        ///< Operations per call that handed any over.
};

/// What ended a sleep.
enum class RingWake : std::uint8_t {
  completion,  ///< There is something to handle.
  timeout,     ///< The time is up; in a sleep that submitted something, a signal perhaps.
  signal,      ///< A signal handler ran on this thread.
  refused,     ///< The kernel didn't sleep; there may be something to handle.
};

/// How far a poll goes.
enum class Reap : std::uint8_t {
  some,  ///< What the completion queue holds; into the kernel only when it holds nothing.
  all,   ///< And into the kernel until it has nothing more.
};

class Ring {
 public:
  [[nodiscard]] PINION_EXPORT static Result<std::unique_ptr<Ring>> create(RingOptions options);
  PINION_EXPORT ~Ring();
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  /// Makes the calling thread the ring's thread. Once.
  [[nodiscard]] PINION_EXPORT Result<> enable();
  [[nodiscard]] bool enabled() const noexcept { return enabled_; }

  /// Whether the kernel has it.
  [[nodiscard]] bool has(RingFeature feature) const noexcept { return features_.has(feature); }

  /// The next submission entry, zeroed, with its user data set: fill it with io_uring_prep_…()
  /// before the next call, and don't set IOSQE_CQE_SKIP_SUCCESS. Never fails: what is queued is
  /// submitted when the queue is full. It goes to the kernel at the end of the turn, or of a later
  /// one when the loop's submission policy gathers a batch (submission.h).
  [[nodiscard]] PINION_EXPORT io_uring_sqe& get_sqe(Completion& completion);

  /// The same for a quiet operation, one at a time, which must end while it is submitted whatever
  /// becomes of it. `success` is the result that the handler is given when the kernel says nothing.
  [[nodiscard]] PINION_EXPORT io_uring_sqe& get_quiet_sqe(QuietCompletion& completion,
                                                          std::int32_t success);

  /// Somebody waits for the success of a quiet operation: of those that are queued now, or later
  /// until the next submission, success ends a sleep too. They wait for no batch.
  void expect_quiet() noexcept { quiet_expected_ = urgent_ = true; }

  /// What is queued now goes to the kernel at the end of this turn at the latest: somebody waits
  /// for its end. cancel() says so itself.
  void hurry() noexcept { urgent_ = true; }
  [[nodiscard]] bool urgent() const noexcept { return urgent_; }

  /// Makes room for `count` entries in a row, so that linked ones stay together.
  PINION_EXPORT void reserve(unsigned count);

  /// Asks the kernel to end every operation of `completion`. Each still delivers its last
  /// completion, with -ECANCELED or with what it had achieved.
  PINION_EXPORT void cancel(Completion& completion);

  /// Hands everything queued to the kernel now, instead of at the end of a turn.
  PINION_EXPORT void submit();

  /// submit(), tried again while the kernel refuses for lack of memory. Returns whether everything
  /// has been handed over: only then may memory go that a queued operation reads when it starts.
  [[nodiscard]] PINION_EXPORT bool flush();

  /// Handles at most `budget` completions and returns how many. Entries are copied out in batches
  /// before handlers run, so that a handler may take entries and submit.
  PINION_EXPORT std::size_t poll(std::size_t budget, Reap reap = Reap::all);

  /// How many entries wait to be submitted.
  [[nodiscard]] PINION_EXPORT unsigned queued() const noexcept;

  /// Whether there is something for a poll, or for another submission, so that nobody should sleep;
  /// reads user memory only.
  [[nodiscard]] PINION_EXPORT bool ready() const noexcept;

  /// Submits what is queued and sleeps until a completion, a signal or the end of `timeout` (more
  /// than 0; kNoTimeout: no end). One system call.
  [[nodiscard]] PINION_EXPORT RingWake sleep(Delay timeout);

  /// Wakes the loop that sleeps in the ring with the descriptor `ring_fd`, at once; false when the
  /// kernel refused or can't.
  [[nodiscard]] PINION_EXPORT bool ring_doorbell(int ring_fd);

  /// Cancels whatever is in flight and handles completions until there is none or `bound` of real
  /// time is over. Returns whether nothing is in flight any more. On a ring that isn't enabled,
  /// what is queued ends with -ECANCELED and never reaches the kernel.
  PINION_EXPORT bool quiesce(Delay bound);

  /// Whether a handler is called from quiesce(): then it doesn't start again what was cancelled.
  [[nodiscard]] bool quiescing() const noexcept { return quiescing_; }

  /// Forgets what is in flight for `completion`, whose operations use no memory of its owner,
  /// before both die with the ring. Nothing may poll in between.
  PINION_EXPORT void abandon(Completion& completion) noexcept;

  /// Where each handler is noted before it is called.
  void note_in(RunningNow& running) noexcept { running_ = &running; }

  /// Operations taken and not yet ended.
  [[nodiscard]] std::uint64_t in_flight() const noexcept { return in_flight_; }

  [[nodiscard]] PINION_EXPORT int fd() const noexcept;

  /// For io_uring_register_…() calls. Don't submit or reap through it.
  [[nodiscard]] io_uring& raw() noexcept { return *ring_; }

  [[nodiscard]] const RingStats& stats() const noexcept { return stats_; }

 private:
  struct Entry {
    std::uint64_t user_data;
    std::int32_t result;
    std::uint32_t flags;
  };

  /// Completions below it belong to nobody. Every Completion lies at a higher address.
  static constexpr std::uint64_t kReservedData = 16;
  /// Marks the address of a QuietCompletion.
  static constexpr std::uint64_t kQuiet = 1;

  Ring(std::unique_ptr<io_uring> ring, RingFeatures features);

  io_uring_sqe& next_sqe();
  unsigned flush_queue() noexcept;
  int enter(unsigned submit, unsigned wait, unsigned flags, void* argument,
            std::size_t size) noexcept;
  std::size_t copy_out(Entry* entries, std::size_t limit) noexcept;
  Entry claim(std::uint64_t user_data, std::int32_t result, std::uint32_t flags) noexcept;
  static QuietCompletion* quiet_completion(std::uint64_t user_data) noexcept;
  void quieten_queued() noexcept;
  /// What was expected to be quiet is on its way once nothing waits any more.
  void note_submitted() noexcept {
    if (queued() == 0) quiet_expected_ = false;
  }
  void mark_quiet() noexcept;
  std::size_t settle_quiet();
  void deliver(const Entry& entry);
  void end_queued();
  void fetch();

  std::unique_ptr<io_uring> ring_;
  RingFeatures features_;
  bool enabled_ = false;
  bool quiescing_ = false;
  bool urgent_ = false;  // Something that is queued waits for no batch.
  RunningNow nowhere_;
  RunningNow* running_ = &nowhere_;
  std::uint64_t in_flight_ = 0;
  // Of whose success the kernel says nothing, in the order of the submission queue.
  List<QuietCompletion> quiet_;
  bool quiet_expected_ = false;
  // How far the submission queue had been taken over when somebody looked, and where the completion
  // queue ended then.
  bool marked_ = false;
  unsigned marked_submission_ = 0;
  unsigned marked_completion_ = 0;
  RingStats stats_;
};

}  // namespace pinion
