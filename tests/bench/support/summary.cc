#include "support/summary.h"

#include <algorithm>
#include <cstddef>

namespace pinion::bench {

Summary summarise(std::vector<double> samples) {
  if (samples.empty()) return {};
  std::sort(samples.begin(), samples.end());
  const std::size_t half = samples.size() / 2;
  const bool odd = samples.size() % 2 == 1;
  return {.median = odd ? samples[half] : (samples[half - 1] + samples[half]) / 2,
          .min = samples.front(),
          .max = samples.back(),
          .runs = static_cast<int>(samples.size())};
}

Verdict compare(std::span<const double> first, std::span<const double> second) {
  const double a = summarise({first.begin(), first.end()}).median;
  const double b = summarise({second.begin(), second.end()}).median;
  if (a * (1 + kTieMargin) < b) return Verdict::first_less;
  if (b * (1 + kTieMargin) < a) return Verdict::second_less;
  const std::size_t pairs = std::min(first.size(), second.size());
  if (pairs < kDecidingPairs) return Verdict::tie;
  std::size_t first_wins = 0;
  std::size_t second_wins = 0;
  for (std::size_t i = 0; i < pairs; ++i) {
    if (first[i] < second[i]) ++first_wins;
    if (second[i] < first[i]) ++second_wins;
  }
  if (first_wins == pairs) return Verdict::first_less;
  if (second_wins == pairs) return Verdict::second_less;
  return Verdict::tie;
}

}  // namespace pinion::bench
