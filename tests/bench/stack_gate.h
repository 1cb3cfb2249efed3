#pragma once

/// The gate's part for the TCP/IP stack: the operations of stack_run.h on one connection, one in a
/// turn. For each, the functions gate_stack_NAME and gate_stack_NAME_loop, as bench_gate.cc has
/// them.

namespace pinion::bench {

/// Prints how many operations it were. Returns false, after a message, when the stack did something
/// wrong.
bool run_stack_gate();

}  // namespace pinion::bench
