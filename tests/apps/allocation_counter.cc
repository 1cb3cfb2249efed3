// Counts the heap allocations of a process: preloaded into a program, it adds one for each to the
// 64-bit number at the start of the file that PINION_ALLOCATION_COUNTER names.

#include <fcntl.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include <sys/mman.h>
#include <unistd.h>

extern "C" {
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* memory, std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);
}

namespace {

std::uint64_t uncounted;
std::uint64_t* counter = &uncounted;

void count() {
  __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

[[gnu::constructor]] void map_counter() {
  const char* path = std::getenv("PINION_ALLOCATION_COUNTER");
  const int fd = path == nullptr ? -1 : open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return;
  void* map = mmap(nullptr, sizeof(*counter), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (map != MAP_FAILED) counter = static_cast<std::uint64_t*>(map);
  close(fd);
}

}  // namespace

#define COUNTED extern "C" __attribute__((visibility("default")))

COUNTED void* malloc(std::size_t size) {
  count();
  return __libc_malloc(size);
}

COUNTED void* calloc(std::size_t number, std::size_t size) {
  count();
  return __libc_calloc(number, size);
}

COUNTED void* realloc(void* memory, std::size_t size) {
  count();
  return __libc_realloc(memory, size);
}

COUNTED void* memalign(std::size_t alignment, std::size_t size) {
  count();
  return __libc_memalign(alignment, size);
}

COUNTED void* aligned_alloc(std::size_t alignment, std::size_t size) {
  count();
  return __libc_memalign(alignment, size);
}

COUNTED int posix_memalign(void** memory, std::size_t alignment, std::size_t size) {
  count();
  *memory = __libc_memalign(alignment, size);
  return *memory == nullptr ? ENOMEM : 0;
}
