#include <algorithm>
#include <utility>

#include "segment_size.h"
#include "tcp.h"

/// What a connection sends when nothing more happens to it: data as far as windows, Nagle and the
/// avoidance of silly windows allow (RFC 9293, 3.7.4 and 3.8.6.2.1), or an acknowledgement
/// (3.8.6.3).

namespace pinion {

using wire::TcpFlag;

namespace {

/// SACK blocks that segments with data have too while something lies beyond a hole, or has come
/// twice.
std::size_t blocks_beside_data(const TcpConnection& c) noexcept {
  if (!c.with_sack) return 0;
  return std::min<std::size_t>(c.beyond.reports(), most_sack_blocks(c.with_timestamps));
}

}  // namespace

void Tcp::output(TcpConnection& c) noexcept {
  if (c.synchronized()) {
    if (c.paths_seen != paths_) static_cast<void>(follow_path(c));
    if (c.resend_first) send_first_again(c);
    send_data(c);
  }
  if (c.state != TcpState::syn_sent) decide_ack(c);
  set_protocol_timer(c);
}

void Tcp::send_data(TcpConnection& c) noexcept {
  if (!c.has_unsent()) return;
  restart_if_idle(c);
  while (const std::optional<Piece> piece = next_piece(c, false)) {
    if (!send_piece(c, *piece)) return;
  }
}

/// The window is for a path whose state isn't known any more (RFC 5681, 4.1). Of when data was last
/// sent, only that it was before the last acknowledgement is known.
void Tcp::restart_if_idle(TcpConnection& c) noexcept {
  if (c.in_flight()) return;
  // Weeks ago seems to lie ahead, by a clock of 32 bits.
  const auto idle_ms = static_cast<std::uint32_t>(time_ - c.unacked_since);
  if (idle_ms > c.round_trip.timeout_us(retransmission_) / 1'000) {
    c.congestion.restart_after_idle();
  }
}

/// Eff.snd.MSS, less what SACK blocks take in a segment that goes out now.
std::uint32_t Tcp::room_for_data(const TcpConnection& c) const noexcept {
  return c.mss - std::min<std::uint32_t>(sack_option_size(blocks_beside_data(c)), c.mss - 1U);
}

/// What goes out next from SND.NXT on; nothing if that has to wait. `forced`, what is allowed goes
/// though it is little.
std::optional<Tcp::Piece> Tcp::next_piece(const TcpConnection& c, bool forced) const noexcept {
  if (!c.has_unsent()) return std::nullopt;
  const auto unsent = static_cast<std::uint32_t>(c.send.end() - c.snd_nxt);
  const auto flight = static_cast<std::uint32_t>(c.snd_nxt - c.snd_una);
  const std::uint32_t sendable = c.congestion.sendable(flight, c.snd_wnd);
  Piece piece{.begin = c.snd_nxt, .size = std::min({unsent, sendable, room_for_data(c)})};
  piece.fin = c.fin_queued && piece.size == unsent && flight + piece.size < c.snd_wnd;
  if (piece.size == 0 && !piece.fin) return std::nullopt;
  if (!forced && !is_worth_sending(c, piece, unsent)) return std::nullopt;
  return piece;
}

/// RFC 9293, 3.8.6.2.1. What was sent before always is. So is the last of all, and a full segment;
/// less only if nothing is in flight (Nagle), and if it is either all there is or half the largest
/// window that the peer ever had.
bool Tcp::is_worth_sending(const TcpConnection& c, const Piece& piece,
                           std::uint32_t unsent) const noexcept {
  if (before(piece.begin, c.snd_max) || piece.fin) return true;
  if (piece.size >= room_for_data(c)) return true;
  const bool may_be_small = c.no_delay || !c.in_flight();
  if (piece.size == unsent) return may_be_small;
  return may_be_small && piece.size >= c.max_snd_wnd() / 2;
}

/// False when there is no packet for it.
bool Tcp::send_piece(TcpConnection& c, const Piece& piece) noexcept {
  wire::TcpFlags flags;
  wire::SequenceNumber end = piece.begin;
  PacketPtr payload;
  if (piece.size != 0) {
    SendSegment segment = c.send.segment(piece.begin, piece.size, send_memory_);
    if (!segment.packet) {
      ++stats_.out_of_packets;
      return false;
    }
    payload = std::move(segment.packet);
    end += segment.size;
    if (segment.push) flags |= TcpFlag::psh;
  }
  if (piece.fin && end == c.send.end()) {
    flags |= TcpFlag::fin;
    end += 1;
  }
  if (!emit(c, piece.begin, flags, std::move(payload), blocks_beside_data(c))) return false;
  note_sent(c, piece.begin, end);
  return true;
}

void Tcp::note_sent(TcpConnection& c, wire::SequenceNumber begin,
                    wire::SequenceNumber end) noexcept {
  if (!c.in_flight()) {
    c.unacked_since = time_;
    c.heard = false;
  }
  const bool again = before(begin, c.snd_max);
  if (again) ++stats_.retransmitted_segments;
  if (!c.with_timestamps) {
    if (again) {
      c.timed.sent_again();
    } else {
      c.timed.sent(end, wrapping_us(now_));
    }
  }
  if (after(end, c.snd_nxt)) c.snd_nxt = end;
  if (after(end, c.snd_max)) c.snd_max = end;
}

/// Fast retransmit: the segment at SND.UNA, whatever the congestion window says (RFC 5681, 3.2).
void Tcp::send_first_again(TcpConnection& c) noexcept {
  c.resend_first = false;
  if (!c.in_flight() || c.snd_nxt == c.snd_una) return;
  const auto unacked = static_cast<std::uint32_t>(c.send.end() - c.snd_una);
  const auto sent = static_cast<std::uint32_t>(c.snd_max - c.snd_una);
  Piece piece{.begin = c.snd_una, .size = std::min({unacked, sent, c.snd_wnd, room_for_data(c)})};
  piece.fin = c.fin_sent() && piece.size == unacked;
  if (piece.size == 0 && !piece.fin) return;
  static_cast<void>(send_piece(c, piece));
}

/// An acknowledgement now, for two segments or whatever must not wait; or soon (RFC 9293, MUST-58
/// and MUST-59; RFC 5681, 4.2). Or a window update, when reading has made room.
void Tcp::decide_ack(TcpConnection& c) noexcept {
  if (c.beyond_hole != 0) return send_duplicate_acks(c);
  if (c.ack_now || c.unacked_segments >= 2) return send_ack(c);
  if (c.has_read) {
    c.has_read = false;
    if (c.receives() && may_hold_more(c) && c.receive.update_due(c.mss, c.rcv_scale)) {
      ++stats_.window_updates;
      return send_ack(c);
    }
  }
  if (c.unacked_segments == 0 || c.ack_later) return;
  c.ack_later = true;
  c.ack_at = in_ms(delayed_ack_ms_);
}

/// One for each segment behind a hole, up to the three after which the peer sends the hole's first
/// again; before them what has come ahead of it (RFC 5681, 3.2 and 4.2). With SACK one tells all.
void Tcp::send_duplicate_acks(TcpConnection& c) noexcept {
  unsigned left = c.beyond_hole;
  c.beyond_hole = 0;
  if (c.unacked_segments != 0) ++left;
  for (; left != 0; --left) send_ack(c);
}

}  // namespace pinion
