#include <pinion/lib/guarded.h>

#include <cstdio>
#include <exception>

namespace pinion::detail {

void exception_left(const char* what) noexcept {
  // The terminate handler adds the exception's type and text.
  std::fprintf(stderr, "pinion: an exception left %s; catch it inside\n", what);
  std::terminate();
}

}  // namespace pinion::detail
