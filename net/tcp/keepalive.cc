#include <algorithm>

#include "tcp.h"

/// What the user waits for: the deadlines of reads and writes, and that the peer is still there
/// (RFC 9293, 3.8.4). They share a timer entry, which stands at the earliest or before. Segments
/// only note when they came; the entry is looked at when it fires.

namespace pinion {

void Tcp::apply_keepalive(TcpConnection& c, const TcpKeepalive& keepalive) const noexcept {
  constexpr std::uint32_t kLeastIdleMs = 1'000;
  c.keepalive_idle_ms = 0;
  if (keepalive.idle == kNoTimeout) return;
  c.keepalive_idle_ms = std::max(to_tcp_milliseconds(keepalive.idle), kLeastIdleMs);
  const std::uint32_t tenths = (to_tcp_milliseconds(keepalive.interval) + 99) / 100;
  c.keepalive_interval_ds = static_cast<std::uint16_t>(std::clamp(tenths, 1U, 65'535U));
  c.keepalive_limit = static_cast<std::uint8_t>(std::clamp(keepalive.probes, 1, 127));
  bound_silence(c);
}

/// How long the peer may be silent until the next probe goes out, or it is given up.
std::uint32_t Tcp::keepalive_patience_ms(const TcpConnection& c) noexcept {
  return c.keepalive_idle_ms + c.keepalive_sent * (c.keepalive_interval_ds * 100U);
}

TcpTime Tcp::keepalive_due(const TcpConnection& c) noexcept {
  return c.last_heard + keepalive_patience_ms(c);
}

/// Of a longer silence, which nobody has asked about, that part counts after which the next probe
/// is due: the others follow at their interval. One of weeks would even lie ahead, by a clock of 32
/// bits.
void Tcp::bound_silence(TcpConnection& c) const noexcept {
  const std::uint32_t patience = keepalive_patience_ms(c);
  const std::int32_t silence = time_after_ - c.last_heard;
  if (silence < 0 || static_cast<std::uint32_t>(silence) > patience) {
    c.last_heard = TcpTime(time_after_.value() - patience);
  }
}

void Tcp::set_application_timer(TcpConnection& c) noexcept {
  if (c.over()) return;
  bool any = false;
  TcpTime earliest;
  const auto add = [&](bool counts, TcpTime time) {
    if (!counts) return;
    if (!any || time - earliest < 0) earliest = time;
    any = true;
  };
  add(c.read_timed, c.read_at);
  add(c.write_timed, c.write_at);
  if (c.synchronized() && c.has_keepalive()) add(true, keepalive_due(c));
  if (any) wheel_.extend(c.application_timer(), earliest.instant(now_));
}

void TcpApplicationTimer::on_fire(TimerEntry& entry) noexcept {
  auto& c = static_cast<TcpConnection&>(static_cast<TcpApplicationTimer&>(entry));
  c.tcp->on_application_timer(c);
}

void Tcp::on_application_timer(TcpConnection& c) noexcept {
  note(wheel_.now());
  if (c.over()) return;
  if (c.read_timed && has_passed(c.read_at)) {
    c.read_timed = false;
    c.add(TcpNews::read_deadline);
    touch(c);
  }
  if (c.write_timed && has_passed(c.write_at)) {
    c.write_timed = false;
    c.add(TcpNews::write_deadline);
    touch(c);
  }
  if (c.synchronized() && c.has_keepalive() && has_passed(keepalive_due(c))) on_keepalive(c);
  set_application_timer(c);
  settle_all();
}

/// A probe is an acknowledgement with the number before SND.UNA, which the peer has (MUST-25 to
/// MUST-29). While something is in flight its retransmissions are the probes, and no other goes
/// out; they count all the same. Not those of a shut window, which come ever less often though each
/// is answered.
///
/// The next one counts from now on: when the lcore was held up, the silence was not the peer's. If
/// it was for an interval and more, the answer to the last probe may wait to be read.
void Tcp::on_keepalive(TcpConnection& c) noexcept {
  const std::uint32_t interval_ms = c.keepalive_interval_ds * 100U;
  const auto late_ms = static_cast<std::uint32_t>(time_after_ - keepalive_due(c));
  c.last_heard = c.last_heard + late_ms;
  if (is_crowded(c)) {
    c.last_heard = c.last_heard + kCrowdedMs;
    return;
  }
  if (c.keepalive_sent >= c.keepalive_limit) {
    if (late_ms < interval_ms) {
      ++stats_.keepalive_timeouts;
      return reset(c, TcpEnd::keepalive_timeout);
    }
    c.last_heard = c.last_heard + interval_ms;
    return;
  }
  if (!c.in_flight() || c.timer == TcpTimer::persist) {
    if (!emit(c, c.snd_una - 1, {}, {}, 0)) {
      // Nobody was asked: the same time must pass once more.
      c.last_heard = c.last_heard + interval_ms;
      return;
    }
    ++stats_.keepalive_probes;
    set_protocol_timer(c);
  }
  ++c.keepalive_sent;
}

}  // namespace pinion
