#include "local_addresses.h"

namespace pinion {

std::optional<std::uint16_t> LocalAddresses::take(const CompactAddress& address) noexcept {
  const auto holds = [&](std::size_t at) {
    return entries_[at].references != 0 && entries_[at].address == address;
  };
  std::size_t at = last_;
  if (!holds(at)) {
    std::size_t free = used_;
    for (at = 0; at < used_ && !holds(at); ++at) {
      if (entries_[at].references == 0 && free == used_) free = at;
    }
    if (at == used_) {
      if (free == entries_.size()) return std::nullopt;
      at = free;
      if (at == used_) ++used_;
      entries_[at].address = address;
    }
  }
  last_ = static_cast<std::uint16_t>(at);
  ++entries_[at].references;
  return last_;
}

}  // namespace pinion
