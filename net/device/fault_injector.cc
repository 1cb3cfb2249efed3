#include <pinion/net/fault_injector.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "fault_direction.h"

namespace pinion {
namespace {

using detail::FaultDirection;

constexpr std::size_t kBurst = 32;
/// That one rx_burst() takes in at most, when few of them or none come out.
constexpr std::size_t kMostTaken = 1024;
constexpr std::size_t kMostHeld = std::size_t{1} << 20;
constexpr std::uint32_t kMostCorruptedBits = 1024;
constexpr Delay kLongestDelay = std::chrono::hours{1};
/// After which a device that took nothing is asked again.
constexpr Delay kRetry = std::chrono::microseconds{100};

Result<> refuse(std::string_view direction, std::string what, std::string hint) {
  return fail(ErrorCode::invalid_argument,
              "a fault plan (" + std::string(direction) + ") with " + std::move(what),
              std::move(hint));
}

Result<> check_chances(const FaultPlan& plan, std::string_view direction) {
  const std::pair<const char*, double> chances[] = {{"loss", plan.loss},
                                                    {"duplication", plan.duplication},
                                                    {"reordering", plan.reordering},
                                                    {"corruption", plan.corruption},
                                                    {"truncation", plan.truncation}};
  for (const auto& [name, value] : chances) {
    if (value >= 0 && value <= 1) continue;  // A NaN is neither.
    return refuse(direction, std::string(name) + " " + std::to_string(value),
                  std::string(name) + " from 0 to 1");
  }
  return {};
}

Result<> check_delays(const FaultPlan& plan, std::string_view direction) {
  const std::pair<const char*, Delay> delays[] = {
      {"delay", plan.delay}, {"jitter", plan.jitter}, {"reorder_by", plan.reorder_by}};
  for (const auto& [name, value] : delays) {
    if (value >= Delay() && value <= kLongestDelay) continue;
    return refuse(direction, std::string(name) + " of " + std::to_string(value.count()) + " ns",
                  std::string(name) + " from 0 to 1 hour");
  }
  if (plan.reordering > 0 && plan.reorder_by == Delay()) {
    return refuse(direction, "reordering by nothing", "reorder_by above 0");
  }
  return {};
}

Result<> check_partitions(const FaultPlan& plan, std::string_view direction) {
  Instant before = Instant::min();
  for (const Partition& partition : plan.partitions) {
    if (partition.from < before || partition.until <= partition.from) {
      return refuse(direction, "partitions out of order",
                    "each `until` after its `from`, and not after the next `from`");
    }
    before = partition.until;
  }
  return {};
}

Result<> check(const FaultPlan& plan, std::string_view direction) {
  for (const auto check_part : {&check_chances, &check_delays, &check_partitions}) {
    if (Result<> checked = check_part(plan, direction); !checked) return checked;
  }
  if (plan.corrupted_bits == 0 || plan.corrupted_bits > kMostCorruptedBits) {
    return refuse(direction, "corrupted_bits " + std::to_string(plan.corrupted_bits),
                  "corrupted_bits from 1 to 1024");
  }
  if (plan.bits_per_second > detail::kFastestLine) {
    return refuse(direction, "bits_per_second " + std::to_string(plan.bits_per_second),
                  "bits_per_second up to 10000000000000, 0 for no limit");
  }
  return {};
}

Result<> check(const FaultOptions& options) {
  if (Result<> checked = check(options.tx, "tx"); !checked) return checked;
  if (Result<> checked = check(options.rx, "rx"); !checked) return checked;
  if (options.hold_packets == 0 || options.hold_packets > kMostHeld) {
    return fail(ErrorCode::invalid_argument,
                "a fault injector with hold_packets " + std::to_string(options.hold_packets),
                "hold_packets from 1 to 1048576");
  }
  return {};
}

}  // namespace

struct FaultInjector::Parts {
  Parts(Device& inner, PacketPool& pool, const FaultOptions& options)
      : device(inner),
        tx(options.tx, Random(options.seed).next(), options.hold_packets, pool),
        rx(options.rx, ~Random(options.seed).next(), options.hold_packets, pool) {}

  void send_due(Instant now) noexcept;
  [[nodiscard]] std::size_t receive(Instant now) noexcept;
  [[nodiscard]] std::size_t give(Instant now, std::span<Packet*> into) noexcept;

  Device& device;
  FaultDirection tx;
  FaultDirection rx;
  Instant retry_at = Instant::min();  ///< When the device is asked again to send.
};

/// Passes on what is due, until the device takes no more.
void FaultInjector::Parts::send_due(Instant now) noexcept {
  std::array<FaultDirection::Held, kBurst> due;
  std::array<Packet*, kBurst> packets{};
  std::size_t taken = 0;
  std::size_t count = 0;
  do {
    for (count = 0; count < kBurst; ++count) {
      const auto held = tx.take_due(now);
      if (!held) break;
      due[count] = *held;
      packets[count] = held->packet;
    }
    if (count == 0) return;
    taken = device.tx_burst(now, {packets.data(), count});
    tx.count_passed(taken);
    for (std::size_t i = taken; i < count; ++i) tx.put_back(due[i]);
  } while (taken == count);
  retry_at = now + kRetry;
}

/// Takes in a burst of what has arrived, no more than there is room for unless there is none.
/// Returns how many; 0 when that was the last of it.
std::size_t FaultInjector::Parts::receive(Instant now) noexcept {
  std::array<Packet*, kBurst> arrived{};
  const std::size_t most = std::clamp<std::size_t>(rx.admissible(), 1, kBurst);
  const std::size_t count = device.rx_burst(now, std::span(arrived).first(most));
  for (Packet* const packet : std::span(arrived).first(count)) rx.admit(PacketPtr(packet), now);
  return count == most ? count : 0;
}

/// Gives what is due; returns how many.
std::size_t FaultInjector::Parts::give(Instant now, std::span<Packet*> into) noexcept {
  std::size_t count = 0;
  while (count < into.size()) {
    const auto held = rx.take_due(now);
    if (!held) break;
    into[count] = held->packet;
    ++count;
  }
  rx.count_passed(count);
  return count;
}

Result<std::unique_ptr<FaultInjector>> FaultInjector::create(Device& device, PacketPool& pool,
                                                             const FaultOptions& options) {
  if (Result<> checked = check(options); !checked) return tl::unexpected(checked.error());
  return std::unique_ptr<FaultInjector>(
      new FaultInjector(std::make_unique<Parts>(device, pool, options)));
}

FaultInjector::FaultInjector(std::unique_ptr<Parts> parts) noexcept : parts_(std::move(parts)) {}

FaultInjector::~FaultInjector() = default;

const DeviceInfo& FaultInjector::info() const noexcept {
  return parts_->device.info();
}

std::size_t FaultInjector::rx_burst(Instant now, std::span<Packet*> into) noexcept {
  parts_->send_due(now);
  std::size_t given = parts_->give(now, into);  // Which makes room for what has arrived.
  std::size_t total = 0;
  std::size_t last = 1;
  // A short burst tells that there is nothing more, so it must not come from what was lost alone.
  while (last != 0 && given < into.size() && total < kMostTaken) {
    last = parts_->receive(now);
    total += last;
    given += parts_->give(now, into.subspan(given));
  }
  return given;
}

std::size_t FaultInjector::tx_burst(Instant now, std::span<Packet* const> packets) noexcept {
  for (Packet* const packet : packets) {
    // What is due makes room for what comes.
    if (parts_->tx.admissible() == 0) parts_->send_due(now);
    parts_->tx.admit(PacketPtr(packet), now);
  }
  parts_->send_due(now);
  return packets.size();
}

Instant FaultInjector::next_event() const noexcept {
  const Instant tx_due = parts_->tx.next_due();
  const Instant tx_next = tx_due == kNever ? kNever : std::max(tx_due, parts_->retry_at);
  return std::min({parts_->device.next_event(), parts_->rx.next_due(), tx_next});
}

int FaultInjector::wait_descriptor() const noexcept {
  return parts_->device.wait_descriptor();
}

bool FaultInjector::announces_arrivals() const noexcept {
  return parts_->device.announces_arrivals();
}

void FaultInjector::on_wait_error() noexcept {
  parts_->device.on_wait_error();
}

DeviceStats FaultInjector::stats() const noexcept {
  return parts_->device.stats();
}

const FaultStats& FaultInjector::tx_faults() const noexcept {
  return parts_->tx.stats();
}

const FaultStats& FaultInjector::rx_faults() const noexcept {
  return parts_->rx.stats();
}

}  // namespace pinion
