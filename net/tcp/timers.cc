#include <algorithm>

#include "tcp.h"

/// The timers of connections (RFC 6298; RFC 9293, 3.8.1 and 3.8.3). A connection has one timer
/// entry for what the protocol waits for: it carries the earliest of its times, and whoever changes
/// one of them extends it. What a time means is looked at again when it has come.

namespace pinion {

TcpTimer Tcp::wanted_timer(const TcpConnection& c) const noexcept {
  if (!c.synchronized()) return TcpTimer::retransmit;
  if (c.has_unsent()) {
    // Everything is to be sent again, and the window is shut.
    const bool shut = c.snd_wnd == 0 && c.snd_nxt == c.snd_una;
    if (shut || !c.in_flight()) return TcpTimer::persist;
  }
  if (c.in_flight()) return TcpTimer::retransmit;
  if (c.wants_write) return TcpTimer::persist;  // There was no packet for what it writes.
  if (c.state == TcpState::fin_wait_2 && c.released) return TcpTimer::fin_wait_2;
  return TcpTimer::none;
}

/// In milliseconds, from now on: no later than when the peer is to be given up.
std::uint32_t Tcp::timer_delay(const TcpConnection& c) const noexcept {
  switch (c.timer) {
    case TcpTimer::retransmit: {
      const std::uint32_t timeout = timeout_ms(c);
      return c.in_flight() ? std::min(timeout, patience_left_ms(c)) : timeout;
    }
    case TcpTimer::persist: {
      const std::uint32_t delay = persist_delay(c);
      return probes_unanswered(c) ? std::min(delay, patience_left_ms(c)) : delay;
    }
    case TcpTimer::fin_wait_2:
      return to_tcp_milliseconds(config_.fin_wait_2);
    case TcpTimer::none:
      break;
  }
  return 0;
}

/// A timer that runs already goes on (RFC 6298, 5.1); one that is to start afresh was set to none.
void Tcp::set_protocol_timer(TcpConnection& c) noexcept {
  const TcpTimer wanted = wanted_timer(c);
  if (wanted != c.timer) {
    c.timer = wanted;
    c.retransmit_at = in_ms(timer_delay(c));
  }
  if (c.timer == TcpTimer::none && !c.ack_later) return;
  TcpTime earliest = c.retransmit_at;
  if (c.ack_later && (c.timer == TcpTimer::none || c.ack_at - earliest < 0)) earliest = c.ack_at;
  wheel_.extend(c.protocol_timer(), earliest.instant(now_));
}

void TcpProtocolTimer::on_fire(TimerEntry& entry) noexcept {
  auto& c = static_cast<TcpConnection&>(static_cast<TcpProtocolTimer&>(entry));
  c.tcp->on_protocol_timer(c);
}

/// Very many timers may be due at once, and what they send together be more than a tx queue holds.
bool Tcp::is_crowded(const TcpConnection& c) noexcept {
  return ip_.is_crowded(c.tuple.local.address(), c.tuple.remote.address(), now_);
}

void Tcp::on_protocol_timer(TcpConnection& c) noexcept {
  note(wheel_.now());
  if (c.over()) return;
  if (c.timer != TcpTimer::fin_wait_2 && is_crowded(c)) {
    return wheel_.extend(c.protocol_timer(), in_ms(kCrowdedMs).instant(now_));
  }
  if (c.ack_later && has_passed(c.ack_at)) {
    c.ack_later = false;
    c.ack_now = true;
    ++stats_.delayed_acks;
  }
  if (c.timer != TcpTimer::none && has_passed(c.retransmit_at)) {
    const TcpTimer fired = c.timer;
    const auto late_ms = static_cast<std::uint32_t>(time_ - c.retransmit_at);
    // Not when it always is: the count of what was sent ends there.
    const bool held_up = late_ms > kHeldUpMs && c.retransmissions < 255;
    if (held_up) forgive(c, late_ms);
    c.timer = TcpTimer::none;
    switch (fired) {
      case TcpTimer::retransmit:
        on_retransmission_timeout(c);
        break;
      case TcpTimer::persist:
        on_persist_timeout(c);
        break;
      case TcpTimer::fin_wait_2:
        // Once: nothing was sent here that would count as a retransmission.
        if (held_up && c.retransmissions == 0) {
          c.retransmissions = 1;
          c.timer = TcpTimer::fin_wait_2;
          c.retransmit_at = in_ms(timeout_ms(c));
        } else {
          finish(c, TcpEnd::close_timeout);
        }
        break;
      case TcpTimer::none:
        break;
    }
  }
  touch(c);
  settle_all();
}

/// How long the peer may leave something unacknowledged (R2, or RFC 5482).
Delay Tcp::patience(const TcpConnection& c) const noexcept {
  if (c.user_timeout_s != 0) return std::chrono::seconds{c.user_timeout_s};
  return c.synchronized() ? config_.retransmission_limit : config_.connect_limit;
}

/// How much of that is left.
std::uint32_t Tcp::patience_left_ms(const TcpConnection& c) const noexcept {
  const Delay whole = patience(c);
  if (whole == kNoTimeout) return kTcpLongest;
  const std::uint32_t limit = to_tcp_milliseconds(whole);
  const std::uint32_t waited = ms_since(c.unacked_since);
  // `unacked_since` is rounded down, by less than a millisecond.
  return limit >= waited ? limit - waited + 1 : 0;
}

/// The timer came late, since the lcore was held up, or the way out crowded: that was not the
/// peer's silence, and it has the time that it had when the timer was due. If it came so late that
/// an answer may have found no room where it waits to be read, what is sent now has its chance.
void Tcp::forgive(TcpConnection& c, std::uint32_t late_ms) const noexcept {
  constexpr std::uint32_t kLongMs = 1'000;
  const auto later_of = [](TcpTime a, TcpTime b) { return a - b < 0 ? b : a; };
  const std::uint32_t chance = c.timer == TcpTimer::persist ? persist_delay(c) : timeout_ms(c);
  c.unacked_since = c.unacked_since + late_ms;
  if (c.discarding) c.read_at = c.read_at + late_ms;
  if (late_ms < std::min(chance, kLongMs)) return;
  if (const Delay whole = patience(c); whole != kNoTimeout) {
    const std::uint32_t limit = to_tcp_milliseconds(whole);
    const std::uint32_t most = limit - std::min(limit, chance);
    c.unacked_since = later_of(c.unacked_since, TcpTime(time_.value() - most));
  }
  if (!c.discarding) return;
  const std::uint32_t least = time_.value() + chance + 1 - (orphan_ms_ - linger_ms_);
  c.read_at = later_of(c.read_at, TcpTime(least));
}

/// What is at SND.UNA was not acknowledged in time. Everything from there on is sent again, as the
/// congestion window lets it.
void Tcp::on_retransmission_timeout(TcpConnection& c) noexcept {
  // Whatever acknowledges the last of it stops the timer.
  PINION_DCHECK(c.in_flight());
  if (c.synchronized() && c.snd_wnd == 0) {
    // The window has shrunk over all of it: the peer is probed, and as long as it answers, it isn't
    // given up (RFC 9293, SHLD-17 and SHLD-29).
    c.snd_nxt = c.snd_una;
    return on_persist_timeout(c);
  }
  const Delay waited = std::chrono::milliseconds{ms_since(c.unacked_since)};
  const TimeoutVerdict verdict = judge_timeout(c.retransmissions, waited, patience(c));
  if (is_overdue(c) || verdict == TimeoutVerdict::give_up) return give_up(c);
  if (verdict == TimeoutVerdict::send_again_and_advise) {
    ip_.suspect(c.tuple.local.address(), c.tuple.remote.address(), now_);
  }
  // What was too big says nothing of congestion (RFC 1191, 6.4), nor of round trips.
  if (follow_path(c)) return;
  ++stats_.retransmission_timeouts;
  c.round_trip.back_off();
  const bool again = c.retransmissions != 0;
  if (c.retransmissions < 255) ++c.retransmissions;
  if (!c.synchronized()) {
    c.syn_resent = true;
    ++stats_.retransmitted_segments;
    return send_syn(c);
  }
  const auto flight = static_cast<std::uint32_t>(c.snd_nxt - c.snd_una);
  c.congestion.on_timeout(c.snd_max, flight, again);
  c.resend_first = false;
  c.snd_nxt = c.snd_una;
}

void Tcp::give_up(TcpConnection& c) noexcept {
  if (is_overdue(c)) {
    ++stats_.orphan_timeouts;
    return reset(c, TcpEnd::close_timeout);
  }
  if (c.synchronized()) {
    ++stats_.peer_timeouts;
    return reset(c, c.soft_error ? TcpEnd::unreachable : TcpEnd::peer_timeout);
  }
  ++stats_.connect_timeouts;
  finish(c, c.soft_error ? TcpEnd::unreachable : TcpEnd::connect_timeout);
}

void Tcp::apply_user_timeout(TcpConnection& c, Delay timeout) noexcept {
  constexpr std::uint32_t kLongest = 65'535;
  const std::uint32_t milliseconds = timeout == kNoTimeout ? 0 : to_tcp_milliseconds(timeout);
  const std::uint32_t seconds = std::min((milliseconds + 999) / 1'000, kLongest);
  c.user_timeout_s = static_cast<std::uint16_t>(seconds);
}

void Tcp::on_syn_timer(TimerEntry& entry) noexcept {
  Tcp& tcp = static_cast<TableTimer&>(entry).tcp;
  tcp.note(tcp.wheel_.now());
  static_cast<void>(tcp.syn_cache_.expire(
      tcp.now_, kExpireBudget, [&](const SynRecord& record) { tcp.resend_syn_ack(record); },
      [&](const SynRecord&) { ++tcp.stats_.half_open_timeouts; }));
  tcp.set_table_timers();
}

void Tcp::on_time_wait_timer(TimerEntry& entry) noexcept {
  Tcp& tcp = static_cast<TableTimer&>(entry).tcp;
  tcp.note(tcp.wheel_.now());
  static_cast<void>(tcp.time_waits_.expire(tcp.now_, kExpireBudget));
  tcp.set_table_timers();
}

/// A table's timer stands at its first record's time.
void Tcp::set_table_timers() noexcept {
  const auto set = [this](TimerEntry& timer, Instant due) {
    if (due != kNever) wheel_.extend(timer, due);
  };
  set(syn_timer_, syn_cache_.next_expiry(now_));
  set(time_wait_timer_, time_waits_.next_expiry(now_));
}

}  // namespace pinion
