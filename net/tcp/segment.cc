#include <algorithm>
#include <utility>

#include "../wire/tcp_checksum.h"
#include "../wire/tcp_emitter.h"
#include "segment_size.h"
#include "tcp.h"

/// Segments that go out: their sizes, headers and options.

namespace pinion {

using wire::TcpFlag;

namespace {

std::uint16_t mss_within(std::size_t mtu, const FourTuple& tuple) noexcept {
  const std::size_t headers = fixed_headers_size(tuple);
  const std::size_t left = mtu > headers ? mtu - headers : 0;
  return static_cast<std::uint16_t>(std::clamp<std::size_t>(left, kLeastMss, 65'535));
}

}  // namespace

/// What the path to the peer takes.
std::uint16_t Tcp::path_mss(const FourTuple& tuple) const noexcept {
  return mss_within(ip_.path_mtu(tuple.local.address(), tuple.remote.address()), tuple);
}

/// What our SYN says that we take, options not counted (RFC 6691): not less because the path takes
/// less of what we send (RFC 1191, 3.1).
std::uint16_t Tcp::announced_mss(const FourTuple& tuple, std::uint16_t clamp) const noexcept {
  const std::uint16_t most =
      mss_within(ip_.link_mtu(tuple.local.address(), tuple.remote.address()), tuple);
  return clamp == 0 ? most : std::min(most, std::max(clamp, kLeastClamp));
}

/// The smallest window scale by which the whole buffer can be offered.
std::uint8_t Tcp::scale_for(std::uint32_t receive_buffer) const noexcept {
  std::uint8_t scale = 0;
  if (!config_.window_scale) return scale;
  while (scale < wire::TcpOptions::kMaxWindowScale && (65'535U << scale) < receive_buffer) ++scale;
  return scale;
}

/// Puts the header in front of `payload` and sends it. False when there is no packet for it.
bool Tcp::emit(const Outgoing& out, const wire::TcpOptions& options, PacketPtr payload) noexcept {
  if (!payload) payload.reset(packets_.allocate());
  if (!payload) {
    ++stats_.out_of_packets;
    return false;
  }
  const std::size_t header_size = wire::kTcpHeaderSize + wire::tcp_options_size(options);
  std::byte* const place = payload->prepend(header_size);
  PINION_ASSERT(place != nullptr);  // kPacketHeadroom is for all headers.
  const wire::TcpHeader header{.source_port = out.tuple.local_port,
                               .destination_port = out.tuple.remote_port,
                               .sequence = out.sequence,
                               .acknowledgment = out.acknowledgment,
                               .flags = out.flags,
                               .window = out.window};
  wire::emit_tcp({place, header_size}, header, options);
  depart(out.tuple, out.traffic_class, std::move(payload));
  return true;
}

/// Sends a segment whose header lacks its checksum.
void Tcp::depart(const FourTuple& tuple, std::uint8_t traffic_class, PacketPtr segment) noexcept {
  const IpDeparture how{.source = tuple.local.address(),
                        .destination = tuple.remote.address(),
                        .traffic_class = traffic_class};
  wire::store_tcp_checksum(*segment, segment->chain_size(), how.source, how.destination);
  ++stats_.segments_out;
  ip_.send(std::move(segment), how, now_);
}

/// The same for a segment of a connection, which acknowledges all that has come. Up to
/// `sack_blocks` of what lies beyond are told of.
bool Tcp::emit(TcpConnection& c, wire::SequenceNumber sequence, wire::TcpFlags flags,
               PacketPtr payload, std::size_t sack_blocks) noexcept {
  if (!payload) {
    payload.reset(packets_.allocate());
    if (!payload) {
      ++stats_.out_of_packets;
      return false;
    }
  }
  const std::uint16_t window = c.receive.offer(c.mss, c.rcv_scale, may_hold_more(c));
  c.last_ack_sent = c.rcv_nxt();
  c.ack_now = false;
  c.ack_later = false;
  c.unacked_segments = 0;
  wire::TcpTimestamps timestamps;
  if (c.with_timestamps) {
    timestamps = {.value = time_.value() + c.timestamps.offset, .echo_reply = c.timestamps.recent};
  }
  if (sack_blocks == 0 || c.beyond.is_idle()) {
    std::byte* const place = payload->prepend(wire::plain_tcp_size(c.with_timestamps));
    PINION_ASSERT(place != nullptr);
    wire::emit_plain_tcp({.source_port = c.tuple.local_port,
                          .destination_port = c.tuple.remote_port,
                          .sequence = sequence,
                          .acknowledgment = c.rcv_nxt(),
                          .flags = flags | TcpFlag::ack,
                          .window = window},
                         c.with_timestamps ? &timestamps : nullptr, place);
    depart(c.tuple, c.traffic_class, std::move(payload));
    return true;
  }
  wire::TcpOptions options;
  if (c.with_timestamps) options.timestamps = timestamps;
  options.sack = c.beyond.take_report(sack_blocks, out_of_order_memory_);
  return emit({.tuple = c.tuple,
               .sequence = sequence,
               .acknowledgment = c.rcv_nxt(),
               .flags = flags | TcpFlag::ack,
               .window = window,
               .traffic_class = c.traffic_class},
              options, std::move(payload));
}

/// Our SYN, which in SYN-RECEIVED acknowledges the peer's and says what was agreed on. Without a
/// packet for it, its timer sends it again. The window in it is never scaled (RFC 7323, 2.2).
void Tcp::send_syn(TcpConnection& c) noexcept {
  const bool alone = c.state == TcpState::syn_sent;
  wire::TcpOptions options;
  options.mss = c.announced_mss;
  if (alone ? config_.window_scale : c.rcv_scale != 0 || c.snd_scale != 0) {
    options.window_scale = static_cast<std::uint8_t>(c.rcv_scale);
  }
  options.sack_permitted = alone ? config_.sack : c.with_sack;
  if (alone ? config_.timestamps : c.with_timestamps) {
    options.timestamps = {.value = time_.value() + c.timestamps.offset,
                          .echo_reply = alone ? 0 : c.timestamps.recent};
  }
  c.snd_nxt = c.snd_max = c.snd_una + 1;
  static_cast<void>(
      emit({.tuple = c.tuple,
            .sequence = c.snd_una,
            .acknowledgment = alone ? wire::SequenceNumber() : c.rcv_nxt(),
            .flags = alone ? wire::TcpFlags(TcpFlag::syn) : TcpFlag::syn | TcpFlag::ack,
            .window = c.receive.offer(c.mss, 0),
            .traffic_class = c.traffic_class},
           options, {}));
}

/// SND.NXT, or what the peer's window has left of it: beyond it, it would not be looked at.
wire::SequenceNumber Tcp::ack_sequence(const TcpConnection& c) const noexcept {
  if (!c.synchronized()) return c.snd_max;
  const wire::SequenceNumber edge = c.snd_una + c.snd_wnd;
  return before(edge, c.snd_max) ? edge : c.snd_max;
}

/// Without a packet for it, it goes out later.
void Tcp::send_ack(TcpConnection& c) noexcept {
  const std::size_t blocks = c.with_sack ? most_sack_blocks(c.with_timestamps) : 0;
  if (emit(c, ack_sequence(c), {}, {}, blocks)) return;
  c.ack_now = false;
  c.ack_later = true;
  c.ack_at = in_ms(delayed_ack_ms_);
}

/// Of a connection that is synchronized, or almost.
void Tcp::send_reset(TcpConnection& c) noexcept {
  static_cast<void>(emit({.tuple = c.tuple,
                          .sequence = ack_sequence(c),
                          .acknowledgment = c.rcv_nxt(),
                          .flags = TcpFlag::rst | TcpFlag::ack,
                          .traffic_class = c.traffic_class},
                         {}, {}));
  ++stats_.resets_out;
}

/// To a segment that is not ours to take (3.10.7.1).
void Tcp::answer_by_reset(const TcpArrival& a) noexcept {
  if (a.has(TcpFlag::rst)) return;
  ++stats_.resets_out;
  const bool has_ack = a.has(TcpFlag::ack);
  static_cast<void>(
      emit({.tuple = a.tuple,
            .sequence = has_ack ? a.acknowledgment() : wire::SequenceNumber(),
            .acknowledgment = has_ack ? wire::SequenceNumber() : a.end(),
            .flags = has_ack ? wire::TcpFlags(TcpFlag::rst) : TcpFlag::rst | TcpFlag::ack},
           {}, {}));
}

}  // namespace pinion
