#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <pinion/lib/list.h>
#include <pinion/lib/time.h>
#include <pinion/net/packet.h>
#include <pinion/net/transport.h>

#include "../tcp/tcp_events.h"
#include "../wire/sequence_number.h"

/// One TCP connection over Pinion's own stack.
///
/// Ownership:  lives in the slab of StackCore. It goes back when the handle is gone and the stack
///             has told that the connection is over, or need not tell any more.
/// Threading:  the loop's.
/// Cost:       a read or write that doesn't wait is one call of the stack. One that waits sets the
///             connection's deadline there, one store in the steady state, which stays when the
///             operation is over: what comes early finds nothing due.
/// Deadlines:  the stack takes none further away than 12 days; one that is gets there in steps.
///
/// Life: connecting → open → closing (closed here; a write of another task may go on, then the
/// stack sends FIN and waits for the peer's) → ended. A reset goes to `ended` from everywhere.
/// Functions that may end it say so; they come last in their callers.

namespace pinion::detail {

class StackCore;
struct AllTag;
struct LateTag;
struct ClosingTag;
struct HoldingTag;

class StackConnection final : public StreamBackend,
                              public TcpObserver,
                              public TaggedListNode<AllTag>,
                              public TaggedListNode<LateTag>,
                              public TaggedListNode<ClosingTag>,
                              public TaggedListNode<HoldingTag> {
 public:
  explicit StackConnection(StackCore& core) noexcept : core_(core) {}
  ~StackConnection() { PINION_DCHECK(!tcp_ && !packet_); }

  // StreamBackend.
  bool read_ready(ReadAwaiter& read) noexcept override;
  bool start_read(ReadAwaiter& read) noexcept override;
  void cancel_read(ReadAwaiter& read) noexcept override;
  void abandon_read(ReadAwaiter& read) noexcept override;
  bool write_ready(WriteAwaiter& write) noexcept override;
  bool start_write(WriteAwaiter& write) noexcept override;
  void cancel_write(WriteAwaiter& write) noexcept override;
  void abandon_write(WriteAwaiter& write) noexcept override;
  void shutdown_write() noexcept override;
  void close() noexcept override;
  void abort() noexcept override;
  void release() noexcept override;
  void set_deadline(Instant deadline) noexcept override;
  void set_deadline(Delay from_now) noexcept override;
  void set_keepalive(const Keepalive& keepalive) noexcept override;
  [[nodiscard]] Endpoint local() const noexcept override;
  [[nodiscard]] Endpoint peer() const noexcept override;
  [[nodiscard]] StreamStats stats() const noexcept override;

  // TcpObserver.
  void on_connected(TcpHandle connection, Instant now) noexcept override;
  void on_readable(TcpHandle connection, Instant now) noexcept override;
  void on_writable(TcpHandle connection, Instant now) noexcept override;
  void on_read_deadline(TcpHandle connection, Instant now) noexcept override;
  void on_write_deadline(TcpHandle connection, Instant now) noexcept override;
  void on_closed(TcpHandle connection, TcpEnd why, Instant now) noexcept override;

  // For the transport.
  /// `tcp` is of an accepted connection.
  [[nodiscard]] Stream hand_out(TcpHandle tcp) noexcept;
  /// The same way as a backend; `tcp` is on its way to its peer.
  void start_connect(ConnectAwaiter& connect, TcpHandle tcp) noexcept;
  void cancel_connect(StreamError reason) noexcept;
  void abandon_connect() noexcept;

  /// What had come by the time that a read without time was started has been handed on.
  void settle_late_read() noexcept;

  /// The lcore drains: answers a read that has nothing to wait for. May end the connection.
  void drain() noexcept;

  /// Resets; what is pending and what comes later answers `why`. May end the connection.
  void end(StreamError why) noexcept;

  /// Since when bytes of it lie in packets of the stack, unread or unacknowledged, without
  /// progress; none when it holds no packet.
  [[nodiscard]] std::optional<Instant> holds_since(Instant now) noexcept;

  /// Resets, so that others get the packets that it holds. May end the connection.
  void give_way() noexcept;

  /// The transport ends. May end the connection.
  void transport_ends() noexcept;

 private:
  /// Further away than the stack's own limit, deadlines are reached in steps.
  static constexpr Delay kLongestStep = std::chrono::hours{10 * 24};

  enum class Phase : std::uint8_t { connecting, open, closing, ended };

  /// When an operation ends that has waited in vain, and for what.
  struct Due {
    Instant at;
    StreamError why;
  };
  [[nodiscard]] Due read_due() const noexcept;
  [[nodiscard]] Due write_due() const noexcept;
  [[nodiscard]] Due earlier(Instant own, StreamError timeout) const noexcept;

  // Receiving (receive.cc).
  [[nodiscard]] std::optional<StreamResult<Chunk>> take() noexcept;
  void finish_read(StreamResult<Chunk> result) noexcept;
  void arm_read_deadline(Instant now) noexcept;
  void end_read_in_vain(StreamError why) noexcept;
  void discard_unread() noexcept;
  [[nodiscard]] bool has_unread() noexcept;

  // Sending (send.cc).
  [[nodiscard]] bool push() noexcept;
  void arm_write_deadline(Instant now) noexcept;
  void poison(StreamError why) noexcept;
  void fail_write(StreamError why) noexcept;
  void forget_write() noexcept;
  void write_ended() noexcept;

  // Ending (connection.cc).
  void let_go_of_tcp() noexcept;
  void reset_tcp() noexcept;
  void linger() noexcept;
  void leave() noexcept;
  void connect_failed(TcpEnd why) noexcept;
  void free_if_unused() noexcept;

  // First what an exchange touches, close together.
  StackCore& core_;
  TcpHandle tcp_;  ///< Of nothing once the connection is over and what had come was read.
  Phase phase_ = Phase::open;
  bool handle_ = false;           ///< A Stream refers to it.
  bool fin_after_write_ = false;  ///< FIN follows the outstanding write.
  bool write_failed_ = false;     ///< A part of a write may be missing: no FIN may follow.

  std::optional<StreamError> read_ending_;  ///< What ends the read that waits, unless bytes come.
  std::optional<StreamError> read_end_;     ///< What reads answer.
  std::optional<StreamError> over_;         ///< What they answer once what had come was read.
  std::optional<StreamError> write_end_;    ///< What writes answer.

  ReadAwaiter* read_ = nullptr;
  WriteAwaiter* write_ = nullptr;
  std::span<const std::byte> unsent_;  ///< Of the write, unless it is in `packet_`.
  PacketPtr packet_;                   ///< What the write sends without a copy.

  StreamStats stats_;  ///< The bytes in are those that were read.
  Instant read_deadline_ = kNever;
  Instant write_deadline_ = kNever;
  Instant exchange_deadline_ = kNever;

  bool unread_ = false;   ///< Something may be unread, since when,
  bool unacked_ = false;  ///< and unacknowledged.
  Instant unread_since_{};
  Instant unacked_since_{};
  wire::SequenceNumber unacked_from_;
  ConnectAwaiter* connect_ = nullptr;
};

}  // namespace pinion::detail
