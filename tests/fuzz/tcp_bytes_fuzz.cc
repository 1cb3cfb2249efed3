#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "../net/tcp/reassembly_model.h"
#include "../net/tcp/send_queue_model.h"
#include "byte_choices.h"

/// The queues of a TCP connection against plain vectors of bytes, with choices from the input: its
/// first byte says which.

namespace {

using namespace pinion;
using namespace pinion::test;

void send(ByteWorld& world, ByteChoices& choices) {
  const wire::SequenceNumber start(0U - choices.below32(10'000));
  world.send.max_segments = 1 + choices.below(8);
  SendQueueModel model(world, start, 1 + choices.below32(65'536), choices);
  while (!choices.exhausted()) require(model.step(), model.failure());
}

void receive(ByteWorld& world, ByteChoices& choices) {
  constexpr std::uint32_t kLength = 30'000;
  const wire::SequenceNumber start(0U - choices.below32(10'000));
  ReassemblyModel model(world, start, kLength, 1'500 + choices.below32(20'000));
  while (!choices.exhausted() && !model.is_over()) {
    if (choices.below(4) == 0) {
      require(model.read(choices.below(4'000), choices.below(2) == 0), model.failure());
      continue;
    }
    // With many blocks only what fills the first gap, so that no limit is met.
    const std::uint32_t reach = choices.below(2) == 0 ? 30 : 6'000;
    const bool crowded = model.blocks() + 2 > OutOfOrder::kMaxBlocks;
    const std::uint32_t from = model.next() + (crowded ? 0 : choices.below32(reach));
    const std::uint32_t begin = std::min(from - std::min(from, choices.below32(20)), kLength - 1);
    const std::uint32_t size = 1 + choices.below32(choices.below(2) == 0 ? 20 : 1'900);
    const auto shape = static_cast<Shape>(choices.below(kShapes));
    require(model.arrive(begin, std::min(begin + size, kLength), shape), model.failure());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ByteChoices choices(data, size);
  static ByteWorld world({.packets = 8'192});
  if (choices.below(2) == 0) {
    send(world, choices);
  } else {
    receive(world, choices);
  }
  require(world.live() == 0, "something was not given back");
  return 0;
}
