#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <pinion/lib/time.h>
#include <pinion/net/packet.h>

#include "../wire/ipv4.h"
#include "../wire/ipv6.h"
#include "../wire/ipv6_extensions.h"
#include "icmp_errors.h"
#include "icmp_input.h"
#include "ip_context.h"
#include "reassembly.h"

/// The way in, behind the Ethernet header: what RFC 1122, 3.2.1, and RFC 8200 have checked,
/// fragments put together, and the datagram given to its transport or to ICMP.
///
/// Ownership:  takes over the packets that it is given; those of incomplete datagrams wait here.
/// Threading:  one lcore.
/// Cost:       per packet a parsed header, a checksum, and compares with our addresses.
/// Errors:     what isn't wanted is counted by reason and dropped; where the RFCs say so it draws
///             an ICMP error.
/// Hosts:      an address is reachable through its own interface alone (RFC 1122, 3.3.4.2, the
///             strong model). Nothing is forwarded, and source routes are refused, completed ones
///             too.

namespace pinion {

class IpInput final : private ReassemblyHost {
 public:
  IpInput(IpContext& context, IcmpErrors& errors, IcmpInput& icmp,
          const ReassemblyOptions& reassembly) noexcept;

  /// An IP packet has arrived from another host, in a frame to us alone or without one. True, and
  /// it is taken, when it is in one piece and a transport knows its flow: what nearly all are.
  /// Otherwise nothing has happened but that padding is gone, and it goes the long way.
  [[nodiscard]] bool receive_known(std::uint8_t interface, PacketPtr& packet, Instant now) noexcept;
  /// The same for one in a frame that tells its family.
  [[nodiscard]] bool receive_known_v4(std::uint8_t interface, PacketPtr& packet,
                                      Instant now) noexcept;
  [[nodiscard]] bool receive_known_v6(std::uint8_t interface, PacketPtr& packet,
                                      Instant now) noexcept;

  /// An IP packet has arrived without a frame: its first bits tell the family. `interface` may be
  /// kLoopback.
  void receive(std::uint8_t interface, PacketPtr packet, Instant now) noexcept;

  /// An IP packet has arrived in a frame that tells its family, to many or to us.
  void receive_v4(std::uint8_t interface, PacketPtr packet, bool frame_to_many,
                  Instant now) noexcept;
  void receive_v6(std::uint8_t interface, PacketPtr packet, bool frame_to_many,
                  Instant now) noexcept;

  /// Gives fragments back to a pool that runs dry.
  void end_of_burst() noexcept;

  /// Whether end_of_burst() has something to do.
  [[nodiscard]] bool is_short_of_packets() const noexcept {
    return reassembly_.bytes() > 0 && is_low(context_.pool);
  }

  /// Answers port unreachable to the datagram that a transport is being given right now: `packet`
  /// as it was given.
  void refuse_port(const Packet& packet, Instant now) noexcept;

  [[nodiscard]] const Reassembly& reassembly() const noexcept { return reassembly_; }

 private:
  /// What is made to lie in the first segment: IP headers with options, and the longest TCP header.
  static constexpr std::size_t kHeaders = 128;
  static constexpr std::size_t kTransportHeader = 60;

  /// A datagram, or a part of one, on its way in.
  struct Arrived {
    PacketPtr packet;
    std::uint8_t interface = 0;
    bool frame_to_many = false;
    IpArrival arrival{};
    std::uint8_t protocol = 0;
    bool router_alert = false;
    bool fragmented = false;  ///< IPv6: there was a fragment header.
    /// What stands before the payload, as an error message would quote it.
    std::span<const std::byte> header{};
    std::size_t header_size = 0;  ///< Of the packet's bytes, those before the payload.
  };

  /// Whose a packet is, and how long, if its header is like most; otherwise nobody's.
  struct Known {
    IpTransport* transport = nullptr;
    std::size_t size = 0;
  };
  [[nodiscard]] Known known_v4(const Packet& packet, const Interface& home) const noexcept;
  [[nodiscard]] Known known_v6(const Packet& packet, const Interface& home) const noexcept;
  [[nodiscard]] bool take_known(const Known& known, std::size_t header_size, PacketPtr& packet,
                                Instant now) noexcept;
  void take_v4(Arrived& arrived, Instant now) noexcept;
  void take_v6(Arrived& arrived, Instant now) noexcept;
  void fragment_v4(Arrived& arrived, const wire::Ipv4Header& header, Instant now) noexcept;
  void fragment_v6(Arrived& arrived, const wire::Ipv6Header& header,
                   const wire::Ipv6Extensions& extensions, Instant now) noexcept;
  void whole_v4(Arrived& arrived, ReassemblyResult result, Instant now) noexcept;
  void whole_v6(Arrived& arrived, ReassemblyResult result, Instant now) noexcept;
  [[nodiscard]] bool has_all_headers(const Arrived& arrived, const wire::Ipv6Header& header,
                                     const wire::Ipv6Extensions& extensions) const noexcept;
  void deliver(Arrived& arrived, Instant now) noexcept;
  void refuse_header(const Arrived& arrived, const wire::Ipv6Refusal& refusal,
                     Instant now) noexcept;
  void refuse_protocol(const Arrived& arrived, std::uint16_t pointer, Instant now) noexcept;

  [[nodiscard]] bool accept_source(const Arrived& arrived) noexcept;
  [[nodiscard]] bool accept_destination(Arrived& arrived) noexcept;
  /// Has the first `size` bytes, or all, in the first segment. False, and counted, when there is no
  /// packet left for that, or no packet has room for so many.
  [[nodiscard]] bool gather(PacketPtr& packet, std::size_t size) noexcept {
    if (packet->size() >= size || packet->next_segment() == nullptr) [[likely]] {
      return true;
    }
    return gather_segments(packet, size);
  }
  [[nodiscard]] bool gather_segments(PacketPtr& packet, std::size_t size) noexcept;
  [[nodiscard]] bool make_own(PacketPtr& packet, std::size_t header_size) noexcept;
  [[nodiscard]] static Offender offender_of(const Arrived& arrived) noexcept;
  [[nodiscard]] static Offender offender_within(const Arrived& arrived) noexcept;

  void reassembly_timed_out(PacketPtr first_fragment, Instant now) noexcept override;

  IpContext& context_;
  IcmpErrors& errors_;
  IcmpInput& icmp_;
  Reassembly reassembly_;
  const Arrived* current_ = nullptr;  ///< While a transport is given a datagram.
};

}  // namespace pinion
