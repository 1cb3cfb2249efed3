#include "stack_gate.h"

#include <fmt/core.h>

#include "stack_run.h"

namespace {

using Turn = std::function<void()>;

/// Keeps functions apart that would otherwise be the same.
template <pinion::bench::StackCase what>
void around(const Turn& turn) {
  asm volatile("" : : "i"(what) : "memory");
  turn();
}

template <pinion::bench::StackCase what>
void around_nothing(const Turn& nothing) {
  asm volatile("" : : "i"(static_cast<int>(what) + 100) : "memory");
  nothing();
}

}  // namespace

extern "C" {

[[gnu::noinline]] void gate_stack_receive(const Turn& turn) {
  around<pinion::bench::StackCase::receive>(turn);
}

[[gnu::noinline]] void gate_stack_receive_loop(const Turn& nothing) {
  around_nothing<pinion::bench::StackCase::receive>(nothing);
}

[[gnu::noinline]] void gate_stack_send(const Turn& turn) {
  around<pinion::bench::StackCase::send>(turn);
}

[[gnu::noinline]] void gate_stack_send_loop(const Turn& nothing) {
  around_nothing<pinion::bench::StackCase::send>(nothing);
}

[[gnu::noinline]] void gate_stack_request(const Turn& turn) {
  around<pinion::bench::StackCase::request>(turn);
}

[[gnu::noinline]] void gate_stack_request_loop(const Turn& nothing) {
  around_nothing<pinion::bench::StackCase::request>(nothing);
}

}  // extern "C"

namespace pinion::bench {

bool run_stack_gate() {
  constexpr std::size_t kOperations = 5'000;
  struct Counted {
    StackCase what;
    void (*turn)(const Turn&);
    void (*loop)(const Turn&);
  };
  constexpr Counted kCounted[] = {
      {StackCase::receive, &gate_stack_receive, &gate_stack_receive_loop},
      {StackCase::send, &gate_stack_send, &gate_stack_send_loop},
      {StackCase::request, &gate_stack_request, &gate_stack_request_loop},
  };
  const Turn nothing = [] {};
  StackRun run({"pinion", &make_pinion_stack, 1}, 1, 1);
  for (const Counted& counted : kCounted) {
    run.warm_up(counted.what, 1);
    const std::size_t done = run.run(counted.what, kOperations, 1, [&](const Turn& turn) {
      counted.loop(nothing);
      counted.turn(turn);
    });
    fmt::print("stack_{} {}\n", to_string(counted.what), done);
  }
  if (!run.fault().empty()) fmt::print(stderr, "error: the stack: {}\n", run.fault());
  return run.fault().empty();
}

}  // namespace pinion::bench
