#include "support/finish.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "support/machine.h"

namespace pinion::bench {

int bind_to_cpu(const Options& options) {
  const int cpu = pin_to_cpu(options.cpu);
  if (cpu < 0) {
    fmt::print(stderr,
               "error: can't run on cpu {}\nfix: --cpu with one that `taskset -p $$` shows\n",
               options.cpu);
  }
  return cpu;
}

int finish(const Options& options, const Report& report, const std::vector<TargetOutcome>& outcomes,
           bool whole) {
  fmt::print("{}", to_string(outcomes));
  return finish(options, report, whole && !(options.check && any_missed(outcomes)));
}

int finish(const Options& options, const Report& report, bool whole) {
  if (!options.json_path.empty() && !report.write_json(options.json_path)) {
    fmt::print(stderr, "error: {}: {}\nfix: --json with a path that can be written\n",
               options.json_path, std::strerror(errno));
    return 1;
  }
  return whole ? 0 : 1;
}

}  // namespace pinion::bench
