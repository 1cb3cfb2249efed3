#pragma once

#include <pinion/net/address.h>

#include "../stack/ip_kinds.h"

/// Which addresses a TCP connection may have (RFC 9293, 3.9.2.3; MUST-46, MUST-57, MUST-63).
///
/// Ownership:  plain values.
/// Threading:  any.
/// Cost:       a few compares.
/// Errors:     none.

namespace pinion {

/// Whether it can be one host's. Broadcasts of a network are known to the IP layer alone.
[[nodiscard]] constexpr bool is_unicast(const IpAddress& address) noexcept {
  return !is_never_a_host(address);
}

}  // namespace pinion
