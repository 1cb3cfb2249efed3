#include "checksum.h"

#include <algorithm>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace pinion::wire {
namespace {

/// A sum and its carries, which are counted, so that no addition waits for the one before it to
/// fold. Two instructions for a word; GCC 12 makes six of a sum in 128 bits.
struct WideSum {
  std::uint64_t low = 0;
  std::uint64_t carries = 0;

  void operator+=(std::uint64_t word) noexcept {
    low += word;
    carries += low < word ? 1U : 0U;
  }

  [[nodiscard]] std::uint64_t folded() const noexcept {
    const std::uint64_t sum = low + carries;
    return sum + (sum < carries ? 1U : 0U);
  }
};

template <class Word>
Word load_word(const std::byte* from) noexcept {
  Word word;
  std::memcpy(&word, from, sizeof(word));
  return word;
}

/// Calls `visit(word, offset)` for what `size` bytes are made of: words of 64 bits, eight at a
/// time, then smaller ones. The last odd byte is the first of a word whose second is 0. Inline, so
/// that what the visits change stays in registers.
template <class Visit>
[[gnu::always_inline]] inline void for_each_word(const std::byte* bytes, std::size_t size,
                                                 Visit visit) noexcept {
  std::size_t at = 0;
  for (; at + 64 <= size; at += 64) {
    visit(load_word<std::uint64_t>(bytes + at), at);
    visit(load_word<std::uint64_t>(bytes + at + 8), at + 8);
    visit(load_word<std::uint64_t>(bytes + at + 16), at + 16);
    visit(load_word<std::uint64_t>(bytes + at + 24), at + 24);
    visit(load_word<std::uint64_t>(bytes + at + 32), at + 32);
    visit(load_word<std::uint64_t>(bytes + at + 40), at + 40);
    visit(load_word<std::uint64_t>(bytes + at + 48), at + 48);
    visit(load_word<std::uint64_t>(bytes + at + 56), at + 56);
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

#if defined(__x86_64__)

/// Below this there is little to gain.
constexpr std::size_t kLeastAvx2 = 256;

const bool has_avx2 = __builtin_cpu_supports("avx2") != 0;

/// The sum of `size` bytes, a multiple of 64, in words of 32 bits, whose sums of 64 bits no
/// datagram lets overflow: half as many instructions as with carries.
[[gnu::target("avx2")]] std::uint64_t sum_by_avx2(const std::byte* bytes,
                                                  std::size_t size) noexcept {
  const auto wide = [bytes](std::size_t at) __attribute__((target("avx2"))) {
    const auto* const from = reinterpret_cast<const __m128i*>(bytes + at);
    return _mm256_cvtepu32_epi64(_mm_loadu_si128(from));
  };
  __m256i a = _mm256_setzero_si256();
  __m256i b = _mm256_setzero_si256();
  for (std::size_t at = 0; at < size; at += 64) {
    a = _mm256_add_epi64(a, wide(at));
    b = _mm256_add_epi64(b, wide(at + 16));
    a = _mm256_add_epi64(a, wide(at + 32));
    b = _mm256_add_epi64(b, wide(at + 48));
  }
  std::uint64_t lanes[4];
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(lanes), _mm256_add_epi64(a, b));
  return lanes[0] + lanes[1] + lanes[2] + lanes[3];
}

#endif

}  // namespace

std::uint64_t InternetChecksum::sum_of(const std::byte* bytes, std::size_t size) noexcept {
  WideSum sum;
#if defined(__x86_64__)
  if (size >= kLeastAvx2 && has_avx2) {
    const std::size_t blocks = size / 64 * 64;
    sum += sum_by_avx2(bytes, blocks);
    bytes += blocks;
    size -= blocks;
  }
#endif
  for_each_word(bytes, size, [&sum](auto word, std::size_t) { sum += widened(word); });
  return sum.folded();
}

std::uint64_t InternetChecksum::copy_and_sum(std::byte* to, const std::byte* bytes,
                                             std::size_t size) noexcept {
  WideSum sum;
  for_each_word(bytes, size, [&sum, to](auto word, std::size_t at) {
    std::memcpy(to + at, &word, sizeof(word));
    sum += widened(word);
  });
  return sum.folded();
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
