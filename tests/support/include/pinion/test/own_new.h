#pragma once

#include <gtest/gtest.h>

/// Whether a program may bring its own operator new. clang's ThreadSanitizer links one that nobody
/// can replace.

#define PINION_TEST_OWN_NEW 1
#if defined(__clang__)
#if __has_feature(thread_sanitizer)
#undef PINION_TEST_OWN_NEW
#define PINION_TEST_OWN_NEW 0
#endif
#endif

/// First in a test that needs it.
#define PINION_TEST_NEEDS_OWN_NEW() \
  if (PINION_TEST_OWN_NEW == 0) GTEST_SKIP() << "a sanitizer's malloc"
