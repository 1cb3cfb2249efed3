#include "kernel_world.h"

namespace pinion::test {

KernelWorld::KernelWorld(const KernelOptions& options, const LoopOptions& loop_options)
    : loop_(or_abort(Loop::create(loop_options, time_))) {
  or_abort(loop_->adopt_thread());
  transport_ = or_abort(KernelTransport::create(*loop_, options));
}

KernelWorld::~KernelWorld() = default;

std::vector<StreamWorldKind> stream_worlds() {
  return {{"kernel", [] {
             KernelOptions options;
             options.buffer_count = 256;
             options.buffer_size = 2048;
             LoopOptions loop;
             loop.ring.submission_entries = 32;
             return std::unique_ptr<StreamWorld>(std::make_unique<KernelWorld>(options, loop));
           }}};
}

}  // namespace pinion::test
