#include <pinion/lib/assert.h>

#include <charconv>
#include <cstdlib>
#include <cstring>

#include <unistd.h>

namespace pinion::detail {

void assert_failed(const char* expression, const char* file, int line) noexcept {
  char buffer[512];
  std::size_t used = 0;
  const auto append = [&](const char* text, std::size_t length) {
    const std::size_t room = sizeof buffer - used;
    const std::size_t taken = length < room ? length : room;
    std::memcpy(buffer + used, text, taken);
    used += taken;
  };
  const auto append_text = [&](const char* text) { append(text, std::strlen(text)); };
  char digits[16];
  const auto end = std::to_chars(digits, digits + sizeof digits, line);
  append_text(file);
  append_text(":");
  append(digits, static_cast<std::size_t>(end.ptr - digits));
  append_text(": assertion failed: ");
  append_text(expression);
  append_text("\n");
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, buffer, used);
  std::abort();
}

}  // namespace pinion::detail
