#include <pinion/net/stream.h>

#include <utility>

#include <pinion/net/stream_backend.h>
#include <pinion/net/transport.h>

// Where handles and awaiters call their backend (stream_backend.h says why not in the headers).

namespace pinion {

void Chunk::give_back() noexcept {
  std::exchange(owner_, nullptr)->release_buffer(token_);
}

bool ReadAwaiter::await_ready() noexcept {
  if (backend_ != nullptr) return !cancelled() && backend_->read_ready(*this);
  settle(tl::unexpected(StreamError::closed));
  return true;
}

bool ReadAwaiter::start() noexcept {
  return backend_->start_read(*this);
}

void ReadAwaiter::abandon() noexcept {
  backend_->abandon_read(*this);
}

void ReadAwaiter::cancel() noexcept {
  backend_->cancel_read(*this);
}

bool WriteAwaiter::await_ready() noexcept {
  if (chunk_ != nullptr) {
    taken_ = std::move(*chunk_);
    bytes_ = taken_.span();
  }
  if (backend_ != nullptr) return !cancelled() && backend_->write_ready(*this);
  settle(tl::unexpected(StreamError::closed));
  return true;
}

bool WriteAwaiter::start() noexcept {
  return backend_->start_write(*this);
}

void WriteAwaiter::abandon() noexcept {
  backend_->abandon_write(*this);
}

void WriteAwaiter::cancel() noexcept {
  backend_->cancel_write(*this);
}

void Stream::shutdown_write() noexcept {
  if (backend_ != nullptr) backend_->shutdown_write();
}

void Stream::close() noexcept {
  if (backend_ != nullptr) backend_->close();
}

void Stream::abort() noexcept {
  if (backend_ != nullptr) backend_->abort();
}

void Stream::set_deadline(Instant deadline) noexcept {
  if (backend_ != nullptr) backend_->set_deadline(deadline);
}

void Stream::set_deadline(Delay from_now) noexcept {
  if (backend_ != nullptr) backend_->set_deadline(from_now);
}

void Stream::set_keepalive(const Keepalive& keepalive) noexcept {
  if (backend_ != nullptr) backend_->set_keepalive(keepalive);
}

Endpoint Stream::local() const noexcept {
  return backend_ != nullptr ? backend_->local() : Endpoint{};
}

Endpoint Stream::peer() const noexcept {
  return backend_ != nullptr ? backend_->peer() : Endpoint{};
}

StreamStats Stream::stats() const noexcept {
  return backend_ != nullptr ? backend_->stats() : StreamStats{};
}

void Stream::release() noexcept {
  std::exchange(backend_, nullptr)->release();
}

}  // namespace pinion
