#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include <pinion/test/seed.h>

#include "stack/ip_stack.h"
#include "table_world.h"
#include "wire/arp.h"
#include "wire/ethernet.h"
#include "wire/icmp.h"
#include "wire/ipv4.h"
#include "wire/ipv6.h"
#include "wire/ipv6_extensions.h"
#include "wire/ndp.h"
#include "wire/udp.h"

/// A stack on one Ethernet, and the frames that others on it send.

namespace pinion::test {

inline constexpr std::uint8_t kTestProtocol = 253;  ///< RFC 3692.

[[nodiscard]] Bytes join(std::initializer_list<Bytes> parts);
[[nodiscard]] bool same(std::span<const std::byte> bytes, const Bytes& expected);
[[nodiscard]] Bytes counted(std::size_t size, std::uint8_t start = 0);

/// An IP packet of either family. Of IPv4 the header's payload size, of IPv6 that and the addresses
/// are filled in.
[[nodiscard]] Bytes ip_packet(wire::Ipv4Header header, const IpAddress& from, const IpAddress& to,
                              const Bytes& payload);
[[nodiscard]] Bytes ip_packet(wire::Ipv6Header header, const IpAddress& from, const IpAddress& to,
                              const Bytes& payload);
/// With an ordinary header.
[[nodiscard]] Bytes ip_packet(const IpAddress& from, const IpAddress& to, std::uint8_t protocol,
                              const Bytes& payload);

/// Transport messages, checksums included.
[[nodiscard]] Bytes icmp_message(const wire::IcmpMessage& message, const IpAddress& from,
                                 const IpAddress& to, const Bytes& body);
[[nodiscard]] Bytes udp_message(const Endpoint& from, const Endpoint& to, const Bytes& payload);
[[nodiscard]] Bytes ndp_message(const wire::NdpMessage& message, const IpAddress& from,
                                const IpAddress& to);

/// What left the stack, taken apart.
struct SentFrame {
  Bytes bytes;
  wire::EthernetHeader ethernet;
  [[nodiscard]] std::span<const std::byte> payload() const;
  [[nodiscard]] wire::ArpMessage arp() const;
  [[nodiscard]] wire::Ipv4Header v4() const;
  [[nodiscard]] wire::Ipv6Header v6() const;
  /// Behind the IP header.
  [[nodiscard]] std::span<const std::byte> ip_payload() const;
  [[nodiscard]] wire::IcmpMessage icmp() const;
};

/// Writes down what it is given.
class RecordingTransport final : public IpTransport {
 public:
  struct Received {
    Bytes bytes;
    IpArrival arrival;
    std::size_t first_segment = 0;
  };
  struct Complaint {
    IpComplaint complaint;  ///< Without what was quoted.
    Bytes quoted;
  };

  void receive(PacketPtr packet, const IpArrival& arrival, Instant now) noexcept override;
  void complain(const IpComplaint& complaint, Instant now) noexcept override;
  void end_of_burst(Instant now) noexcept override;
  void paths_shrank() noexcept override { ++shrunk_paths; }

  std::vector<Received> received;
  std::vector<Complaint> complaints;
  int bursts = 0;
  int shrunk_paths = 0;
};

class StackWorld : public TableWorld {
 protected:
  /// 10.0.0.1/24 and 2001:db8::1/64, usable at once; a gateway in each.
  void SetUp() override;
  void TearDown() override;

  void make_stack(const IpOptions& options = {});
  /// A stack without interfaces.
  void make_bare_stack(const IpOptions& options = {});

  /// A frame from `from`, to our MAC unless another is given.
  void inject(const MacAddress& from, wire::EtherType type, const Bytes& payload);
  void inject(const MacAddress& from, const MacAddress& to, wire::EtherType type,
              const Bytes& payload);
  /// An IP packet from the peer's MAC, to our MAC or the group's that its destination has.
  void inject_ip(const Bytes& packet);
  void inject_frame(const Bytes& frame);

  /// The frames that left since the last call.
  std::vector<SentFrame> sent();
  /// The only one; fails unless there is exactly one.
  SentFrame sent_one();

  /// Of these, the ICMP errors: neighbours are probed and groups reported at their times.
  std::vector<SentFrame> sent_errors();

  /// Lets the stack know the MACs of the peers and gateways, and forgets what it took.
  void meet_neighbours();

  /// Hands the stack a payload to send.
  void send(const IpDeparture& how, std::size_t size);

  const MacAddress our_mac = mac(1);
  const MacAddress peer_mac = mac(9);
  const IpAddress ours4 = ip("10.0.0.1");
  const IpAddress ours6 = ip("2001:db8::1");
  const IpAddress peer4 = ip("10.0.0.9");
  const IpAddress peer6 = ip("2001:db8::9");
  const IpAddress far4 = ip("192.0.2.9");
  const IpAddress far6 = ip("2001:db8:ffff::9");
  std::unique_ptr<IpStack> stack;
  RecordingTransport transport;  ///< Of kTestProtocol and of TCP.
};

}  // namespace pinion::test
