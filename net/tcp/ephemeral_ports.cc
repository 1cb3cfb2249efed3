#include "ephemeral_ports.h"

namespace pinion {

EphemeralPorts::EphemeralPorts(PortRange range, const SipKey& secret, Random& random) noexcept
    : range_(range), secret_(secret) {
  PINION_ASSERT(range.first != 0);
  PINION_ASSERT(range.first <= range.last);
  for (auto& counter : counters_) counter = static_cast<std::uint16_t>(random.below(range.size()));
}

/// F and G of the RFC, which must be independent: two parts of one hash that share no bit.
EphemeralPorts::Turn EphemeralPorts::turn_of(const FourTuple& tuple) const noexcept {
  SipHasher24 hasher(secret_);
  add_addresses(hasher, tuple);
  const std::uint64_t length = tuple.is_v4() ? 10 : 34;
  const std::uint64_t hash = hasher.finish(length << 56 | tuple.remote_port);
  return {.offset = static_cast<std::uint32_t>(hash >> 32) % range_.size(),
          .counter = static_cast<std::size_t>(hash % kCounters)};
}

}  // namespace pinion
