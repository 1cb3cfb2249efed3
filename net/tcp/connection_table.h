#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include <pinion/lib/assert.h>
#include <pinion/lib/bits.h>

/// Finds a connection, or a record of one, by the hash of its four-tuple: open addressing with
/// linear probing over slots of 8 bytes, {hash, index}. The tuples stay where the records are.
///
/// A burst is looked up in two passes, so that its cache misses overlap: prefetch() for each
/// packet, then likely() to prefetch the record, then find() (Tcp::expect()).
///
/// Ownership:  the slots, taken at start for the most entries there can be: twice as many, rounded
///             up to a power of two. Pages that are never touched stay unmapped.
/// Threading:  one lcore, no locks.
/// Cost:       at most half full, so that a lookup takes one and a half probes on average, of a
///             line that holds eight slots. Erasing moves back what follows: no tombstones, nothing
///             to rebuild, no stall.
/// Errors:     full: insert() says no. Two entries may have the same hash, whom the caller's
///             `matches` tells apart. Erasing what isn't there is refused by an assertion.
///
/// The hash has to be keyed and not linear (table_hash()): whoever can make entries collide turns a
/// lookup into a walk over all of them.

namespace pinion {

class ConnectionTable {
 public:
  /// Room for `limit` entries, 1 to 2^30.
  explicit ConnectionTable(std::size_t limit) noexcept;

  /// Asks for the memory that find(hash) will look at first.
  void prefetch(std::uint64_t hash) const noexcept { __builtin_prefetch(&slots_[home(tag(hash))]); }

  /// The index that find(hash) will most likely give, without a look at the record.
  [[nodiscard]] std::optional<std::uint32_t> likely(std::uint64_t hash) const noexcept {
    return find(hash, [](std::uint32_t) { return true; });
  }

  /// The index for which `matches(index)` holds, among those that were inserted with `hash`.
  template <class Matches>
  [[nodiscard]] std::optional<std::uint32_t> find(std::uint64_t hash,
                                                  Matches&& matches) const noexcept {
    const std::uint32_t wanted = tag(hash);
    for (std::size_t at = home(wanted); slots_[at].entry != 0; at = after(at)) {
      if (slots_[at].tag != wanted) continue;
      const std::uint32_t index = slots_[at].entry - 1;
      if (matches(index)) return index;
    }
    return std::nullopt;
  }

  /// False, and nothing changes, when the table is full. That the entry isn't there yet is the
  /// caller's to know.
  [[nodiscard]] bool insert(std::uint64_t hash, std::uint32_t index) noexcept;

  /// Takes out `index`, which was inserted with `hash`.
  void erase(std::uint64_t hash, std::uint32_t index) noexcept;

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::size_t limit() const noexcept { return limit_; }
  [[nodiscard]] std::size_t memory() const noexcept { return (mask_ + 1) * sizeof(Slot); }

  /// Verifies every invariant by a scan of all slots; for tests.
  [[nodiscard]] bool check() const noexcept;

 private:
  /// All zero: empty, as fresh memory is.
  struct Slot {
    std::uint32_t tag;
    std::uint32_t entry;  ///< The index and one.
  };
  static_assert(sizeof(Slot) == 8);

  struct Release {
    void operator()(Slot* slots) const noexcept;
  };

  static constexpr std::uint32_t tag(std::uint64_t hash) noexcept {
    return static_cast<std::uint32_t>(hash);
  }
  /// From the tag alone, so that an entry can be moved without its record.
  [[nodiscard]] std::size_t home(std::uint32_t tag) const noexcept { return tag & mask_; }
  [[nodiscard]] std::size_t after(std::size_t at) const noexcept { return (at + 1) & mask_; }
  /// How many slots lie between an entry's home and `at`.
  [[nodiscard]] std::size_t distance(std::size_t at) const noexcept {
    return (at - home(slots_[at].tag)) & mask_;
  }

  std::size_t limit_;
  std::size_t mask_;
  std::size_t size_ = 0;
  std::unique_ptr<Slot[], Release> slots_;
};

}  // namespace pinion
