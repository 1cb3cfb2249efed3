#pragma once

#include <string>

/// What DPDK says, line by line on Pinion's log.
///
/// Threading:  open_dpdk_log() and close_dpdk_log() on the thread that sets DPDK up; lines come
///             from any.

namespace pinion::detail {

/// DPDK's errors become warnings, the rest lines at level info when `verbose`, otherwise debug.
/// False: no memory for the stream, and DPDK goes on to standard error.
[[nodiscard]] bool open_dpdk_log(bool verbose) noexcept;

void close_dpdk_log() noexcept;

/// While it lives, DPDK's errors are kept to be told, not logged: whoever sets something up says
/// itself that it failed. One at a time.
class DpdkWords {
 public:
  DpdkWords();
  ~DpdkWords();
  DpdkWords(const DpdkWords&) = delete;
  DpdkWords& operator=(const DpdkWords&) = delete;

  /// Each error so far, in order; empty when there was none.
  [[nodiscard]] std::string text() const;

  /// `fallback`, in DPDK's words where it had any.
  [[nodiscard]] std::string or_else(const std::string& fallback) const;
};

}  // namespace pinion::detail
