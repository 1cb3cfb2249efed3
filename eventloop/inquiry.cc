#include "inquiry.h"

#include <unistd.h>

#include <string_view>

#include <pinion/eventloop/loop.h>
#include <pinion/lib/log.h>

namespace pinion::detail {

void Inquiry::ask() {
  if (seats_.empty()) {
    for (Lcore* const lcore : lcores_) seats_.push_back(std::make_unique<Seat>(*lcore, wake_fd_));
  }
  for (const auto& seat : seats_) {
    if (seat->state.load(std::memory_order_acquire) != State::silent) continue;
    seat->state.store(State::asked, std::memory_order_relaxed);
    seat->lcore.loop().post(*seat);
  }
  patient_until_ = Clock::now() + kPatience;
  patient_ = true;
}

void Inquiry::Seat::on_question(Message& message) noexcept {
  Seat& self = static_cast<Seat&>(message);
  self.snapshot.take(self.lcore.loop());
  self.program.clear();
  self.lcore.write_reports(self.program);  // None is left at the lcore's end.
  const int fd = self.wake_fd;
  self.state.store(State::answered, std::memory_order_release);
  const std::uint64_t one = 1;
  // It fails only when the counter is full, and then the reader is awake.
  static_cast<void>(!write(fd, &one, sizeof(one)));
}

int Inquiry::progress() {
  bool complete = true;
  for (const auto& seat : seats_) {
    const State state = seat->state.load(std::memory_order_acquire);
    if (state == State::asked) complete = false;
    if (state != State::answered) continue;
    log_answer(*seat);
    seat->state.store(State::silent, std::memory_order_relaxed);
  }
  if (complete) patient_ = false;
  if (!patient_) return -1;
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(patient_until_ - Clock::now()).count();
  if (left > 0) return static_cast<int>(left);
  patient_ = false;
  for (const auto& seat : seats_) {
    if (seat->state.load(std::memory_order_acquire) == State::asked) log_silence(*seat);
  }
  return -1;
}

void Inquiry::log_answer(const Seat& seat) {
  const Lcore& lcore = seat.lcore;
  log_info("lcore {} on CPU {}\n{}", lcore.index(), lcore.cpu(), to_text(seat.snapshot));
  std::string_view program = seat.program.text();
  if (program.empty()) return;
  if (program.ends_with('\n')) program.remove_suffix(1);
  log_info("lcore {} on CPU {}: the program\n{}", lcore.index(), lcore.cpu(), program);
}

void Inquiry::log_silence(const Seat& seat) {
  Lcore& lcore = seat.lcore;
  log_warn("lcore {} on CPU {} hasn't answered for {} ms; it is in {}, or waits for its CPU",
           lcore.index(), lcore.cpu(), kPatience.count(), to_text(lcore.loop().running()));
}

}  // namespace pinion::detail
