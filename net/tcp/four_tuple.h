#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>

#include <pinion/lib/sip_hash.h>
#include <pinion/net/address.h>

/// What names a TCP connection: two addresses and two ports, of either family, in 36 bytes.
///
/// An IPv4 address stands in it as the IPv6 address ::ffff:a.b.c.d. No packet may carry such an
/// address, so the family needs no field of its own.
///
/// Ownership:  plain values.
/// Threading:  any.
/// Cost:       a comparison is six compares at most; a hash 5 rounds of SipHash for IPv4, 8 for
///             IPv6.
/// Errors:     between() answers "none" for what can't be a connection: two families, or an IPv6
///             address that is an IPv4 address in disguise. The wire may bring both.

namespace pinion {

/// An address in 16 bytes, of either family.
class CompactAddress {
 public:
  constexpr CompactAddress() noexcept = default;

  /// None for ::ffff:0:0/96 as an IPv6 address (RFC 4291, 2.5.5.2): only hosts inside may use it.
  [[nodiscard]] static constexpr std::optional<CompactAddress> of(
      const IpAddress& address) noexcept {
    const auto& bytes = address.bytes();
    if (address.is_v4()) {
      return v4(word(bytes[0], bytes[1], bytes[2], bytes[3]));
    }
    const CompactAddress compact = v6(bytes);
    if (compact.is_v4()) return std::nullopt;
    return compact;
  }

  /// One of IPv6 that is no IPv4 address in disguise, as no address of ours is.
  [[nodiscard]] static constexpr CompactAddress v6(
      const std::array<std::uint8_t, 16>& bytes) noexcept {
    CompactAddress compact;
    for (std::size_t i = 0; i < compact.words_.size(); ++i) {
      compact.words_[i] = word(bytes[4 * i], bytes[4 * i + 1], bytes[4 * i + 2], bytes[4 * i + 3]);
    }
    return compact;
  }

  /// An IPv4 address as a number.
  [[nodiscard]] static constexpr CompactAddress v4(std::uint32_t address) noexcept {
    CompactAddress compact;
    compact.words_ = {0, 0, kMapped, address};
    return compact;
  }

  [[nodiscard]] constexpr IpAddress address() const noexcept {
    if (is_v4()) return IpAddress::v4({octet(12), octet(13), octet(14), octet(15)});
    std::array<std::uint8_t, 16> bytes{};
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = octet(i);
    return IpAddress::v6(bytes);
  }

  [[nodiscard]] constexpr bool is_v4() const noexcept {
    return (words_[0] | words_[1]) == 0 && words_[2] == kMapped;
  }

  /// The address's 32-bit parts, the first one first; of an IPv4 address the last one counts.
  [[nodiscard]] constexpr const std::array<std::uint32_t, 4>& words() const noexcept {
    return words_;
  }

  /// In two words, without a call.
  friend constexpr bool operator==(const CompactAddress& a, const CompactAddress& b) noexcept {
    using Words = std::array<std::uint64_t, 2>;
    const auto ours = std::bit_cast<Words>(a.words_);
    const auto theirs = std::bit_cast<Words>(b.words_);
    return ours[0] == theirs[0] && ours[1] == theirs[1];
  }

 private:
  static constexpr std::uint32_t kMapped = 0xffffU;

  static constexpr std::uint32_t word(std::uint8_t a, std::uint8_t b, std::uint8_t c,
                                      std::uint8_t d) noexcept {
    return std::uint32_t{a} << 24 | std::uint32_t{b} << 16 | std::uint32_t{c} << 8 | d;
  }
  [[nodiscard]] constexpr std::uint8_t octet(std::size_t index) const noexcept {
    return static_cast<std::uint8_t>(words_[index / 4] >> (24 - 8 * (index % 4)));
  }

  std::array<std::uint32_t, 4> words_{};
};

struct FourTuple {
  CompactAddress local;
  CompactAddress remote;
  std::uint16_t local_port = 0;
  std::uint16_t remote_port = 0;

  /// What names a connection over IPv4, as numbers.
  struct V4 {
    std::uint32_t local = 0;
    std::uint32_t remote = 0;
    std::uint16_t local_port = 0;
    std::uint16_t remote_port = 0;
  };
  [[nodiscard]] static constexpr FourTuple v4(const V4& of) noexcept {
    return {CompactAddress::v4(of.local), CompactAddress::v4(of.remote), of.local_port,
            of.remote_port};
  }

  [[nodiscard]] static constexpr std::optional<FourTuple> between(const Endpoint& local,
                                                                  const Endpoint& remote) noexcept {
    const auto ours = CompactAddress::of(local.address);
    const auto theirs = CompactAddress::of(remote.address);
    if (!ours || !theirs || local.address.is_v4() != remote.address.is_v4()) return std::nullopt;
    return FourTuple{*ours, *theirs, local.port, remote.port};
  }

  [[nodiscard]] constexpr bool is_v4() const noexcept { return local.is_v4(); }
  /// The same as `*this == v4(other)`.
  [[nodiscard]] constexpr bool is(const V4& other) const noexcept {
    return local.words()[3] == other.local && remote.words()[3] == other.remote &&
           local_port == other.local_port && remote_port == other.remote_port && is_v4();
  }
  [[nodiscard]] constexpr Endpoint local_endpoint() const noexcept {
    return {local.address(), local_port};
  }
  [[nodiscard]] constexpr Endpoint remote_endpoint() const noexcept {
    return {remote.address(), remote_port};
  }

  friend constexpr bool operator==(const FourTuple&, const FourTuple&) noexcept = default;
};

static_assert(sizeof(CompactAddress) == 16);
static_assert(sizeof(FourTuple) == 36);

/// Adds both addresses to a hash; those of IPv4 as one word. Which family it was has to show in
/// what else is hashed.
template <class Hasher>
constexpr void add_addresses(Hasher& hasher, const FourTuple& tuple) noexcept {
  const auto& ours = tuple.local.words();
  const auto& theirs = tuple.remote.words();
  if (!tuple.is_v4()) {
    hasher.add(std::uint64_t{ours[0]} << 32 | ours[1]);
    hasher.add(std::uint64_t{ours[2]} << 32 | ours[3]);
    hasher.add(std::uint64_t{theirs[0]} << 32 | theirs[1]);
    hasher.add(std::uint64_t{theirs[2]} << 32 | theirs[3]);
  } else {
    hasher.add(std::uint64_t{ours[3]} << 32 | theirs[3]);
  }
}

template <class Hasher>
[[nodiscard]] constexpr std::uint64_t tuple_hash(const SipKey& key,
                                                 const FourTuple& tuple) noexcept {
  Hasher hasher(key);
  add_addresses(hasher, tuple);
  const std::uint64_t length = tuple.is_v4() ? 12 : 36;
  return hasher.finish(length << 56 | std::uint64_t{tuple.local_port} << 16 | tuple.remote_port);
}

/// The same as table_hash(key, FourTuple::v4(of)).
[[nodiscard]] constexpr std::uint64_t table_hash(const SipKey& key,
                                                 const FourTuple::V4& of) noexcept {
  return tuple_hash<SipHasher13>(key, FourTuple::v4(of));
}

/// The hash by which a tuple's connection is found, or what else is kept of it. A CRC or a Toeplitz
/// hash is linear, so that a peer who chooses its addresses and ports makes them collide whatever
/// the seed; the values of this one look random to whoever lacks the key, and none goes out.
[[nodiscard]] constexpr std::uint64_t table_hash(const SipKey& key,
                                                 const FourTuple& tuple) noexcept {
  return tuple_hash<SipHasher13>(key, tuple);
}

}  // namespace pinion
