#pragma once

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include <pinion/eventloop/loop.h>
#include <pinion/lib/result.h>
#include <pinion/net/kernel_transport.h>
#include <pinion/timers/time_source.h>

#include "stream_world.h"

namespace pinion::test {

/// The value of a set-up that the test can't do without.
template <class T>
T or_abort(Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "%s\n", to_string(result.error()).c_str());
    std::abort();
  }
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

/// Kernel sockets on loopback, on the calling thread.
class KernelWorld final : public StreamWorld {
 public:
  explicit KernelWorld(const KernelOptions& options = {}, const LoopOptions& loop_options = {});
  ~KernelWorld() override;

  Loop& loop() override { return *loop_; }
  Transport& transport() override { return *transport_; }
  KernelTransport& kernel() { return *transport_; }
  Endpoint any_port() override { return {IpAddress::v4({127, 0, 0, 1}), 0}; }
  void end_transport() override { transport_.reset(); }

 private:
  MonotonicTime time_;
  std::unique_ptr<Loop> loop_;
  std::unique_ptr<KernelTransport> transport_;
};

std::vector<StreamWorldKind> kernel_stream_worlds();

}  // namespace pinion::test
