#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <pinion/lib/assert.h>

#include "sequence_number.h"

/// What a TCP header and its options say, as values (RFC 9293, 3.1 and 3.2).
///
/// Ownership:  plain values.
/// Threading:  any.
/// Cost:       24 bytes for the header, 60 for the options.
/// Errors:     a fifth SACK block is refused by an assertion.

namespace pinion::wire {

inline constexpr std::size_t kTcpHeaderSize = 20;      ///< Without options.
inline constexpr std::size_t kTcpMaxOptionsSize = 40;  ///< What a data offset of 15 leaves.

/// Two NOPs, kind and length of timestamps, as one word: the layout that RFC 7323, appendix A,
/// recommends.
inline constexpr std::uint32_t kTcpPaddedTimestamps = 0x0101080a;
inline constexpr std::size_t kTcpPaddedTimestampsSize = 12;

enum class TcpFlag : std::uint8_t {
  fin = 0x01,
  syn = 0x02,
  rst = 0x04,
  psh = 0x08,
  ack = 0x10,
  urg = 0x20,
  ece = 0x40,
  cwr = 0x80,
};

/// A set of flags: `TcpFlag::syn | TcpFlag::ack`.
class TcpFlags {
 public:
  constexpr TcpFlags() noexcept = default;
  explicit constexpr TcpFlags(TcpFlag flag) noexcept : bits_(static_cast<std::uint8_t>(flag)) {}

  /// As they stand in the header's byte 13.
  [[nodiscard]] static constexpr TcpFlags from_bits(std::uint8_t bits) noexcept {
    TcpFlags flags;
    flags.bits_ = bits;
    return flags;
  }
  [[nodiscard]] constexpr std::uint8_t bits() const noexcept { return bits_; }

  [[nodiscard]] constexpr bool has(TcpFlag flag) const noexcept {
    return (bits_ & static_cast<std::uint8_t>(flag)) != 0;
  }

  constexpr TcpFlags& operator|=(TcpFlag flag) noexcept {
    bits_ |= static_cast<std::uint8_t>(flag);
    return *this;
  }
  friend constexpr TcpFlags operator|(TcpFlags flags, TcpFlag flag) noexcept {
    return flags |= flag;
  }

  friend constexpr bool operator==(TcpFlags, TcpFlags) noexcept = default;

 private:
  std::uint8_t bits_ = 0;
};

[[nodiscard]] constexpr TcpFlags operator|(TcpFlag a, TcpFlag b) noexcept {
  return TcpFlags(a) | b;
}

struct TcpHeader {
  std::uint16_t source_port = 0;
  std::uint16_t destination_port = 0;
  SequenceNumber sequence;
  SequenceNumber acknowledgment;
  std::uint8_t data_offset = 5;  ///< The header's size in 32-bit words, options included.
  TcpFlags flags;
  std::uint16_t window = 0;  ///< As it stands in the segment, unscaled.
  std::uint16_t urgent_pointer = 0;

  /// In bytes: where the data begins.
  [[nodiscard]] constexpr std::size_t size() const noexcept { return std::size_t{data_offset} * 4; }

  friend constexpr bool operator==(const TcpHeader&, const TcpHeader&) noexcept = default;
};

/// RFC 7323, 3.2.
struct TcpTimestamps {
  std::uint32_t value = 0;
  std::uint32_t echo_reply = 0;

  friend constexpr bool operator==(TcpTimestamps, TcpTimestamps) noexcept = default;
};

/// Data that has arrived out of order, from `left` up to the byte ahead of `right` (RFC 2018, 3).
struct SackBlock {
  SequenceNumber left;
  SequenceNumber right;

  friend constexpr bool operator==(SackBlock, SackBlock) noexcept = default;
};

/// The blocks of one SACK option, in the order in which they stand there: none, or up to 4.
class SackBlocks {
 public:
  static constexpr std::size_t kMost = 4;  ///< What fits into a header (RFC 2018, 3).

  [[nodiscard]] constexpr std::size_t size() const noexcept { return count_; }
  [[nodiscard]] constexpr bool empty() const noexcept { return count_ == 0; }
  [[nodiscard]] constexpr bool full() const noexcept { return count_ == kMost; }
  [[nodiscard]] constexpr const SackBlock& operator[](std::size_t index) const noexcept {
    PINION_DCHECK(index < count_);
    return blocks_[index];
  }
  [[nodiscard]] constexpr const SackBlock* begin() const noexcept { return blocks_.data(); }
  [[nodiscard]] constexpr const SackBlock* end() const noexcept { return blocks_.data() + count_; }

  constexpr void push_back(SackBlock block) noexcept {
    PINION_ASSERT(!full());
    blocks_[count_++] = block;
  }
  constexpr void clear() noexcept { count_ = 0; }

  friend constexpr bool operator==(const SackBlocks& a, const SackBlocks& b) noexcept {
    if (a.count_ != b.count_) return false;
    for (std::size_t i = 0; i < a.count_; ++i) {
      if (a.blocks_[i] != b.blocks_[i]) return false;
    }
    return true;
  }

 private:
  std::array<SackBlock, kMost> blocks_{};
  std::uint8_t count_ = 0;
};

/// The options of one segment. Which of them mean something in it is for TCP to say: MSS, window
/// scale and SACK-permitted only in one with SYN (RFC 9293, 3.7.1; RFC 7323, 2.2; RFC 2018, 2).
struct TcpOptions {
  static constexpr std::uint8_t kMaxWindowScale = 14;  ///< RFC 7323, 2.3.

  std::optional<std::uint16_t> mss;
  std::optional<std::uint8_t> window_scale;
  bool sack_permitted = false;
  std::optional<TcpTimestamps> timestamps;
  SackBlocks sack;

  friend constexpr bool operator==(const TcpOptions&, const TcpOptions&) noexcept = default;
};

}  // namespace pinion::wire
