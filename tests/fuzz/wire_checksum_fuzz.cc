#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "wire/checksum.h"

/// The checksum of bytes that are cut in pieces, added and copied, against one that goes byte by
/// byte. Each piece's first byte is its size and how it is added.

namespace {

std::uint16_t slow_checksum(std::span<const std::byte> bytes) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    sum += std::to_integer<std::uint32_t>(bytes[i]) << (i % 2 == 0 ? 8 : 0);
    sum = (sum & 0xffffU) + (sum >> 16);
  }
  return static_cast<std::uint16_t>(~sum);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::span<const std::byte> input(reinterpret_cast<const std::byte*>(data), size);
  pinion::wire::InternetChecksum sum;
  std::vector<std::byte> all;
  while (!input.empty()) {
    const auto how = std::to_integer<unsigned>(input[0]);
    input = input.subspan(1);
    const auto piece = input.first(std::min<std::size_t>(how / 2, input.size()));
    input = input.subspan(piece.size());
    if (how % 2 == 0) {
      sum.add(piece);
    } else {
      std::vector<std::byte> copy(piece.size());
      sum.add_copied(copy.data(), piece);
      if (!std::ranges::equal(copy, piece)) std::abort();
    }
    all.insert(all.end(), piece.begin(), piece.end());
  }
  if (sum.value() != slow_checksum(all)) std::abort();
  return 0;
}
