#include "kernel_world.h"
#include "stack_stream_world.h"

namespace pinion::test {

std::vector<StreamWorldKind> stream_worlds() {
  std::vector<StreamWorldKind> worlds = kernel_stream_worlds();
  for (const StreamWorldKind& world : stack_stream_worlds()) worlds.push_back(world);
  return worlds;
}

}  // namespace pinion::test
