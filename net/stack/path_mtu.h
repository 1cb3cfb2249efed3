#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

#include <pinion/lib/time.h>
#include <pinion/net/address.h>

#include "ip_kinds.h"
#include "keyed_table.h"

/// What is known of the paths' MTUs (RFC 1191, RFC 8201): per destination, where a router has said
/// that less than the interface's MTU gets through.
///
/// Ownership:  the cache owns its entries.
/// Threading:  one lcore.
/// Cost:       one lookup, none while nothing was learnt; all memory is taken by the constructor.
/// Full:       the entry that was learnt longest ago gives way.
/// Limits:     an MTU only shrinks by what is learnt, and is forgotten after kLifetime (RFC 1191,
///             6.3), so that a larger one is found again. No IPv6 path takes less than 1,280 bytes,
///             and no IPv4 one is believed to take less than 552: who says so (RFC 1191 allows 68)
///             gets packets of 552 bytes that may be fragmented, so that a forger can't make us
///             send a packet for every few bytes.

namespace pinion {

inline constexpr std::size_t kSmallestMtuV6 = 1280;
inline constexpr std::size_t kSmallestMtuV4 = 68;
inline constexpr std::size_t kBelievedMtuV4 = 552;

struct PathMtu {
  std::size_t mtu = 0;
  bool fragment = false;  ///< The path takes even less: IPv4's DF stays clear.
};

class PathMtuCache {
 public:
  static constexpr Delay kLifetime = std::chrono::minutes{10};

  PathMtuCache(std::size_t capacity, std::uint64_t seed) : table_(capacity, seed) {}

  /// The path's MTU at `now`; none unless something was learnt.
  [[nodiscard]] std::optional<PathMtu> find(const IpAddress& destination,
                                            Instant now) const noexcept {
    if (table_.empty()) return std::nullopt;
    const Path* const found = table_.find({destination});
    if (found == nullptr || now >= found->expires) return std::nullopt;
    return found->path;
  }

  /// The path takes at most `mtu` bytes. False when that is no news, or can't be.
  bool learn(const IpAddress& destination, std::size_t mtu, Instant now) noexcept;

  /// Whether a new destination would take the place of one of which something is still believed.
  [[nodiscard]] bool is_full(Instant now) const noexcept {
    return table_.full() && now < table_.oldest().expires;
  }

  [[nodiscard]] std::size_t size() const noexcept { return table_.size(); }

 private:
  struct Key {
    IpAddress destination;

    [[nodiscard]] std::array<std::uint64_t, 2> words() const noexcept {
      return words_of(destination);
    }
    friend bool operator==(const Key&, const Key&) noexcept = default;
  };
  struct Path : KeyedRecord<Key> {
    explicit Path(const Key& its) noexcept : KeyedRecord(its) {}
    PathMtu path;
    Instant expires;
  };

  KeyedTable<Path> table_;
};

/// What to try when a router says that `size` bytes were too many but not how many would do: the
/// next lower of the usual MTUs (RFC 1191, 7.1).
[[nodiscard]] std::size_t plateau_below(std::size_t size) noexcept;

}  // namespace pinion
