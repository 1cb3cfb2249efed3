#include "path_mtu.h"

namespace pinion {
namespace {

/// RFC 1191, table 7-1, down to what is believed.
constexpr std::array<std::size_t, 9> kPlateaus = {65535, 32000, 17914, 8166,          4352,
                                                  2002,  1492,  1006,  kBelievedMtuV4};

}  // namespace

bool PathMtuCache::learn(const IpAddress& destination, std::size_t mtu, Instant now) noexcept {
  // A smaller one is discarded: RFC 8201, section 4; RFC 1191, section 3.
  if (mtu < (destination.is_v6() ? kSmallestMtuV6 : kSmallestMtuV4)) return false;
  const bool fragment = destination.is_v4() && mtu < kBelievedMtuV4;
  const PathMtu told{.mtu = fragment ? kBelievedMtuV4 : mtu, .fragment = fragment};

  Path* found = table_.find({destination});
  if (found != nullptr && now < found->expires) {
    if (told.mtu == found->path.mtu && fragment == found->path.fragment) {
      found->expires = now + kLifetime;
      table_.make_newest(*found);
      return false;
    }
    const bool smaller = told.mtu < found->path.mtu || (fragment && !found->path.fragment);
    if (!smaller) return false;
  }
  if (found == nullptr) {
    if (table_.full()) table_.erase(table_.oldest());
    found = table_.insert({destination});
  } else {
    table_.make_newest(*found);
  }
  found->path = told;
  found->expires = now + kLifetime;
  return true;
}

std::size_t plateau_below(std::size_t size) noexcept {
  for (const std::size_t plateau : kPlateaus) {
    if (plateau < size) return plateau;
  }
  return kSmallestMtuV4;
}

}  // namespace pinion
