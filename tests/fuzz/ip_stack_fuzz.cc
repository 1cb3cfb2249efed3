#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>

#include <pinion/net/slab_packet_pool.h>

#include "stack/ip_stack.h"
#include "stack/udp.h"
#include "wire/arp.h"
#include "wire/ethernet.h"
#include "wire/ipv4.h"

/// Whole frames and time into an IP stack: nothing is asserted on, no table leaves its bound, and
/// every packet is returned. Each step of the input is a kind and a length, then so many bytes: a
/// frame as it is, or one whose headers are put right so that more than the first check sees it.

namespace {

using namespace pinion;

constexpr std::uint8_t kTestProtocol = 253;
constexpr MacAddress kOurMac{2, 0, 0, 0, 0, 1};
const IpAddress kOurs4 = IpAddress::v4({10, 0, 0, 1});
const IpAddress kOurs6 = IpAddress::v6({0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1});

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

/// Reads what it is given to its last byte.
class Reader final : public IpTransport {
 public:
  void receive(PacketPtr packet, const IpArrival& /*arrival*/, Instant /*now*/) noexcept override {
    for (const Packet* at = packet.get(); at != nullptr; at = at->next_segment()) {
      for (const std::byte byte : at->bytes()) sum_ += std::to_integer<unsigned>(byte);
    }
  }
  void complain(const IpComplaint& complaint, Instant /*now*/) noexcept override {
    for (const std::byte byte : complaint.quoted) sum_ += std::to_integer<unsigned>(byte);
  }
  void end_of_burst(Instant /*now*/) noexcept override {}

 private:
  unsigned sum_ = 0;
};

class World {
 public:
  World() {
    stack_.attach(static_cast<IpProtocol>(kTestProtocol), reader_);
    const std::array addresses{IpPrefix{kOurs4, 24}, IpPrefix{kOurs6, 64}};
    const bool added =
        stack_.add_interface({.mac = kOurMac, .addresses = addresses}, now_).has_value();
    const bool bound = socket_.bind({IpAddress(), 7}).has_value();
    require(added && bound, "set-up");
    pass(std::chrono::seconds{9});
  }

  void pass(Delay time) {
    now_ = now_ + time;
    wheel_.advance(now_);
    settle();
  }

  /// In segments of at most `segment` bytes, as from a device with small buffers.
  void receive(std::span<const std::uint8_t> frame, std::size_t segment) {
    PacketPtr packet = take_in(frame, segment);
    Packet* last = packet.get();
    while (!frame.empty()) {
      Packet* const more = take_in(frame, segment).take();
      last->set_next_segment(more);
      last = more;
    }
    Packet* const burst = packet.take();
    stack_.receive(0, {&burst, 1}, now_);
    settle();
  }

  void send(std::uint8_t last, std::size_t size) {
    const Endpoint to{IpAddress::v4({10, 0, 0, last}), 9};
    const std::array<std::byte, 8192> payload{};
    (void)socket_.send_to(std::span(payload).first(std::min(size, payload.size())), to, now_);
    settle();
  }

 private:
  /// A segment with the first bytes of `frame`, which loses them.
  PacketPtr take_in(std::span<const std::uint8_t>& frame, std::size_t segment) {
    PacketPtr packet(pool_->allocate());
    require(static_cast<bool>(packet), "the caches leave packets for the device");
    const std::size_t size = std::min({frame.size(), packet->tailroom(), segment});
    if (size > 0) std::memcpy(packet->append(size), frame.data(), size);
    frame = frame.subspan(size);
    return packet;
  }

  /// What leaves is dropped; what must hold is checked.
  void settle() {
    stack_.end_of_burst(now_);
    std::array<Packet*, 64> burst{};
    while (const std::size_t count = stack_.take(0, burst)) {
      for (std::size_t i = 0; i < count; ++i) burst[i]->release();
    }
    require(stack_.reassembly().bytes() <= kReassembly.bytes, "bytes of fragments");
    require(stack_.reassembly().datagrams() <= kReassembly.datagrams, "incomplete datagrams");
    require(stack_.neighbours().size() <= kNeighbours.capacity, "neighbours");
    require(stack_.neighbours().held() <= kNeighbours.held_packets, "packets for neighbours");
  }

  static constexpr ReassemblyOptions kReassembly{
      .datagrams = 8, .bytes = 64UL * 2048, .fragments = 128};
  static constexpr NeighbourOptions kNeighbours{.capacity = 8, .held_packets = 8};

  /// Dies last, and asserts that all packets are there.
  std::unique_ptr<SlabPacketPool> pool_ =
      std::move(SlabPacketPool::create({.packets = 1024, .views = 0})).value_or(nullptr);
  Instant now_{std::chrono::seconds{1000}};
  TimingWheel wheel_{now_};
  Reader reader_;
  IpStack stack_{{.neighbours = kNeighbours, .reassembly = kReassembly}, wheel_, *pool_, 1};
  UdpLayer udp_{stack_, *pool_, 2};
  UdpSocket socket_{udp_, {.datagrams = 16}};
};

/// The transport's checksum, when there is one to put right.
void mend_transport(std::span<std::byte> message, std::uint8_t protocol, const IpAddress& from,
                    const IpAddress& to) {
  const std::size_t place = protocol == 17 ? 6 : 2;
  if ((protocol != 1 && protocol != 17 && protocol != 58) || message.size() < 8) return;
  if (protocol == 17) wire::store_be16(&message[4], static_cast<std::uint16_t>(message.size()));
  wire::store_be16(&message[place], 0);
  wire::InternetChecksum sum;
  if (protocol != 1) sum.add_pseudo_header(from, to, protocol, message.size());
  sum.add(message);
  wire::store_be16(&message[place], sum.value());
}

/// Puts Ethernet's header, the lengths, our address and the checksums right.
void mend(std::span<std::byte> frame, bool v4) {
  const std::size_t header = v4 ? 20 : 40;
  if (frame.size() < 14 + header) return;
  wire::emit_ethernet({.destination = kOurMac,
                       .source = {2, 0, 0, 0, 0, 9},
                       .type = v4 ? wire::EtherType::ipv4 : wire::EtherType::ipv6},
                      frame);
  const std::span<std::byte> packet = frame.subspan(14);
  if (v4) {
    wire::store_u8(packet.data(), 0x45);
    wire::store_be16(&packet[2], static_cast<std::uint16_t>(packet.size()));
    wire::store_be16(&packet[10], 0);
    wire::store_bytes(&packet[16], v4_bytes(kOurs4));
    wire::store_be16(&packet[10], wire::checksum_of(packet.first(20)));
    mend_transport(packet.subspan(20), wire::load_u8(&packet[9]),
                   IpAddress::v4(wire::load_bytes<4>(&packet[12])), kOurs4);
  } else {
    wire::store_u8(packet.data(), 0x60);
    wire::store_be16(&packet[4], static_cast<std::uint16_t>(packet.size() - 40));
    const bool to_many = wire::load_u8(&packet[24]) == 0xff;
    const IpAddress to = to_many ? all_nodes() : kOurs6;
    if (to_many) wire::store_bytes(frame.data(), multicast_mac(to));
    wire::store_bytes(&packet[24], to.bytes());
    mend_transport(packet.subspan(40), wire::load_u8(&packet[6]),
                   IpAddress::v6(wire::load_bytes<16>(&packet[8])), to);
  }
}

/// Makes an ARP message of what has room for one.
void mend_arp(std::span<std::byte> frame) {
  if (frame.size() < 14 + wire::ArpMessage::kSize) return;
  const bool to_us = wire::load_u8(frame.data()) % 2 == 0;
  wire::emit_ethernet({.destination = to_us ? kOurMac : wire::kBroadcastMac,
                       .source = {2, 0, 0, 0, 0, 9},
                       .type = wire::EtherType::arp},
                      frame);
  wire::store_be64(&frame[14], 0x0001'0800'0604'0000U | (to_us ? 2U : 1U));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto world = std::make_unique<World>();
  std::span<const std::uint8_t> input(data, size);
  while (input.size() >= 3) {
    const unsigned kind = input[0] % 6;
    const std::size_t length = std::min<std::size_t>(
        static_cast<std::size_t>(input[1] % 8) << 8 | input[2], input.size() - 3);
    std::array<std::uint8_t, 2048> frame{};
    std::copy_n(input.data() + 3, length, frame.data());
    const std::span<std::uint8_t> bytes = std::span(frame).first(length);
    const std::size_t segment = input[1] < 128 ? frame.size() : (input[1] % 128U / 8 + 1) * 16U;
    switch (kind) {
      case 0:
        world->receive(bytes, segment);
        break;
      case 1:
      case 2:
        mend(std::as_writable_bytes(bytes), kind == 1);
        world->receive(bytes, segment);
        break;
      case 3:
        world->pass(std::chrono::milliseconds{length * 16});
        break;
      case 4:
        world->send(input[2], length * 4);
        break;
      default:
        mend_arp(std::as_writable_bytes(bytes));
        world->receive(bytes, segment);
    }
    input = input.subspan(3 + length);
  }
  return 0;
}
