#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <span>

#include <pinion/lib/time.h>
#include <pinion/net/address.h>
#include <pinion/net/packet.h>
#include <pinion/timers/timing_wheel.h>

#include "script_world.h"
#include "stack/ip_layer.h"

/// A script's world around a transport of net/stack's kind: an IP layer that ends at the script, a
/// wheel on virtual time. Who derives from it owns the transport and gives its calls names.

namespace pinion::test {

/// What a transport sends becomes the bytes of IP packets.
class ScriptIpLayer final : public IpLayer {
 public:
  ScriptIpLayer(IpAddress local, std::size_t mtu) : local_(local), link_mtu_(mtu), mtu_(mtu) {}

  void send(PacketPtr packet, const IpDeparture& how, Instant now) noexcept override;
  [[nodiscard]] std::size_t path_mtu(const IpAddress& source,
                                     const IpAddress& destination) const noexcept override;
  [[nodiscard]] std::size_t link_mtu(const IpAddress&, const IpAddress&) const noexcept override {
    return link_mtu_;
  }
  void learn_path_mtu(const IpAddress& source, const IpAddress& destination, std::size_t mtu,
                      Instant now) noexcept override;
  [[nodiscard]] std::optional<IpAddress> source_for(
      const IpAddress& destination) const noexcept override;
  [[nodiscard]] bool is_local(const IpAddress& address) const noexcept override;
  [[nodiscard]] bool is_unicast(const IpAddress& address) const noexcept override;
  void confirm_reachable(const IpAddress& source, const IpAddress& destination,
                         Instant now) noexcept override;
  void suspect(const IpAddress&, const IpAddress&, Instant) noexcept override { ++suspicions_; }

  std::optional<SentPacket> take();

  /// How often the transport has said that its peer answers.
  [[nodiscard]] std::size_t confirmations() const { return confirmations_; }
  /// And that nothing seems to reach it.
  [[nodiscard]] std::size_t suspicions() const { return suspicions_; }

 private:
  IpAddress local_;
  const std::size_t link_mtu_;
  std::size_t mtu_;
  std::size_t confirmations_ = 0;
  std::size_t suspicions_ = 0;
  std::deque<SentPacket> sent_;
};

class TransportWorld : public ScriptWorld {
 public:
  /// The host is 192.0.2.1 or 2001:db8::1, its listener's port 7; the peer is the same with 2 at
  /// the end, and its port 80. Packets come from `pool`.
  explicit TransportWorld(PacketPool& pool, bool v6 = false, std::size_t mtu = 1500);

  [[nodiscard]] Endpoint host() const override { return host_; }
  [[nodiscard]] Endpoint peer() const override { return peer_; }
  [[nodiscard]] Instant now() const override { return now_; }
  void inject(std::span<const PacketBytes> packets) override;
  std::optional<SentPacket> take() override { return ip_.take(); }
  [[nodiscard]] Instant next_deadline() const override { return wheel_.next_expiry(); }
  void advance(Instant to) override;

  /// Whether packets of flows that are known go the way of all others. So they do from the start
  /// with PINION_TEST_LONG_WAY in the environment.
  void set_long_way(bool long_way) { long_way_ = long_way; }

  /// Lets time pass, up to the next deadline, of which the host hears by what comes next.
  void drift(Delay time) { now_ = now_ + time; }

  /// Whether a device has verified the segments' checksums.
  void set_verified(bool verified) { verified_ = verified; }

  /// How many packets were taken as those of flows that are known.
  [[nodiscard]] std::size_t taken_as_known() const { return taken_as_known_; }

 protected:
  [[nodiscard]] ScriptIpLayer& ip() { return ip_; }
  [[nodiscard]] TimingWheel& wheel() { return wheel_; }
  [[nodiscard]] virtual IpTransport& transport() = 0;

 private:
  void deliver(std::span<const std::byte> bytes);
  PacketPtr packet_of(std::span<const std::byte> bytes);

  PacketPool& pool_;
  const Endpoint host_;
  const Endpoint peer_;
  Instant now_;
  TimingWheel wheel_;
  ScriptIpLayer ip_;
  bool long_way_;
  bool verified_ = false;
  std::size_t taken_as_known_ = 0;
};

}  // namespace pinion::test
