#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include <pinion/eventloop/message.h>
#include <pinion/eventloop/metronome.h>
#include <pinion/eventloop/runtime.h>
#include <pinion/eventloop/snapshot.h>

/// Asks every lcore how it is, and logs the answers.
///
/// Ownership:  outlives the loops. Its seats, 66 KiB for each lcore, come with the first question.
/// Threading:  the runtime's thread. Each lcore writes its own snapshot, when a message asks it to.
/// Cost:       for an lcore, a copy of its figures and a system call that says so.
/// Full:       an lcore that hasn't answered yet isn't asked again.
/// Errors:     an lcore that doesn't answer within kPatience holds up nobody: the log says what
///             runs there. Should it answer later, that is logged then. One whose loop has ended
///             turns no more and isn't asked: the log says so.

namespace pinion::detail {

class Inquiry {
 public:
  static constexpr std::chrono::milliseconds kPatience{500};

  /// `wake_fd`, an eventfd, tells that an answer has come: then call progress().
  explicit Inquiry(int wake_fd) noexcept : wake_fd_(wake_fd) {}

  void add(Lcore& lcore) { lcores_.push_back(&lcore); }
  void add(const Metronome* metronome) { metronome_ = metronome; }  // nullptr: there is none.

  void ask();

  /// Logs what there is to say. Returns after how many milliseconds to call it again at the latest;
  /// -1: no need to.
  int progress();

 private:
  using Clock = std::chrono::steady_clock;
  enum class State : std::uint8_t { silent, asked, answered };

  struct Seat : Message {
    Seat(Lcore& of, int fd) noexcept : Message(&on_question), lcore(of), wake_fd(fd) {}
    static void on_question(Message& message) noexcept;

    Lcore& lcore;
    int wake_fd;
    std::atomic<State> state{State::silent};
    bool told = false;  // The log says why the last question has no answer. The runtime's thread's.
    Clock::time_point asked_at;
    LoopSnapshot snapshot;  // The lcore's while it is asked.
    ReportText program;
  };
  static_assert((sizeof(Seat) + 1023) / 1024 == 66);  // As it says above.

  static void log_answer(const Seat& seat);
  static void log_silence(const Seat& seat, Clock::duration silent_for);
  static void log_end(const Seat& seat);
  void log_metronome() const;

  int wake_fd_;
  std::vector<Lcore*> lcores_;
  const Metronome* metronome_ = nullptr;
  std::vector<std::unique_ptr<Seat>> seats_;
};

}  // namespace pinion::detail
