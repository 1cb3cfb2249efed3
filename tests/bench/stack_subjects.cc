#include "stack_subjects.h"

/// The subjects of the bench of stacks, by name.

namespace pinion::bench {

std::vector<StackSubject> stack_subjects() {
  std::vector<StackSubject> subjects = {{"pinion", &make_pinion_stack, 1'000'000}};
#ifdef PINION_BENCH_LWIP
  // A segment's connection is looked for in a list, and a SYN walks all of it: a million would take
  // 5 * 10^11 steps to open.
  subjects.push_back({"lwip", &make_lwip_stack, 10'000});
#endif
  return subjects;
}

std::vector<std::string> stack_subjects_left_out() {
  std::vector<std::string> left_out;
#ifndef PINION_BENCH_LWIP
  left_out.emplace_back("lwip: not built in; fix: apt-get install liblwip-dev");
#endif
  return left_out;
}

}  // namespace pinion::bench
