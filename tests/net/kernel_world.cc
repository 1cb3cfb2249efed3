#include "kernel_world.h"

namespace pinion::test {

KernelWorld::KernelWorld(const KernelOptions& options, const LoopOptions& loop_options)
    : loop_(or_abort(Loop::create(loop_options, time_))) {
  or_abort(loop_->adopt_thread());
  transport_ = or_abort(KernelTransport::create(*loop_, options));
}

KernelWorld::~KernelWorld() = default;

namespace {

/// As on a kernel that lacks these.
template <RingFeature... kMasked>
std::unique_ptr<StreamWorld> world_without() {
  KernelOptions options;
  options.buffer_count = 256;
  options.buffer_size = 2048;
  LoopOptions loop;
  loop.ring.submission_entries = 32;
  loop.ring.masked = {kMasked...};
  return std::make_unique<KernelWorld>(options, loop);
}

}  // namespace

std::vector<StreamWorldKind> kernel_stream_worlds() {
  return {{"kernel", &world_without<>},
          {"kernel_with_single_accepts", &world_without<RingFeature::multishot_accept>, 10},
          {"kernel_with_single_receives", &world_without<RingFeature::multishot_receive>, 10}};
}

}  // namespace pinion::test
