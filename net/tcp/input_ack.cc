#include <algorithm>
#include <limits>

#include "tcp.h"

/// What segments acknowledge: fifth of RFC 9293, 3.10.7.4, with RFC 5961, 5.

namespace pinion {

using wire::TcpFlag;

namespace {

/// What counts for a duplicate. While the window is shut the answers to our probes look like ones.
AckSigns signs_of(const TcpConnection& c, const TcpArrival& a) noexcept {
  const std::uint32_t window = std::uint32_t{a.segment.header.window} << c.snd_scale;
  return {.data_outstanding = c.in_flight() && c.timer != TcpTimer::persist,
          .carries_data = a.size != 0,
          .syn_or_fin = a.has(TcpFlag::syn) || a.has(TcpFlag::fin),
          .at_snd_una = a.acknowledgment() == c.snd_una,
          .window_unchanged = window == c.snd_wnd};
}

/// The bytes that `a` says have arrived behind a hole.
std::uint32_t sacked_by(const TcpConnection& c, const TcpArrival& a) noexcept {
  std::uint32_t sum = 0;
  if (!c.with_sack) return sum;
  for (const wire::SackBlock& block : a.segment.options.sack) {
    if (!after(block.left, c.snd_una) || !after(block.right, block.left)) continue;
    if (!after(block.right, c.snd_max)) sum += static_cast<std::uint32_t>(block.right - block.left);
  }
  return sum;
}

}  // namespace

/// Whether the acknowledgment can be the peer's (RFC 5961, 5): in SYN-RECEIVED it is that of our
/// SYN, or answered by a reset. False when the segment goes no further.
bool Tcp::check_ack(TcpConnection& c, const TcpArrival& a) noexcept {
  const wire::SequenceNumber ack = a.acknowledgment();
  if (c.state == TcpState::syn_received) {
    if (ack == c.snd_max) return true;
    drop(TcpDrop::handshake_ack);
    answer_by_reset(a);
    return false;
  }
  if (after(ack, c.snd_max)) {
    refuse(c, a, TcpDrop::ack_too_new);
    return false;
  }
  if (before(ack, c.snd_una - c.max_snd_wnd())) {
    refuse(c, a, TcpDrop::ack_too_old);
    return false;
  }
  return true;
}

void Tcp::input_ack(TcpConnection& c, const TcpArrival& a) noexcept {
  if (c.state == TcpState::syn_received) establish(c, a);
  const wire::SequenceNumber ack = a.acknowledgment();
  if (after(ack, c.snd_una)) {
    acknowledge(c, ack, timestamps_of(a));
  } else if (is_duplicate(signs_of(c, a))) {
    const auto flight = static_cast<std::uint32_t>(c.snd_nxt - c.snd_una);
    if (c.congestion.on_duplicate(c.snd_una, c.snd_max, flight, sacked_by(c, a))) {
      ++stats_.fast_retransmits;
      c.resend_first = true;
    }
  }
  update_window(c, a);
}

/// Of a segment whose text isn't taken, because it came before or finds the window shut: what it
/// acknowledges and offers may be new all the same. Otherwise two ends whose windows open while
/// their probes cross would answer each other for ever.
void Tcp::input_ack_alone(TcpConnection& c, const TcpArrival& a) noexcept {
  const wire::SequenceNumber ack = a.acknowledgment();
  const bool numbers_fit = between(c.rcv_nxt() - c.receive.limit(), a.sequence(), c.rcv_nxt()) ||
                           a.sequence() == c.rcv_nxt();
  if (!c.synchronized() || !numbers_fit) return;
  if (before(ack, c.snd_una) || after(ack, c.snd_max)) return;
  if (a.sequence() != c.rcv_nxt() && ack == c.snd_una) {
    // Without anything new it may be an old one; but a probe is of a peer that is there (MUST-26).
    if (a.sequence() + 1 == c.rcv_nxt()) note_heard(c);
    return;
  }
  note_heard(c);
  if (after(ack, c.snd_una)) acknowledge(c, ack, timestamps_of(a));
  update_window(c, a);
}

/// Something new is acknowledged, by a segment with these timestamps, if it has any.
void Tcp::acknowledge(TcpConnection& c, wire::SequenceNumber ack,
                      const wire::TcpTimestamps* timestamps) noexcept {
  const auto flight = static_cast<std::uint32_t>(c.snd_nxt - c.snd_una);
  const auto acked = static_cast<std::uint32_t>(ack - c.snd_una);
  const bool fin_acked = c.fin_sent() && ack == c.snd_max;
  const wire::SequenceNumber data_end = fin_acked ? ack - 1 : ack;
  if (after(data_end, c.send.begin())) {
    stats_.bytes_out += static_cast<std::uint32_t>(data_end - c.send.begin());
    c.send.acknowledge(data_end, send_memory_);
  }
  take_sample(c, ack, timestamps);
  c.snd_una = ack;
  if (before(c.snd_nxt, ack)) c.snd_nxt = ack;
  c.retransmissions = 0;
  c.unacked_since = time_;
  c.soft_error = false;
  c.progress = true;
  if (c.discarding) note_taken(c, acked);
  const AckResponse response = c.congestion.on_ack(ack, acked, flight);
  if (response.retransmit_first) c.resend_first = true;
  // What runs still ends an orphan whose peer takes a byte now and then.
  const bool restart = response.restart_timer || c.timer == TcpTimer::persist;
  if (restart && !is_overdue(c)) c.timer = TcpTimer::none;
  if (c.wants_write && has_write_room(c)) {
    c.wants_write = false;
    c.add(TcpNews::writable);
  }
  if (fin_acked) fin_acknowledged(c);
}

/// RFC 6298, 3 and 4, with RFC 7323, 4.1: timestamps tell a segment from its retransmission.
void Tcp::take_sample(TcpConnection& c, wire::SequenceNumber ack,
                      const wire::TcpTimestamps* timestamps) noexcept {
  const std::uint32_t now_us = wrapping_us(now_);
  std::uint32_t rtt_us = 0;
  if (c.with_timestamps) {
    if (timestamps == nullptr || !c.round_trip.wants_sample(now_us)) return;
    const std::uint32_t rtt_ms = time_.value() + c.timestamps.offset - timestamps->echo_reply;
    // Beyond what an echo of ours can be: no clock of ours.
    constexpr std::uint32_t kLongestMs = 400'000;
    if (rtt_ms > kLongestMs) return;
    rtt_us = rtt_ms * 1'000U;
  } else if (!c.timed.acknowledged(ack, now_us, rtt_us)) {
    return;
  }
  c.round_trip.add_sample(rtt_us, now_us, retransmission_);
}

/// The peer has our FIN.
void Tcp::fin_acknowledged(TcpConnection& c) noexcept {
  switch (c.state) {
    case TcpState::fin_wait_1:
      c.state = TcpState::fin_wait_2;
      break;
    case TcpState::closing:
      enter_time_wait(c);
      break;
    case TcpState::last_ack:
      finish(c, TcpEnd::orderly);
      break;
    default:
      PINION_ASSERT(false);
  }
}

/// SND.WND, from a segment that is not older than the one it last came from. (What the RFC asks of
/// SND.WL2, to be =< SEG.ACK, follows from SND.UNA =< SEG.ACK.) A window that shrinks is
/// believed: what is beyond it already stays sent, and nothing more goes out (RFC 9293, 3.8.6).
void Tcp::update_window(TcpConnection& c, const TcpArrival& a) noexcept {
  if (before(a.acknowledgment(), c.snd_una) || before(a.sequence(), c.snd_wl1)) return;
  const std::uint16_t field = a.segment.header.window;
  // In a SYN it isn't scaled (RFC 7323, 2.2).
  const std::uint32_t window = std::uint32_t{field} << (a.has(TcpFlag::syn) ? 0 : c.snd_scale);
  set_window(c, window);
  c.snd_wl1 = a.sequence();
}

void Tcp::set_window(TcpConnection& c, std::uint32_t window) noexcept {
  const bool opens = c.snd_wnd == 0 && window != 0;
  c.snd_wnd = window;
  if (opens) {
    // The probes' backoff is over, and what they had in flight only now begins to wait for an
    // acknowledgement.
    c.retransmissions = 0;
    if (c.in_flight()) c.unacked_since = time_;
    // What a small window takes doesn't wait for the next probe either (3.8.6.2.1). It isn't put
    // off: a window could open and shut time and again.
    const TcpTime soon = in_ms(persist_delay(c));
    if (c.timer == TcpTimer::persist && soon - c.retransmit_at < 0) c.retransmit_at = soon;
  }
  // MAX.SND.WND is kept as if it had been scaled.
  const std::uint32_t unit = std::uint32_t{1} << c.snd_scale;
  const std::uint32_t units = (window + unit - 1) >> c.snd_scale;
  c.max_window = static_cast<std::uint16_t>(std::max<std::uint32_t>(c.max_window, units));
}

}  // namespace pinion
