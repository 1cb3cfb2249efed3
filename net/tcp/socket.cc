#include <algorithm>
#include <utility>

#include "tcp.h"

/// Reading, writing and settings.

namespace pinion {

TcpTransferred Tcp::write(TcpHandle handle, std::span<const std::byte> bytes,
                          Instant now) noexcept {
  note(now);
  TcpConnection* const c = connections_.find(handle);
  if (const auto refusal = why_not_write(c)) return {.outcome = *refusal};
  const std::size_t most = std::min(bytes.size(), room_to_write(*c));
  const std::size_t taken = c->send.write(bytes.first(most), send_memory_);
  return written(*c, taken, taken == bytes.size());
}

TcpTransferred Tcp::write(TcpHandle handle, PacketPtr& packet, Instant now) noexcept {
  note(now);
  TcpConnection* const c = connections_.find(handle);
  if (const auto refusal = why_not_write(c)) return {.outcome = *refusal};
  // What waits for nothing is taken though packets are scarce: only sending it gives its own back.
  const bool takes = c->send.empty() || !scarce(packets_, kHoardReserve);
  const std::size_t taken = takes ? c->send.write(packet, send_memory_) : 0;
  return written(*c, taken, !packet);
}

/// How many bytes may be copied into packets now: these shall not run out.
std::size_t Tcp::room_to_write(const TcpConnection& c) const noexcept {
  const std::size_t part = c.send.empty() ? kWriteReserve : kHoardReserve;
  const std::size_t reserve = packets_.capacity() / part;
  const std::size_t available = packets_.available();
  const std::size_t each = packets_.buffer_size() - kPacketHeadroom;
  return available > reserve ? (available - reserve) * each : 0;
}

TcpTransferred Tcp::written(TcpConnection& c, std::size_t taken, bool all) noexcept {
  if (!all) c.wants_write = true;
  act(c);
  return {.outcome = all ? TcpOutcome::done : TcpOutcome::again, .bytes = taken};
}

std::optional<TcpOutcome> Tcp::why_not_write(const TcpConnection* c) const noexcept {
  if (c == nullptr) return TcpOutcome::gone;
  if (c->over() || c->fin_queued || c->released) return TcpOutcome::closed;
  return std::nullopt;
}

/// Room for a third of the buffer, so that a writer doesn't hear of each acknowledgement.
bool Tcp::has_write_room(const TcpConnection& c) const noexcept {
  return c.send.true_size() <= c.send.limit() - c.send.limit() / 3;
}

TcpTransferred Tcp::read(TcpHandle handle, std::span<std::byte> into, Instant now) noexcept {
  note(now);
  TcpConnection* const c = connections_.find(handle);
  if (c == nullptr) return {.outcome = TcpOutcome::gone};
  if (c->released || c->receive.empty()) return {.outcome = empty_outcome(*c)};
  const std::size_t count = c->receive.read(into, receive_memory_);
  c->has_read = true;
  act(*c);
  return {.outcome = TcpOutcome::done, .bytes = count};
}

TcpOutcome Tcp::take(TcpHandle handle, PacketPtr& into, Instant now) noexcept {
  note(now);
  TcpConnection* const c = connections_.find(handle);
  if (c == nullptr) return TcpOutcome::gone;
  if (c->released || c->receive.empty()) return empty_outcome(*c);
  into = c->receive.pop(receive_memory_);
  c->has_read = true;
  act(*c);
  return TcpOutcome::done;
}

/// What a read comes to that finds nothing.
TcpOutcome Tcp::empty_outcome(const TcpConnection& c) const noexcept {
  if (c.released) return TcpOutcome::closed;
  if (c.fin_passed) return TcpOutcome::finished;
  return c.over() ? TcpOutcome::closed : TcpOutcome::again;
}

void Tcp::set_observer(TcpHandle handle, TcpObserver* observer) noexcept {
  TcpConnection* const c = connections_.find(handle);
  if (c != nullptr) c->observer = observer;
}

void Tcp::set_no_delay(TcpHandle handle, bool no_delay, Instant now) noexcept {
  note(now);
  TcpConnection* const c = connections_.find(handle);
  if (c == nullptr || c->over()) return;
  c->no_delay = no_delay;
  act(*c);
}

void Tcp::set_traffic_class(TcpHandle handle, std::uint8_t traffic_class) noexcept {
  TcpConnection* const c = connections_.find(handle);
  if (c != nullptr && !c->over()) c->traffic_class = dscp_of(traffic_class);
}

void Tcp::set_keepalive(TcpHandle handle, const TcpKeepalive& keepalive, Instant now) noexcept {
  note(now);
  TcpConnection* const c = connections_.find(handle);
  if (c == nullptr || c->over() || c->released) return;
  apply_keepalive(*c, keepalive);
  set_application_timer(*c);
}

void Tcp::set_user_timeout(TcpHandle handle, Delay timeout) noexcept {
  TcpConnection* const c = connections_.find(handle);
  if (c != nullptr) apply_user_timeout(*c, timeout);
}

void Tcp::set_read_deadline(TcpHandle handle, Instant deadline, Instant now) noexcept {
  note(now);
  TcpConnection* const c = connections_.find(handle);
  if (c == nullptr || c->over() || c->released) return;
  c->read_timed = deadline <= now_ + kLongestDeadline;
  // One long past would seem to lie ahead.
  c->read_at = TcpTime::after(std::max(deadline, now_));
  set_application_timer(*c);
}

void Tcp::set_write_deadline(TcpHandle handle, Instant deadline, Instant now) noexcept {
  note(now);
  TcpConnection* const c = connections_.find(handle);
  if (c == nullptr || c->over() || c->released) return;
  c->write_timed = deadline <= now_ + kLongestDeadline;
  c->write_at = TcpTime::after(std::max(deadline, now_));
  set_application_timer(*c);
}

std::optional<TcpInfo> Tcp::info(TcpHandle handle) noexcept {
  const TcpConnection* const c = connections_.find(handle);
  if (c == nullptr) return std::nullopt;
  return TcpInfo{.local = c->tuple.local_endpoint(),
                 .remote = c->tuple.remote_endpoint(),
                 .state = c->state,
                 .first_unacknowledged = c->snd_una,
                 .unread = c->receive.size(),
                 .unacknowledged = c->send.size(),
                 .end_of_stream = c->fin_passed,
                 .write_room = has_write_room(*c),
                 .segment = c->mss,
                 .flight = c->flight(),
                 .window = c->snd_wnd,
                 .receive_window = c->receive.window(),
                 .congestion_window = c->congestion.window(),
                 .congestion_threshold = c->congestion.threshold(),
                 .srtt_us = c->round_trip.srtt_us(),
                 .rttvar_us = c->round_trip.rttvar_us(),
                 .timeout_us = c->round_trip.timeout_us(retransmission_),
                 .retransmissions = c->retransmissions,
                 .send_scale = c->snd_scale,
                 .receive_scale = c->rcv_scale,
                 .timestamps = c->with_timestamps,
                 .sack = c->with_sack};
}

}  // namespace pinion
