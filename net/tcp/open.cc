#include <algorithm>
#include <memory>

#include "segment_size.h"
#include "tcp.h"

/// Connections that we open: connect() and SYN-SENT (RFC 9293, 3.10.1 and 3.10.7.3), with RFC 7323
/// and RFC 2018 agreed on.

namespace pinion {

using wire::TcpFlag;

tl::expected<TcpHandle, TcpConnectError> Tcp::connect(const TcpConnectRequest& request,
                                                      TcpObserver* observer, Instant now) noexcept {
  note(now);
  TcpConnectError error = TcpConnectError::no_resources;
  const std::optional<FourTuple> tuple = choose_tuple(request, error);
  if (!tuple) return tl::unexpected(error);
  const InitialSequence::Numbers numbers = initial_sequence_.of(*tuple, now_);
  wire::SequenceNumber iss = numbers.sequence;
  const TimeWaitRecord* const waiting = time_waits_.find(*tuple);
  if (waiting != nullptr) iss = reopening_number(iss, waiting->snd_nxt);
  TcpConnection* const c = make_connection(*tuple, iss, wire::SequenceNumber(), request.options);
  if (c == nullptr) return tl::unexpected(TcpConnectError::no_resources);
  if (waiting != nullptr) time_waits_.remove(*waiting);
  ++stats_.active_opens;
  c->observer = observer;
  c->mss = c->announced_mss = announced_mss(*tuple, request.options.max_segment);
  c->rcv_scale = scale_for(request.options.receive_buffer) & 0xfU;
  std::construct_at(&c->timestamps, TcpTimestampState{.offset = numbers.timestamp_offset});
  c->unacked_since = time_;
  send_syn(*c);
  set_protocol_timer(*c);
  return connections_.handle_of(*c);
}

std::optional<FourTuple> Tcp::choose_tuple(const TcpConnectRequest& request,
                                           TcpConnectError& error) noexcept {
  const IpAddress& remote = request.remote.address;
  error = TcpConnectError::unreachable;
  if (!ip_.is_unicast(remote) || request.remote.port == 0) return std::nullopt;
  const std::optional<IpAddress> local =
      request.local_address ? request.local_address : ip_.source_for(remote);
  if (!local || !ip_.is_local(*local)) return std::nullopt;
  std::optional<FourTuple> tuple = FourTuple::between({*local, request.local_port}, request.remote);
  if (!tuple) return std::nullopt;
  if (request.local_port != 0) {
    error = TcpConnectError::address_used;
    return is_free(*tuple) ? tuple : std::nullopt;
  }
  error = TcpConnectError::no_ports;
  const std::optional<std::uint16_t> port =
      ports_.choose(*tuple, ports_.range().size(),
                    [this](const FourTuple& candidate) { return is_free(candidate); });
  if (!port) return std::nullopt;
  tuple->local_port = *port;
  return tuple;
}

/// Whether no connection has `tuple`, nor had it so shortly that its segments may still arrive.
bool Tcp::is_free(const FourTuple& tuple) noexcept {
  if (find(tuple) != nullptr || syn_cache_.find(tuple) != nullptr) return false;
  const TimeWaitRecord* const waiting = time_waits_.find(tuple);
  return waiting == nullptr || time_waits_.may_reconnect(*waiting, now_);
}

TcpConnection* Tcp::make_connection(const FourTuple& tuple, wire::SequenceNumber iss,
                                    wire::SequenceNumber rcv_nxt,
                                    const TcpSocketOptions& options) noexcept {
  TcpConnection* const c =
      connections_.allocate(*this, tuple, iss, rcv_nxt, bounded_buffer(options.receive_buffer));
  if (c == nullptr) {
    displace_orphan();  // Its place is free when its end was told: whoever asks again gets it.
    return nullptr;
  }
  const bool added = table_.insert(table_hash(table_secret_, tuple), connections_.index_of(*c));
  PINION_ASSERT(added);  // It has as much room as the pool.
  c->last_heard = time_after_;
  c->paths_seen = paths_;
  apply_options(*c, options);
  return c;
}

/// But for what the handshake promises: the receive buffer and the segment.
void Tcp::apply_options(TcpConnection& c, const TcpSocketOptions& options) const noexcept {
  c.no_delay = options.no_delay;
  c.traffic_class = dscp_of(options.traffic_class);
  c.send.set_limit(bounded_buffer(options.send_buffer));
  apply_keepalive(c, options.keepalive);
  apply_user_timeout(c, options.user_timeout);
}

void Tcp::input_syn_sent(TcpConnection& c, TcpArrival& a) noexcept {
  if (!check_syn_sent_ack(c, a)) return;
  if (a.has(TcpFlag::rst)) {
    if (!a.has(TcpFlag::ack)) return drop(TcpDrop::reset_out_of_window);
    ++stats_.resets_in;
    ++stats_.connects_refused;
    return finish(c, TcpEnd::refused);
  }
  if (!a.has(TcpFlag::syn)) return drop(TcpDrop::no_ack_flag);
  c.last_heard = time_after_;
  c.receive.start(a.sequence() + 1);
  c.last_ack_sent = c.rcv_nxt();
  agree(c, agreement_of(c, a));
  if (a.has(TcpFlag::ack)) {
    establish(c, a);
    c.ack_now = true;
    if (a.size != 0 || a.has(TcpFlag::fin)) input_text(c, a);
    return;
  }
  // Both have opened at once (3.5, figure 8): our SYN goes out again, with an ACK of theirs.
  c.state = TcpState::syn_received;
  send_syn(c);
}

/// First of 3.10.7.3.
bool Tcp::check_syn_sent_ack(TcpConnection& c, const TcpArrival& a) noexcept {
  if (!a.has(TcpFlag::ack) || a.acknowledgment() == c.snd_max) return true;
  drop(TcpDrop::syn_sent_ack);
  if (!a.has(TcpFlag::rst)) answer_by_reset(a);
  return false;
}

Tcp::Agreement Tcp::agreement_of(const TcpConnection& c, const TcpArrival& a) const noexcept {
  const wire::TcpOptions& options = a.segment.options;
  Agreement agreement{.peer_mss = options.mss.value_or(default_mss(c.tuple)),
                      .sack = options.sack_permitted && config_.sack,
                      .ts_offset = c.timestamps.offset};
  if (config_.window_scale) agreement.peer_scale = options.window_scale;
  if (options.timestamps && config_.timestamps) {
    agreement.timestamps = true;
    agreement.ts_recent = options.timestamps->value;
  }
  return agreement;
}

/// What the SYNs have said counts from now on. `mss` and `rcv_scale` are what ours has said.
void Tcp::agree(TcpConnection& c, const Agreement& agreement) noexcept {
  c.with_sack = agreement.sack;
  c.snd_scale = agreement.peer_scale.value_or(0) & 0xfU;
  if (!agreement.peer_scale) c.rcv_scale = 0;
  c.with_timestamps = agreement.timestamps;
  if (agreement.timestamps) {
    std::construct_at(&c.timestamps, TcpTimestampState{.recent = agreement.ts_recent,
                                                       .recent_at_s = seconds(),
                                                       .offset = agreement.ts_offset});
  } else {
    std::construct_at(&c.timed);
  }
  const std::uint16_t most =
      std::min({std::max(agreement.peer_mss, kLeastMss), c.mss, path_mss(c.tuple)});
  c.mss = static_cast<std::uint16_t>(most - fixed_options_size(c.with_timestamps));
}

/// Our SYN is acknowledged, and we have the peer's.
void Tcp::establish(TcpConnection& c, const TcpArrival& a) noexcept {
  // After a simultaneous open it has gone out twice.
  const bool sent_once = c.state == TcpState::syn_sent && !c.syn_resent;
  c.state = c.fin_queued ? TcpState::fin_wait_1 : TcpState::established;
  if (c.with_timestamps) {
    take_sample(c, a.acknowledgment(), timestamps_of(a));
  } else if (sent_once) {
    c.round_trip.add_sample(ms_since(c.unacked_since) * 1'000U, wrapping_us(now_), retransmission_);
  }
  c.round_trip.handshake_done(c.syn_resent);
  c.snd_una = c.snd_max;
  c.retransmissions = 0;
  c.soft_error = false;
  c.timer = TcpTimer::none;
  c.progress = true;
  c.unacked_since = time_;
  c.congestion.start(CongestionAlgorithm::new_reno, c.mss, c.syn_resent, c.snd_una - 1);
  c.snd_wl1 = a.sequence();
  update_window(c, a);
  if (!c.waits_for_accept) c.add(TcpNews::connected);
  set_application_timer(c);
}

}  // namespace pinion
