#include "tcp_parser.h"

#include <algorithm>
#include <optional>

#include "tcp_option_kind.h"

namespace pinion::wire {
namespace {

/// Whether an option of `kind` may be `size` bytes long.
bool is_size_of(TcpOptionKind kind, std::size_t size) noexcept {
  switch (kind) {
    case TcpOptionKind::mss:
      return size == kTcpMssSize;
    case TcpOptionKind::window_scale:
      return size == kTcpWindowScaleSize;
    case TcpOptionKind::sack_permitted:
      return size == kTcpSackPermittedSize;
    case TcpOptionKind::sack:
      return size > kTcpSackHeadSize && (size - kTcpSackHeadSize) % kTcpSackBlockSize == 0;
    case TcpOptionKind::timestamps:
      return size == kTcpTimestampsSize;
    case TcpOptionKind::end:
    case TcpOptionKind::no_operation:
      break;
  }
  return true;
}

/// `size` is that of a SACK option: 1 to 4 blocks, since options end 40 bytes behind the header.
SackBlocks load_sack(const std::byte* at, std::size_t size) noexcept {
  SackBlocks blocks;
  for (std::size_t offset = kTcpSackHeadSize; offset < size; offset += kTcpSackBlockSize) {
    blocks.push_back({.left = SequenceNumber(load_be32(at + offset)),
                      .right = SequenceNumber(load_be32(at + offset + 4))});
  }
  return blocks;
}

/// Notes what the option at `at` says; its size has been checked.
void load_option(const std::byte* at, std::size_t size, TcpOptions& into) noexcept {
  switch (static_cast<TcpOptionKind>(load_u8(at))) {
    case TcpOptionKind::mss:
      into.mss = load_be16(at + 2);
      break;
    case TcpOptionKind::window_scale:
      into.window_scale = std::min(load_u8(at + 2), TcpOptions::kMaxWindowScale);
      break;
    case TcpOptionKind::sack_permitted:
      into.sack_permitted = true;
      break;
    case TcpOptionKind::sack:
      into.sack = load_sack(at, size);
      break;
    case TcpOptionKind::timestamps:
      into.timestamps = TcpTimestamps{.value = load_be32(at + 2), .echo_reply = load_be32(at + 6)};
      break;
    case TcpOptionKind::end:
    case TcpOptionKind::no_operation:
      break;
  }
}

}  // namespace

Parsed<TcpOptions> parse_tcp_options(std::span<const std::byte> bytes) noexcept {
  PINION_ASSERT(bytes.size() <= kTcpMaxOptionsSize);
  TcpOptions options;
  while (!bytes.empty()) {
    const auto kind = static_cast<TcpOptionKind>(load_u8(bytes.data()));
    if (kind == TcpOptionKind::end) break;
    if (kind == TcpOptionKind::no_operation) {
      bytes = bytes.subspan(1);
      continue;
    }
    if (bytes.size() < 2) return tl::unexpected(WireFault::tcp_option_overrun);
    const std::size_t size = load_u8(bytes.data() + 1);
    if (size < 2) return tl::unexpected(WireFault::tcp_option_length);
    if (size > bytes.size()) return tl::unexpected(WireFault::tcp_option_overrun);
    if (!is_size_of(kind, size)) return tl::unexpected(WireFault::tcp_option_length);
    load_option(bytes.data(), size, options);
    bytes = bytes.subspan(size);
  }
  return options;
}

}  // namespace pinion::wire
