#include "peers/manual_tsc.h"

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstring>

namespace pinion::bench {
namespace {

#if defined(__x86_64__)

using Byte = unsigned char;

constexpr std::array<Byte, 6> kReadTsc = {0x0f, 0x31, 0x48, 0xc1, 0xe2, 0x20};
constexpr std::size_t kSearched = 256;
constexpr std::size_t kThunkSize = 64;
constexpr std::size_t kPage = 4096;

Byte* find_read(Byte* function) {
  Byte* found = nullptr;
  for (Byte* at = function; at < function + kSearched; ++at) {
    if (std::memcmp(at, kReadTsc.data(), kReadTsc.size()) != 0) continue;
    if (found != nullptr) return nullptr;
    found = at;
  }
  return found;
}

/// Two pages (thunks, then the clock) that a 32-bit displacement from `text` reaches.
Byte* map_near(const Byte* text) {
  const auto base = reinterpret_cast<std::uintptr_t>(text) & ~(kPage - 1);
  for (std::uintptr_t distance = 1; distance < 64; ++distance) {
    void* hint = reinterpret_cast<void*>(base - distance * 0x100'0000);
    void* got = mmap(hint, 2 * kPage, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (got == hint) return static_cast<Byte*>(got);
    if (got != MAP_FAILED) munmap(got, 2 * kPage);
  }
  return nullptr;
}

void put_displacement(Byte* at, const Byte* target) {
  const auto displacement = static_cast<std::int32_t>(target - (at + 4));
  std::memcpy(at, &displacement, sizeof displacement);
}

/// mov clock(%rip),%rax; mov %rax,%rdx; shr $32,%rdx; shl $32,%rdx; mov %eax,%eax; jmp back
void write_thunk(Byte* thunk, const Byte* clock, const Byte* back) {
  constexpr std::array<Byte, 24> kCode = {0x48, 0x8b, 0x05, 0,    0,    0,    0,    0x48,
                                          0x89, 0xc2, 0x48, 0xc1, 0xea, 0x20, 0x48, 0xc1,
                                          0xe2, 0x20, 0x89, 0xc0, 0xe9, 0,    0,    0};
  std::memcpy(thunk, kCode.data(), kCode.size());
  put_displacement(thunk + 3, clock);
  put_displacement(thunk + 21, back);
}

/// Overwrites the pair with "jmp thunk; nop".
bool redirect(Byte* site, const Byte* thunk) {
  const auto address = reinterpret_cast<std::uintptr_t>(site);
  void* first = reinterpret_cast<void*>(address & ~(kPage - 1));
  const std::size_t length = (address + kReadTsc.size() > (address & ~(kPage - 1)) + kPage) ? 2 : 1;
  if (mprotect(first, length * kPage, PROT_READ | PROT_WRITE | PROT_EXEC) != 0) return false;
  site[0] = 0xe9;
  put_displacement(site + 1, thunk);
  site[5] = 0x90;
  return mprotect(first, length * kPage, PROT_READ | PROT_EXEC) == 0;
}

#endif

}  // namespace

#if defined(__x86_64__)

ManualTsc replace_tsc(std::span<void* const> functions) {
  if (functions.empty() || functions.size() > kPage / kThunkSize) return {nullptr, "bad count"};
  for (void* function : functions) {
    if (find_read(static_cast<Byte*>(function)) == nullptr) {
      return {nullptr, "its code does not read the TSC where it is known to"};
    }
  }
  Byte* pages = map_near(static_cast<Byte*>(functions.front()));
  if (pages == nullptr) return {nullptr, "no memory near its code"};
  Byte* clock = pages + kPage;
  std::array<Byte*, kPage / kThunkSize> sites{};
  for (std::size_t i = 0; i < functions.size(); ++i) {
    sites[i] = find_read(static_cast<Byte*>(functions[i]));
    write_thunk(pages + i * kThunkSize, clock, sites[i] + kReadTsc.size());
  }
  if (mprotect(pages, kPage, PROT_READ | PROT_EXEC) != 0) return {nullptr, "no executable page"};
  for (std::size_t i = 0; i < functions.size(); ++i) {
    if (!redirect(sites[i], pages + i * kThunkSize)) return {nullptr, "its code can't be changed"};
  }
  return {reinterpret_cast<volatile std::uint64_t*>(clock), {}};
}

#else

ManualTsc replace_tsc(std::span<void* const>) {
  return {nullptr, "x86-64 only"};
}

#endif

}  // namespace pinion::bench
