#include <utility>

#include "../wire/byte_order.h"
#include "tcp.h"

/// The way of nearly all segments: the next one of an established connection, with data or with an
/// acknowledgment of something new. It changes what input() would, and nothing else.

namespace pinion {

namespace {

/// Data offset, reserved bits and flags of such a segment, and which of these bits matter: PSH
/// tells us nothing, urgent data are part of the stream, and there is no ECN.
constexpr std::uint16_t kMatters = 0xf017;
constexpr std::uint16_t kPlain = 0x5010;
constexpr std::uint16_t kWithTimestamps = 0x8010;

}  // namespace

/// `packet` begins with an IP header of `ip_size` bytes and a TCP header, whose checksum is right.
/// False, and nothing has happened, when the segment wants a closer look.
bool Tcp::input_expected(TcpConnection& c, PacketPtr& packet, std::size_t ip_size) noexcept {
  const std::byte* const at = packet->data() + ip_size;
  const std::uint16_t wanted = c.with_timestamps ? kWithTimestamps : kPlain;
  if (c.state != TcpState::established || (wire::load_be16(at + 12) & kMatters) != wanted) {
    return false;
  }
  const std::size_t headers = ip_size + (wanted >> 12) * 4U;
  if (packet->size() < headers) return false;
  const auto size = static_cast<std::uint32_t>(packet->size() - headers);
  const wire::SequenceNumber sequence(wire::load_be32(at + 4));
  const wire::SequenceNumber ack(wire::load_be32(at + 8));
  if (sequence != c.rcv_nxt() || size > c.receive.window()) return false;
  const auto acked = static_cast<std::uint32_t>(ack - c.snd_una);
  if (acked > c.flight() || (acked == 0 && size == 0)) return false;
  if (size != 0 && (!c.beyond.is_idle() || c.discarding || !may_hold_more(c))) return false;
  wire::TcpTimestamps timestamps;
  if (c.with_timestamps) {
    if (wire::load_be32(at + 20) != wire::kTcpPaddedTimestamps) return false;
    timestamps = {.value = wire::load_be32(at + 24), .echo_reply = wire::load_be32(at + 28)};
    if (static_cast<std::int32_t>(timestamps.value - c.timestamps.recent) < 0) return false;
  }
  touch(c);
  ++stats_.segments_in;
  note_heard(c);
  if (c.with_timestamps && !after(sequence, c.last_ack_sent)) {
    c.timestamps.recent = timestamps.value;
    c.timestamps.recent_at_s = seconds();
  }
  if (acked != 0) acknowledge(c, ack, c.with_timestamps ? &timestamps : nullptr);
  // What has come beyond a hole may have told a newer window.
  if (!before(sequence, c.snd_wl1)) {
    const std::uint32_t window = std::uint32_t{wire::load_be16(at + 14)} << c.snd_scale;
    if (window != c.snd_wnd) set_window(c, window);
    c.snd_wl1 = sequence;
  }
  PacketPtr text = std::move(packet);
  if (size == 0) return true;
  text->remove_prefix(headers);
  take_text(c, std::move(text));
  return true;
}

/// Takes the next text of a connection that has nothing beyond a hole.
void Tcp::take_text(TcpConnection& c, PacketPtr text) noexcept {
  const auto size = static_cast<std::uint32_t>(text->size());
  if (!c.receive.push(std::move(text), receive_memory_)) {
    drop(TcpDrop::no_room);
    c.ack_now = true;
    return;
  }
  stats_.bytes_in += size;
  note_text(c);
}

}  // namespace pinion
