// GoogleTest and the standard headers that tests and ours include, read once for all of them:
// precompiled, put in front of each. A test still includes what it uses, and the build with clang
// and no sanitizer has none of this. Nothing of ours is here: who edits a header rebuilds its users.

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <compare>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <tl/expected.hpp>
