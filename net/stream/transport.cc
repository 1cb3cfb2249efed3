#include <pinion/net/transport.h>

#include <utility>

#include <pinion/net/stream_backend.h>

// As stream.cc, for what makes streams.

namespace pinion {

bool AcceptAwaiter::await_ready() noexcept {
  if (backend_ != nullptr) return !cancelled() && backend_->accept_ready(*this);
  settle(tl::unexpected(StreamError::closed));
  return true;
}

bool AcceptAwaiter::start() noexcept {
  return backend_->start_accept(*this);
}

void AcceptAwaiter::abandon() noexcept {
  backend_->abandon_accept(*this);
}

void AcceptAwaiter::cancel() noexcept {
  backend_->cancel_accept(*this);
}

void Listener::close() noexcept {
  if (backend_ != nullptr) backend_->close();
}

Endpoint Listener::local() const noexcept {
  return backend_ != nullptr ? backend_->local() : Endpoint{};
}

void Listener::release() noexcept {
  std::exchange(backend_, nullptr)->release();
}

bool ConnectAwaiter::start() noexcept {
  return backend_.start_connect(*this);
}

void ConnectAwaiter::abandon() noexcept {
  backend_.abandon_connect(*this);
}

void ConnectAwaiter::cancel() noexcept {
  backend_.cancel_connect(*this);
}

Result<Listener> Transport::listen(const Endpoint& endpoint, const ListenOptions& options) {
  return backend_.listen(endpoint, options);
}

TransportStats Transport::stats() const noexcept {
  return backend_.stats();
}

}  // namespace pinion
