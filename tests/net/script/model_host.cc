#include "model_host.h"

#include <algorithm>
#include <chrono>

namespace pinion::test {
namespace {

constexpr Delay kRetransmit = std::chrono::milliseconds{200};

void put_word(PacketBytes& bytes, std::uint32_t word) {
  for (int shift = 24; shift >= 0; shift -= 8) {
    bytes.push_back(static_cast<std::byte>(word >> shift));
  }
}

IpAddress address_of(std::uint8_t last, bool v6) {
  if (!v6) return IpAddress::v4({192, 0, 2, last});
  return IpAddress::v6({0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last});
}

}  // namespace

ModelHost::ModelHost(bool v6)
    : host_{address_of(1, v6), 7}, peer_{address_of(2, v6), 80}, now_(std::chrono::seconds{1000}) {}

std::optional<SentPacket> ModelHost::take() {
  if (out_.empty()) return {};
  SentPacket packet = std::move(out_.front());
  out_.pop_front();
  return packet;
}

Instant ModelHost::next_deadline() const {
  return stuck ? now_ : std::min(ack_at_, retransmit_at_);
}

void ModelHost::advance(Instant to) {
  if (stuck) return;
  now_ = to;
  if (ack_at_ <= now_) send_ack();
  if (retransmit_at_ > now_) return;
  if (state_ == State::established) {
    send_data(acknowledged_, std::min(sent_, acknowledged_ + std::uint32_t{kSegmentSize}));
  } else {
    send_syn(state_ == State::syn_sent ? kSyn : kSyn | kAck);
  }
  retransmit_at_ = now_ + kRetransmit;
}

void ModelHost::inject(std::span<const PacketBytes> packets) {
  for (const PacketBytes& bytes : packets) {
    const auto packet = read_packet(bytes);
    fault_ = packet ? "" : packet.error();
    if (packet) receive(*packet);
  }
  if (!std::exchange(ack_due_, false)) return;
  if (ack_delay.count() == 0) return send_ack();
  ack_at_ = std::min(ack_at_, now_ + ack_delay);
}

void ModelHost::receive(const ReadPacket& packet) {
  const Segment& segment = packet.segment;
  if (segment.has(kSyn)) return receive_syn(packet);
  const bool ours = state_ != State::closed && segment.source_port == other_.port &&
                    segment.destination_port == port_;
  if (!ours) return refuse(packet);
  if (const auto* timestamps = segment.option(kOptionTimestamps)) {
    peer_clock_ = timestamps->word(0);
  }
  state_ = State::established;
  acknowledged_ = segment.acknowledgment;
  retransmit_at_ = acknowledged_ == sent_ ? kNever : now_ + kRetransmit;
  if (!segment.payload.empty() || segment.has(kFin)) receive_data(segment);
}

void ModelHost::receive_syn(const ReadPacket& packet) {
  const Segment& segment = packet.segment;
  peer_isn_ = segment.sequence;
  received_ = segment.sequence + 1;
  const auto* const timestamps = segment.option(kOptionTimestamps);
  timestamps_ = timestamps != nullptr;
  if (timestamps_) peer_clock_ = timestamps->word(0);
  if (state_ == State::syn_sent) {
    state_ = State::established;
    acknowledged_ = segment.acknowledgment;
    retransmit_at_ = kNever;
    return send_ack();
  }
  state_ = State::syn_received;
  port_ = segment.destination_port;
  other_ = {packet.source, segment.source_port};
  send_syn(kSyn | kAck);
  sent_ = kIsn + 1;
}

void ModelHost::receive_data(const Segment& segment) {
  ack_due_ = true;
  if (segment.sequence != received_) {
    SegmentOption block{.kind = kOptionSack, .data = {}};
    put_word(block.data, segment.sequence);
    put_word(block.data, segment.sequence + static_cast<std::uint32_t>(segment.payload.size()));
    blocks_ = {block};
    return;
  }
  blocks_.clear();
  const std::uint32_t first = segment.sequence - peer_isn_ - 1;
  for (std::size_t i = 0; i < segment.payload.size(); ++i) {
    garbled_ |= segment.payload[i] != pattern_byte(first + i);
  }
  unread_ += segment.payload.size();
  received_ += static_cast<std::uint32_t>(segment.payload.size()) + (segment.has(kFin) ? 1U : 0U);
}

void ModelHost::refuse(const ReadPacket& packet) {
  Segment reset;
  reset.source_port = packet.segment.destination_port;
  reset.destination_port = packet.segment.source_port;
  reset.sequence = packet.segment.acknowledgment;
  reset.flags = kRst;
  emit(reset);
}

void ModelHost::send_syn(std::uint8_t flags) {
  Segment segment;
  segment.flags = flags;
  segment.sequence = kIsn;
  segment.options = {{kOptionMss, {std::byte{5}, std::byte{180}}},
                     {kOptionSackPermitted, {}},
                     {kOptionWindowScale, {std::byte{7}}}};
  send(segment);
}

void ModelHost::send_data(std::uint32_t begin, std::uint32_t end) {
  for (std::uint32_t at = begin; at != end;) {
    const std::uint32_t size = std::min(end - at, std::uint32_t{kSegmentSize});
    Segment segment;
    segment.flags = static_cast<std::uint8_t>(at + size == end ? kAck | kPsh : kAck);
    segment.sequence = at;
    for (std::uint32_t i = 0; i < size; ++i) {
      segment.payload.push_back(pattern_byte(at + i - kIsn - 1));
    }
    send(segment);
    at += size;
  }
}

void ModelHost::send_ack() {
  ack_at_ = kNever;
  Segment segment;
  segment.flags = kAck;
  segment.sequence = sent_;
  segment.options = blocks_;
  send(segment);
}

void ModelHost::send(Segment segment) {
  segment.source_port = port_;
  segment.destination_port = other_.port;
  segment.window = 65535;
  if (segment.has(kAck)) segment.acknowledgment = received_;
  if (timestamps_ || state_ == State::syn_sent) {
    SegmentOption timestamps{.kind = kOptionTimestamps, .data = {}};
    put_word(timestamps.data,
             static_cast<std::uint32_t>(now_.time_since_epoch().count() / 1'000'000));
    put_word(timestamps.data, segment.has(kAck) ? peer_clock_ : 0);
    segment.options.push_back(timestamps);
  }
  emit(segment);
}

void ModelHost::emit(const Segment& segment) {
  Segment spoiled = segment;
  if (spoil) spoil(spoiled);
  if (loses && loses(spoiled)) return;
  PacketBytes packet = write_packet(host_.address, peer_.address, spoiled);
  if (spoil_packet) spoil_packet(packet);
  out_.push_back({now_, std::move(packet)});
}

std::string ModelHost::call(std::string_view name, std::span<const std::string> arguments) {
  if (name == "connect") {
    state_ = State::syn_sent;
    port_ = kEphemeralPort;
    other_ = peer_;
    send_syn(kSyn);
    sent_ = kIsn + 1;
    retransmit_at_ = now_ + kRetransmit;
    return "in progress";
  }
  if (name == "write") {
    const std::uint32_t begin = sent_;
    sent_ += static_cast<std::uint32_t>(std::stoul(arguments[0]));
    send_data(begin, sent_);
    retransmit_at_ = now_ + kRetransmit;
    return arguments[0];
  }
  if (name == "read") {
    const std::string count = std::to_string(std::exchange(unread_, 0));
    return std::exchange(garbled_, false) ? count + " garbled" : count;
  }
  if (name == "state") return state_ == State::established ? "established" : "other";
  if (name == "faults") return fault_;
  return "no such call";
}

}  // namespace pinion::test
