#include "connection_table.h"

#include <cstdlib>

namespace pinion {

void ConnectionTable::Release::operator()(Slot* slots) const noexcept {
  std::free(slots);
}

ConnectionTable::ConnectionTable(std::size_t limit) noexcept
    : limit_(limit), mask_(round_up_to_power_of_two(2 * limit) - 1) {
  PINION_ASSERT(limit >= 1);
  PINION_ASSERT(limit <= std::size_t{1} << 30);
  // From calloc, which does not touch what the system has zeroed.
  slots_.reset(static_cast<Slot*>(std::calloc(mask_ + 1, sizeof(Slot))));
  PINION_ASSERT(slots_ != nullptr);
}

bool ConnectionTable::insert(std::uint64_t hash, std::uint32_t index) noexcept {
  if (size_ == limit_) return false;
  PINION_ASSERT(index != ~std::uint32_t{0});
  std::size_t at = home(tag(hash));
  while (slots_[at].entry != 0) at = after(at);
  slots_[at] = {.tag = tag(hash), .entry = index + 1};
  ++size_;
  return true;
}

void ConnectionTable::erase(std::uint64_t hash, std::uint32_t index) noexcept {
  std::size_t hole = home(tag(hash));
  while (slots_[hole].entry != index + 1 || slots_[hole].tag != tag(hash)) {
    PINION_ASSERT(slots_[hole].entry != 0);
    hole = after(hole);
  }
  // What follows moves into the hole, unless that is in front of its home.
  for (std::size_t at = after(hole); slots_[at].entry != 0; at = after(at)) {
    if (distance(at) < ((at - hole) & mask_)) continue;
    slots_[hole] = slots_[at];
    hole = at;
  }
  slots_[hole] = {};
  --size_;
}

bool ConnectionTable::check() const noexcept {
  std::size_t entries = 0;
  for (std::size_t at = 0; at <= mask_; ++at) {
    if (slots_[at].entry == 0) continue;
    ++entries;
    // No empty slot between an entry and its home.
    for (std::size_t back = distance(at); back != 0; --back) {
      if (slots_[(at - back) & mask_].entry == 0) return false;
    }
  }
  return entries == size_ && size_ <= limit_;
}

}  // namespace pinion
