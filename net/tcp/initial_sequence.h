#pragma once

#include <cstdint>

#include <pinion/lib/sip_hash.h>
#include <pinion/lib/time.h>

#include "../wire/sequence_number.h"
#include "four_tuple.h"

/// Where a connection's numbers begin.
///
/// ISN = M + F(tuple, secret) (RFC 6528, 3; RFC 9293, MUST-8): M counts every 4 us, so that one
/// incarnation of a connection begins behind the numbers of the last; F is SipHash-2-4, so that
/// nobody can tell one tuple's numbers from another's. The timestamps of a connection begin at an
/// offset of their own (RFC 7323, 7.1), which says nothing of how long the machine is up or of
/// other connections. It is the same for each incarnation of a tuple, whose timestamps therefore go
/// on growing: the peer may reopen a connection in TIME-WAIT by them (RFC 6191).
///
/// Ownership:  a value of 16 bytes, the secret: from the system's random numbers at start.
/// Threading:  any.
/// Cost:       14 rounds of SipHash-2-4 at most, once per connection.
/// Errors:     none.

namespace pinion {

class InitialSequence {
 public:
  struct Numbers {
    wire::SequenceNumber sequence;
    std::uint32_t timestamp_offset = 0;  ///< What to add to our timestamp clock.
  };

  explicit constexpr InitialSequence(const SipKey& secret) noexcept : secret_(secret) {}

  [[nodiscard]] Numbers of(const FourTuple& tuple, Instant now) const noexcept;

  /// The offset alone.
  [[nodiscard]] std::uint32_t timestamp_offset(const FourTuple& tuple) const noexcept;

 private:
  SipKey secret_;
};

}  // namespace pinion
