#include <algorithm>

#include "tcp.h"

/// Windows that are shut, or too small to be worth a segment: what keeps a lost window update from
/// ending all (RFC 9293, 3.8.6.1 and 3.8.6.2.1).

namespace pinion {

/// Of a shut window the retransmission timeout, doubled for each probe since it was open (SHLD-30).
/// One that is too small, or that there was no packet for, is not waited for longer than a second
/// (3.8.6.2.1).
std::uint32_t Tcp::persist_delay(const TcpConnection& c) const noexcept {
  const std::uint64_t timeout_us = c.round_trip.timeout_us(retransmission_);
  if (c.snd_wnd != 0) {
    constexpr std::uint64_t kLeastOverrideUs = 100'000;
    constexpr std::uint64_t kMostOverrideUs = 1'000'000;
    const std::uint64_t override_us = std::clamp(timeout_us, kLeastOverrideUs, kMostOverrideUs);
    return static_cast<std::uint32_t>((override_us + 999) / 1'000);
  }
  const unsigned doublings = std::min<unsigned>(c.retransmissions, 16);
  const std::uint64_t delay_us =
      std::min<std::uint64_t>(timeout_us << doublings, retransmission_.max_us);
  return static_cast<std::uint32_t>((delay_us + 999) / 1'000);
}

/// Whether nobody has answered the probe at `unacked_since`, nor any later one. It is the first
/// that wasn't, so that the silence before it, of a connection with nothing to say, doesn't count.
bool Tcp::probes_unanswered(const TcpConnection& c) noexcept {
  return c.retransmissions != 0 && !c.heard;
}

/// As long as the peer answers, the connection stays, however long the window is shut (MUST-37).
void Tcp::on_persist_timeout(TcpConnection& c) noexcept {
  if (!c.has_unsent()) {
    if (c.wants_write) c.add(TcpNews::writable);
    c.wants_write = false;
    return;
  }
  if (is_overdue(c)) return give_up(c);
  if (!probes_unanswered(c)) {
    // The timer may have stood where the peer's time was over, had it not answered.
    const TcpTime due = c.unacked_since + persist_delay(c);
    if (c.retransmissions != 0 && !has_passed(due)) {
      c.timer = TcpTimer::persist;
      c.retransmit_at = due + 1;
      return;
    }
    c.unacked_since = time_;
    c.heard = false;
    c.soft_error = false;
  } else if (patience_left_ms(c) == 0) {
    return give_up(c);
  }
  if (c.retransmissions < 255) ++c.retransmissions;
  ++stats_.window_probes;
  if (c.snd_wnd == 0) return send_window_probe(c);
  // The override timeout: less than a segment, but all that the window has room for.
  if (const std::optional<Piece> piece = next_piece(c, true)) {
    static_cast<void>(send_piece(c, *piece));
  }
}

/// The first byte that the window has no room for, or the FIN: the peer must answer either by an
/// acknowledgement. If it takes it, it is acknowledged; if not, it stays the next to send.
void Tcp::send_window_probe(TcpConnection& c) noexcept {
  Piece probe{.begin = c.snd_una};
  if (c.send.empty()) {
    probe.fin = true;
  } else {
    probe.size = 1;
  }
  if (!send_piece(c, probe)) return;
  c.snd_nxt = c.snd_una;
}

}  // namespace pinion
