#include "tcp.h"

/// How connections end: in order (RFC 9293, 3.6), by reset, and what is left of them.

namespace pinion {

void Tcp::shutdown_write(TcpHandle handle, Instant now) noexcept {
  note(now);
  TcpConnection* const c = connections_.find(handle);
  if (c == nullptr || c->over() || c->released) return;
  queue_fin(*c);
  act(*c);
}

void Tcp::close(TcpHandle handle, Instant now) noexcept {
  note(now);
  TcpConnection* const c = connections_.find(handle);
  if (c == nullptr || c->released) return;
  c->released = true;
  touch(*c);
  if (c->over()) return;
  c->read_timed = c->write_timed = false;
  if (c->state == TcpState::syn_sent) return finish(*c, TcpEnd::aborted);
  // RFC 2525, 2.17: so that the peer doesn't take for read what was not. What lies behind a hole
  // was not acknowledged: it is discarded as what is still under way.
  if (!c->receive.empty()) return reset(*c, TcpEnd::aborted);
  become_orphan(*c);
  queue_fin(*c);
  act(*c);
}

/// Nobody is left who could give up on the peer. What it still sends is discarded until `read_at`.
void Tcp::become_orphan(TcpConnection& c) noexcept {
  c.discarding = true;
  c.read_at = in_ms(linger_ms_);
  c.taken = 0;
  const std::uint32_t index = connections_.index_of(c);
  c.next_orphan = TcpListener::kNone;
  c.previous_orphan = last_orphan_;
  (last_orphan_ == TcpListener::kNone ? first_orphan_ : connections_.at(last_orphan_).next_orphan) =
      index;
  last_orphan_ = index;
}

void Tcp::leave_orphans(const TcpConnection& c) noexcept {
  const std::uint32_t next = c.next_orphan;
  const std::uint32_t previous = c.previous_orphan;
  (previous == TcpListener::kNone ? first_orphan_ : connections_.at(previous).next_orphan) = next;
  (next == TcpListener::kNone ? last_orphan_ : connections_.at(next).previous_orphan) = previous;
}

/// An orphan's peer has taken something: a segment's worth, and its time begins anew. By less it
/// could hold on for ever.
void Tcp::note_taken(TcpConnection& c, std::uint32_t acked) noexcept {
  const std::uint32_t taken = c.taken + acked;
  if (taken < c.mss) {
    c.taken = static_cast<std::uint16_t>(taken);
    return;
  }
  c.taken = 0;
  c.read_at = in_ms(linger_ms_);
}

/// Whether an orphan's time is over: its peer may answer for ever and take nothing (RFC 6429, 4).
bool Tcp::is_overdue(const TcpConnection& c) const noexcept {
  return c.discarding && has_passed(c.read_at + (orphan_ms_ - linger_ms_));
}

/// All places are taken, and somebody needs one.
void Tcp::displace_orphan() noexcept {
  if (first_orphan_ == TcpListener::kNone) return;
  ++stats_.orphans_displaced;
  reset(connections_.at(first_orphan_), TcpEnd::close_timeout);
}

void Tcp::abort(TcpHandle handle, Instant now) noexcept {
  note(now);
  TcpConnection* const c = connections_.find(handle);
  if (c == nullptr || c->over()) return close(handle, now);
  c->released = true;
  if (c->state == TcpState::syn_sent) return finish(*c, TcpEnd::aborted);
  reset(*c, TcpEnd::aborted);
}

void Tcp::queue_fin(TcpConnection& c) noexcept {
  if (c.fin_queued) return;
  c.fin_queued = true;
  if (c.state == TcpState::established) c.state = TcpState::fin_wait_1;
  if (c.state == TcpState::close_wait) c.state = TcpState::last_ack;
}

void Tcp::reset(TcpConnection& c, TcpEnd why) noexcept {
  send_reset(c);
  ++stats_.connections_reset;
  finish(c, why);
}

/// Nothing comes or goes any more. What has arrived stays for its reader, if there is one.
void Tcp::finish(TcpConnection& c, TcpEnd why) noexcept {
  PINION_ASSERT(!c.over());
  if (c.discarding) leave_orphans(c);
  c.state = TcpState::over;
  c.end = why;
  ++stats_.ended;
  remove_from_table(c);
  static_cast<void>(wheel_.cancel(c.protocol_timer()));
  static_cast<void>(wheel_.cancel(c.application_timer()));
  c.timer = TcpTimer::none;
  c.ack_now = c.ack_later = c.wants_write = c.read_timed = c.write_timed = false;
  c.send.clear(send_memory_);
  c.beyond.clear(out_of_order_memory_);
  if (c.waits_for_accept) {
    leave_accept_queue(c);
    c.released = c.told_end = true;
  }
  if (c.released) c.receive.clear(receive_memory_);
  touch(c);
}

/// Both FINs have gone and come: of the connection a small record is left, and perhaps a reader.
void Tcp::enter_time_wait(TcpConnection& c) noexcept {
  if (c.ack_now) send_ack(c);
  static_cast<void>(time_waits_.enter(c.tuple,
                                      {.snd_nxt = c.snd_max,
                                       .rcv_nxt = c.rcv_nxt(),
                                       .ts_recent = c.with_timestamps ? c.timestamps.recent : 0,
                                       .timestamps = c.with_timestamps},
                                      now_));
  set_table_timers();
  finish(c, TcpEnd::orderly);
}

void Tcp::clear_queues(TcpConnection& c) noexcept {
  c.send.clear(send_memory_);
  c.beyond.clear(out_of_order_memory_);
  c.receive.clear(receive_memory_);
}

/// The record goes when its end was told and the user has let go of it.
void Tcp::release_if_done(TcpConnection& c) noexcept {
  if (!c.over() || !c.told_end || !c.released || c.touched) return;
  clear_queues(c);
  connections_.release(c);
}

void Tcp::remove_from_table(const TcpConnection& c) noexcept {
  table_.erase(table_hash(table_secret_, c.tuple), connections_.index_of(c));
}

}  // namespace pinion
