#include "ways_host.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

namespace pinion::test {
namespace {

std::string text_of(const Bytes& bytes) {
  std::string text;
  for (const std::uint8_t byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

void add(IpStack& stack, const InterfaceOptions& options, Instant now) {
  const auto added = stack.add_interface(options, now);
  ASSERT_TRUE(added) << added.error().what;
}

}  // namespace

/// The contract says in what shape it comes (IpTransport::receive_known).
bool FlowsTransport::receive_known(PacketPtr& packet, Instant /*now*/) noexcept {
  EXPECT_EQ(packet->next_segment(), nullptr);
  const Bytes bytes = bytes_of(*packet);
  const bool v4 = !bytes.empty() && bytes[0] == 0x45;
  const std::size_t header = v4 ? wire::Ipv4Header::kMinSize : wire::Ipv6Header::kSize;
  EXPECT_GE(bytes.size(), header);
  if (bytes.size() < header) return false;
  EXPECT_TRUE(v4 || bytes[0] >> 4 == 6) << text_of(bytes);
  const std::byte* const at = packet->data();
  const auto from = v4 ? IpAddress::v4(wire::load_bytes<4>(at + 12))
                       : IpAddress::v6(wire::load_bytes<16>(at + 8));
  const auto to = v4 ? IpAddress::v4(wire::load_bytes<4>(at + 16))
                     : IpAddress::v6(wire::load_bytes<16>(at + 24));
  // With what can be no host no flow has begun.
  if (!knows_ || is_never_a_host(from)) return false;
  note(Bytes(bytes.begin() + static_cast<std::ptrdiff_t>(header), bytes.end()), from, to);
  ++known;
  packet.reset();
  return true;
}

void FlowsTransport::receive(PacketPtr packet, const IpArrival& arrival, Instant /*now*/) noexcept {
  note(bytes_of(*packet), arrival.source, arrival.destination);
}

void FlowsTransport::complain(const IpComplaint& complaint, Instant /*now*/) noexcept {
  said.push_back(fmt::format("complaint {} of {} to {}", static_cast<int>(complaint.trouble),
                             to_string(complaint.source), to_string(complaint.destination)));
}

void FlowsTransport::note(const Bytes& bytes, const IpAddress& from, const IpAddress& to) {
  said.push_back(fmt::format("{} > {}: {}", to_string(from), to_string(to), text_of(bytes)));
}

WaysHost::WaysHost(bool knows, std::uint64_t seed)
    : now_(1000s),
      wheel_(std::make_unique<TimingWheel>(now_)),
      transport_(knows),
      stack_(std::make_unique<IpStack>(IpOptions{}, *wheel_, *pool_, seed)) {
  stack_->attach(IpProtocol::tcp, transport_);
  const std::array first{IpPrefix{ip("10.0.0.1"), 24}, IpPrefix{ip("10.0.0.2"), 24},
                         IpPrefix{ip("2001:db8::1"), 64}};
  add(*stack_, {.mac = mac(1), .addresses = first, .check_duplicates = false}, now_);
  const std::array second{IpPrefix{ip("10.1.0.1"), 24}, IpPrefix{ip("2001:db8:1::1"), 64}};
  add(*stack_, {.mac = mac(2), .addresses = second, .check_duplicates = false}, now_);
  const std::array third{IpPrefix{ip("10.2.0.1"), 24}, IpPrefix{ip("10.2.0.2"), 24},
                         IpPrefix{ip("2001:db8:2::1"), 64}};
  add(*stack_, {.mac = mac(3), .addresses = third}, now_);
  const std::array fourth{IpPrefix{ip("10.3.0.1"), 30}, IpPrefix{ip("2001:db8:3::1"), 64}};
  add(*stack_, {.link = LinkKind::ip, .addresses = fourth}, now_);
  EXPECT_TRUE(stack_->add_route({.destination = {ip("0.0.0.0"), 0}, .gateway = ip("10.0.0.254")}));
  EXPECT_TRUE(stack_->add_route({.destination = {ip("::"), 0}, .gateway = ip("2001:db8::fe")}));
}

void WaysHost::inject(const Bytes& bytes, const How& how) {
  const auto cut = static_cast<std::ptrdiff_t>(std::min(how.first_segment, bytes.size()));
  std::vector<Bytes> parts = {Bytes(bytes.begin(), bytes.begin() + cut)};
  if (cut != std::ssize(bytes)) parts.emplace_back(bytes.begin() + cut, bytes.end());
  PacketPtr packet = make_chain(*pool_, parts);
  for (const PacketMark mark : how.marks) packet->set(mark);
  PacketPtr held;
  if (how.shared) {
    Packet* last = packet.get();
    while (last->next_segment() != nullptr) last = last->next_segment();
    last->add_reference();
    held.reset(last);
  }
  Packet* const burst = packet.take();
  stack_->receive(how.interface, {&burst, 1}, now_);
  stack_->end_of_burst(now_);
}

void WaysHost::pass(Delay time) {
  now_ = now_ + time;
  wheel_->advance(now_);
  stack_->end_of_burst(now_);
}

std::string WaysHost::seen() {
  std::string text;
  for (const std::string& line : std::exchange(transport_.said, {})) text += line + "\n";
  for (std::uint8_t interface = 0; interface < 4; ++interface) {
    std::array<Packet*, 64> burst{};
    const std::size_t count = stack_->take(interface, burst);
    for (std::size_t i = 0; i < count; ++i) {
      const PacketPtr packet(burst[i]);
      text += fmt::format("sent by {}: {}\n", interface, text_of(bytes_of(*packet)));
    }
  }
  for (const IpCounter& counter : ip_counters()) {
    const std::uint64_t value = stack_->counters().*counter.member;
    if (value != 0) text += fmt::format("{} {}\n", counter.name, value);
  }
  for (std::size_t i = 0; i < wire::kWireFaults; ++i) {
    const std::uint64_t value = stack_->counters().malformed[i];
    if (value != 0) {
      text += fmt::format("{} {}\n", to_string(static_cast<wire::WireFault>(i)), value);
    }
  }
  return text;
}

}  // namespace pinion::test
