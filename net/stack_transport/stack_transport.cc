#include <pinion/net/stack_transport.h>

#include "stack_core.h"

namespace pinion {

using detail::StackCore;

Result<std::unique_ptr<StackTransport>> StackTransport::create(Loop& loop, PacketPool& packets,
                                                               const StackOptions& options) {
  const Result<StackCore*> core = StackCore::create(loop, packets, options);
  if (!core) return tl::unexpected(core.error());
  return std::unique_ptr<StackTransport>(new StackTransport(**core));
}

StackTransport::StackTransport(StackCore& core) noexcept : Transport(core), core_(core) {}

StackTransport::~StackTransport() {
  core_.shut_down();
}

}  // namespace pinion
