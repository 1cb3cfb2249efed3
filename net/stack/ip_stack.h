#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <pinion/lib/result.h>
#include <pinion/lib/time.h>
#include <pinion/net/address.h>
#include <pinion/net/device.h>
#include <pinion/net/packet.h>
#include <pinion/timers/timing_wheel.h>

#include "address_checks.h"
#include "arp.h"
#include "icmp_errors.h"
#include "icmp_input.h"
#include "ip_context.h"
#include "ip_input.h"
#include "ip_layer.h"
#include "ip_output.h"
#include "mld.h"
#include "ndp.h"

/// The IP layer of one lcore, IPv4 and IPv6, as a function of packets and time: ARP, NDP, MLD,
/// ICMP, fragments, path MTUs.
///
/// Ownership:  receive() takes over the packets' references, take() passes them on. The wheel and
///             the pool outlive the stack, the transports are attached until it dies. What is under
///             way when it dies is released.
/// Threading:  one lcore.
/// Cost:       nothing is allocated after set-up but packets from the pool.
/// Full:       each queue and table has its limit; see its header.
/// Errors:     set-up answers what is wrong; what packets do is counted.
///
/// A turn of its owner: receive() for each burst, the wheel's advance(), end_of_burst(), then
/// take() from each interface until it gives nothing, and what it gives to the device.

namespace pinion {

struct IpOptions {
  NeighbourOptions neighbours{};
  ReassemblyOptions reassembly{};
  IcmpErrors::Options icmp_errors{};
  std::size_t path_mtus = 256;  ///< Destinations with a path MTU of their own; 1 and up.
};

struct InterfaceOptions {
  LinkKind link = LinkKind::ethernet;
  MacAddress mac{};             ///< Of an Ethernet link.
  std::size_t mtu = 1500;       ///< 576 to 65535; with IPv6 addresses 1280 and up.
  std::size_t tx_queue = 1024;  ///< Packets that wait for take(); 1 and up.
  /// The longest chain that the device sends (DeviceInfo::max_tx_segments), 1 and up: longer ones
  /// are copied. So many buffers of the pool hold a frame.
  std::size_t max_segments = 1;
  std::span<const IpPrefix> addresses{};
  bool check_duplicates = true;  ///< On an Ethernet link, before an address is used.
};

class IpStack final : public IpLayer, private IpOutputHost, private AddressCheckHost {
 public:
  /// Whether a stack can be made with these options; the constructor asserts that it can.
  [[nodiscard]] static Result<> check(const IpOptions& options);

  /// `seed` is a secret: neighbours, paths and fragments are hashed by it, and identifications and
  /// waits drawn from it.
  IpStack(const IpOptions& options, TimingWheel& wheel, PacketPool& pool, std::uint64_t seed);
  IpStack(const IpStack&) = delete;
  IpStack& operator=(const IpStack&) = delete;
  ~IpStack() = default;

  /// Adds an interface, with routes to what is on its link; answers its number. One of Ethernet
  /// with IPv6 addresses gets a link-local one, too, made of its MAC, unless it has one.
  [[nodiscard]] Result<std::uint8_t> add_interface(const InterfaceOptions& options, Instant now);

  /// Adds a route through an interface that there is. A gateway is on the interface's link.
  [[nodiscard]] Result<> add_route(const Route& route);

  /// `transport` gets the datagrams of `protocol` from now on. One for each protocol, eight in all.
  void attach(IpProtocol protocol, IpTransport& transport) noexcept;

  /// Takes what an interface has received: Ethernet frames, or bare IP packets, by its link.
  void receive(std::uint8_t interface, std::span<Packet* const> burst, Instant now) noexcept;

  /// Delivers what we sent to ourselves, then tells the transports that the burst is over. Gives up
  /// fragments when the pool runs dry.
  void end_of_burst(Instant now) noexcept;

  /// Whether something waits for end_of_burst(): packets to ourselves, a pool that runs dry.
  [[nodiscard]] bool pending() noexcept {
    return !output_.loopback().empty() || input_.is_short_of_packets();
  }

  /// Moves what is to leave through an interface to the front of `into`; returns how many.
  [[nodiscard]] std::size_t take(std::uint8_t interface, std::span<Packet*> into) noexcept;

  /// For a transport within its receive(): answers port unreachable to the datagram it is given,
  /// with `packet` as it was given.
  void refuse_port(const Packet& packet, Instant now) noexcept { input_.refuse_port(packet, now); }

  // IpLayer.
  void send(PacketPtr packet, const IpDeparture& how, Instant now) noexcept override;
  [[nodiscard]] std::size_t path_mtu(const IpAddress& source,
                                     const IpAddress& destination) const noexcept override;
  [[nodiscard]] std::size_t link_mtu(const IpAddress& source,
                                     const IpAddress& destination) const noexcept override;
  void learn_path_mtu(const IpAddress& source, const IpAddress& destination, std::size_t mtu,
                      Instant now) noexcept override;
  [[nodiscard]] std::optional<IpAddress> source_for(
      const IpAddress& destination) const noexcept override;
  [[nodiscard]] bool is_local(const IpAddress& address) const noexcept override;
  [[nodiscard]] bool is_unicast(const IpAddress& address) const noexcept override;
  void confirm_reachable(const IpAddress& source, const IpAddress& destination,
                         Instant now) noexcept override;
  void suspect(const IpAddress& source, const IpAddress& destination,
               Instant now) noexcept override;
  [[nodiscard]] bool is_crowded(const IpAddress& source, const IpAddress& destination,
                                Instant now) noexcept override;

  /// Whether an interface's tx queue is more than half full: time to take().
  [[nodiscard]] bool is_crowded() const noexcept { return output_.is_crowded(); }

  /// As learn_path_mtu(), on the word of somebody who may never have had a datagram of ours: while
  /// the cache is full of what is still believed, nothing is learnt.
  void guess_path_mtu(const IpAddress& source, const IpAddress& destination, std::size_t mtu,
                      Instant now) noexcept;

  /// The state of an address of an interface; none when it isn't one of its.
  [[nodiscard]] std::optional<AddressState> address_state(std::uint8_t interface,
                                                          const IpAddress& address) const noexcept;

  [[nodiscard]] const IpCounters& counters() const noexcept { return context_.counters; }
  [[nodiscard]] const NeighbourCache& neighbours() noexcept { return output_.neighbours(); }
  [[nodiscard]] const Reassembly& reassembly() const noexcept { return input_.reassembly(); }

 private:
  [[nodiscard]] Result<> check(const InterfaceOptions& options) const;
  [[nodiscard]] Result<> check_routes(std::span<const IpPrefix> addresses) const;
  [[nodiscard]] Result<> add_address(Interface& interface, const IpPrefix& prefix, bool checked,
                                     Instant now);
  void receive_frame(Interface& interface, PacketPtr packet, Instant now) noexcept;
  void tell_paths_shrank() noexcept;

  void solicit(Interface& interface, const IpAddress& target, const MacAddress* to,
               Instant now) noexcept override;
  void undeliverable(PacketPtr packet, Instant now) noexcept override;
  void probe(Interface& interface, const IpAddress& address, Instant now) noexcept override;
  void announce(Interface& interface, const IpAddress& address, Instant now) noexcept override;
  void usable(Interface& interface, const IpAddress& address, Instant now) noexcept override;

  IpContext context_;
  IpOutput output_;
  AddressChecks checks_;
  Arp arp_;
  Ndp ndp_;
  Mld mld_;
  IcmpErrors errors_;
  IcmpInput icmp_;
  IpInput input_;
  std::array<IpTransport*, 8> attached_{};  ///< Each once, whatever it speaks.
  std::size_t attached_count_ = 0;
};

}  // namespace pinion
