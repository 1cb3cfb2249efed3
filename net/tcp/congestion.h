#pragma once

#include <algorithm>
#include <cstdint>

#include "../wire/sequence_number.h"

/// How much may be in flight: congestion control, in bytes.
///
/// Slow start and congestion avoidance (RFC 5681, 3.1) count the bytes that are acknowledged (RFC
/// 3465): in slow start at most two segments per acknowledgement, one after a timeout. The third
/// duplicate acknowledgement brings fast retransmit and fast recovery (RFC 5681, 3.2), which ends
/// when everything that was in flight has arrived (NewReno, RFC 6582); the first two let one new
/// segment out each (RFC 3042). The window begins at up to ten segments (RFC 6928), and returns
/// there when the connection was idle for a timeout (RFC 5681, 4.1). It grows only while at least
/// half of it is in use (RFC 7661, 4.2).
///
/// Joining:    another algorithm is another CongestionAlgorithm, its state beside the others', and
///             a case in the two places that differ: grow() and reduced(). No virtual calls.
/// Ownership:  a value, member of a connection: 24 bytes.
/// Threading:  one lcore.
/// Cost:       an acknowledgement is about twenty instructions, without division but when recovery
///             begins and for each partial acknowledgement.
/// Errors:     none. Windows saturate at 1 GiB, the most that TCP can advertise.
///
/// "Flight" is what was sent and is neither acknowledged nor taken for lost. Whoever resends from
/// the first unacknowledged byte after a timeout counts from there.

namespace pinion {

enum class CongestionAlgorithm : std::uint8_t { new_reno };

/// Whether an acknowledgement is a duplicate (RFC 5681, 2): a sign that a segment has left the
/// network, and that an earlier one hasn't.
struct AckSigns {
  bool data_outstanding = false;  ///< We have sent what is not acknowledged.
  bool carries_data = false;
  bool syn_or_fin = false;
  bool at_snd_una = false;        ///< It acknowledges what the last one did.
  bool window_unchanged = false;  ///< It advertises what the last one did.
};

[[nodiscard]] constexpr bool is_duplicate(const AckSigns& ack) noexcept {
  return ack.data_outstanding && !ack.carries_data && !ack.syn_or_fin && ack.at_snd_una &&
         ack.window_unchanged;
}

/// What an acknowledgement of new data asks for.
struct AckResponse {
  bool retransmit_first = false;  ///< Send the first unacknowledged segment again, at once.
  /// Start the retransmission timer afresh (RFC 6298, 5.3). Not for the second partial
  /// acknowledgement and later ones: with many losses a timeout is then the faster way out (RFC
  /// 6582, 4).
  bool restart_timer = true;
};

class Congestion {
 public:
  /// Of a connection that isn't established: nothing may be sent.
  Congestion() noexcept = default;

  /// The connection is established; the acknowledgement of our SYN, whose number is `initial`, is
  /// no on_ack(). Segments have up to `segment` bytes of data. When SYN or SYN-ACK were lost, one
  /// segment is all (RFC 5681, 3.1).
  void start(CongestionAlgorithm algorithm, std::uint16_t segment, bool syn_lost,
             wire::SequenceNumber initial) noexcept;

  /// The path takes smaller or larger segments. The window stays, in bytes, but is at least one.
  void set_segment(std::uint16_t segment) noexcept;

  /// New data is acknowledged: `acked` bytes, up to `ack`. `flight` is what was in flight before.
  [[nodiscard]] AckResponse on_ack(wire::SequenceNumber ack, std::uint32_t acked,
                                   std::uint32_t flight) noexcept;

  /// An acknowledgement for which is_duplicate() holds. `snd_una` is what it acknowledges,
  /// `snd_max` the number behind the last that was ever sent. Whether to send the first
  /// unacknowledged segment again, at once. Either way new data may go out as far as sendable()
  /// says. `sacked` bytes have arrived behind a hole, if SACK tells: so many segments' duplicates
  /// may have become one.
  [[nodiscard]] bool on_duplicate(wire::SequenceNumber snd_una, wire::SequenceNumber snd_max,
                                  std::uint32_t flight, std::uint32_t sacked = 0) noexcept;

  /// The retransmission timer has expired, with `flight` bytes in flight until then. `again`: so it
  /// had for the same segment already (RFC 5681, 3.1: the threshold then stays).
  void on_timeout(wire::SequenceNumber snd_max, std::uint32_t flight, bool again) noexcept;

  /// About to send with nothing in flight, and the last data was sent longer than a retransmission
  /// timeout ago (RFC 5681, 4.1).
  void restart_after_idle() noexcept;

  /// How many bytes more may be in flight, new data or old, given the peer's window counted from
  /// the first unacknowledged byte.
  [[nodiscard]] std::uint32_t sendable(std::uint32_t flight, std::uint32_t snd_wnd) const noexcept {
    const std::uint32_t limit = std::min(window() + limited_transmit(), snd_wnd);
    return limit > flight ? limit - flight : 0;
  }

  /// cwnd and ssthresh of RFC 5681.
  [[nodiscard]] std::uint32_t window() const noexcept { return window_; }
  [[nodiscard]] std::uint32_t threshold() const noexcept { return threshold_; }

  [[nodiscard]] bool in_recovery() const noexcept {
    return phase_ == Phase::recovery || phase_ == Phase::late_recovery;
  }
  [[nodiscard]] bool in_slow_start() const noexcept { return window_ < threshold_; }

 private:
  enum class Phase : std::uint8_t {
    open,           ///< Growing.
    after_timeout,  ///< In the slow start that follows a timeout.
    recovery,       ///< Fast recovery.
    late_recovery,  ///< The same, after a partial acknowledgement.
  };

  static constexpr std::uint32_t kLargest = std::uint32_t{1} << 30;
  static constexpr std::uint8_t kThreshold = 3;  ///< Duplicates that mean a loss.

  [[nodiscard]] std::uint32_t segment() const noexcept { return segment_; }
  [[nodiscard]] std::uint32_t limited_transmit() const noexcept {
    return phase_ == Phase::open && duplicates_ < kThreshold ? duplicates_ * segment() : 0;
  }
  [[nodiscard]] std::uint32_t initial_window() const noexcept;
  [[nodiscard]] std::uint32_t reduced(std::uint32_t flight) const noexcept;
  [[nodiscard]] std::uint16_t segments_in(std::uint32_t bytes) const noexcept;
  void grow(std::uint32_t acked) noexcept;
  AckResponse on_recovery_ack(wire::SequenceNumber ack, std::uint32_t acked,
                              std::uint32_t left) noexcept;

  std::uint32_t window_ = 0;
  std::uint32_t threshold_ = 0;
  std::uint32_t counted_ = 0;     ///< Bytes acknowledged towards the next segment of growth.
  wire::SequenceNumber recover_;  ///< Behind the last that was sent when recovery began.
  std::uint16_t segment_ = 0;
  std::uint16_t inflations_ = 0;  ///< How many more duplicates may let new data out.
  std::uint8_t duplicates_ = 0;   ///< Since data was last acknowledged, up to one too many.
  CongestionAlgorithm algorithm_ = CongestionAlgorithm::new_reno;
  Phase phase_ = Phase::open;
};

static_assert(sizeof(Congestion) == 24);

}  // namespace pinion
