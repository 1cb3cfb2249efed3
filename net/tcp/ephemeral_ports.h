#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include <pinion/lib/assert.h>
#include <pinion/lib/random.h>
#include <pinion/lib/sip_hash.h>

#include "four_tuple.h"

/// The port from which to connect: RFC 6056, algorithm 4. For each remote endpoint the ports are
/// taken in turn, from a place that is secret, so that one is used again as late as can be, and
/// whoever sees our connections to one host learns nothing of those to another.
///
/// Ownership:  a secret and 1024 counters, 2 KiB.
/// Threading:  one lcore, whose range no other lcore's connections share, or for whose predicate
///             only ports count that steer here.
/// Cost:       a hash, and a call of the predicate for each port that is tried.
/// Errors:     every port of the range is tried once at most; none when the predicate wants none.

namespace pinion {

struct PortRange {
  std::uint16_t first = 0;
  std::uint16_t last = 0;  ///< Included.

  [[nodiscard]] constexpr std::uint32_t size() const noexcept {
    return std::uint32_t{last} - first + 1;
  }
};

class EphemeralPorts {
 public:
  /// `secret` and `random` come from the system's random numbers; the counters begin at random.
  EphemeralPorts(PortRange range, const SipKey& secret, Random& random) noexcept;

  /// A port for a connection with the addresses and the remote port of `tuple`: the first for which
  /// `usable(tuple with that port)` holds, of at most `attempts`. Usable is what no connection and
  /// no TIME-WAIT record has, and what packets find their way here by.
  template <class Usable>
  [[nodiscard]] std::optional<std::uint16_t> choose(FourTuple tuple, std::uint32_t attempts,
                                                    Usable&& usable) noexcept {
    const Turn turn = turn_of(tuple);
    const std::uint32_t size = range_.size();
    for (std::uint32_t tried = 0; tried < attempts && tried < size; ++tried) {
      const std::uint32_t step = (turn.offset + counters_[turn.counter]) % size;
      counters_[turn.counter] = static_cast<std::uint16_t>((counters_[turn.counter] + 1U) % size);
      tuple.local_port = static_cast<std::uint16_t>(range_.first + step);
      if (usable(tuple)) return tuple.local_port;
    }
    return std::nullopt;
  }

  [[nodiscard]] PortRange range() const noexcept { return range_; }

 private:
  struct Turn {
    std::uint32_t offset = 0;
    std::size_t counter = 0;
  };
  static constexpr std::size_t kCounters = 1024;

  [[nodiscard]] Turn turn_of(const FourTuple& tuple) const noexcept;

  PortRange range_;
  SipKey secret_;
  std::array<std::uint16_t, kCounters> counters_{};  ///< Each below the size of the range.
};

}  // namespace pinion
