#pragma once

#include <optional>

#include <pinion/lib/list.h>
#include <pinion/lib/result.h>
#include <pinion/lib/time.h>
#include <pinion/net/transport.h>

#include "../tcp/tcp_events.h"
#include "../tcp/tcp_options.h"

/// One listener of Pinion's own stack. Connections wait for accept() in the stack.
///
/// Ownership:  of StackCore; it goes when its handle is gone.
/// Threading:  the loop's.
/// Full:       beyond its backlog the stack answers no SYN; at max_connections a connection waits
///             until a place is free.

namespace pinion::detail {

class StackCore;

class StackListener final : public ListenerBackend, public TcpAcceptor, public ListNode {
 public:
  explicit StackListener(StackCore& core) noexcept : core_(core) {}

  /// Begins to listen; on any free port when that is 0.
  [[nodiscard]] Result<> listen(const Endpoint& endpoint, const TcpListenOptions& options);

  bool accept_ready(AcceptAwaiter& accept) noexcept override;
  bool start_accept(AcceptAwaiter& accept) noexcept override;
  void cancel_accept(AcceptAwaiter& accept) noexcept override;
  void abandon_accept(AcceptAwaiter& accept) noexcept override;
  void close() noexcept override { stop(StreamError::closed); }
  void release() noexcept override;
  [[nodiscard]] Endpoint local() const noexcept override { return endpoint_; }

  void on_acceptable(TcpListenerHandle listener, Instant now) noexcept override;

  /// A place for a connection is free.
  void room_appeared() noexcept { hand_over(); }

  /// Whether a client is there and would be served but for the lack of a place.
  [[nodiscard]] bool wants_room() const noexcept { return accept_ != nullptr && client_waits_; }

  /// Stops listening; accept answers `why`. May end the listener.
  void stop(StreamError why) noexcept;

 private:
  [[nodiscard]] std::optional<Stream> next() noexcept;
  void hand_over() noexcept;
  void count_pause() noexcept;

  StackCore& core_;
  Endpoint endpoint_;
  TcpListenerHandle tcp_;
  bool handle_ = true;
  bool client_waits_ = false;  ///< As far as is known.
  bool at_limit_ = false;      ///< The limit was counted.
  std::optional<StreamError> end_;
  AcceptAwaiter* accept_ = nullptr;
};

}  // namespace pinion::detail
