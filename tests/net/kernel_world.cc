#include "kernel_world.h"

#include <cstdio>
#include <cstdlib>

namespace pinion::test {
namespace {

template <class T>
T checked(Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "%s\n", to_string(result.error()).c_str());
    std::abort();
  }
  return std::move(*result);
}

}  // namespace

KernelWorld::KernelWorld(const KernelOptions& options, const LoopOptions& loop_options)
    : loop_(checked(Loop::create(loop_options, time_))) {
  if (const Result<> adopted = loop_->adopt_thread(); !adopted) {
    std::fprintf(stderr, "%s\n", to_string(adopted.error()).c_str());
    std::abort();
  }
  transport_ = checked(KernelTransport::create(*loop_, options));
}

KernelWorld::~KernelWorld() = default;

std::vector<StreamWorldKind> stream_worlds() {
  return {{"kernel", [] {
             KernelOptions options;
             options.buffer_count = 256;
             options.buffer_size = 2048;
             return std::unique_ptr<StreamWorld>(std::make_unique<KernelWorld>(options));
           }}};
}

}  // namespace pinion::test
