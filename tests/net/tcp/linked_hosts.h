#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include <pinion/lib/time.h>
#include <pinion/net/address.h>
#include <pinion/net/link.h>
#include <pinion/net/slab_packet_pool.h>
#include <pinion/timers/timing_wheel.h>

#include "host/host.h"

/// Two whole hosts, with IP and neighbours, on an in-process link, on virtual time.

namespace pinion::test {

struct LinkedHostsOptions {
  LinkOptions link = {};
  TcpConfig config = {};
  IpOptions ip = {};
  SlabPacketPoolOptions pool = {};  ///< Of each host.
  std::uint64_t seed = 1;
};

class LinkedHosts {
 public:
  explicit LinkedHosts(const LinkedHostsOptions& options = {});
  LinkedHosts(const LinkedHosts&) = delete;
  LinkedHosts& operator=(const LinkedHosts&) = delete;
  ~LinkedHosts() = default;

  /// Host 0 has two addresses of each family: it is the gateway of host 1, too, which routes
  /// nothing.
  static constexpr IpAddress kGateway4 = IpAddress::v4({10, 9, 0, 1});
  static constexpr IpAddress kGateway6 =
      IpAddress::v6({0xfd, 0x09, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1});
  [[nodiscard]] static IpAddress address(int host, bool v6);

  [[nodiscard]] Host& host(int number) { return *ends_[index(number)].host; }
  [[nodiscard]] Tcp& tcp(int number) { return host(number).tcp(); }
  [[nodiscard]] SlabPacketPool& pool(int number) { return *ends_[index(number)].pool; }
  [[nodiscard]] const MacAddress& mac(int number) {
    return ends_[index(number)].device->info().mac;
  }
  [[nodiscard]] const Link& link() const { return *link_; }
  [[nodiscard]] Instant now() const { return now_; }

  /// Lets time pass: packets arrive, timers fire.
  void run_for(Delay time);
  /// Until `holds()`, at most `limit`; whether it came to hold.
  bool run_until(const std::function<bool()>& holds, Delay limit);

  /// Puts a frame on the link, as if that host had sent it.
  void inject(int from, PacketPtr frame);

  /// Takes what that host has sent since its last turn, and drops it.
  void lose_what_waits(int from);

 private:
  struct End {
    std::unique_ptr<SlabPacketPool> pool;
    std::unique_ptr<TimingWheel> wheel;
    std::unique_ptr<Host> host;
    Device* device = nullptr;
  };
  static constexpr std::size_t kBurst = 32;

  [[nodiscard]] static std::size_t index(int number) { return static_cast<std::size_t>(number); }
  [[nodiscard]] Instant next_event() const;
  void step(Instant to);
  void turn(End& end);
  void flush(End& end);

  Instant now_{std::chrono::seconds{1000}};
  std::array<End, 2> ends_;
  std::unique_ptr<Link> link_;
};

}  // namespace pinion::test
