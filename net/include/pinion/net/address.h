#pragma once

#include <array>
#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <pinion/lib/export.h>
#include <pinion/lib/result.h>

/// Where a connection begins and ends: an IP address of either family, and one with a port; and
/// what a host has of its own, an address with its link's prefix.
///
/// Ownership:  plain values.
/// Threading:  any.
/// Cost:       copies of 17 to 20 bytes; parsing and printing are for set-up and logs.
/// Errors:     text that is no address gives an Error that shows how to write one. Names are not
///             looked up (there is no DNS), and addresses carry no zone (`%eth0`).

namespace pinion {

/// An IPv4 or IPv6 address, its bytes in network order. The default one is 0.0.0.0.
class IpAddress {
 public:
  constexpr IpAddress() noexcept = default;

  [[nodiscard]] static constexpr IpAddress v4(std::array<std::uint8_t, 4> bytes) noexcept {
    IpAddress address;
    for (std::size_t i = 0; i < bytes.size(); ++i) address.bytes_[i] = bytes[i];
    return address;
  }
  [[nodiscard]] static constexpr IpAddress v6(std::array<std::uint8_t, 16> bytes) noexcept {
    IpAddress address;
    address.bytes_ = bytes;
    address.is_v6_ = true;
    return address;
  }

  /// `127.0.0.1` or `::1`, without brackets.
  [[nodiscard]] PINION_EXPORT static Result<IpAddress> parse(std::string_view text);

  [[nodiscard]] constexpr bool is_v4() const noexcept { return !is_v6_; }
  [[nodiscard]] constexpr bool is_v6() const noexcept { return is_v6_; }

  /// The address in network order; of an IPv4 address the first four bytes count, the rest is zero.
  [[nodiscard]] constexpr const std::array<std::uint8_t, 16>& bytes() const noexcept {
    return bytes_;
  }

  friend constexpr auto operator<=>(const IpAddress&, const IpAddress&) noexcept = default;
  /// In two words, without a call: packets ask this many times.
  friend constexpr bool operator==(const IpAddress& a, const IpAddress& b) noexcept {
    using Words = std::array<std::uint64_t, 2>;
    const auto ours = std::bit_cast<Words>(a.bytes_);
    const auto theirs = std::bit_cast<Words>(b.bytes_);
    return a.is_v6_ == b.is_v6_ && ours[0] == theirs[0] && ours[1] == theirs[1];
  }

 private:
  bool is_v6_ = false;
  std::array<std::uint8_t, 16> bytes_{};
};

/// An address and a port. Port 0 asks `listen` for a free one.
struct Endpoint {
  IpAddress address;
  std::uint16_t port = 0;

  /// `127.0.0.1:7007` or `[::1]:7007`.
  [[nodiscard]] PINION_EXPORT static Result<Endpoint> parse(std::string_view text);

  friend constexpr auto operator<=>(const Endpoint&, const Endpoint&) noexcept = default;
};

/// An address of a host and how many of its leading bits all hosts of its link share.
struct HostAddress {
  IpAddress address;
  std::uint8_t prefix_length = 0;

  /// `10.9.0.1/24` or `fd00::1/64`.
  [[nodiscard]] PINION_EXPORT static Result<HostAddress> parse(std::string_view text);

  friend constexpr auto operator<=>(const HostAddress&, const HostAddress&) noexcept = default;
};

[[nodiscard]] PINION_EXPORT std::string to_string(const IpAddress& address);
[[nodiscard]] PINION_EXPORT std::string to_string(const HostAddress& address);
/// As Endpoint::parse reads it: an IPv6 address stands in brackets.
[[nodiscard]] PINION_EXPORT std::string to_string(const Endpoint& endpoint);

}  // namespace pinion
