#include <pinion/net/kernel_transport.h>

#include "kernel_core.h"

namespace pinion {

using detail::KernelConnection;
using detail::KernelCore;

Result<std::unique_ptr<KernelTransport>> KernelTransport::create(Loop& loop,
                                                                 const KernelOptions& options) {
  auto core = KernelCore::create(loop, options);
  if (!core) return tl::unexpected(core.error());
  return std::unique_ptr<KernelTransport>(new KernelTransport(**core));
}

KernelTransport::KernelTransport(KernelCore& core) noexcept : core_(&core) {
  core_->loop().add_drainable(*this);
}

KernelTransport::~KernelTransport() {
  core_->loop().remove_drainable(*this);
  core_->shut_down();
}

Result<Listener> KernelTransport::listen(const Endpoint& endpoint, const ListenOptions& options) {
  return core_->listen(endpoint, options);
}

TransportStats KernelTransport::stats() const noexcept {
  return core_->stats();
}

bool KernelTransport::start_connect(ConnectAwaiter& connect) noexcept {
  return core_->start_connect(connect);
}

void KernelTransport::cancel_connect(ConnectAwaiter& connect) noexcept {
  static_cast<KernelConnection*>(connect.operation())->cancel_connect(StreamError::cancelled);
}

void KernelTransport::abandon_connect(ConnectAwaiter& connect) noexcept {
  static_cast<KernelConnection*>(connect.operation())->abandon_connect();
}

void KernelTransport::on_drain() {
  core_->begin_drain();
}

void KernelTransport::on_drain_expired() {
  core_->expire_drain();
}

bool KernelTransport::drained() const {
  return core_->drained();
}

}  // namespace pinion
