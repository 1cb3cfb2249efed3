#include <algorithm>

#include "tcp.h"

/// What the user waits for: the deadlines of reads and writes, and that the peer is still there
/// (RFC 9293, 3.8.4). They share a timer entry, which stands at the earliest or before. Segments
/// only note when they came; the entry is looked at when it fires.

namespace pinion {

void Tcp::apply_keepalive(TcpConnection& c, const TcpKeepalive& keepalive) noexcept {
  constexpr std::uint32_t kLeastIdleMs = 1'000;
  c.keepalive_sent = 0;
  c.keepalive_idle_ms = 0;
  if (keepalive.idle == kNoTimeout) return;
  c.keepalive_idle_ms = std::max(to_tcp_milliseconds(keepalive.idle), kLeastIdleMs);
  const std::uint32_t tenths = (to_tcp_milliseconds(keepalive.interval) + 99) / 100;
  c.keepalive_interval_ds = static_cast<std::uint16_t>(std::clamp(tenths, 1U, 65'535U));
  c.keepalive_limit = static_cast<std::uint8_t>(std::clamp(keepalive.probes, 1, 127));
}

/// When the next probe goes out, or the peer is given up.
TcpTime Tcp::keepalive_due(const TcpConnection& c) const noexcept {
  const std::uint32_t interval_ms = c.keepalive_interval_ds * 100U;
  return c.last_heard + c.keepalive_idle_ms + c.keepalive_sent * interval_ms;
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
void Tcp::on_keepalive(TcpConnection& c) noexcept {
  if (c.keepalive_sent >= c.keepalive_limit) {
    ++stats_.keepalive_timeouts;
    return reset(c, TcpEnd::keepalive_timeout);
  }
  if (!c.in_flight() || c.timer == TcpTimer::persist) {
    if (!emit(c, c.snd_una - 1, {}, {}, 0)) {
      // Nobody was asked: the same time must pass once more.
      c.last_heard = c.last_heard + c.keepalive_interval_ds * 100U;
      return;
    }
    ++stats_.keepalive_probes;
    set_protocol_timer(c);
  }
  ++c.keepalive_sent;
}

}  // namespace pinion
