#pragma once

#include <cstdint>

/// Counts what this program takes from the heap, by whatever way.

namespace pinion::test {

/// False where a sanitizer has replaced malloc.
[[nodiscard]] bool malloc_is_counted() noexcept;

/// Calls of malloc, calloc, realloc and aligned allocations by the calling thread so far.
[[nodiscard]] std::uint64_t mallocs() noexcept;

}  // namespace pinion::test
