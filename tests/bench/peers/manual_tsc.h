#pragma once

#include <cstdint>
#include <span>
#include <string>

/// A clock set by hand for compiled code that reads the TSC itself.
///
/// rte_timer reads the TSC with an inline instruction, in rte_timer_reset and in rte_timer_manage,
/// and offers no other clock in Debian's build. To run it on virtual time like every other subject,
/// the instruction pair "rdtsc; shl $32, %rdx" in this process's private copy of the library's text
/// is replaced by a jump to six instructions that load a word instead. This costs about 2 ns where
/// the TSC costs 10: it favours the peer.

namespace pinion::bench {

struct ManualTsc {
  volatile std::uint64_t* clock = nullptr;  ///< what the functions read from now on
  std::string error;                        ///< why not, when clock is nullptr
};

/// Each function must hold the pair exactly once in its first 256 bytes. x86-64 only.
ManualTsc replace_tsc(std::span<void* const> functions);

}  // namespace pinion::bench
