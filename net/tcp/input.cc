#include <algorithm>
#include <utility>

#include "tcp.h"

/// Segments of connections: RFC 9293, 3.10.7.4, with RFC 5961 and RFC 7323.

namespace pinion {

using wire::TcpFlag;

void Tcp::input(TcpConnection& c, TcpArrival& a) noexcept {
  touch(c);
  if (c.state == TcpState::syn_sent) return input_syn_sent(c, a);
  if (!is_expected(c, a) && !pass_checks(c, a)) return;
  // What is forged seldom has a right acknowledgment: it shall change nothing.
  if (!check_ack(c, a)) return;
  note_heard(c);
  note_timestamp(c, a);
  input_ack(c, a);
  if (c.over()) return;
  if (a.size != 0 || a.has(TcpFlag::fin)) input_text(c, a);
}

/// The next segment of an established connection, with nothing about it to be checked any further:
/// what nearly all of them are.
bool Tcp::is_expected(const TcpConnection& c, const TcpArrival& a) const noexcept {
  constexpr std::uint8_t kMatters =
      (wire::TcpFlags(TcpFlag::ack) | TcpFlag::syn | TcpFlag::fin | TcpFlag::rst).bits();
  constexpr std::uint8_t kExpected = wire::TcpFlags(TcpFlag::ack).bits();
  if (c.state != TcpState::established) return false;
  if ((a.segment.header.flags.bits() & kMatters) != kExpected) return false;
  if (a.sequence() != c.rcv_nxt() || a.size > c.receive.window()) return false;
  if (!c.with_timestamps) return true;
  const auto& timestamps = a.segment.options.timestamps;
  return timestamps && static_cast<std::int32_t>(timestamps->value - c.timestamps.recent) >= 0;
}

/// First to fifth of 3.10.7.4: the sequence number, RST, SYN, and whether there is an ACK.
bool Tcp::pass_checks(TcpConnection& c, TcpArrival& a) noexcept {
  if (a.has(TcpFlag::syn)) return pass_syn(c, a);
  if (!pass_paws(c, a)) return false;
  if (a.has(TcpFlag::rst)) {
    input_reset(c, a);
    return false;
  }
  if (!is_acceptable(c.rcv_nxt(), c.receive.edge(), a)) {
    refuse(c, a, TcpDrop::out_of_window);
    if (a.has(TcpFlag::ack)) input_ack_alone(c, a);
    return false;
  }
  if (a.has(TcpFlag::ack)) return true;
  drop(TcpDrop::no_ack_flag);
  return false;
}

/// The table of 3.10.7.4. Two things are taken beyond it: a segment that covers the whole window
/// and more, of which the window's part counts; and an empty one right behind the window, which is
/// what a peer sends that has filled it and lost the first segment.
bool Tcp::is_acceptable(wire::SequenceNumber next, wire::SequenceNumber edge,
                        const TcpArrival& a) noexcept {
  if (a.length() == 0) {
    return at_or_before(next, a.sequence()) && at_or_before(a.sequence(), edge);
  }
  return before(a.sequence(), edge) && after(a.end(), next);
}

/// Whether a TSval is older than TS.Recent, which after 24 days means nothing any more (RFC 7323,
/// 5.5).
bool Tcp::is_outdated(const TcpConnection& c, std::uint32_t value) const noexcept {
  constexpr std::uint32_t kValid = 24 * 24 * 3600;
  if (static_cast<std::int32_t>(value - c.timestamps.recent) >= 0) return false;
  return seconds() - c.timestamps.recent_at_s <= kValid;
}

/// RFC 7323, 5.3, R1; RST is exempt (5.2).
bool Tcp::pass_paws(TcpConnection& c, const TcpArrival& a) noexcept {
  if (!c.with_timestamps || a.has(TcpFlag::rst)) return true;
  if (!a.segment.options.timestamps) {
    drop(TcpDrop::no_timestamp);
    return false;
  }
  if (!is_outdated(c, a.segment.options.timestamps->value)) return true;
  refuse(c, a, TcpDrop::paws);
  return false;
}

/// A SYN is challenged, wherever it lies (RFC 5961, 4): a peer that has restarted resets us by its
/// answer. But in SYN-RECEIVED, after a simultaneous open, it may be the peer's once more, alone,
/// which is answered as often as a challenge, or with the ACK of ours; and a SYN-ACK comes again
/// whose acknowledgement was lost, which is always answered.
bool Tcp::pass_syn(TcpConnection& c, TcpArrival& a) noexcept {
  const bool comes_again = a.sequence() + 1 == c.rcv_nxt();
  if (c.state != TcpState::syn_received || !comes_again) {
    drop(TcpDrop::syn_challenged);
    if (comes_again && a.has(TcpFlag::ack)) {
      c.ack_now = true;
    } else {
      challenge(c);
    }
    return false;
  }
  if (a.has(TcpFlag::ack)) return true;
  if (c.challenges.allow(challenge_budget_, now_, random_)) send_syn(c);
  return false;
}

/// Tells the peer what we expect. Data, SYN, FIN and probes are always answered; what bears nothing
/// only within the challenges' limit, so that two ends that misunderstand each other don't answer
/// for ever.
void Tcp::refuse(TcpConnection& c, const TcpArrival& a, TcpDrop why) noexcept {
  drop(why);
  const bool is_probe = a.sequence() + 1 == c.rcv_nxt();
  if (a.length() != 0 || is_probe) {
    c.ack_now = true;
    if (a.size != 0 && c.with_sack && before(a.sequence(), c.rcv_nxt())) {
      const wire::SequenceNumber end = a.text_begin() + a.size;
      c.beyond.note_duplicate(
          {.left = a.sequence(), .right = before(c.rcv_nxt(), end) ? c.rcv_nxt() : end},
          out_of_order_memory_);
    }
  } else {
    challenge(c);
  }
}

void Tcp::challenge(TcpConnection& c) noexcept {
  if (count_challenge(c.challenges.allow(challenge_budget_, now_, random_))) c.ack_now = true;
}

bool Tcp::count_challenge(bool allowed) noexcept {
  ++(allowed ? stats_.challenge_acks : stats_.challenge_acks_withheld);
  return allowed;
}

/// Only a RST with the very number we expect ends the connection, be the window open or shut; one
/// in the window is challenged, and others are dropped (RFC 5961, 3.2). Data in it don't count.
void Tcp::input_reset(TcpConnection& c, const TcpArrival& a) noexcept {
  if (a.sequence() != c.rcv_nxt()) {
    const bool in_window =
        after(a.sequence(), c.rcv_nxt()) && before(a.sequence(), c.receive.edge());
    if (!in_window) return drop(TcpDrop::reset_out_of_window);
    drop(TcpDrop::reset_challenged);
    return challenge(c);
  }
  ++stats_.resets_in;
  finish(c, c.state == TcpState::syn_received ? TcpEnd::refused : TcpEnd::reset);
}

/// RFC 7323, 4.3: the echo is of the segment that the next acknowledgment is for, or of an older
/// one.
void Tcp::note_timestamp(TcpConnection& c, const TcpArrival& a) noexcept {
  if (!c.with_timestamps || !a.segment.options.timestamps) return;
  const std::uint32_t value = a.segment.options.timestamps->value;
  if (is_outdated(c, value)) return;
  if (after(a.sequence(), c.last_ack_sent)) return;
  c.timestamps.recent = value;
  c.timestamps.recent_at_s = seconds();
}

/// Seventh and eighth of 3.10.7.4: data and FIN.
void Tcp::input_text(TcpConnection& c, TcpArrival& a) noexcept {
  if (!c.receives()) {
    drop(TcpDrop::data_after_fin);
    c.ack_now = true;
    return;
  }
  // New data (RFC 9293, 3.6.1): with a FIN those that have come before may come once more.
  const bool has_new = a.size != 0 && after(a.text_begin() + a.size, c.rcv_nxt());
  if (c.discarding && has_new && has_passed(c.read_at)) {
    drop(TcpDrop::data_after_close);
    return reset(c, TcpEnd::data_after_close);
  }
  if (a.size != 0 && !may_hold_more(c)) {
    drop(TcpDrop::no_room);
    c.ack_now = true;
    return;
  }
  const TextOutcome outcome =
      receive_text({.begin = a.text_begin(),
                    .payload = std::move(a.packet),
                    .fin = a.has(TcpFlag::fin),
                    .report = c.with_sack},
                   c.receive, c.beyond, receive_memory_, out_of_order_memory_);
  stats_.bytes_in += outcome.delivered;
  if (outcome.outside) drop(TcpDrop::out_of_window);
  if (outcome.after_fin) drop(TcpDrop::data_after_fin);
  if (outcome.duplicate) drop(TcpDrop::duplicate_data);
  if (outcome.no_room) drop(TcpDrop::no_room);
  if (outcome.delivered != 0) note_text(c);
  if (outcome.out_of_order || outcome.duplicate || outcome.outside || outcome.after_fin ||
      outcome.no_room) {
    c.ack_now = true;
  }
  const bool one_more = outcome.out_of_order && outcome.delivered == 0 && !c.with_sack;
  if (one_more && c.beyond_hole < 3) c.beyond_hole = (c.beyond_hole + 1U) & 3U;
  if (outcome.fin) pass_fin(c);
}

/// A segment has brought text that was the next.
void Tcp::note_text(TcpConnection& c) noexcept {
  c.beyond_hole = 0;
  if (c.unacked_segments < 2) ++c.unacked_segments;
  if (c.discarding) {
    c.receive.clear(receive_memory_);
    c.has_read = true;
  } else {
    c.received = true;
    c.add(TcpNews::readable);
  }
}

/// Everything up to the peer's FIN has come.
void Tcp::pass_fin(TcpConnection& c) noexcept {
  c.fin_passed = true;
  c.ack_now = true;
  c.add(TcpNews::readable);
  switch (c.state) {
    case TcpState::established:
      c.state = TcpState::close_wait;
      break;
    case TcpState::fin_wait_1:
      c.state = TcpState::closing;
      break;
    case TcpState::fin_wait_2:
      enter_time_wait(c);
      break;
    default:
      PINION_ASSERT(false);
  }
}

}  // namespace pinion
