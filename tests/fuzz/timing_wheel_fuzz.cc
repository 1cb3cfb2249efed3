#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "../timers/start_ticks.h"
#include "../timers/wheel_model.h"

/// The timing wheel against the ordered multimap of the model test, with choices from the input:
/// the first byte picks the start tick, the second the population.

namespace {

/// A number below n takes as many bytes as it needs; after the end of the input all are 0.
class ByteChoices {
 public:
  ByteChoices(const std::uint8_t* data, std::size_t size) : at_(data), end_(data + size) {}

  [[nodiscard]] bool exhausted() const { return at_ == end_; }

  std::uint64_t below(std::uint64_t bound) {
    std::uint64_t value = 0;
    for (std::uint64_t reach = 1; reach < bound && at_ != end_; reach <<= 8) {
      value = value << 8 | *at_++;
      if (reach >> 56 != 0) break;
    }
    return value % bound;
  }

 private:
  const std::uint8_t* at_;
  const std::uint8_t* end_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pinion::test;
  ByteChoices choices(data, size);
  static const auto starts = start_ticks();
  const pinion::Tick start = starts[choices.below(starts.size())];
  const std::size_t population = 1 + choices.below(24);
  WheelModel<CorePort, ByteChoices> model(start, population, choices);
  while (!choices.exhausted()) {
    if (model.step()) continue;
    std::fprintf(stderr, "the wheel differs from the model: %s\n", model.failure().c_str());
    std::abort();
  }
  return 0;
}
