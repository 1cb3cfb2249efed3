#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include <pinion/eventloop/message.h>
#include <pinion/eventloop/runtime.h>
#include <pinion/eventloop/snapshot.h>

/// Asks every lcore how it is, and logs the answers.
///
/// Ownership:  outlives the loops. Its seats, 70 KiB for each lcore, come with the first question.
/// Threading:  the runtime's thread. Each lcore writes its own snapshot, when a message asks it to.
/// Cost:       for an lcore, a copy of its figures and a system call that says so.
/// Full:       an lcore that hasn't answered yet isn't asked again.
/// Errors:     an lcore that doesn't answer within kPatience holds up nobody: the log says what
///             runs there. Should it answer later, that is logged then.

namespace pinion::detail {

class Inquiry {
 public:
  static constexpr std::chrono::milliseconds kPatience{500};

  /// `wake_fd`, an eventfd, tells that an answer has come: then call progress().
  explicit Inquiry(int wake_fd) noexcept : wake_fd_(wake_fd) {}

  void add(Lcore& lcore) { lcores_.push_back(&lcore); }

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
    LoopSnapshot snapshot;  // The lcore's while it is asked.
    ReportText program;
  };

  static void log_answer(const Seat& seat);
  static void log_silence(const Seat& seat);

  int wake_fd_;
  std::vector<Lcore*> lcores_;
  std::vector<std::unique_ptr<Seat>> seats_;
  Clock::time_point patient_until_;
  bool patient_ = false;  // Nothing has been said yet of who doesn't answer.
};

}  // namespace pinion::detail
