#include "stack_listener.h"

#include <utility>

#include "stack_core.h"

namespace pinion::detail {

/// Of the ports tried in a row, one is free: the stack has fewer listeners than there are ports.
Result<> StackListener::listen(const Endpoint& endpoint, const TcpListenOptions& options) {
  endpoint_ = endpoint;
  for (;;) {
    if (endpoint.port == 0) endpoint_.port = core_.next_listen_port();
    const Result<TcpListenerHandle> tcp = core_.tcp().listen(endpoint_, options, this);
    if (tcp) {
      tcp_ = *tcp;
      return {};
    }
    const bool taken = tcp.error().code == ErrorCode::already_exists;
    if (endpoint.port != 0 || !taken) return tl::unexpected(tcp.error());
  }
}

bool StackListener::accept_ready(AcceptAwaiter& accept) noexcept {
  PINION_ASSERT(accept_ == nullptr);
  if (end_) {
    accept.settle(tl::unexpected(*end_));
    return true;
  }
  std::optional<Stream> stream = next();
  if (!stream) return false;
  accept.settle(std::move(*stream));
  return true;
}

bool StackListener::start_accept(AcceptAwaiter& accept) noexcept {
  PINION_ASSERT(accept_ == nullptr);
  if (client_waits_) {
    count_pause();
    core_.make_room(true);
    if (std::optional<Stream> stream = next()) {
      accept.settle(std::move(*stream));
      return false;
    }
  }
  accept_ = &accept;
  return true;
}

void StackListener::cancel_accept(AcceptAwaiter& accept) noexcept {
  PINION_ASSERT(accept_ == &accept);
  std::exchange(accept_, nullptr)->finish(tl::unexpected(StreamError::cancelled));
}

void StackListener::abandon_accept(AcceptAwaiter& accept) noexcept {
  PINION_ASSERT(accept_ == &accept);
  accept_ = nullptr;
}

void StackListener::release() noexcept {
  handle_ = false;
  if (!end_) return stop(StreamError::closed);
  core_.free(*this);
}

void StackListener::stop(StreamError why) noexcept {
  if (end_) return;
  end_ = why;
  client_waits_ = false;
  core_.tcp().close(tcp_, core_.loop().now());
  core_.make_way();
  if (accept_ != nullptr) std::exchange(accept_, nullptr)->finish(tl::unexpected(why));
  if (!handle_) core_.free(*this);
}

void StackListener::on_acceptable(TcpListenerHandle, Instant) noexcept {
  client_waits_ = true;
  hand_over();
  if (!wants_room()) return;
  count_pause();
  core_.make_room(false);
}

void StackListener::hand_over() noexcept {
  if (accept_ == nullptr) return;
  if (std::optional<Stream> stream = next()) {
    std::exchange(accept_, nullptr)->finish(std::move(*stream));
  }
}

/// A connection that waits, if there is one and a place for it.
std::optional<Stream> StackListener::next() noexcept {
  if (!client_waits_ || !core_.may_open()) return std::nullopt;
  at_limit_ = false;
  StackConnection* const connection = core_.make_connection();
  if (connection == nullptr) return std::nullopt;
  const TcpHandle tcp = core_.tcp().accept(tcp_, connection);
  if (!tcp) {
    client_waits_ = false;
    core_.unmake(*connection);
    return std::nullopt;
  }
  ++core_.counters().accepted;
  return connection->hand_out(tcp);
}

/// A client is there and can't be served: counted once, until one can.
void StackListener::count_pause() noexcept {
  if (!core_.may_open() && !std::exchange(at_limit_, true)) ++core_.counters().accept_pauses;
}

}  // namespace pinion::detail
