#pragma once

#include <cstddef>
#include <string>
#include <string_view>

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
/// itself that it failed. What nobody has asked for by its end is a warning on the log after all.
/// On one thread at a time; one inside another keeps what is said meanwhile.
class DpdkWords {
 public:
  DpdkWords();
  ~DpdkWords();
  DpdkWords(const DpdkWords&) = delete;
  DpdkWords& operator=(const DpdkWords&) = delete;

  /// What it keeps of a line; false when it has no room. For the log itself.
  bool keep(std::string_view line);

  /// What was said so far has kept nothing from working: to the log with the rest of DPDK's lines.
  void forgive() const;

  /// Each error so far, in order; empty when there was none.
  [[nodiscard]] std::string text() const;

  /// `fallback`, in DPDK's words where it had any.
  [[nodiscard]] std::string or_else(const std::string& fallback) const;

 private:
  std::string kept_;
  mutable std::size_t told_ = 0;  ///< How much of that somebody has asked for.
  DpdkWords* outer_;
};

}  // namespace pinion::detail
