#include "inquiry.h"

#include <unistd.h>

#include <algorithm>
#include <climits>
#include <string_view>

#include <pinion/eventloop/loop.h>
#include <pinion/lib/log.h>

namespace pinion::detail {

void Inquiry::ask() {
  progress();  // Whoever has answered may be asked again.
  if (metronome_ != nullptr) log_metronome();
  while (seats_.size() < lcores_.size()) {
    seats_.push_back(std::make_unique<Seat>(*lcores_[seats_.size()], wake_fd_));
  }
  for (const auto& seat : seats_) {
    seat->told = false;
    if (seat->state.load(std::memory_order_acquire) != State::silent) continue;
    if (seat->lcore.ended_.load(std::memory_order_acquire)) {
      log_end(*seat);
      continue;
    }
    seat->state.store(State::asked, std::memory_order_relaxed);
    seat->asked_at = Clock::now();
    seat->lcore.loop().post(*seat);
  }
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
  int next = -1;
  for (const auto& seat : seats_) {
    // Read first: what has ended and is still asked won't answer before its loop dies.
    const bool ended = seat->lcore.ended_.load(std::memory_order_acquire);
    const State state = seat->state.load(std::memory_order_acquire);
    if (state == State::answered) {
      log_answer(*seat);
      seat->state.store(State::silent, std::memory_order_relaxed);
    }
    if (state != State::asked || seat->told) continue;
    const Clock::duration silent_for = Clock::now() - seat->asked_at;
    if (!ended && silent_for < kPatience) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(kPatience - silent_for);
      next = std::min(next < 0 ? INT_MAX : next, static_cast<int>(left.count()));
      continue;
    }
    seat->told = true;
    ended ? log_end(*seat) : log_silence(*seat, silent_for);
  }
  return next;
}

void Inquiry::log_answer(const Seat& seat) {
  const Lcore& lcore = seat.lcore;
  log_info("lcore {} on CPU {}\n{}", lcore.index(), lcore.cpu(), to_text(seat.snapshot));
  std::string_view program = seat.program.text();
  if (program.empty()) return;
  if (program.ends_with('\n')) program.remove_suffix(1);
  log_info("lcore {} on CPU {}: the program\n{}", lcore.index(), lcore.cpu(), program);
}

void Inquiry::log_silence(const Seat& seat, Clock::duration silent_for) {
  Lcore& lcore = seat.lcore;
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(silent_for).count();
  log_warn("lcore {} on CPU {} hasn't answered for {} ms; it is in {}, or waits for its CPU",
           lcore.index(), lcore.cpu(), ms, to_text(lcore.loop().running()));
}

void Inquiry::log_metronome() const {
  const MetronomeStats stats = metronome_->stats();
  const auto us = [](Delay delay) { return delay.count() / 1000; };
  log_info("metronome: {} beats, {} late, {} us apart at most, {} us of late; {} pauses, {} rings",
           stats.beats, stats.late_beats, us(stats.widest_gap), us(stats.recent_gap), stats.pauses,
           stats.rings);
}

/// Its loop may be gone.
void Inquiry::log_end(const Seat& seat) {
  log_info("lcore {} on CPU {} has ended; others still run", seat.lcore.index(), seat.lcore.cpu());
}

}  // namespace pinion::detail
