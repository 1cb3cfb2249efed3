#include "congestion.h"

#include <limits>

#include <pinion/lib/assert.h>

namespace pinion {

void Congestion::start(CongestionAlgorithm algorithm, std::uint16_t segment, bool syn_lost,
                       wire::SequenceNumber initial) noexcept {
  PINION_ASSERT(segment != 0);
  *this = Congestion();
  algorithm_ = algorithm;
  segment_ = segment;
  window_ = syn_lost ? segment : initial_window();
  threshold_ = kLargest;
  recover_ = initial;
}

void Congestion::set_segment(std::uint16_t segment) noexcept {
  PINION_ASSERT(segment != 0);
  segment_ = segment;
  window_ = std::max<std::uint32_t>(window_, segment);
}

AckResponse Congestion::on_ack(wire::SequenceNumber ack, std::uint32_t acked,
                               std::uint32_t flight) noexcept {
  duplicates_ = 0;
  if (in_recovery()) return on_recovery_ack(ack, acked, flight > acked ? flight - acked : 0);

  // Kept close behind the acknowledgements: 2^31 bytes later it would seem to lie ahead of them.
  if (before(recover_, ack)) recover_ = ack - 1;
  if (flight >= window_ - window_ / 2) grow(acked);
  if (phase_ == Phase::after_timeout && !in_slow_start()) phase_ = Phase::open;
  return {};
}

void Congestion::grow(std::uint32_t acked) noexcept {
  std::uint32_t growth = 0;
  if (in_slow_start()) {
    const std::uint32_t limit = phase_ == Phase::after_timeout ? segment() : 2 * segment();
    growth = std::min(acked, limit);
  } else {
    switch (algorithm_) {
      case CongestionAlgorithm::new_reno:
        // A segment for each window that is acknowledged (RFC 3465, 2.1).
        counted_ += std::min(acked, window_);
        if (counted_ >= window_) {
          counted_ -= window_;
          growth = segment();
        }
        break;
    }
  }
  window_ = std::min(window_ + growth, kLargest);
}

bool Congestion::on_duplicate(wire::SequenceNumber snd_una, wire::SequenceNumber snd_max,
                              std::uint32_t flight, std::uint32_t sacked) noexcept {
  if (in_recovery()) {
    // A segment has left the network, so another may enter. No more often than there were segments:
    // a receiver that makes duplicates up would open the window at will (RFC 5681, 3.2, step 4).
    if (inflations_ == 0) return false;
    --inflations_;
    window_ = std::min(window_ + segment(), kLargest);
    return false;
  }
  if (duplicates_ < kThreshold) {
    const std::uint32_t told = std::min<std::uint32_t>(sacked / segment(), kThreshold);
    duplicates_ = static_cast<std::uint8_t>(std::max<std::uint32_t>(duplicates_ + 1U, told));
  } else {
    duplicates_ = kThreshold + 1;
  }
  // Duplicates of what was in flight at the last loss tell nothing new (RFC 6582, 3.2, step 2).
  if (duplicates_ != kThreshold || !after(snd_una, recover_)) return false;

  threshold_ = reduced(flight);
  window_ = threshold_ + kThreshold * segment();
  counted_ = 0;
  recover_ = snd_max;
  phase_ = Phase::recovery;
  const std::uint16_t segments = segments_in(flight);
  inflations_ = segments > kThreshold ? static_cast<std::uint16_t>(segments - kThreshold) : 0;
  return true;
}

AckResponse Congestion::on_recovery_ack(wire::SequenceNumber ack, std::uint32_t acked,
                                        std::uint32_t left) noexcept {
  if (at_or_after(ack, recover_)) {
    // The smaller of the two windows of RFC 6582, 3.2, step 3: no burst when little is in flight.
    window_ = std::min(threshold_, std::max(left, segment()) + segment());
    phase_ = Phase::open;
    return {};
  }
  // Something after the first loss was lost, too: it is sent again for this acknowledgement, and
  // what has left the network is taken off the window.
  window_ -= std::min(acked, window_);
  if (acked >= segment()) window_ += segment();
  window_ = std::max(window_, segment());
  inflations_ = segments_in(left);
  const bool first = phase_ == Phase::recovery;
  phase_ = Phase::late_recovery;
  return {.retransmit_first = true, .restart_timer = first};
}

void Congestion::on_timeout(wire::SequenceNumber snd_max, std::uint32_t flight,
                            bool again) noexcept {
  if (!again) threshold_ = reduced(flight);
  window_ = segment();
  counted_ = 0;
  duplicates_ = 0;
  recover_ = snd_max;
  phase_ = Phase::after_timeout;
}

void Congestion::restart_after_idle() noexcept {
  const std::uint32_t restart = std::min(initial_window(), window_);
  // What the path has carried before is found again in slow start (RFC 2861, 3.2).
  threshold_ = std::max(threshold_, window_ - window_ / 4);
  window_ = restart;
  counted_ = 0;
}

std::uint32_t Congestion::initial_window() const noexcept {
  constexpr std::uint32_t kBytes = 14'600;
  return std::min(10 * segment(), std::max(2 * segment(), kBytes));
}

/// The threshold after a loss: half of what was in flight, two segments at least (RFC 5681, 3.1).
/// What limited transmit has put there, beyond the window, doesn't count (3.2, step 2).
std::uint32_t Congestion::reduced(std::uint32_t flight) const noexcept {
  std::uint32_t threshold = 0;
  switch (algorithm_) {
    case CongestionAlgorithm::new_reno:
      threshold = std::min(flight, window_) / 2;
      break;
  }
  return std::max(threshold, 2 * segment());
}

std::uint16_t Congestion::segments_in(std::uint32_t bytes) const noexcept {
  const std::uint32_t segments = (bytes + segment() - 1) / segment();
  return static_cast<std::uint16_t>(
      std::min<std::uint32_t>(segments, std::numeric_limits<std::uint16_t>::max()));
}

}  // namespace pinion
