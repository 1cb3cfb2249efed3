#pragma once

#include <span>
#include <vector>

/// What several runs of one measurement come to, and when two of them differ.

namespace pinion::bench {

struct Summary {
  double median = 0;
  double min = 0;
  double max = 0;
  int runs = 0;
};

/// Of no samples: all zero.
Summary summarise(std::vector<double> samples);

enum class Verdict { tie, first_less, second_less };

/// The tie rule. Medians more than 15 % apart decide; closer ones tie, unless at least 11
/// alternating pairs were run and every one of them says the same. Pair i is (first[i], second[i]):
/// the harness runs the subjects in turn, so these two ran next to each other.
Verdict compare(std::span<const double> first, std::span<const double> second);

inline constexpr double kTieMargin = 0.15;
inline constexpr std::size_t kDecidingPairs = 11;

}  // namespace pinion::bench
