#include "watch.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>

#include "../byte_choices.h"

namespace pinion::test {
namespace {

bool at_or_before(std::uint32_t a, std::uint32_t b) {
  return static_cast<std::int32_t>(b - a) >= 0;
}
bool before(std::uint32_t a, std::uint32_t b) {
  return static_cast<std::int32_t>(b - a) > 0;
}

bool is_synchronized(TcpState state) {
  return state != TcpState::syn_sent && state != TcpState::syn_received;
}

std::uint32_t length_of(const Segment& segment) {
  return static_cast<std::uint32_t>(segment.payload.size()) + (segment.has(kSyn) ? 1U : 0U) +
         (segment.has(kFin) ? 1U : 0U);
}

std::uint32_t text_begin(const Segment& segment) {
  return segment.sequence + (segment.has(kSyn) ? 1U : 0U);
}

/// Whether a segment or a call may bring a connection from one state to the other.
bool may_follow(TcpState from, TcpState to) {
  if (from == to || to == TcpState::over) return true;
  switch (to) {
    case TcpState::syn_sent:
      return false;
    case TcpState::syn_received:
      return from == TcpState::syn_sent;
    case TcpState::established:
    case TcpState::fin_wait_1:
    case TcpState::close_wait:
    case TcpState::closing:
      break;
    case TcpState::fin_wait_2:
      return from == TcpState::fin_wait_1;
    case TcpState::last_ack:
      return from == TcpState::close_wait;
    case TcpState::over:
      break;
  }
  if (!is_synchronized(from)) return true;
  if (to == TcpState::fin_wait_1 || to == TcpState::close_wait) {
    return from == TcpState::established;
  }
  return to == TcpState::closing && from == TcpState::fin_wait_1;
}

std::string text_of(const Segment& segment) {
  return fmt::format("seq {} ack {} flags {:#04x} window {} size {}", segment.sequence,
                     segment.acknowledgment, segment.flags, segment.window, segment.payload.size());
}

/// With PINION_FUZZ_TRACE set, says what happens.
void trace(const std::string& line) {
  static const bool traces = std::getenv("PINION_FUZZ_TRACE") != nullptr;
  if (traces) std::fprintf(stderr, "%s\n", line.c_str());
}

/// As require(), of a segment.
void require_of(const Segment& segment, bool holds, const char* what) {
  if (!holds) stop(fmt::format("{} ({})", what, text_of(segment)));
}

}  // namespace

std::byte written_byte(std::uint64_t offset) {
  return pattern_byte(offset + 1'000'000);
}

PacketBytes peer_bytes(std::uint32_t begin, std::size_t size) {
  PacketBytes bytes(size);
  for (std::uint32_t i = 0; i < size; ++i) bytes[i] = pattern_byte(begin + i);
  return bytes;
}

// ---------------------------------------------------------------------------------------------
// Moves

void TcpWatch::begin(Move move, const std::optional<TcpInfo>& info, Instant now) {
  move_ = move;
  now_ = now;
  before_ = info;
  after_.reset();
  alive_ = connection_ && !connection_->over;
  last_.reset();
  arrival_.reset();
  readable_ = false;
  text_left_ = 0;
  empty_left_ = 0;
  if (connection_ && move == Move::complaint && !connection_->synchronized) {
    connection_->refusal_fits = true;
  }
}

void TcpWatch::arrives(std::span<const std::byte> packet) {
  const auto read = read_packet(packet);
  if (!read) return;
  readable_ = true;
  trace("  < " + text_of(read->segment));
  const Endpoint source{read->source, read->segment.source_port};
  const Endpoint destination{read->destination, read->segment.destination_port};
  if (source == options_.peer && destination == options_.host) note_arrival(read->segment);
}

void TcpWatch::note_arrival(const Segment& segment) {
  arrival_ = segment;
  const std::uint32_t begin = text_begin(segment);
  const auto size = static_cast<std::uint32_t>(segment.payload.size());
  arrived_.add(begin, size);
  if (segment.payload != peer_bytes(begin, size)) tainted_ = true;
  if (segment.has(kFin)) fins_.insert(begin + size);
  const SegmentOption* const stamp = segment.option(kOptionTimestamps);
  if (stamp != nullptr) stamps_.insert(stamp->word(0));
  if (segment.has(kSyn)) {
    syns_.push_back({.sequence = segment.sequence,
                     .scale = segment.option(kOptionWindowScale) != nullptr,
                     .timestamps = stamp != nullptr,
                     .sack = segment.option(kOptionSackPermitted) != nullptr});
  }
  if (segment.has(kRst)) return note_reset(segment);
  named_.push_back(segment.sequence);
  note_named(segment.sequence);
}

/// RFC 5961, 3.2, but in SYN-SENT: RFC 9293, 3.10.7.3.
void TcpWatch::note_reset(const Segment& segment) {
  if (!connection_) return;
  WatchedConnection& c = *connection_;
  if (!c.irs) {
    if (segment.has(kAck) && segment.acknowledgment == c.iss + 1) c.refusal_fits = true;
    return;
  }
  const bool old = c.last_ack && before(segment.sequence, *c.last_ack);
  if (old || !can_acknowledge(*c.irs, segment.sequence)) return;
  c.reset_fits = true;
  if (!c.synchronized) c.refusal_fits = true;
}

/// What lies beyond the window changes nothing.
void TcpWatch::note_named(std::uint32_t number) {
  if (!connection_ || !connection_->edge) return;
  const bool in_window = at_or_before(number, *connection_->edge);
  if (in_window && before(furthest_, number)) furthest_ = number;
}

void TcpWatch::acted(const std::optional<TcpInfo>& info) {
  after_ = info;
  trace(state_text());
  if (!connection_) return;
  WatchedConnection& c = *connection_;
  if (!after_ || after_->state == TcpState::over) {
    c.over = true;
    return;
  }
  if (!c.irs && after_->state != TcpState::syn_sent) {
    require(arrival_ && arrival_->has(kSyn), "SYN-SENT ends by a SYN");
    c.irs = arrival_->sequence;
    c.edge = *c.irs + 1 + c.syn_window;
    c.last_ack = furthest_ = *c.irs + 1;
  }
  if (is_synchronized(after_->state)) c.synchronized = true;
  note_owed();
}

/// Data, a FIN and a keepalive probe are acknowledged, wherever they lie (RFC 9293, 3.10.7.4), but
/// without the timestamps that were agreed on (RFC 7323, 3.2).
void TcpWatch::note_owed() {
  if (move_ != Move::segment || !arrival_ || !is_synchronized(after_->state)) return;
  if (!arrival_->has(kAck) || arrival_->has(kRst) || arrival_->has(kSyn)) return;
  if (after_->timestamps && arrival_->option(kOptionTimestamps) == nullptr) return;
  if (length_of(*arrival_) != 0) owes_ = true;
}

std::string TcpWatch::state_text() const {
  constexpr const char* kMoves[] = {"call", "segment", "complaint", "burst_end", "time"};
  std::string text = fmt::format("{} ms {}", now_.time_since_epoch() / std::chrono::milliseconds{1},
                                 kMoves[static_cast<std::size_t>(move_)]);
  if (!after_) return text;
  return text + fmt::format(": state {} una {} flight {} queued {} window {} cwnd {} unread {}",
                            static_cast<int>(after_->state), after_->first_unacknowledged.value(),
                            after_->flight, after_->unacknowledged, after_->window,
                            after_->congestion_window, after_->unread);
}

void TcpWatch::loses_packets() {
  lossless_ = false;
  if (!connection_ || !after_) return;
  const std::uint32_t counted = after_->first_unacknowledged.value() + after_->flight;
  if (before(connection_->sent_end, counted)) connection_->sent_end = counted;
}

void TcpWatch::end() {
  // Everything may go out twice in one go, and each arrival is answered at most four times.
  constexpr std::size_t kMostBytes = 4 << 20;
  constexpr std::size_t kMostEmpty = 64;
  require(text_left_ <= kMostBytes, "a move lets bounded data out");
  require(empty_left_ <= kMostEmpty, "a move lets boundedly many segments out");
  if (!connection_) return;
  check_changes();
  check_queues();
  check_end();
  note_progress();
  WatchedConnection& c = *connection_;
  if (after_) c.una = after_->first_unacknowledged.value();
  if (!c.over) return;
  if (c.irs && alive_) past_.push_back({.sent_end = c.sent_end, .irs = *c.irs});
  if (forgotten_ || !after_) connection_.reset();
  forgotten_ = false;
}

/// From when on the peer owes an acknowledgement.
void TcpWatch::note_progress() {
  if (!before_ || !after_) return;
  const bool acknowledged = before_->first_unacknowledged != after_->first_unacknowledged;
  const bool opened = before_->window == 0 && after_->window != 0;
  const bool begins = before_->flight == 0 && after_->flight != 0;
  if (acknowledged || opened || begins) connection_->progress_at = now_;
}

// ---------------------------------------------------------------------------------------------
// The user

void TcpWatch::begin_connection() {
  if (connection_) last_ = connection_;
  if (alive_ && connection_->irs) {
    past_.push_back({.sent_end = connection_->sent_end, .irs = *connection_->irs});
  }
  connection_.emplace();
  alive_ = true;
  owes_ = false;
  forgotten_ = false;
  patience_ = options_.patience;
}

void TcpWatch::connects(const TcpInfo& info) {
  begin_connection();
  connection_->active = true;
  connection_->iss = info.first_unacknowledged.value();
  connection_->una = connection_->iss;
  connection_->sent_end = connection_->iss;
  connection_->progress_at = now_;
  before_ = info;
}

void TcpWatch::accepts(const TcpInfo& info) {
  const std::uint32_t iss = info.first_unacknowledged.value() - 1;
  const auto opening = std::find_if(openings_.rbegin(), openings_.rend(),
                                    [iss](const Opening& one) { return one.iss == iss; });
  require(opening != openings_.rend(), "what is accepted was answered by a SYN-ACK");
  begin_connection();
  WatchedConnection& c = *connection_;
  c.iss = iss;
  c.irs = opening->irs;
  c.una = c.sent_end = iss + 1;
  c.edge = opening->edge;
  c.synchronized = true;
  c.last_ack = furthest_ = opening->irs + 1;
  for (const std::uint32_t number : named_) note_named(number);
  named_.clear();
  c.progress_at = now_;
  before_ = info;
}

void TcpWatch::reads(std::span<const std::byte> bytes) {
  WatchedConnection& c = *connection_;
  require(c.irs.has_value(), "nothing is read before the peer's SYN has come");
  const std::uint32_t begin = *c.irs + 1 + static_cast<std::uint32_t>(c.read);
  require(tainted_ || std::ranges::equal(bytes, peer_bytes(begin, bytes.size())),
          "what is read is what the peer has sent");
  c.read += bytes.size();
  require(can_acknowledge(*c.irs, begin + static_cast<std::uint32_t>(bytes.size())),
          "what is read has arrived");
}

void TcpWatch::reads_end() const {
  const WatchedConnection& c = *connection_;
  require(c.irs && fins_.contains(*c.irs + 1 + static_cast<std::uint32_t>(c.read)),
          "the stream that is read ends at a FIN");
}

void TcpWatch::shuts_down(bool releases) {
  if (!connection_) return;
  connection_->fin_asked = true;
  connection_->released = connection_->released || releases;
}

void TcpWatch::aborts() {
  if (connection_) connection_->released = true;
}

void TcpWatch::is_told_connected() {
  require(connection_ && connection_->active, "who is told of a connection has opened it");
  require(!connection_->told_connected, "that it is connected is told once");
  require(!connection_->told_closed, "nothing is told behind the end");
  connection_->told_connected = true;
}

void TcpWatch::is_told_closed(TcpEnd why) {
  require(connection_ && !connection_->told_closed, "a connection's end is told once");
  WatchedConnection& c = *connection_;
  c.told_closed = true;
  const auto fits = [&](bool holds) {
    if (!holds) stop(fmt::format("the connection has ended for a reason: {}", to_string(why)));
  };
  const auto has_fin = [&] {
    return std::ranges::any_of(fins_, [&](auto fin) { return can_acknowledge(*c.irs, fin + 1); });
  };
  const auto lost_patience = [&] {
    return c.una != c.send_end() && now_ - c.progress_at >= patience_;
  };
  switch (why) {
    case TcpEnd::orderly:
      return fits(c.fin_asked && c.una == c.send_end() && c.irs && has_fin());
    case TcpEnd::aborted:
    case TcpEnd::close_timeout:
    case TcpEnd::data_after_close:
      return fits(c.released);
    case TcpEnd::reset:
      return fits(c.reset_fits && c.synchronized);
    case TcpEnd::refused:
      return fits(c.active && !c.synchronized && c.refusal_fits);
    case TcpEnd::connect_timeout:
      return fits(c.active && !c.synchronized);
    case TcpEnd::peer_timeout:
      return fits(c.synchronized && lost_patience());
    case TcpEnd::unreachable:  // Either of these two, after a complaint.
      return fits(c.synchronized ? lost_patience() : c.active);
    case TcpEnd::keepalive_timeout:
      return fits(c.synchronized);
  }
}

// ---------------------------------------------------------------------------------------------
// What leaves

void TcpWatch::leaves(std::span<const std::byte> packet) {
  require(packet.size() >= 20, "a packet that leaves has an IP header");
  require(packet.size() <= options_.mtu, "a packet that leaves fits into the MTU");
  const bool v6 = std::to_integer<unsigned>(packet[0]) >> 4 == 6;
  if (packet[v6 ? 6 : 9] != std::byte{6}) return;  // ICMP has its own fuzzers.
  const auto read = read_packet(packet);
  if (!read) stop("a packet that leaves is well formed: " + read.error());
  const Segment& segment = read->segment;
  trace("  > " + text_of(segment));
  require_of(segment, move_ != Move::segment || readable_, "what is no segment isn't answered");
  require_of(segment, move_ != Move::complaint, "no ICMP error is answered by TCP");
  check_form(segment, packet.size());
  const Endpoint source{read->source, segment.source_port};
  const Endpoint destination{read->destination, segment.destination_port};
  if (source != options_.host || destination != options_.peer) return;
  text_left_ += segment.payload.size();
  if (segment.payload.empty()) ++empty_left_;
  if (segment.has(kRst)) {
    check_reset(segment);
  } else if (segment.has(kSyn)) {
    check_syn(segment);
  } else {
    check_segment(segment);
  }
  note_left(segment);
}

void TcpWatch::check_form(const Segment& segment, std::size_t size) const {
  constexpr std::uint8_t kKnown = kFin | kSyn | kRst | kPsh | kAck;
  require_of(segment, (segment.flags & ~kKnown) == 0, "no flag is sent that means nothing");
  require_of(segment, segment.urgent_pointer == 0, "nothing is urgent");
  require_of(segment, size <= options_.mtu, "a segment fits into the MTU");
  const auto options = [&](std::uint8_t kind) { return segment.option(kind) != nullptr; };
  require_of(segment,
             segment.has(kSyn) || !(options(kOptionMss) || options(kOptionWindowScale) ||
                                    options(kOptionSackPermitted)),
             "a SYN's options are in SYNs only");
  require_of(segment, !segment.has(kRst) || segment.options.empty(), "a RST has no options");
}

/// Whether a RST answers a segment of no connection (RFC 9293, 3.10.7.1).
bool TcpWatch::is_answer(const Segment& reset) const {
  if (move_ != Move::segment || !arrival_ || arrival_->has(kRst)) return false;
  if (arrival_->has(kAck)) {
    return reset.flags == kRst && reset.sequence == arrival_->acknowledgment &&
           reset.acknowledgment == 0;
  }
  return reset.flags == (kRst | kAck) && reset.sequence == 0 &&
         reset.acknowledgment == arrival_->sequence + length_of(*arrival_);
}

void TcpWatch::check_reset(const Segment& segment) const {
  require_of(segment, segment.payload.empty(), "a RST has no data");
  require_of(segment, segment.window == 0, "a RST offers no window");
  if (is_answer(segment)) return;
  require_of(segment, segment.flags == (kRst | kAck), "a connection's RST has an ACK");
  const bool is_of_last = last_ && is_of(*last_, segment);
  require_of(segment, is_of_connection(segment) || is_of_opening(segment) || is_of_last,
             "a RST is of a connection, or answers something");
}

void TcpWatch::check_syn(const Segment& segment) {
  require_of(segment, segment.payload.empty() && !segment.has(kFin) && !segment.has(kPsh),
             "a SYN is nothing else");
  const SegmentOption* const mss = segment.option(kOptionMss);
  require_of(segment, mss != nullptr, "a SYN says the MSS");
  const auto high = std::to_integer<std::size_t>(mss->data[0]);
  const std::size_t size = high << 8 | std::to_integer<std::size_t>(mss->data[1]);
  const std::size_t headers = options_.host.address.is_v4() ? 40 : 60;
  require_of(segment, size + headers <= options_.mtu, "the MSS is what the interface takes");
  const bool alive = connection_ && !connection_->over;
  if (alive && connection_->active && !connection_->synchronized) {
    WatchedConnection& c = *connection_;
    require_of(segment, segment.sequence == c.iss, "a SYN is sent again with its number");
    require_of(segment, segment.has(kAck) == c.irs.has_value(), "a SYN acknowledges the peer's");
    if (!segment.has(kAck)) c.syn_window = segment.window;
    c.sent_end = c.iss + 1;
  } else {
    require_of(segment, !alive, "no SYN is sent in an open connection");
    require_of(segment, segment.has(kAck), "who listens answers");
    openings_.push_back({.iss = segment.sequence,
                         .irs = segment.acknowledgment - 1,
                         .edge = segment.acknowledgment + segment.window});
  }
  if (!segment.has(kAck)) return;
  const auto offered = [&](bool Syn::* what) {
    return std::ranges::any_of(syns_, [&](const Syn& syn) {
      return syn.sequence + 1 == segment.acknowledgment && syn.*what;
    });
  };
  const auto told = [&](std::uint8_t kind) { return segment.option(kind) != nullptr; };
  require_of(segment, !told(kOptionWindowScale) || offered(&Syn::scale), "no scale unasked for");
  require_of(segment, !told(kOptionSackPermitted) || offered(&Syn::sack), "no SACK unasked for");
  require_of(segment, !told(kOptionTimestamps) || offered(&Syn::timestamps),
             "no timestamps unasked for");
}

bool TcpWatch::is_of(const WatchedConnection& c, const Segment& segment) const {
  if (!c.irs) return false;
  return segment.sequence - (c.una - 1) <= c.sent_end - (c.una - 1) &&
         can_acknowledge(*c.irs, segment.acknowledgment);
}

/// A half-open record, or a connection that nobody has accepted yet, has sent nothing else.
bool TcpWatch::is_of_opening(const Segment& segment) const {
  return std::ranges::any_of(openings_, [&](const Opening& opening) {
    return segment.payload.empty() && !segment.has(kFin) && segment.sequence - opening.iss <= 1 &&
           can_acknowledge(opening.irs, segment.acknowledgment);
  });
}

/// TIME-WAIT.
bool TcpWatch::is_of_past(const Segment& segment) const {
  return std::ranges::any_of(past_, [&](const Past& past) {
    return segment.flags == kAck && segment.payload.empty() && segment.sequence == past.sent_end &&
           can_acknowledge(past.irs, segment.acknowledgment);
  });
}

/// Whether everything before `number` has arrived, of which the last may be a FIN.
bool TcpWatch::can_acknowledge(std::uint32_t irs, std::uint32_t number) const {
  const std::uint32_t first = irs + 1;
  const std::uint32_t have = arrived_.first_absent(first) - first;
  if (number - first <= have) return true;
  return fins_.contains(number - 1) && number - 1 - first <= have;
}

void TcpWatch::check_segment(const Segment& segment) {
  require_of(segment, segment.has(kAck), "every segment but SYN and RST has an ACK");
  if (!is_of_connection(segment)) {
    const bool is_of_last = last_ && segment.payload.empty() && is_of(*last_, segment);
    require_of(segment, is_of_opening(segment) || is_of_past(segment) || is_of_last,
               "a segment's numbers are of something that was sent and of something that came");
    return;
  }
  if (!segment.payload.empty() || segment.has(kFin)) check_text(segment);
  check_offer(segment);
  check_options(segment);
}

void TcpWatch::check_text(const Segment& segment) const {
  const WatchedConnection& c = *connection_;
  const auto size = static_cast<std::uint32_t>(segment.payload.size());
  const std::uint32_t end = segment.sequence + length_of(segment);
  const bool alive = after_ && after_->state != TcpState::over;
  const TcpInfo& info = alive ? *after_ : *before_;
  const std::uint32_t una = info.first_unacknowledged.value();
  require_of(segment, at_or_before(una, segment.sequence), "nothing acknowledged is sent again");
  require_of(segment, at_or_before(end, c.send_end()), "nothing is sent but what was written");
  const std::uint32_t offset = segment.sequence - c.iss - 1;
  for (std::uint32_t i = 0; i < size; ++i) {
    require_of(segment, segment.payload[i] == written_byte(offset + i),
               "what is sent is what was written");
  }
  require_of(segment, !segment.has(kFin) || end == c.data_end() + 1,
             "a FIN stands behind the last byte");
  const std::uint32_t window = std::max(info.window, 1U);
  require_of(segment, end - una <= window, "the peer's window holds all data, but a probe");
  const std::uint32_t most = std::max(info.segment, before_ ? before_->segment : info.segment);
  require_of(segment, size <= most, "a segment has no more data than the peer and the path take");
}

/// RFC 9293, 3.8.6.2.2: the window's edge doesn't move left, but by what its scale can't express
/// (RFC 7323, 2.4).
void TcpWatch::check_offer(const Segment& segment) {
  WatchedConnection& c = *connection_;
  if (c.last_ack) {
    require_of(segment, at_or_before(*c.last_ack, segment.acknowledgment),
               "no acknowledgment goes back");
  }
  c.last_ack = segment.acknowledgment;
  const TcpInfo& info = after_ ? *after_ : *before_;
  if (info.end_of_stream) return;
  const std::uint32_t unit = 1U << info.receive_scale;
  const std::uint32_t edge = segment.acknowledgment + segment.window * unit;
  if (c.edge) {
    require_of(segment, before(*c.edge, edge + unit), "the window's edge doesn't move left");
    if (before(edge, *c.edge)) return;
  }
  c.edge = edge;
}

void TcpWatch::check_options(const Segment& segment) {
  WatchedConnection& c = *connection_;
  const TcpInfo& info = after_ ? *after_ : *before_;
  const SegmentOption* const stamps = segment.option(kOptionTimestamps);
  require_of(segment, (stamps != nullptr) == info.timestamps,
             "timestamps are in every segment or in none");
  if (stamps != nullptr) {
    const std::uint32_t value = stamps->word(0);
    const bool short_ago = now_ - c.stamped_at < std::chrono::hours{24 * 20};
    require_of(segment, !c.timestamp || !short_ago || at_or_before(*c.timestamp, value),
               "no timestamp goes back");
    require_of(segment, stamps_.contains(stamps->word(4)), "an echo is of what has come");
    c.timestamp = value;
    c.stamped_at = now_;
  }
  const SegmentOption* const sack = segment.option(kOptionSack);
  if (sack == nullptr) return;
  require_of(segment, info.sack, "SACK was agreed on");
  for (std::size_t at = 0; at < sack->data.size(); at += 8) {
    const std::uint32_t left = sack->word(at);
    const std::uint32_t right = sack->word(at + 4);
    require_of(segment, before(left, right), "a SACK block isn't empty");
    require_of(segment, arrived_.holds(left, right - left), "a SACK block is of what has come");
  }
}

void TcpWatch::note_left(const Segment& segment) {
  const std::uint32_t end = segment.sequence + length_of(segment);
  if (segment.has(kRst)) {
    if (!connection_ || connection_->over) view_.stage = PeerView::Stage::nothing;
    return;
  }
  if (segment.has(kSyn)) {
    view_ = {};
    view_.stage = segment.has(kAck) ? PeerView::Stage::host_answers : PeerView::Stage::host_opens;
    view_.iss = segment.sequence;
    view_.received = end;
  } else if (is_of_connection(segment)) {
    view_.stage = PeerView::Stage::open;
    view_.iss = connection_->iss;
    owes_ = false;
    if (before(connection_->sent_end, end)) connection_->sent_end = end;
    view_.received = connection_->sent_end;
  }
  if (segment.has(kAck)) view_.next = segment.acknowledgment;
  const SegmentOption* const stamps = segment.option(kOptionTimestamps);
  view_.timestamps = stamps != nullptr;
  if (stamps == nullptr) return;
  view_.timestamp = stamps->word(0);
  view_.echo = stamps->word(4);
}

// ---------------------------------------------------------------------------------------------
// What TcpInfo says

void TcpWatch::check_changes() const {
  if (!before_ || !after_) return;
  const TcpInfo& old = *before_;
  const TcpInfo& now = *after_;
  if (!may_follow(old.state, now.state)) {
    stop(fmt::format("states follow each other: {} behind {}", static_cast<int>(now.state),
                     static_cast<int>(old.state)));
  }
  const bool arrived = move_ == Move::segment && arrival_;
  const std::uint32_t una = now.first_unacknowledged.value();
  if (una != old.first_unacknowledged.value()) {
    require(arrived && arrival_->has(kAck) && arrival_->acknowledgment == una,
            "SND.UNA is what a segment has acknowledged");
    require(before(connection_->una, una) && at_or_before(una, connection_->sent_end),
            "what is acknowledged was sent, and wasn't acknowledged before");
  }
  if (now.window != old.window) {
    const unsigned scale = arrived && !arrival_->has(kSyn) ? now.send_scale : 0U;
    require(arrived && now.window == std::uint32_t{arrival_->window} << scale,
            "SND.WND is what a segment has offered");
  }
  require(at_or_before(una, una + now.flight), "what is in flight isn't negative");
  require(old.segment >= now.segment || !is_synchronized(old.state), "segments don't grow");
}

void TcpWatch::check_queues() const {
  const WatchedConnection& c = *connection_;
  if (c.irs && after_) {
    const std::uint32_t first = *c.irs + 1 + static_cast<std::uint32_t>(c.read);
    require(can_acknowledge(*c.irs, first + static_cast<std::uint32_t>(after_->unread)),
            "what can be read has arrived");
  }
  if (!after_ || c.over) return;
  const std::uint32_t una = after_->first_unacknowledged.value();
  if (lossless_) require(una + after_->flight == c.sent_end, "what is in flight has left");
  const std::uint32_t begin = before(una, c.iss + 1) ? c.iss + 1 : una;
  const std::uint32_t queued = before(c.data_end(), begin) ? 0 : c.data_end() - begin;
  require(after_->unacknowledged == queued, "what waits for an acknowledgement was written");
  const bool grew = before_ && before(before_->first_unacknowledged.value() + before_->flight,
                                      una + after_->flight);
  if (!grew || !is_synchronized(after_->state) || after_->window == 0) return;
  // RFC 3042 lets two segments out beyond it; a FIN isn't counted.
  const std::uint32_t most = after_->congestion_window + 2U * before_->segment + 1U;
  require(after_->flight <= most, "what is in flight keeps to the congestion window");
}

/// What may end a connection.
void TcpWatch::check_end() const {
  const WatchedConnection& c = *connection_;
  const bool ends = before_ && before_->state != TcpState::over && c.over;
  if (!ends) return;
  const TcpState state = before_->state;
  switch (move_) {
    case Move::call:
    case Move::burst_end:
      return require(c.released, "only its user ends a connection by a call");
    case Move::complaint:
      return require(!is_synchronized(state), "no ICMP error ends a connection that is open");
    case Move::segment: {
      const bool closes = state == TcpState::fin_wait_1 || state == TcpState::fin_wait_2 ||
                          state == TcpState::closing || state == TcpState::last_ack;
      const bool is_reset = arrival_ && arrival_->has(kRst);
      const bool resets = is_reset && (c.reset_fits || c.refusal_fits);
      return require(resets || (!is_reset && (closes || c.released)),
                     "a segment ends a connection only where it may");
    }
    case Move::time:
      return;
  }
}

std::uint32_t TcpWatch::edge() const {
  return connection_ && connection_->edge ? *connection_->edge : view_.next;
}

void TcpWatch::check_deadlines(const Tcp& tcp, Instant due) const {
  require(due > now_, "nothing is due any more when time has passed");
  // The longest timeout, and a millisecond for each rounding.
  const Instant soon = now_ + std::chrono::seconds{60} + std::chrono::milliseconds{5};
  if (tcp.half_open() != 0) require(due <= soon, "a half-open connection has a timer");
  if (tcp.time_waits() != 0) {
    require(due <= now_ + options_.time_wait + std::chrono::seconds{1}, "TIME-WAIT has a timer");
  }
  if (!connection_ || connection_->over || !after_) return;
  const Instant delayed = now_ + std::chrono::milliseconds{41};
  require(!owes_ || !lossless_ || due <= delayed, "what has come is acknowledged in time");
  require(is_synchronized(after_->state) || due <= soon, "an open in progress has a timer");
  require(after_->flight == 0 || due <= soon, "what is in flight has a timer");
  require(after_->unacknowledged == 0 || due <= soon, "what is to be sent has a timer");
  require(connection_->una == connection_->send_end() || due <= soon, "a FIN has a timer");
}

}  // namespace pinion::test
