#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include <pinion/eventloop/ring.h>
#include <pinion/lib/list.h>
#include <pinion/net/transport.h>
#include <pinion/timers/timing_wheel.h>

#include "connection.h"

/// One listening socket and the connections that wait for accept().
///
/// Ownership:  of KernelCore; it goes when its handle is gone and its last completion came.
/// Threading:  the loop's.
/// Full:       beyond kMaxWaiting connections that nobody accepts, at max_connections and without
///             descriptors it stops accepting; the kernel's backlog fills. It goes on when accept()
///             is called, when a descriptor is freed, or after KernelOptions::accept_retry. At a
///             limit it only looks whether a client comes, for whom a place would have to be made.

namespace pinion::detail {

class KernelCore;

class KernelListener final : public ListenerBackend, public ListNode {
 public:
  static constexpr std::size_t kMaxWaiting = 256;

  KernelListener(KernelCore& core, int fd, const Endpoint& endpoint, bool shared) noexcept;
  ~KernelListener();

  bool accept_ready(AcceptAwaiter& accept) noexcept override;
  bool start_accept(AcceptAwaiter& accept) noexcept override;
  void cancel_accept(AcceptAwaiter& accept) noexcept override;
  void abandon_accept(AcceptAwaiter& accept) noexcept override;
  void close() noexcept override { stop(StreamError::closed); }
  void release() noexcept override;
  [[nodiscard]] Endpoint local() const noexcept override { return endpoint_; }

  /// A descriptor or a place for a connection is free again.
  void room_appeared() noexcept;

  /// Whether a client is there and would be served but for the lack of a descriptor or a place.
  [[nodiscard]] bool wants_room() const noexcept {
    return !end_ && (client_waits_ || (accept_ != nullptr && !waiting_.empty()));
  }

  /// Stops listening; accept answers `why`. May end the listener.
  void stop(StreamError why) noexcept;

 private:
  struct Operation : Completion {
    Operation(Handler handler, KernelListener& owner) noexcept
        : Completion(handler), listener(owner) {}
    KernelListener& listener;
  };
  struct Timer : TimerEntry {
    explicit Timer(KernelListener& owner) noexcept : TimerEntry(&on_retry), listener(owner) {}
    KernelListener& listener;
  };

  static void on_accepted(Completion& completion, std::int32_t result,
                          std::uint32_t flags) noexcept;
  static void on_retry(TimerEntry& entry);
  void accepted(std::int32_t result, bool more) noexcept;
  void take_socket(int fd) noexcept;
  void accept_failed(int errno_value) noexcept;
  void retry_later() noexcept;
  [[nodiscard]] KernelConnection& next_waiting() noexcept;
  void hand_over() noexcept;
  void want_accept() noexcept;
  void watch() noexcept;
  void watched(std::int32_t result) noexcept;
  void end_if_quiet() noexcept;

  KernelCore& core_;
  int fd_;
  Endpoint endpoint_;
  bool shared_;
  bool handle_ = true;
  bool paused_ = false;        ///< Out of descriptors.
  bool at_limit_ = false;      ///< The limit was counted.
  bool stopping_ = false;      ///< The armed accept is being cancelled.
  bool watching_ = false;      ///< What is armed doesn't accept, it waits for a client to come.
  bool client_waits_ = false;  ///< One came for whom there was no room.
  std::optional<StreamError> end_;
  AcceptAwaiter* accept_ = nullptr;
  Operation accept_operation_;
  Timer retry_timer_;
  List<KernelConnection, WaitingTag> waiting_;
  std::size_t waiting_count_ = 0;
};

}  // namespace pinion::detail
