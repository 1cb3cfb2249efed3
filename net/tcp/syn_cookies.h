#pragma once

#include <cstdint>
#include <optional>

#include <pinion/lib/sip_hash.h>
#include <pinion/lib/time.h>

#include "../wire/sequence_number.h"
#include "four_tuple.h"

/// SYN cookies (RFC 4987, 3.6): what a passive open has to remember stands in the numbers that the
/// peer sends back, so that a flood of SYNs takes no memory.
///
/// The sequence number of the SYN-ACK carries, from the highest bit, whether the count of 64 s
/// periods is odd, three bits for the peer's MSS, and 28 bits of SipHash-2-4 over the tuple, the
/// peer's number, the count and the MSS. It is good in its period and the next one: of the 2^32
/// numbers, a guess hits one of the sixteen that are. When the peer has timestamps, the low six
/// bits of ours carry its window scale and whether it knows SACK and ECN; nothing secures them,
/// since a peer that changes them harms itself.
///
/// Ownership:  a value of 16 bytes, the secret: from the system's random numbers at start.
/// Threading:  any.
/// Cost:       18 rounds of SipHash-2-4 at most for each cookie made or checked.
/// Errors:     a number that is no cookie, or too old: none. Without timestamps the peer's window
///             scale and SACK are lost, and it sees a SYN-ACK that offers neither.

namespace pinion {

/// What a SYN offered, as far as a timestamp carries it.
struct CookieOptions {
  std::optional<std::uint8_t> window_scale{};  ///< 0 to 14.
  bool sack = false;
  bool ecn = false;

  friend constexpr bool operator==(const CookieOptions&, const CookieOptions&) noexcept = default;
};

class SynCookies {
 public:
  explicit constexpr SynCookies(const SipKey& secret) noexcept : secret_(secret) {}

  /// The number for the SYN-ACK to a SYN with the number `peer` and an MSS of `mss`.
  [[nodiscard]] wire::SequenceNumber make(const FourTuple& tuple, wire::SequenceNumber peer,
                                          std::uint16_t mss, Instant now) const noexcept;

  /// The MSS, rounded down to one of eight, when `cookie` is a number that make() gave for the same
  /// tuple and `peer` 64 to 128 s ago at most. Of the handshake's last acknowledgement, `peer` is
  /// the sequence number less one, and `cookie` the acknowledgement number less one.
  [[nodiscard]] std::optional<std::uint16_t> check(const FourTuple& tuple,
                                                   wire::SequenceNumber peer,
                                                   wire::SequenceNumber cookie,
                                                   Instant now) const noexcept;

  /// The timestamp for the SYN-ACK: `timestamp`, set back by up to 64 to carry the options.
  [[nodiscard]] static std::uint32_t stamp(std::uint32_t timestamp,
                                           const CookieOptions& options) noexcept;

  /// The options in a timestamp that stamp() made, as the peer echoes it.
  [[nodiscard]] static CookieOptions options_in(std::uint32_t echoed) noexcept;

 private:
  [[nodiscard]] std::uint32_t cookie(const FourTuple& tuple, wire::SequenceNumber peer,
                                     std::uint64_t period, std::uint32_t mss_index) const noexcept;

  SipKey secret_;
};

}  // namespace pinion
