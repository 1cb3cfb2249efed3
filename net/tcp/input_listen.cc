#include <algorithm>
#include <utility>

#include "segment_size.h"
#include "tcp.h"

/// Segments of no connection: LISTEN and SYN-RECEIVED of passive opens (RFC 9293, 3.10.7.2 and
/// 3.10.7.4), SYN cookies (RFC 4987), TIME-WAIT, and what is for nobody (3.10.7.1).

namespace pinion {

using wire::TcpFlag;

namespace {

constexpr std::chrono::seconds kCookieLife{128};

TimeWaitSegment to_time_wait_segment(const TcpArrival& a, bool timestamps) noexcept {
  TimeWaitSegment segment{.sequence = a.sequence(),
                          .acknowledgement = a.acknowledgment(),
                          .length = a.length(),
                          .syn = a.has(TcpFlag::syn),
                          .ack = a.has(TcpFlag::ack),
                          .fin = a.has(TcpFlag::fin),
                          .rst = a.has(TcpFlag::rst),
                          .timestamp = {}};
  if (timestamps && a.segment.options.timestamps) {
    segment.timestamp = a.segment.options.timestamps->value;
  }
  return segment;
}

/// The window in a SYN-ACK, which isn't scaled.
std::uint16_t offered_in_syn(const TcpListenOptions& options) noexcept {
  return static_cast<std::uint16_t>(
      std::clamp(options.socket.receive_buffer, kLeastBuffer, 65'535U));
}

}  // namespace

void Tcp::input_unknown(TcpArrival& a) noexcept {
  if (const TimeWaitRecord* const record = time_waits_.find(a.tuple); record != nullptr) {
    return input_time_wait(*record, a);
  }
  if (SynRecord* const record = syn_cache_.find(a.tuple); record != nullptr) {
    return input_half_open(*record, a);
  }
  if (a.has(TcpFlag::rst)) return drop(TcpDrop::no_such_connection);
  TcpListener* const listener = listener_for(a.tuple);
  if (listener != nullptr) {
    static_cast<void>(input_listen(*listener, a, std::nullopt));
    return;
  }
  drop(TcpDrop::no_listener);
  answer_by_reset(a);
}

void Tcp::input_time_wait(const TimeWaitRecord& record, TcpArrival& a) noexcept {
  switch (time_waits_.answer(record, to_time_wait_segment(a, config_.timestamps), now_)) {
    case TimeWaitVerdict::drop:
      return drop(TcpDrop::time_wait);
    case TimeWaitVerdict::challenge:
      if (!may_challenge(record.challenged)) return drop(TcpDrop::time_wait);
      time_waits_.note_challenge(record, now_);
      break;
    case TimeWaitVerdict::acknowledge:
      break;
    case TimeWaitVerdict::reopen:
      TcpListener* const listener = listener_for(a.tuple);
      if (listener == nullptr) break;
      // A SYN that isn't answered comes again, and finds the record.
      if (input_listen(*listener, a, record.snd_nxt)) time_waits_.remove(record);
      return;
  }
  drop(TcpDrop::time_wait);
  acknowledge_for(a.tuple, record.snd_nxt, record.rcv_nxt, 0,
                  record.timestamps ? std::optional(record.ts_recent) : std::nullopt);
}

/// For a connection of which only a small record is left, or made yet.
void Tcp::acknowledge_for(const FourTuple& tuple, wire::SequenceNumber sequence,
                          wire::SequenceNumber acknowledgment, std::uint16_t window,
                          std::optional<std::uint32_t> ts_recent) noexcept {
  wire::TcpOptions options;
  if (ts_recent) {
    const std::uint32_t value = time_.value() + initial_sequence_.timestamp_offset(tuple);
    options.timestamps = {.value = value, .echo_reply = *ts_recent};
  }
  static_cast<void>(emit({.tuple = tuple,
                          .sequence = sequence,
                          .acknowledgment = acknowledgment,
                          .flags = wire::TcpFlags(TcpFlag::ack),
                          .window = window},
                         options, {}));
}

/// In SYN-RECEIVED nothing but the ACK of our SYN-ACK makes a connection of the record, and only in
/// a segment that would be acceptable to it (3.10.7.4, first; RFC 7323, 5.3).
void Tcp::input_half_open(SynRecord& record, TcpArrival& a) noexcept {
  if (a.has(TcpFlag::rst)) return input_half_open_reset(record, a);
  if (a.has(TcpFlag::syn)) {
    drop(TcpDrop::syn_challenged);
    if (a.sequence() != record.peer || a.has(TcpFlag::ack)) return challenge(record, a.tuple);
    // It comes again when our answer was lost. One that is forged comes as often as somebody likes.
    if (!record.answered) record.answered = resend_syn_ack(record);
    return;
  }
  if (!fits_half_open(record, a)) return;
  if (!a.has(TcpFlag::ack)) return drop(TcpDrop::no_ack_flag);
  TcpListener& listener = listeners_[record.listener];
  if (a.acknowledgment() != record.sequence + 1) {
    // The SYN may have been answered by a cookie, too, when there was no room for the record.
    if (a.sequence() == record.peer + 1 && accept_cookie(listener, a)) return;
    drop(TcpDrop::handshake_ack);
    return answer_by_reset(a);
  }
  if (is_full(listener)) return drop(TcpDrop::backlog_full);
  Agreement agreement{.peer_mss = record.mss,
                      .timestamps = record.timestamps,
                      .sack = record.sack,
                      .ts_recent = record.ts_recent,
                      .ts_offset = initial_sequence_.timestamp_offset(a.tuple)};
  if (record.scales) agreement.peer_scale = static_cast<std::uint8_t>(record.window_scale);
  static_cast<void>(
      complete_passive_open(listener, a, record.peer, agreement, record.retransmissions != 0));
}

/// RFC 5961, 3.2. Nobody is told of a passive open that the peer ends.
void Tcp::input_half_open_reset(SynRecord& record, const TcpArrival& a) noexcept {
  const wire::SequenceNumber next = record.peer + 1;
  if (a.sequence() == next) {
    ++stats_.resets_in;
    return syn_cache_.remove(record);
  }
  const bool in_window =
      after(a.sequence(), next) &&
      before(a.sequence(), next + offered_in_syn(listeners_[record.listener].options));
  if (!in_window) return drop(TcpDrop::reset_out_of_window);
  drop(TcpDrop::reset_challenged);
  challenge(record, a.tuple);
}

/// PAWS and the sequence number; what fails either is challenged. Data too, unlike those of a
/// connection: none were taken yet that could come again.
bool Tcp::fits_half_open(SynRecord& record, const TcpArrival& a) noexcept {
  const wire::SequenceNumber next = record.peer + 1;
  TcpDrop why = TcpDrop::out_of_window;
  bool fits = is_acceptable(next, next + offered_in_syn(listeners_[record.listener].options), a);
  if (record.timestamps) {
    if (!a.segment.options.timestamps) {
      drop(TcpDrop::no_timestamp);
      return false;
    }
    const std::uint32_t value = a.segment.options.timestamps->value;
    if (static_cast<std::int32_t>(value - record.ts_recent) < 0) {
      why = TcpDrop::paws;
      fits = false;
    }
  }
  if (fits) return true;
  drop(why);
  challenge(record, a.tuple);
  return false;
}

void Tcp::challenge(SynRecord& record, const FourTuple& tuple) noexcept {
  if (!may_challenge(record.challenged)) return;
  record.challenged = challenge_second(now_) & 0x1fU;
  acknowledge(record, tuple);
}

/// Whether a record sends a challenge, of which the last was in the second `last`.
bool Tcp::may_challenge(std::uint8_t last) noexcept {
  return count_challenge(challenge_second(now_) != last &&
                         record_challenge_budget_.take(now_, random_));
}

void Tcp::acknowledge(const SynRecord& record, const FourTuple& tuple) noexcept {
  const TcpListenOptions& options = listeners_[record.listener].options;
  const int scale = record.scales ? scale_for(options.socket.receive_buffer) : 0;
  acknowledge_for(tuple, record.sequence + 1, record.peer + 1,
                  static_cast<std::uint16_t>(offered_in_syn(options) >> scale),
                  record.timestamps ? std::optional(record.ts_recent) : std::nullopt);
}

/// `behind` is where our numbers must begin at least: those of the connection before are not over.
/// Whether a SYN was answered.
bool Tcp::input_listen(TcpListener& listener, TcpArrival& a,
                       std::optional<wire::SequenceNumber> behind) noexcept {
  const auto refuse_for = [this](TcpDrop why) {
    drop(why);
    return false;
  };
  if (a.has(TcpFlag::ack)) {
    if (!a.has(TcpFlag::syn) && accept_cookie(listener, a)) return false;
    answer_by_reset(a);
    return refuse_for(TcpDrop::listen_flags);
  }
  if (!a.has(TcpFlag::syn)) return refuse_for(TcpDrop::listen_flags);
  if (is_full(listener)) return refuse_for(TcpDrop::backlog_full);
  if (scarce(packets_, kSynReserve)) return refuse_for(TcpDrop::packets_scarce);
  return answer_syn(listener, a, behind);
}

bool Tcp::answer_syn(TcpListener& listener, const TcpArrival& a,
                     std::optional<wire::SequenceNumber> behind) noexcept {
  const wire::TcpOptions& options = a.segment.options;
  InitialSequence::Numbers numbers = initial_sequence_.of(a.tuple, now_);
  if (behind) numbers.sequence = reopening_number(numbers.sequence, *behind);
  SynRecord record;
  record.remote_port = a.tuple.remote_port;
  record.mss = options.mss.value_or(default_mss(a.tuple));
  record.sequence = numbers.sequence;
  record.peer = a.sequence();
  record.scales = config_.window_scale && options.window_scale.has_value();
  record.window_scale = options.window_scale.value_or(0) & 0xfU;
  record.timestamps = config_.timestamps && options.timestamps.has_value();
  record.ts_recent = options.timestamps ? options.timestamps->value : 0;
  record.sack = config_.sack && options.sack_permitted;
  record.listener = index_of(listener);
  std::uint32_t timestamp = time_.value() + numbers.timestamp_offset;
  if (syn_cache_.insert(a.tuple, record, now_) != nullptr) {
    set_table_timers();
    static_cast<void>(send_syn_ack(record, a.tuple, timestamp, listener.options));
    return true;
  }
  record.sequence = cookies_.make(a.tuple, record.peer, record.mss, now_);
  if (behind && !after(record.sequence, *behind)) {
    drop(TcpDrop::time_wait);
    return false;
  }
  cookies_until_ = now_ + Delay(kCookieLife);
  if (record.timestamps) {
    CookieOptions carried;
    carried.sack = record.sack;
    if (record.scales) carried.window_scale = static_cast<std::uint8_t>(record.window_scale);
    timestamp = SynCookies::stamp(timestamp, carried);
  } else {
    record.scales = false;
    record.sack = false;
  }
  static_cast<void>(send_syn_ack(record, a.tuple, timestamp, listener.options));
  return true;
}

/// An ACK at a listener may be the last of a handshake that only a cookie remembers. Asked only
/// while one may be about, so that guesses cost nothing and find nothing at other times.
bool Tcp::accept_cookie(TcpListener& listener, TcpArrival& a) noexcept {
  if (now_ > cookies_until_) return false;
  const wire::SequenceNumber irs = a.sequence() - 1;
  const std::optional<std::uint16_t> mss =
      cookies_.check(a.tuple, irs, a.acknowledgment() - 1, now_);
  if (!mss) return false;
  if (is_full(listener)) {
    drop(TcpDrop::backlog_full);
    return true;
  }
  Agreement agreement{.peer_mss = *mss, .ts_offset = initial_sequence_.timestamp_offset(a.tuple)};
  if (const auto& timestamps = a.segment.options.timestamps; timestamps && config_.timestamps) {
    const CookieOptions carried = SynCookies::options_in(timestamps->echo_reply);
    agreement.peer_scale = carried.window_scale;
    agreement.sack = carried.sack;
    agreement.timestamps = true;
    agreement.ts_recent = timestamps->value;
  }
  if (complete_passive_open(listener, a, irs, agreement, false)) ++stats_.cookie_opens;
  return true;
}

/// False when there is no packet for it.
bool Tcp::send_syn_ack(const SynRecord& record, const FourTuple& tuple, std::uint32_t timestamp,
                       const TcpListenOptions& listen_options) noexcept {
  wire::TcpOptions options;
  options.mss = announced_mss(tuple, listen_options.socket.max_segment);
  if (record.scales) options.window_scale = scale_for(listen_options.socket.receive_buffer);
  options.sack_permitted = record.sack;
  if (record.timestamps) options.timestamps = {.value = timestamp, .echo_reply = record.ts_recent};
  return emit({.tuple = tuple,
               .sequence = record.sequence,
               .acknowledgment = record.peer + 1,
               .flags = TcpFlag::syn | TcpFlag::ack,
               .window = offered_in_syn(listen_options),
               .traffic_class = dscp_of(listen_options.socket.traffic_class)},
              options, {});
}

bool Tcp::resend_syn_ack(const SynRecord& record) noexcept {
  const FourTuple tuple = syn_cache_.tuple_of(record);
  ++stats_.retransmitted_segments;
  return send_syn_ack(record, tuple, time_.value() + initial_sequence_.timestamp_offset(tuple),
                      listeners_[record.listener].options);
}

/// `a` acknowledges our SYN-ACK, and may have data. False when there is no place for a connection.
bool Tcp::complete_passive_open(TcpListener& listener, TcpArrival& a, wire::SequenceNumber irs,
                                const Agreement& agreement, bool syn_resent) noexcept {
  const TcpSocketOptions& options = listener.options.socket;
  const wire::SequenceNumber iss = a.acknowledgment() - 1;
  TcpConnection* const made = make_connection(a.tuple, iss, irs + 1, options);
  if (made == nullptr) {
    drop(TcpDrop::no_connection_slot);
    return false;
  }
  TcpConnection& c = *made;
  if (const SynRecord* const record = syn_cache_.find(a.tuple)) syn_cache_.remove(*record);
  ++stats_.passive_opens;
  c.state = TcpState::syn_received;
  c.snd_nxt = c.snd_max = iss + 1;
  c.syn_resent = syn_resent;
  c.last_ack_sent = irs + 1;
  c.unacked_since = time_;
  c.mss = announced_mss(a.tuple, options.max_segment);
  c.rcv_scale = scale_for(options.receive_buffer) & 0xfU;
  agree(c, agreement);
  // What the SYN-ACK has offered.
  static_cast<void>(c.receive.offer(c.mss, 0));
  wait_for_accept(listener, c);
  input(c, a);
  return true;
}

}  // namespace pinion
