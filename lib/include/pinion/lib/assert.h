#pragma once

#include <pinion/lib/export.h>

/// Assertions: one fact each, on in release too. A failed one is our bug or a misuse of the API,
/// never the wire's doing.
///
/// Ownership:  none.
/// Threading:  any.
/// Cost:       PINION_ASSERT is one compare and a branch that is never taken. PINION_DCHECK is for
///             what costs more, and is compiled out when PINION_NO_DCHECK is defined.
/// Errors:     a fact that doesn't hold ends the process, with its text and place on stderr.

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
