#include "checksum.h"

#include <algorithm>

namespace pinion::wire {
namespace {

/// The upper half counts the carries, so that no addition waits for the one before it to fold.
/// Packets are far too short to fill it.
__extension__ using WideSum = unsigned __int128;

template <class Word>
Word load_word(const std::byte* from) noexcept {
  Word word;
  std::memcpy(&word, from, sizeof(word));
  return word;
}

/// Calls `visit(word, offset)` for what `size` bytes are made of: words of 64 bits, four at a time,
/// then smaller ones. The last odd byte is the first of a word whose second is 0.
template <class Visit>
void for_each_word(const std::byte* bytes, std::size_t size, Visit visit) noexcept {
  std::size_t at = 0;
  for (; at + 32 <= size; at += 32) {
    visit(load_word<std::uint64_t>(bytes + at), at);
    visit(load_word<std::uint64_t>(bytes + at + 8), at + 8);
    visit(load_word<std::uint64_t>(bytes + at + 16), at + 16);
    visit(load_word<std::uint64_t>(bytes + at + 24), at + 24);
  }
  for (; at + 8 <= size; at += 8) visit(load_word<std::uint64_t>(bytes + at), at);
  if ((size & 4) != 0) {
    visit(load_word<std::uint32_t>(bytes + at), at);
    at += 4;
  }
  if ((size & 2) != 0) {
    visit(load_word<std::uint16_t>(bytes + at), at);
    at += 2;
  }
  if ((size & 1) != 0) visit(bytes[at], at);
}

std::uint64_t widened(std::uint64_t word) noexcept {
  return word;
}

std::uint64_t widened(std::byte last) noexcept {
  const std::byte pair[2] = {last, std::byte{0}};
  return load_word<std::uint16_t>(pair);
}

std::uint64_t folded(WideSum sum) noexcept {
  const auto carries = static_cast<std::uint64_t>(sum >> 64);
  const std::uint64_t low = static_cast<std::uint64_t>(sum) + carries;
  return low + (low < carries ? 1U : 0U);
}

}  // namespace

std::uint64_t InternetChecksum::sum_of(const std::byte* bytes, std::size_t size) noexcept {
  WideSum sum = 0;
  for_each_word(bytes, size, [&sum](auto word, std::size_t) { sum += widened(word); });
  return folded(sum);
}

std::uint64_t InternetChecksum::copy_and_sum(std::byte* to, const std::byte* bytes,
                                             std::size_t size) noexcept {
  WideSum sum = 0;
  for_each_word(bytes, size, [&sum, to](auto word, std::size_t at) {
    std::memcpy(to + at, &word, sizeof(word));
    sum += widened(word);
  });
  return folded(sum);
}

void InternetChecksum::add(const Packet& first, std::size_t size) noexcept {
  for (const Packet* at = &first; size != 0; at = at->next_segment()) {
    PINION_ASSERT(at != nullptr);
    const std::size_t taken = std::min(size, at->size());
    add({at->data(), taken});
    size -= taken;
  }
}

}  // namespace pinion::wire
