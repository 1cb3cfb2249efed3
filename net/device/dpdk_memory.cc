#include <charconv>
#include <limits>

#include <fmt/format.h>
#include <pinion/net/dpdk_eal.h>

#include "dpdk_arguments.h"

namespace pinion {
namespace {

constexpr const char* kMemoryHint = "small, medium, large, or a size from 32M to 1024G";

/// The exponent of two that a size's unit stands for; -1 for none that is known.
int unit_shift(std::string_view unit) noexcept {
  if (unit == "M") return 20;
  if (unit == "G") return 30;
  return -1;
}

}  // namespace

Result<DpdkMemory> DpdkMemory::parse(std::string_view text) {
  if (text == "small") return DpdkMemory{};
  if (text == "medium") return DpdkMemory{std::size_t{512} << 20, Pages::huge};
  if (text == "large") return DpdkMemory{std::size_t{2} << 30, Pages::huge};

  std::size_t count = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, count);
  const int shift =
      error == std::errc{} ? unit_shift({stop, static_cast<std::size_t>(end - stop)}) : -1;
  if (shift < 0) {
    return fail(ErrorCode::invalid_argument, fmt::format("'{}' is no amount of memory", text),
                kMemoryHint);
  }
  const std::size_t most = std::numeric_limits<std::size_t>::max() >> shift;
  const DpdkMemory memory{count > most ? most << shift : count << shift, Pages::either};
  if (const Result<> fits = detail::check_memory(memory); !fits) {
    return tl::unexpected(fits.error());
  }
  return memory;
}

namespace detail {

Result<> check_memory(const DpdkMemory& memory) {
  constexpr std::size_t kLeast = std::size_t{32} << 20;
  constexpr std::size_t kMost = std::size_t{1} << 40;
  if (memory.bytes >= kLeast && memory.bytes <= kMost) return {};
  return fail(ErrorCode::invalid_argument,
              fmt::format("DPDK can't have {} MiB of memory", memory.bytes >> 20), kMemoryHint);
}

}  // namespace detail
}  // namespace pinion
