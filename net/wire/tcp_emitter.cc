#include "tcp_emitter.h"

#include <cstdint>

#include "byte_order.h"
#include "tcp_option_kind.h"

namespace pinion::wire {
namespace {

constexpr std::size_t kWord = 4;

/// Four bytes of options: NOPs, kinds, lengths, a window scale.
constexpr std::uint32_t word(unsigned a, unsigned b, unsigned c, unsigned d) noexcept {
  return a << 24 | b << 16 | c << 8 | d;
}
constexpr unsigned kind(TcpOptionKind kind) noexcept {
  return static_cast<unsigned>(kind);
}
constexpr unsigned kNop = kind(TcpOptionKind::no_operation);

std::byte* store_word(std::byte* at, std::uint32_t value) noexcept {
  store_be32(at, value);
  return at + kWord;
}

/// SACK-permitted and the timestamps share a word, as they do in most SYNs.
std::byte* store_timestamps(std::byte* at, const TcpOptions& options) noexcept {
  if (options.timestamps) {
    const bool both = options.sack_permitted;
    at = store_word(at, word(both ? kind(TcpOptionKind::sack_permitted) : kNop,
                             both ? kTcpSackPermittedSize : kNop, kind(TcpOptionKind::timestamps),
                             kTcpTimestampsSize));
    at = store_word(at, options.timestamps->value);
    return store_word(at, options.timestamps->echo_reply);
  }
  if (!options.sack_permitted) return at;
  return store_word(at,
                    word(kNop, kNop, kind(TcpOptionKind::sack_permitted), kTcpSackPermittedSize));
}

std::byte* store_sack(std::byte* at, const SackBlocks& blocks) noexcept {
  if (blocks.empty()) return at;
  const auto size = static_cast<unsigned>(kTcpSackHeadSize + blocks.size() * kTcpSackBlockSize);
  at = store_word(at, word(kNop, kNop, kind(TcpOptionKind::sack), size));
  for (const SackBlock& block : blocks) {
    at = store_word(at, block.left.value());
    at = store_word(at, block.right.value());
  }
  return at;
}

void store_options(std::byte* at, const TcpOptions& options) noexcept {
  if (options.mss) {
    at = store_word(at, kind(TcpOptionKind::mss) << 24 | kTcpMssSize << 16 | *options.mss);
  }
  at = store_timestamps(at, options);
  if (options.window_scale) {
    PINION_DCHECK(*options.window_scale <= TcpOptions::kMaxWindowScale);
    at = store_word(at, word(kNop, kind(TcpOptionKind::window_scale), kTcpWindowScaleSize,
                             *options.window_scale));
  }
  store_sack(at, options.sack);
}

}  // namespace

std::size_t tcp_options_size(const TcpOptions& options) noexcept {
  std::size_t words = 0;
  if (options.mss) words += 1;
  if (options.timestamps) words += 3;
  if (options.sack_permitted && !options.timestamps) words += 1;
  if (options.window_scale) words += 1;
  if (!options.sack.empty()) words += 1 + 2 * options.sack.size();
  return words * kWord;
}

std::size_t emit_tcp(std::span<std::byte> to, const TcpHeader& header,
                     const TcpOptions& options) noexcept {
  const std::size_t options_size = tcp_options_size(options);
  const std::size_t size = kTcpHeaderSize + options_size;
  PINION_ASSERT(options_size <= kTcpMaxOptionsSize);
  PINION_ASSERT(size <= to.size());
  std::byte* const at = to.data();
  store_be16(at, header.source_port);
  store_be16(at + 2, header.destination_port);
  store_be32(at + 4, header.sequence.value());
  store_be32(at + 8, header.acknowledgment.value());
  store_u8(at + 12, static_cast<std::uint8_t>(size / kWord << 4));
  store_u8(at + 13, header.flags.bits());
  store_be16(at + 14, header.window);
  store_be16(at + kTcpChecksumOffset, 0);
  store_be16(at + 18, header.urgent_pointer);
  store_options(at + kTcpHeaderSize, options);
  return size;
}

}  // namespace pinion::wire
