#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "../net/tcp/reassembly_model.h"
#include "../net/tcp/send_queue_model.h"

/// The queues of a TCP connection against plain vectors of bytes, with choices from the input: its
/// first byte says which.

namespace {

using namespace pinion;
using namespace pinion::test;

/// A number below n takes as many bytes as it needs; after the end of the input all are 0.
class ByteChoices {
 public:
  ByteChoices(const std::uint8_t* data, std::size_t size) : at_(data), end_(data + size) {}

  [[nodiscard]] bool exhausted() const { return at_ == end_; }

  std::uint64_t below(std::uint64_t bound) {
    std::uint64_t value = 0;
    for (std::uint64_t reach = 1; reach < bound && at_ != end_; reach <<= 8) {
      value = value << 8 | *at_++;
    }
    return value % bound;
  }
  std::uint32_t below32(std::uint32_t bound) { return static_cast<std::uint32_t>(below(bound)); }

 private:
  const std::uint8_t* at_;
  const std::uint8_t* end_;
};

void require(bool condition, const std::string& what) {
  if (condition) return;
  std::fprintf(stderr, "differs from the plain bytes: %s\n", what.c_str());
  std::abort();
}

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
