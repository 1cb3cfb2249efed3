#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <pinion/lib/result.h>
#include <pinion/lib/time.h>
#include <pinion/net/packet.h>
#include <pinion/timers/timing_wheel.h>

#include "../stack/ip_stack.h"
#include "../stack/udp.h"
#include "../tcp/tcp.h"

/// The whole stack of one lcore, IP with TCP and UDP on it, as a function of packets, calls and
/// time.
///
/// Ownership:  the host owns its layers; the wheel and the pools outlive it. receive() takes over
///             the packets' references, take() passes them on.
/// Threading:  one lcore.
/// Cost:       nothing is allocated after set-up but packets from the pools; see the layers.
/// Errors:     create() says what is wrong; see the layers.
///
/// A turn of its owner: receive() for each burst, the wheel's advance(), end_of_burst() unless
/// is_settled(), then take() from each interface until it gives nothing.

namespace pinion {

struct HostOptions {
  IpOptions ip{};
  TcpConfig tcp{};
  UdpOptions udp{};
};

/// What a host works on.
struct HostParts {
  TimingWheel& wheel;
  PacketPool& packets;
  PacketPool& small_packets;     ///< For small payloads that wait long; may be the same one.
  std::size_t max_segments = 1;  ///< The longest chain that all its devices send.
};

class Host {
 public:
  /// Takes all memory. `seed` is secret and comes from the system's random numbers.
  [[nodiscard]] static Result<std::unique_ptr<Host>> create(const HostOptions& options,
                                                            const HostParts& parts,
                                                            std::uint64_t seed, Instant now);

  [[nodiscard]] IpStack& ip() noexcept { return ip_; }
  [[nodiscard]] Tcp& tcp() noexcept { return *tcp_; }
  [[nodiscard]] UdpLayer& udp() noexcept { return udp_; }

  /// As IpStack's.
  void receive(std::uint8_t interface, std::span<Packet* const> burst, Instant now) noexcept {
    ip_.receive(interface, burst, now);
  }
  [[nodiscard]] std::size_t take(std::uint8_t interface, std::span<Packet*> into) noexcept {
    return ip_.take(interface, into);
  }

  /// Delivers what the host sent to itself, and lets each connection decide what it sends. What
  /// they send to the host itself waits for the next time.
  void end_of_burst(Instant now) noexcept { ip_.end_of_burst(now); }

  /// Whether end_of_burst() has nothing to do.
  [[nodiscard]] bool is_settled() noexcept { return !ip_.pending() && tcp_->is_settled(); }

 private:
  Host(const HostOptions& options, const HostParts& parts, SecretNumbers& seeds);

  IpStack ip_;
  UdpLayer udp_;
  std::unique_ptr<Tcp> tcp_;
};

}  // namespace pinion
