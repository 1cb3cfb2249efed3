#pragma once

#include <pinion/lib/export.h>

/// Calling what users of the library wrote, which may throw although the library doesn't.
///
/// Threading:  any.
/// Cost:       none but a table entry, while nothing is thrown.
/// Errors:     an exception that leaves the call ends the process with a message that says which
///             call, followed by the terminate handler's words about the exception.
///
/// Only for files that are built with exceptions: others neither catch one nor stop it, a noexcept
/// function of theirs included.

namespace pinion::detail {

/// Ends the process: an exception has left `what`.
[[noreturn, gnu::cold]] PINION_EXPORT void exception_left(const char* what) noexcept;

#ifdef __cpp_exceptions
template <class Call>
auto guarded(const char* what, Call call) noexcept {
  try {
    return call();
  } catch (...) {
    exception_left(what);
  }
}
#endif

}  // namespace pinion::detail
