#include <pinion/net/link.h>

#include <string>

#include "link_direction.h"

namespace pinion {
namespace {

using detail::LinkDirection;

constexpr std::size_t kMostCapacity = std::size_t{1} << 20;
constexpr std::size_t kLeastMtu = 68;  // RFC 791, section 3.2
constexpr std::size_t kLargestMtu = 65'535;
constexpr Delay kLongestDelay = std::chrono::hours{1};

/// One end: sends into one direction and receives from the other.
class LinkEnd final : public Device {
 public:
  LinkEnd(const DeviceInfo& info, LinkDirection& out, LinkDirection& in) noexcept
      : info_(info), out_(out), in_(in) {}

  const DeviceInfo& info() const noexcept override { return info_; }

  std::size_t rx_burst(Instant now, std::span<Packet*> into) noexcept override {
    return in_.receive(now, into);
  }

  std::size_t tx_burst(Instant now, std::span<Packet* const> packets) noexcept override {
    for (Packet* const packet : packets) out_.send(PacketPtr(packet), now);
    return packets.size();
  }

  Instant next_event() const noexcept override { return in_.next_arrival(); }

  bool announces_arrivals() const noexcept override { return true; }

  DeviceStats stats() const noexcept override {
    return {.rx_packets = in_.received_packets(),
            .rx_bytes = in_.received_bytes(),
            .rx_dropped = in_.drops().capacity_full + in_.drops().no_buffer,
            .tx_packets = out_.sent_packets(),
            .tx_bytes = out_.sent_bytes(),
            .tx_dropped =
                out_.drops().too_long + out_.drops().too_many_segments + out_.drops().queue_full};
  }

 private:
  const DeviceInfo info_;
  LinkDirection& out_;
  LinkDirection& in_;
};

DeviceInfo info_of(const LinkOptions& options, const MacAddress& mac) noexcept {
  return {.mac = mac, .mtu = options.mtu, .max_tx_segments = options.max_tx_segments};
}

Result<> check(const LinkOptions& options) {
  const auto refuse = [](std::string what, std::string hint) -> Result<> {
    return fail(ErrorCode::invalid_argument, "a link with " + std::move(what), std::move(hint));
  };
  if (options.bits_per_second > detail::kFastestLine) {
    return refuse("bits_per_second " + std::to_string(options.bits_per_second),
                  "bits_per_second up to 10000000000000, 0 for no limit");
  }
  if (options.delay < Delay() || options.delay > kLongestDelay) {
    return refuse("a delay of " + std::to_string(options.delay.count()) + " ns",
                  "delay from 0 to 1 hour");
  }
  if (options.queue_packets == 0 || options.queue_packets > options.capacity_packets) {
    return refuse("queue_packets " + std::to_string(options.queue_packets),
                  "queue_packets from 1 to capacity_packets");
  }
  if (options.capacity_packets > kMostCapacity) {
    return refuse("capacity_packets " + std::to_string(options.capacity_packets),
                  "capacity_packets up to 1048576");
  }
  if (options.mtu < kLeastMtu || options.mtu > kLargestMtu) {
    return refuse("mtu " + std::to_string(options.mtu), "mtu from 68 to 65535");
  }
  if (options.max_tx_segments == 0) {
    return refuse("max_tx_segments 0", "max_tx_segments from 1");
  }
  return {};
}

}  // namespace

struct Link::Parts {
  Parts(PacketPool& pool_a, PacketPool& pool_b, const LinkOptions& options)
      : to_a(options, pool_a),
        to_b(options, pool_b),
        a(info_of(options, options.mac_a), to_b, to_a),
        b(info_of(options, options.mac_b), to_a, to_b) {}

  LinkDirection to_a;
  LinkDirection to_b;
  LinkEnd a;
  LinkEnd b;
};

Result<std::unique_ptr<Link>> Link::create(PacketPool& pool_a, PacketPool& pool_b,
                                           const LinkOptions& options) {
  if (Result<> checked = check(options); !checked) return tl::unexpected(checked.error());
  return std::unique_ptr<Link>(new Link(std::make_unique<Parts>(pool_a, pool_b, options)));
}

Link::Link(std::unique_ptr<Parts> parts) noexcept : parts_(std::move(parts)) {}

Link::~Link() = default;

Device& Link::a() noexcept {
  return parts_->a;
}

Device& Link::b() noexcept {
  return parts_->b;
}

const LinkDrops& Link::drops_to_a() const noexcept {
  return parts_->to_a.drops();
}

const LinkDrops& Link::drops_to_b() const noexcept {
  return parts_->to_b.drops();
}

}  // namespace pinion
