#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <pinion/lib/assert.h>

#include "four_tuple.h"

/// The addresses of ours that records of TCP mention, each once: a record then keeps two bytes
/// instead of sixteen, since a host has few addresses and talks to many.
///
/// Ownership:  room for `limit` addresses, taken at start. Each record holds a reference to its
///             own.
/// Threading:  one lcore.
/// Cost:       take() O(1) for the address that was taken last, otherwise O(addresses in use).
/// Errors:     full: none. A reference that isn't held is refused by an assertion.

namespace pinion {

class LocalAddresses {
 public:
  /// 1 to 65,536.
  explicit LocalAddresses(std::size_t limit) noexcept : entries_(limit) {
    PINION_ASSERT(limit >= 1);
    PINION_ASSERT(limit <= std::size_t{1} << 16);
  }

  /// A number for `address`, the same while it is referred to; adds a reference.
  [[nodiscard]] std::optional<std::uint16_t> take(const CompactAddress& address) noexcept;

  void give_back(std::uint16_t number) noexcept {
    PINION_ASSERT(number < used_);
    PINION_ASSERT(entries_[number].references != 0);
    --entries_[number].references;
  }

  [[nodiscard]] const CompactAddress& operator[](std::uint16_t number) const noexcept {
    PINION_DCHECK(number < used_);
    return entries_[number].address;
  }

 private:
  struct Entry {
    CompactAddress address;
    std::uint32_t references = 0;
  };

  std::vector<Entry> entries_;
  std::size_t used_ = 0;  ///< No entry from here on was ever taken.
  std::uint16_t last_ = 0;
};

}  // namespace pinion
