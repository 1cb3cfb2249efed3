#include "initial_sequence.h"

namespace pinion {

InitialSequence::Numbers InitialSequence::of(const FourTuple& tuple, Instant now) const noexcept {
  constexpr std::uint64_t kTickNs = 4'000;
  // Both numbers come from one hash: of a pseudorandom function, no half tells of the other.
  const std::uint64_t hash = tuple_hash<SipHasher24>(secret_, tuple);
  const std::uint64_t ticks = static_cast<std::uint64_t>(now.time_since_epoch().count()) / kTickNs;
  return {.sequence = wire::SequenceNumber(static_cast<std::uint32_t>(hash + ticks)),
          .timestamp_offset = static_cast<std::uint32_t>(hash >> 32)};
}

std::uint32_t InitialSequence::timestamp_offset(const FourTuple& tuple) const noexcept {
  return static_cast<std::uint32_t>(tuple_hash<SipHasher24>(secret_, tuple) >> 32);
}

}  // namespace pinion
