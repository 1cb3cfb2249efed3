#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <pinion/eventloop/ring.h>
#include <pinion/lib/list.h>
#include <pinion/lib/time.h>
#include <pinion/net/transport.h>
#include <pinion/timers/timing_wheel.h>

#include "receive_pool.h"
#include "socket.h"

/// One TCP connection over a kernel socket.
///
/// Ownership:  lives in the slab of KernelCore. It goes back when the handle is gone, its
///             descriptor is closed and the last completion of its operations came: so no
///             completion ever meets another connection in the same place.
/// Threading:  the loop's.
/// Cost:       a read or write is one store into a timer entry beside the work itself. The entries
///             stay armed when an operation completes; what fires early finds nothing due.
///
/// Life: connecting → open → lingering (closed here, waiting for the peer's FIN) → ended (waiting
/// for last completions). A reset goes to `ended` from everywhere. Functions that may end it say
/// so; they come last in their callers.

namespace pinion::detail {

class KernelCore;
struct AllTag;
struct StarvedTag;
struct LingerTag;
struct WaitingTag;

class KernelConnection final : public StreamBackend,
                               public TaggedListNode<AllTag>,
                               public TaggedListNode<StarvedTag>,
                               public TaggedListNode<LingerTag>,
                               public TaggedListNode<WaitingTag> {
 public:
  KernelConnection(KernelCore& core, int fd) noexcept;
  ~KernelConnection() { PINION_DCHECK(fd_ < 0 && unread_.empty()); }

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
  [[nodiscard]] StreamStats stats() const noexcept override { return stats_; }

  // For the transport.
  [[nodiscard]] Stream hand_out() noexcept;
  bool start_connect(ConnectAwaiter& connect) noexcept;
  void cancel_connect(StreamError reason) noexcept;
  void abandon_connect() noexcept;

  /// A receive buffer is free. Says whether the connection goes on receiving.
  bool resume_receive() noexcept;

  /// Ends the wait for the peer's FIN. May end the connection.
  void stop_lingering() noexcept;

  /// Drops what is unread and resets, so that others get the receive buffers that it holds. May end
  /// the connection.
  void give_way() noexcept;

  /// The lcore drains: answers a read that has nothing to wait for.
  void drain() noexcept;

  /// Resets; what is pending and what comes later answers `why`. May end the connection.
  void end(StreamError why) noexcept;

 private:
  enum class Phase : std::uint8_t { connecting, open, lingering, ended };

  template <class Kind>
  struct Operation : Kind {
    Operation(Completion::Handler handler, KernelConnection& owner) noexcept
        : Kind(handler), connection(owner) {}
    KernelConnection& connection;
  };
  using Receive = Operation<Completion>;
  using Send = Operation<QuietCompletion>;
  struct Timer : TimerEntry {
    Timer(Callback callback, KernelConnection& owner) noexcept
        : TimerEntry(callback), connection(owner) {}
    KernelConnection& connection;
  };

  /// When an operation ends that has waited in vain, and for what.
  struct Due {
    Instant at;
    StreamError why;
  };
  [[nodiscard]] Due read_due() const noexcept;
  [[nodiscard]] Due write_due() const noexcept;
  [[nodiscard]] Due earlier(Instant own, StreamError timeout) const noexcept;

  // Receiving (receive.cc).
  static void on_received(Completion& completion, std::int32_t result,
                          std::uint32_t flags) noexcept;
  void received(std::int32_t result, std::uint32_t flags) noexcept;
  void take_bytes(std::uint32_t token, std::uint32_t size, bool more) noexcept;
  void receive_ended(std::int32_t result) noexcept;
  void receive_starved() noexcept;
  void want_receive() noexcept;
  void stop_receive() noexcept;
  [[nodiscard]] bool in_line() const noexcept;
  [[nodiscard]] bool anything_arrived() const noexcept;
  void end_read(StreamError why) noexcept;
  void settle_read_ending() noexcept;
  void finish_read(StreamResult<Chunk> result) noexcept;
  void drop_unread() noexcept;
  static void on_read_timer(TimerEntry& entry);
  void read_timer_fired() noexcept;

  // Sending (send.cc).
  static void on_sent(Completion& completion, std::int32_t result, std::uint32_t flags) noexcept;
  void sent(std::int32_t result) noexcept;
  [[nodiscard]] bool may_accept(WriteAwaiter& write) noexcept;
  void accept(WriteAwaiter& write, Instant deadline) noexcept;
  void queue_write(WriteAwaiter& write, Instant deadline) noexcept;
  void begin_queued() noexcept;
  [[nodiscard]] std::optional<StreamResult<void>> begin_write(WriteAwaiter& write, Instant now,
                                                              Instant deadline) noexcept;
  void hold_sending() noexcept;
  void move_rest() noexcept;
  void arm_write_timer() noexcept;
  void send_rest() noexcept;
  void send_ended() noexcept;
  void leave_line(StreamError why) noexcept;
  [[nodiscard]] bool in_write_line() const noexcept;
  [[nodiscard]] bool is_quiet() const noexcept;
  void expect_quiet() noexcept;
  void submit_send() noexcept;
  void count_accepted(std::size_t count) noexcept;
  void count_sent(std::size_t count) noexcept;
  void tell_reader(StreamError why) noexcept;
  [[nodiscard]] int send_what_fits() noexcept;
  [[nodiscard]] StreamResult<void> write_outcome(std::optional<StreamError> stopped,
                                                 int errno_value) noexcept;
  void stop_write(StreamError reason) noexcept;
  static void on_write_timer(TimerEntry& entry);
  void write_timer_fired() noexcept;

  // Connecting (connect.cc).
  static void on_connected(Completion& completion, std::int32_t result,
                           std::uint32_t flags) noexcept;
  void connected(std::int32_t result) noexcept;

  // Keepalive (keepalive.cc).
  static void on_keepalive_timer(TimerEntry& entry);
  void keepalive_timer_fired() noexcept;
  void peer_heard() noexcept;

  // Ending (connection.cc).
  [[nodiscard]] bool has_unread() const noexcept;
  [[nodiscard]] bool busy() const noexcept;
  void finish_sending() noexcept;
  void linger() noexcept;
  void linger_behind_send() noexcept;
  void await_fin() noexcept;
  void leave() noexcept;
  void end_if_quiet() noexcept;
  [[nodiscard]] Instant deadline_of(Delay timeout) noexcept;

  // First what an exchange touches, close together.
  KernelCore& core_;
  int fd_;
  Phase phase_ = Phase::open;
  bool handle_ = false;           ///< A Stream refers to it.
  bool receive_stopped_ = false;  ///< The armed receive is being cancelled.
  bool resumed_ = false;          ///< The armed receive came from the line for buffers.
  bool fin_after_write_ = false;  ///< FIN follows the outstanding write.
  bool write_failed_ = false;     ///< A part of a write may be missing: no FIN may follow.
  bool peer_closed_ = false;      ///< The peer's FIN came.
  bool accepted_ = false;         ///< What is being sent, nobody waits for.
  bool accepted_waits_ = false;   ///< And the socket took only a part of it.
  std::uint8_t bulk_ = 0;         ///< While not 0, one receive at a time: its reader was behind.
  std::uint8_t probes_sent_ = 0;
  std::uint8_t probes_limit_ = 0;

  std::optional<StreamError> read_ending_;  ///< What ends the read that waits, unless bytes come.
  std::optional<StreamError> read_end_;     ///< What reads answer once the queue is empty.
  std::optional<StreamError> write_end_;    ///< What writes answer.
  std::optional<StreamError>
      stop_reason_;  ///< Why the outstanding send or connect is being cancelled.

  std::optional<StreamError> broken_;  ///< Why a send failed that nobody had stopped.
  std::optional<StreamError> untold_;  ///< Why an accepted chunk wasn't sent, for the next read.

  ReadAwaiter* read_ = nullptr;
  WriteAwaiter* write_ = nullptr;  ///< Being sent, or in line behind what was accepted.
  ReceiveQueue unread_;
  Receive receive_operation_;
  Send send_operation_;  ///< Also for connecting.
  std::span<const std::byte> unsent_;
  Chunk sending_;

  StreamStats stats_;
  Instant read_deadline_ = kNever;
  Instant write_deadline_ = kNever;  ///< Of what is being sent.
  Instant exchange_deadline_ = kNever;
  Delay accepted_timeout_ = kNoTimeout;
  Delay keepalive_idle_ = kNoTimeout;
  Timer keepalive_timer_;
  Timer read_timer_;

  Timer write_timer_;
  Instant queued_deadline_ = kNever;  ///< Of what stands in line.
  ConnectAwaiter* connect_ = nullptr;
  Instant first_probe_{};
  Delay keepalive_interval_ = kNoTimeout;
  SocketAddress connecting_to_;
};

}  // namespace pinion::detail
