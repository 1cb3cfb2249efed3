#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <pinion/eventloop/loop_stats.h>
#include <pinion/eventloop/ring.h>
#include <pinion/lib/export.h>
#include <pinion/timers/timing_wheel.h>

/// What a loop counts, as a copy that another thread may read and show.
///
/// Ownership:  plain values, 63 KiB: not for a small stack or a coroutine frame.
/// Threading:  taken on the loop's thread; to_text() on any.
/// Cost:       taking one copies it, some microseconds, and allocates nothing. to_text() allocates
///             and looks for medians: off the lcores.

namespace pinion {

class Loop;

/// Text of a bounded length, for what is written on an lcore, where nothing allocates.
/// Full: the rest is left out.
class ReportText {
 public:
  static constexpr std::size_t kMost = 3000;

  template <class... Arguments>
  void add(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    const auto end = fmt::format_to_n(text_.data() + size_, kMost - size_, format,
                                      std::forward<Arguments>(arguments)...);
    size_ = static_cast<std::size_t>(end.out - text_.data());
  }
  [[nodiscard]] std::string_view text() const noexcept { return {text_.data(), size_}; }
  void clear() noexcept { size_ = 0; }

 private:
  std::array<char, kMost> text_;
  std::size_t size_ = 0;
};

struct LoopSnapshot {
  /// Of to_text(): with what stands before it, one line of the log (log.h).
  static constexpr std::size_t kMostText = 3800;

  LoopStats loop;
  RingStats ring;
  WheelStats wheel;
  std::uint64_t operations = 0;  ///< In flight, those of the loop itself included.
  std::uint64_t timers = 0;      ///< Armed.

  /// On the loop's thread.
  PINION_EXPORT void take(Loop& of) noexcept;
};
static_assert((sizeof(LoopSnapshot) + 1023) / 1024 == 63);  // As it says above.

/// All of it in lines for an operator, since the loop was made; at most LoopSnapshot::kMostText
/// bytes. Lines that don't fit are left out and counted; of a group's name it has 24 bytes.
[[nodiscard]] PINION_EXPORT std::string to_text(const LoopSnapshot& snapshot);

/// "task connection (0x1a2b of pinion-echo)": the offset is what addr2line takes.
[[nodiscard]] PINION_EXPORT std::string to_text(const Running& running);

}  // namespace pinion
