#include "malloc_counter.h"

#include <cerrno>
#include <cstddef>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PINION_MALLOC_COUNTED 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define PINION_MALLOC_COUNTED 0
#endif
#endif
#ifndef PINION_MALLOC_COUNTED
#define PINION_MALLOC_COUNTED 1
#endif

namespace pinion::test {
namespace {

thread_local std::uint64_t count = 0;

}  // namespace

bool malloc_is_counted() noexcept {
  return PINION_MALLOC_COUNTED != 0;
}

std::uint64_t mallocs() noexcept {
  return count;
}

}  // namespace pinion::test

#if PINION_MALLOC_COUNTED

// glibc's own allocator behind the public names.
extern "C" {

void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t number, std::size_t size);
void* __libc_realloc(void* memory, std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);

void* malloc(std::size_t size) {
  ++pinion::test::count;
  return __libc_malloc(size);
}

void* calloc(std::size_t number, std::size_t size) {
  ++pinion::test::count;
  return __libc_calloc(number, size);
}

void* realloc(void* memory, std::size_t size) {
  ++pinion::test::count;
  return __libc_realloc(memory, size);
}

void* memalign(std::size_t alignment, std::size_t size) {
  ++pinion::test::count;
  return __libc_memalign(alignment, size);
}

void* aligned_alloc(std::size_t alignment, std::size_t size) {
  return memalign(alignment, size);
}

int posix_memalign(void** memory, std::size_t alignment, std::size_t size) {
  *memory = memalign(alignment, size);
  return *memory == nullptr ? ENOMEM : 0;
}

}  // extern "C"

#endif
