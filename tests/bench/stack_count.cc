#include <fmt/core.h>

#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>

#include "stack_run.h"

/// Does the operations of one case, for callgrind to count: all that the server does is within
/// counted_turn(), and nothing else.
///
/// usage: stack_count SUBJECT CASE CONNECTIONS BURST OPERATIONS SEED
///
/// Prints how many operations it were. Exit code: 0 done, 1 the server did something wrong, 2 wrong
/// use.

extern "C" {

[[gnu::noinline]] void counted_turn(const std::function<void()>& turn) {
  turn();
}

}  // extern "C"

namespace pinion::bench {
namespace {

std::optional<std::size_t> number(std::string_view text) {
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value == 0) return std::nullopt;
  return value;
}

std::optional<StackSubject> subject_named(std::string_view name) {
  for (StackSubject& subject : stack_subjects()) {
    if (subject.name == name) return std::move(subject);
  }
  return std::nullopt;
}

std::optional<StackCase> case_named(std::string_view name) {
  for (const StackCase what : kStackCases) {
    if (name == to_string(what)) return what;
  }
  return std::nullopt;
}

int count(char** words) {
  const std::optional<StackSubject> subject = subject_named(words[0]);
  const std::optional<StackCase> what = case_named(words[1]);
  const std::optional<std::size_t> connections = number(words[2]);
  const std::optional<std::size_t> burst = number(words[3]);
  const std::optional<std::size_t> operations = number(words[4]);
  const std::optional<std::size_t> seed = number(words[5]);
  if (!subject || !what || !connections || !burst || !operations || !seed) return 2;
  StackRun run(*subject, *connections, *seed);
  run.warm_up(*what, *burst);
  // As many again uncounted: timers are then where they are in the long run.
  run.run(*what, *operations, *burst, [](const auto& turn) { turn(); });
  const std::size_t done = run.run(*what, *operations, *burst, &counted_turn);
  if (!run.fault().empty()) {
    fmt::print(stderr, "error: {}: {}\n", subject->name, run.fault());
    return 1;
  }
  fmt::print("{}\n", done);
  return 0;
}

}  // namespace
}  // namespace pinion::bench

int main(int argc, char** argv) {
  const int code = argc == 7 ? pinion::bench::count(argv + 1) : 2;
  if (code == 2) {
    fmt::print(stderr,
               "error: stack_count can't count that\nfix: stack_count SUBJECT "
               "receive|send|request CONNECTIONS BURST OPERATIONS SEED\n");
  }
  return code;
}
