#include <cstddef>
#include <cstdint>

#include "../timers/start_ticks.h"
#include "../timers/wheel_model.h"
#include "byte_choices.h"

/// The timing wheel against the ordered multimap of the model test, with choices from the input:
/// the first byte picks the start tick, the second the population.

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pinion::test;
  ByteChoices choices(data, size);
  static const auto starts = start_ticks();
  const pinion::Tick start = starts[choices.below(starts.size())];
  const std::size_t population = 1 + choices.below(24);
  WheelModel<CorePort, ByteChoices> model(start, population, choices);
  while (!choices.exhausted()) {
    if (model.step()) continue;
    stop(model.failure());
  }
  return 0;
}
