#include <pinion/net/kernel_transport.h>

#include "kernel_core.h"

namespace pinion {

using detail::KernelCore;

Result<std::unique_ptr<KernelTransport>> KernelTransport::create(Loop& loop,
                                                                 const KernelOptions& options) {
  const Result<KernelCore*> core = KernelCore::create(loop, options);
  if (!core) return tl::unexpected(core.error());
  return std::unique_ptr<KernelTransport>(new KernelTransport(**core));
}

KernelTransport::KernelTransport(KernelCore& core) noexcept : Transport(core), core_(core) {}

KernelTransport::~KernelTransport() {
  core_.shut_down();
}

}  // namespace pinion
