#pragma once

#include <pinion/lib/export.h>

/// Assertions: one fact each, on in release too. A failed one is our bug or a misuse of the API,
/// never the wire's doing.
///
/// Cost:  PINION_ASSERT one compare and a never-taken branch; PINION_DCHECK is for what costs more
/// and is
///        compiled out when PINION_NO_DCHECK is defined.

namespace pinion::detail {

/// Prints the failed expression and its place to stderr and aborts. Async-signal-safe, no
/// allocation.
[[noreturn, gnu::cold]] PINION_EXPORT void assert_failed(const char* expression, const char* file,
                                                         int line) noexcept;

}  // namespace pinion::detail

#define PINION_ASSERT(condition)                     \
  (__builtin_expect(static_cast<bool>(condition), 1) \
       ? static_cast<void>(0)                        \
       : ::pinion::detail::assert_failed(#condition, __FILE__, __LINE__))

#ifdef PINION_NO_DCHECK
#define PINION_DCHECK(condition) static_cast<void>(sizeof(static_cast<bool>(condition)))
#else
#define PINION_DCHECK(condition) PINION_ASSERT(condition)
#endif
