#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <pinion/lib/time.h>
#include <tl/expected.hpp>

/// What people type, as values, and back: durations, sizes, numbers, CPU lists, and the name that
/// was probably meant. Every `format_x` writes what `parse_x` reads.
///
/// Errors:  a parser answers with what is wrong in a few words ("no unit"); the caller knows where
///          the text came from and says so.
/// Threading and cost: pure functions; they allocate and are for start-up and reports.

namespace pinion::apps {

template <class T>
using Parsed = tl::expected<T, std::string>;

/// "30s", "250ms", "1m30s", "1.5s", "none" (kNoTimeout). Units: d h m s ms us ns. More digits than
/// a nanosecond has are rounded up, as every delay is.
[[nodiscard]] Parsed<Delay> parse_duration(std::string_view text);
[[nodiscard]] std::string format_duration(Delay delay);

/// A duration for a report: three significant digits, one unit ("1.23ms", "45.0us").
[[nodiscard]] std::string rounded_duration(std::uint64_t nanoseconds);

/// "64", "4KiB", "1MiB", "2GiB" (and K, M, G for short), in bytes.
[[nodiscard]] Parsed<std::uint64_t> parse_size(std::string_view text);
[[nodiscard]] std::string format_size(std::uint64_t bytes);

/// A whole number; `1_000_000` and `1000000` are the same.
[[nodiscard]] Parsed<std::uint64_t> parse_number(std::string_view text);

/// Whether a file can hold it as a number: TOML has 64 bits with a sign.
[[nodiscard]] bool is_toml_integer(std::string_view text);

/// 1234567 as "1,234,567", for a report.
[[nodiscard]] std::string grouped(std::uint64_t number);

/// "0-1,3": ascending, without repeats. At most 4096 CPUs.
[[nodiscard]] Parsed<std::vector<unsigned>> parse_cpu_list(std::string_view text);
[[nodiscard]] std::string format_cpu_list(std::span<const unsigned> cpus);

/// true/false, yes/no, on/off, 1/0.
[[nodiscard]] Parsed<bool> parse_boolean(std::string_view text);

/// As an argument for a shell, in quotes where it needs them.
[[nodiscard]] std::string quoted_for_shell(std::string_view text);

/// Control characters as '?', so that shown text does nothing to a terminal and stays in its line.
[[nodiscard]] std::string printable(std::string_view text);

/// The name that was probably meant: the one with the fewest insertions, deletions, replacements
/// and swaps of neighbours, if that is at most a third of its length (at least 1); otherwise empty.
[[nodiscard]] std::string nearest_name(std::string_view word, std::span<const std::string> names);

}  // namespace pinion::apps
