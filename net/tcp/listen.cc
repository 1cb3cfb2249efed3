#include <algorithm>
#include <utility>

#include "../stack/ip_kinds.h"
#include "tcp.h"

/// Listeners, and the connections that wait to be accepted.

namespace pinion {

Result<TcpListenerHandle> Tcp::listen(const Endpoint& endpoint, const TcpListenOptions& options,
                                      TcpAcceptor* acceptor) {
  if (endpoint.port == 0) {
    return fail(ErrorCode::invalid_argument, "can't listen on port 0", "a port from 1 to 65535");
  }
  if (!is_unspecified(endpoint.address) && !ip_.is_local(endpoint.address)) {
    return fail(ErrorCode::unavailable, to_string(endpoint.address) + " is no address of this host",
                "one of its own, or 0.0.0.0 or ::");
  }
  TcpListener* place = nullptr;
  for (TcpListener& listener : listeners_) {
    if (listener.listens() && listener.endpoint == endpoint) {
      return fail(ErrorCode::already_exists, to_string(endpoint) + " is in use",
                  "another port, or close its listener");
    }
    if (!listener.listens() && place == nullptr) place = &listener;
  }
  if (place == nullptr) {
    return fail(ErrorCode::resource_exhausted, "all listeners are in use",
                "max_listeners = " + std::to_string(2 * listeners_.size()));
  }
  const std::uint32_t generation = place->generation + 1;
  *place = TcpListener{
      .endpoint = endpoint, .options = options, .acceptor = acceptor, .generation = generation};
  if (place->options.backlog == 0) place->options.backlog = 1;
  ++listening_;
  return TcpListenerHandle{.index = static_cast<std::uint32_t>(place - listeners_.data()),
                           .generation = generation};
}

void Tcp::set_options(TcpListenerHandle handle, const TcpListenOptions& options) noexcept {
  TcpListener* const listener = find(handle);
  if (listener == nullptr) return;
  const TcpSocketOptions promised = listener->options.socket;
  listener->options = options;
  listener->options.socket.receive_buffer = promised.receive_buffer;
  listener->options.socket.max_segment = promised.max_segment;
  if (options.backlog == 0) listener->options.backlog = 1;
}

void Tcp::close(TcpListenerHandle handle, Instant now) noexcept {
  note(now);
  TcpListener* const listener = find(handle);
  if (listener == nullptr) return;
  while (listener->first != TcpListener::kNone) {
    reset(connections_.at(listener->first), TcpEnd::aborted);
  }
  // Whoever listens there next has other options, and may be somebody else.
  syn_cache_.remove_all_for(index_of(*listener));
  ++listener->generation;
  --listening_;
  listener->acceptor = nullptr;
}

std::size_t Tcp::waiting(TcpListenerHandle handle) noexcept {
  const TcpListener* const listener = find(handle);
  return listener == nullptr ? 0 : listener->waiting;
}

TcpHandle Tcp::accept(TcpListenerHandle handle, TcpObserver* observer) noexcept {
  TcpListener* const listener = find(handle);
  if (listener == nullptr || listener->first == TcpListener::kNone) return {};
  TcpConnection& c = connections_.at(listener->first);
  leave_accept_queue(c);
  apply_options(c, listener->options.socket);  // It may have been told others since the handshake.
  set_application_timer(c);
  c.observer = observer;
  touch(c);
  return connections_.handle_of(c);
}

TcpListener* Tcp::find(TcpListenerHandle handle) noexcept {
  if (handle.index >= listeners_.size()) return nullptr;
  TcpListener& listener = listeners_[handle.index];
  return listener.listens() && listener.generation == handle.generation ? &listener : nullptr;
}

/// The listener for exactly this address, or else the one for all of its family.
TcpListener* Tcp::listener_for(const FourTuple& tuple) noexcept {
  const Endpoint local = tuple.local_endpoint();
  TcpListener* for_any = nullptr;
  for (TcpListener& listener : listeners_) {
    if (!listener.listens() || listener.endpoint.port != local.port) continue;
    const IpAddress& address = listener.endpoint.address;
    if (address == local.address) return &listener;
    if (address.is_v4() == local.address.is_v4() && is_unspecified(address)) for_any = &listener;
  }
  return for_any;
}

/// Who accepts nobody keeps no other listener's clients out.
bool Tcp::is_full(const TcpListener& listener) const noexcept {
  const std::size_t part = std::max<std::size_t>(config_.max_waiting / listening_, 1);
  return listener.waiting >= std::min<std::size_t>(listener.options.backlog, part);
}

void Tcp::wait_for_accept(TcpListener& listener, TcpConnection& c) noexcept {
  const std::uint32_t index = connections_.index_of(c);
  c.waits_for_accept = true;
  c.listener = index_of(listener);
  c.accept_links = {.next = TcpListener::kNone, .previous = listener.last};
  (listener.last == TcpListener::kNone ? listener.first
                                       : connections_.at(listener.last).accept_links.next) = index;
  listener.last = index;
  ++listener.waiting;
  listener.has_news = true;
  acceptors_wait_ = true;
}

void Tcp::leave_accept_queue(TcpConnection& c) noexcept {
  TcpListener& listener = listeners_[c.listener];
  const auto [next, previous] = c.accept_links;
  (previous == TcpListener::kNone ? listener.first : connections_.at(previous).accept_links.next) =
      next;
  (next == TcpListener::kNone ? listener.last : connections_.at(next).accept_links.previous) =
      previous;
  --listener.waiting;
  c.waits_for_accept = false;
  c.observer = nullptr;
}

}  // namespace pinion
