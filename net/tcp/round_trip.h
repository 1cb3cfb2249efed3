#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include <pinion/lib/time.h>

#include "../wire/sequence_number.h"

/// How long a round trip takes and when to send again (RFC 6298), and when to give up (RFC 9293,
/// 3.8.3).
///
/// RoundTrip      the estimator and the retransmission timeout with its backoff.
/// TimedSegment   a segment whose acknowledgement will be a sample, where there are no timestamps.
/// judge_timeout  what a connection does when its timeout has come: send again, ask for another
///                route too, or give up.
///
/// Ownership:  plain values, members of a connection: 16 and 12 bytes. The settings are the
///             layer's, shared by all connections.
/// Threading:  one lcore.
/// Cost:       a sample is about twenty instructions, a timeout ten. No division.
/// Errors:     none. A sample of zero counts as 1 us; one above rto_max as rto_max.
///
/// Times inside are 32-bit microseconds, which wrap after 71 minutes: between a segment and its
/// acknowledgement there are at most a few.

namespace pinion {

/// What all connections share. The RFC's lower bound is 1 s (2.4); 200 ms, as other stacks have it,
/// is five of our delayed acknowledgements.
struct RetransmissionSettings {
  std::uint32_t initial_us = 1'000'000;    ///< Before the first sample (2.1).
  std::uint32_t min_us = 200'000;          ///< Above 0.
  std::uint32_t max_us = 60'000'000;       ///< From 60 s (2.5) to 400 s.
  std::uint32_t granularity_us = 1'000;    ///< G: the wheel's tick.
  std::uint32_t after_syn_us = 3'000'000;  ///< When the SYN had to be sent again (5.7).
};

/// The clock's microseconds, as far as 32 bits go.
[[nodiscard]] constexpr std::uint32_t wrapping_us(Instant now) noexcept {
  return static_cast<std::uint32_t>(static_cast<std::uint64_t>(now.time_since_epoch().count()) /
                                    1'000U);
}

class RoundTrip {
 public:
  /// An acknowledgement has come `rtt_us` after the segment that it is for. Only of segments that
  /// were sent once, or are told apart by timestamps (Karn's algorithm, 3). Ends the backoff.
  void add_sample(std::uint32_t rtt_us, std::uint32_t now_us,
                  const RetransmissionSettings& settings) noexcept;

  /// Whether a round trip has passed since the last sample. The gains are meant for one sample per
  /// round trip; timestamps offer one per acknowledgement, with which the estimate would forget
  /// within a fraction of one (RFC 7323, 4.2).
  [[nodiscard]] bool wants_sample(std::uint32_t now_us) const noexcept {
    return !has_sample() || backoff_ != 0 || now_us - sampled_at_us_ >= srtt_us();
  }

  /// The timeout has come and the segment goes out again: the next timeout is twice as long (5.5).
  void back_off() noexcept {
    if (backoff_ < kMostBackoff) ++backoff_;
  }

  /// The connection is established. If the SYN had to be sent again and there is no sample, the
  /// path is slow or lossy: data begins with a longer timeout (5.7), not with the SYN's backoff.
  void handshake_done(bool syn_timed_out) noexcept {
    after_syn_ = syn_timed_out && !has_sample();
    if (after_syn_) backoff_ = 0;
  }

  /// The retransmission timeout (2, 5.5), for the timer as it is started now.
  [[nodiscard]] std::uint32_t timeout_us(const RetransmissionSettings& settings) const noexcept {
    std::uint64_t timeout = settings.initial_us;
    if (has_sample()) {
      // rttvar_ is four times the variation already.
      timeout = std::uint64_t{srtt_us()} + std::max(settings.granularity_us, rttvar_);
    } else if (after_syn_) {
      timeout = std::max(settings.initial_us, settings.after_syn_us);
    }
    timeout = std::max<std::uint64_t>(timeout, settings.min_us);
    return static_cast<std::uint32_t>(
        std::min<std::uint64_t>(timeout << backoff_, settings.max_us));
  }

  [[nodiscard]] bool has_sample() const noexcept { return srtt_ != 0; }

  /// The smoothed round-trip time and its variation; 0 before the first sample.
  [[nodiscard]] std::uint32_t srtt_us() const noexcept { return srtt_ >> kSrttShift; }
  [[nodiscard]] std::uint32_t rttvar_us() const noexcept { return rttvar_ >> kRttvarShift; }

  /// How often the timeout was doubled since the last sample.
  [[nodiscard]] unsigned backoff() const noexcept { return backoff_; }

 private:
  static constexpr unsigned kSrttShift = 3;    ///< alpha = 1/8 (2.3).
  static constexpr unsigned kRttvarShift = 2;  ///< beta = 1/4.
  static constexpr std::uint8_t kMostBackoff = 31;

  std::uint32_t srtt_ = 0;    ///< In eighths of a microsecond.
  std::uint32_t rttvar_ = 0;  ///< In quarters.
  std::uint32_t sampled_at_us_ = 0;
  std::uint8_t backoff_ = 0;
  bool after_syn_ = false;
};

static_assert(sizeof(RoundTrip) == 16);

/// One segment at a time is timed (RFC 6298, 3); sending anything again ends it, since an
/// acknowledgement would not tell which one of the two it is for.
class TimedSegment {
 public:
  /// A segment that ends at `end` is sent, for the first time.
  void sent(wire::SequenceNumber end, std::uint32_t now_us) noexcept {
    if (running_) return;
    end_ = end;
    sent_at_us_ = now_us;
    running_ = true;
  }

  /// Something that was sent before goes out again.
  void sent_again() noexcept { running_ = false; }

  /// Everything before `ack` has arrived. Whether that is a sample, which `rtt_us` then is.
  [[nodiscard]] bool acknowledged(wire::SequenceNumber ack, std::uint32_t now_us,
                                  std::uint32_t& rtt_us) noexcept {
    if (!running_ || before(ack, end_)) return false;
    running_ = false;
    rtt_us = now_us - sent_at_us_;
    return true;
  }

 private:
  wire::SequenceNumber end_;
  std::uint32_t sent_at_us_ = 0;
  bool running_ = false;
};

static_assert(sizeof(TimedSegment) == 12);

/// Retransmissions of a segment after which another route is asked for: R1 (RFC 9293, SHLD-10).
inline constexpr unsigned kR1 = 3;
/// The least that R2 may be, after which the connection is given up: of a SYN (MUST-23) and of data
/// (SHLD-11; RFC 1122, 4.2.3.5).
inline constexpr std::chrono::minutes kLeastR2Syn{3};
inline constexpr std::chrono::seconds kLeastR2Data{100};

enum class TimeoutVerdict : std::uint8_t {
  send_again,
  send_again_and_advise,  ///< Tell the IP layer that the path may be dead (MUST-20).
  give_up,
};

/// The timeout of a segment has come, after `retransmissions` of it and `waited` since it was first
/// sent. `r2` is the connection's own limit (MUST-21) or the layer's; kNoTimeout never gives up.
/// Not for zero-window probes: while they are answered the connection stays (RFC 9293, 3.8.6.1).
[[nodiscard]] constexpr TimeoutVerdict judge_timeout(unsigned retransmissions, Delay waited,
                                                     Delay r2) noexcept {
  if (waited >= r2) return TimeoutVerdict::give_up;
  if (retransmissions >= kR1) return TimeoutVerdict::send_again_and_advise;
  return TimeoutVerdict::send_again;
}

}  // namespace pinion
