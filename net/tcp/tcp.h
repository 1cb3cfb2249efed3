#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <pinion/lib/random.h>
#include <pinion/lib/result.h>
#include <pinion/timers/timing_wheel.h>
#include <tl/expected.hpp>

#include "../stack/ip_layer.h"
#include "../stack/secret_numbers.h"
#include "arrival.h"
#include "connection.h"
#include "connection_pool.h"
#include "connection_table.h"
#include "ephemeral_ports.h"
#include "initial_sequence.h"
#include "listener.h"
#include "reassembly.h"
#include "syn_cache.h"
#include "syn_cookies.h"
#include "tcp_events.h"
#include "tcp_options.h"
#include "tcp_stats.h"
#include "time_wait.h"
#include "touched_list.h"

/// TCP (RFC 9293) as a function of packets, calls and time: one lcore's layer, between the IP layer
/// and whoever puts sockets on top.
///
/// Ownership:  the layer owns connections, listeners and the packets it holds, and borrows its
///             parts, which outlive it. Observers are the users'. It dies with its connections, of
///             which nobody is told then and nothing is sent.
/// Threading:  one lcore. No call blocks, reads a clock, takes a lock or allocates, but listen().
/// Time:       every call has its `now`, which never goes back. Timers are on the lcore's wheel.
/// Order:      what segments, timers and calls bring about is told in settle(): for the segments of
///             a burst at its end, and for calls at the next end_of_burst(), which is due whenever
///             is_settled() says no. Then each connection decides once what it sends: data, and if
///             there are none an acknowledgement (RFC 9293, MUST-58 and MUST-59).
/// Cost:       320 bytes for a connection, 48 in TIME-WAIT or half open; a lookup and a few hundred
///             instructions for a segment. One of no connection, such as a SYN, looks at each
///             listener until it finds its own: max_listeners.
/// Errors:     segments that don't fit are counted by reason (TcpStats) and dropped, or answered as
///             the RFCs say. Calls answer a TcpOutcome.
/// Left out:   urgent data are part of the stream, the pointer is ignored (RFC 6093); no ECN, no
///             Fast Open; SACK blocks of the peer are not used yet.

namespace pinion {

/// What the layer works on.
struct TcpParts {
  IpLayer& ip;
  TimingWheel& wheel;
  PacketPool& packets;           ///< For what is sent.
  PacketPool& small_packets;     ///< For small payloads that wait long; may be the same one.
  std::size_t max_segments = 1;  ///< The longest chain that the device sends.
};

struct TcpConnectRequest {
  Endpoint remote;
  std::optional<IpAddress> local_address = {};  ///< Otherwise the one that the route has.
  std::uint16_t local_port = 0;                 ///< 0: an ephemeral one.
  TcpSocketOptions options = {};
};

struct TcpTransferred {
  TcpOutcome outcome = TcpOutcome::gone;
  std::size_t bytes = 0;
};

/// What is known of a connection.
struct TcpInfo {
  Endpoint local;
  Endpoint remote;
  TcpState state = TcpState::over;
  wire::SequenceNumber first_unacknowledged;  ///< SND.UNA.
  std::size_t unread = 0;                     ///< Bytes.
  std::size_t unacknowledged = 0;             ///< Bytes written.
  bool end_of_stream = false;                 ///< The peer's FIN has come.
  bool write_room = false;                    ///< As much as on_writable() tells of.
  std::uint16_t segment = 0;                  ///< The most data in one that we send.
  std::uint32_t flight = 0;                   ///< Bytes sent and not acknowledged.
  std::uint32_t window = 0;                   ///< The peer's.
  std::uint32_t receive_window = 0;           ///< Ours, as last offered.
  std::uint32_t congestion_window = 0;
  std::uint32_t congestion_threshold = 0;
  std::uint32_t srtt_us = 0;
  std::uint32_t rttvar_us = 0;
  std::uint32_t timeout_us = 0;      ///< Of a retransmission.
  std::uint8_t retransmissions = 0;  ///< Timeouts since something was acknowledged.
  std::uint8_t send_scale = 0;       ///< Of the windows that come,
  std::uint8_t receive_scale = 0;    ///< and of those that go.
  bool timestamps = false;
  bool sack = false;
};

class Tcp final : public IpTransport {
 public:
  /// Takes all memory. `seed` is secret and comes from the system's random numbers: numbers, ports
  /// and hashes follow from it.
  [[nodiscard]] static Result<std::unique_ptr<Tcp>> create(const TcpConfig& config,
                                                           const TcpParts& parts,
                                                           std::uint64_t seed, Instant now);
  ~Tcp();

  void expect(std::span<Packet* const> burst, std::size_t link_header) noexcept override;
  [[nodiscard]] bool receive_known(PacketPtr& packet, Instant now) noexcept override;
  void receive(PacketPtr packet, const IpArrival& arrival, Instant now) noexcept override;
  void complain(const IpComplaint& complaint, Instant now) noexcept override;
  void end_of_burst(Instant now) noexcept override;
  void paths_shrank() noexcept override { ++paths_; }

  /// Whether end_of_burst() has nothing to do.
  [[nodiscard]] bool is_settled() const noexcept { return touched_.empty() && !acceptors_wait_; }

  /// Port 0 is refused. An unspecified address means every address of its family.
  [[nodiscard]] Result<TcpListenerHandle> listen(const Endpoint& endpoint,
                                                 const TcpListenOptions& options,
                                                 TcpAcceptor* acceptor);
  /// For the connections that are accepted from now on. The receive buffer and max_segment stay
  /// what listen() was told: answers to SYNs have promised them.
  void set_options(TcpListenerHandle listener, const TcpListenOptions& options) noexcept;
  /// Stops listening. Connections that wait to be accepted are reset.
  void close(TcpListenerHandle listener, Instant now) noexcept;

  /// How many connections wait to be accepted; 0 for a handle of nothing.
  [[nodiscard]] std::size_t waiting(TcpListenerHandle listener) noexcept;

  /// The connection that waits longest, of which `observer` hears from now on; a handle of nothing
  /// when none waits. What has arrived of it already is told at the next end_of_burst().
  [[nodiscard]] TcpHandle accept(TcpListenerHandle listener, TcpObserver* observer) noexcept;

  [[nodiscard]] tl::expected<TcpHandle, TcpConnectError> connect(const TcpConnectRequest& request,
                                                                 TcpObserver* observer,
                                                                 Instant now) noexcept;

  /// Takes bytes to send, as many as there is room for; `again` when that isn't all.
  [[nodiscard]] TcpTransferred write(TcpHandle handle, std::span<const std::byte> bytes,
                                     Instant now) noexcept;
  /// The same for a packet's bytes, without copying those of large ones: `packet` is left with what
  /// was not taken.
  [[nodiscard]] TcpTransferred write(TcpHandle handle, PacketPtr& packet, Instant now) noexcept;

  /// Copies bytes that have arrived.
  [[nodiscard]] TcpTransferred read(TcpHandle handle, std::span<std::byte> into,
                                    Instant now) noexcept;
  /// The next bytes that have arrived, in the packet that they came in: what it costs its pool is
  /// not this connection's any more.
  [[nodiscard]] TcpOutcome take(TcpHandle handle, PacketPtr& into, Instant now) noexcept;

  /// FIN after what was written; reading goes on.
  void shutdown_write(TcpHandle handle, Instant now) noexcept;
  /// FIN after what was written, and nothing is read any more; a reset if something is unread.
  void close(TcpHandle handle, Instant now) noexcept;
  /// A reset, at once.
  void abort(TcpHandle handle, Instant now) noexcept;

  void set_observer(TcpHandle handle, TcpObserver* observer) noexcept;
  void set_no_delay(TcpHandle handle, bool no_delay, Instant now) noexcept;
  /// Of the segments from now on.
  void set_traffic_class(TcpHandle handle, std::uint8_t traffic_class) noexcept;
  /// The silence so far counts: a probe may be due at once. Probes that were not answered
  /// stay counted.
  void set_keepalive(TcpHandle handle, const TcpKeepalive& keepalive, Instant now) noexcept;
  /// kNoTimeout: the layer's limit.
  void set_user_timeout(TcpHandle handle, Delay timeout) noexcept;
  /// When to call on_read_deadline() or on_write_deadline(). Beyond 12 days: never.
  void set_read_deadline(TcpHandle handle, Instant deadline, Instant now) noexcept;
  void set_write_deadline(TcpHandle handle, Instant deadline, Instant now) noexcept;

  /// None for a handle of nothing.
  [[nodiscard]] std::optional<TcpInfo> info(TcpHandle handle) noexcept;
  [[nodiscard]] const TcpStats& stats() const noexcept { return stats_; }
  [[nodiscard]] std::size_t connections() const noexcept { return connections_.size(); }
  [[nodiscard]] std::size_t half_open() const noexcept { return syn_cache_.size(); }
  [[nodiscard]] std::size_t time_waits() const noexcept { return time_waits_.size(); }

 private:
  friend struct TcpProtocolTimer;
  friend struct TcpApplicationTimer;

  /// The parts of a packet pool below which nobody gets more who has something lying there: a
  /// reader who is behind, a peer who hasn't acknowledged. Then those below which no SYN is
  /// answered, nothing is kept behind holes, and nothing is copied for sending: the rest is for
  /// acknowledgements and for what is under way.
  static constexpr std::size_t kHoardReserve = 5;
  static constexpr std::size_t kSynReserve = 10;
  static constexpr std::size_t kReorderingReserve = 20;
  static constexpr std::size_t kWriteReserve = 20;

  /// The longest time until a deadline.
  static constexpr Delay kLongestDeadline = std::chrono::milliseconds{kTcpLongest};
  /// How long what a timer would send waits when the way out is crowded.
  static constexpr std::uint32_t kCrowdedMs = 10;
  /// When a timer is later than this, its lcore was held up.
  static constexpr std::uint32_t kHeldUpMs = 20;
  /// Records of a table that one firing of its timer removes.
  static constexpr std::size_t kExpireBudget = 256;

  /// Timers for the records of a table, in whose order they expire.
  struct TableTimer : TimerEntry {
    TableTimer(Callback callback, Tcp& its_tcp) noexcept : TimerEntry(callback), tcp(its_tcp) {}
    Tcp& tcp;
  };

  /// A part of the stream, to be sent as one segment.
  struct Piece {
    wire::SequenceNumber begin;
    std::uint32_t size = 0;
    bool fin = false;
  };

  /// The ends and numbers of a segment that goes out.
  struct Outgoing {
    const FourTuple& tuple;
    wire::SequenceNumber sequence;
    wire::SequenceNumber acknowledgment;
    wire::TcpFlags flags;
    std::uint16_t window = 0;
    std::uint8_t traffic_class = 0;
  };

  /// What a handshake has agreed on.
  struct Agreement {
    std::uint16_t peer_mss = 0;
    std::optional<std::uint8_t> peer_scale = {};
    bool timestamps = false;
    bool sack = false;
    std::uint32_t ts_recent = 0;
    std::uint32_t ts_offset = 0;
  };

  Tcp(const TcpConfig& config, const TcpParts& parts, SecretNumbers secrets, Instant now) noexcept;
  [[nodiscard]] bool reserve() noexcept;

  // tcp.cc: finding the connection; the end of a burst.
  void note(Instant now) noexcept;
  void drop(TcpDrop why) noexcept { ++stats_.drops[static_cast<std::size_t>(why)]; }
  [[nodiscard]] bool receive_known_v4(PacketPtr& packet, Instant now) noexcept;
  [[nodiscard]] bool receive_known_v6(PacketPtr& packet, Instant now) noexcept;
  [[nodiscard]] bool input_known(TcpConnection& c, PacketPtr& packet, std::size_t ip_size) noexcept;
  [[nodiscard]] bool read_segment(TcpArrival& a, const IpArrival& arrival) noexcept;
  [[nodiscard]] TcpConnection* find(const FourTuple& tuple) noexcept;
  void remove_from_table(const TcpConnection& c) noexcept;
  /// Whether less than this part of the pool is left.
  [[nodiscard]] static bool scarce(const PacketPool& pool, std::size_t part) noexcept {
    return pool.available() < pool.capacity() / part;
  }
  [[nodiscard]] bool may_hold_more(const TcpConnection& c) const noexcept;
  void shed_reordering() noexcept;
  void touch(TcpConnection& c) noexcept {
    if (c.touched) return;
    c.touched = true;
    touched_.push_back(connections_.index_of(c));
  }
  void settle_all() noexcept;
  void settle(TcpConnection& c) noexcept;
  void tell_news(TcpConnection& c) noexcept;
  void tell_end(TcpConnection& c) noexcept;
  void tell_acceptors() noexcept;
  void act(TcpConnection& c) noexcept;

  // input_expected.cc: segments that need no closer look.
  [[nodiscard]] bool input_expected(TcpConnection& c, PacketPtr& packet,
                                    std::size_t ip_size) noexcept;
  void take_text(TcpConnection& c, PacketPtr text) noexcept;
  void note_text(TcpConnection& c) noexcept;

  // input.cc: segments of connections.
  void input(TcpConnection& c, TcpArrival& a) noexcept;
  [[nodiscard]] bool is_expected(const TcpConnection& c, const TcpArrival& a) const noexcept;
  [[nodiscard]] static bool is_acceptable(wire::SequenceNumber next, wire::SequenceNumber edge,
                                          const TcpArrival& a) noexcept;
  [[nodiscard]] bool pass_checks(TcpConnection& c, TcpArrival& a) noexcept;
  [[nodiscard]] bool is_outdated(const TcpConnection& c, std::uint32_t value) const noexcept;
  [[nodiscard]] bool pass_paws(TcpConnection& c, const TcpArrival& a) noexcept;
  [[nodiscard]] bool pass_syn(TcpConnection& c, TcpArrival& a) noexcept;
  void refuse(TcpConnection& c, const TcpArrival& a, TcpDrop why) noexcept;
  void challenge(TcpConnection& c) noexcept;
  bool count_challenge(bool allowed) noexcept;
  void input_reset(TcpConnection& c, const TcpArrival& a) noexcept;
  /// The peer is there.
  void note_heard(TcpConnection& c) const noexcept {
    c.last_heard = time_after_;
    c.heard = true;
    c.keepalive_sent = 0;
  }
  void note_timestamp(TcpConnection& c, const TcpArrival& a) noexcept;
  void input_text(TcpConnection& c, TcpArrival& a) noexcept;
  void pass_fin(TcpConnection& c) noexcept;

  // input_ack.cc: what they acknowledge.
  [[nodiscard]] bool check_ack(TcpConnection& c, const TcpArrival& a) noexcept;
  void input_ack(TcpConnection& c, const TcpArrival& a) noexcept;
  void input_ack_alone(TcpConnection& c, const TcpArrival& a) noexcept;
  void acknowledge(TcpConnection& c, wire::SequenceNumber ack,
                   const wire::TcpTimestamps* timestamps) noexcept;
  void take_sample(TcpConnection& c, wire::SequenceNumber ack,
                   const wire::TcpTimestamps* timestamps) noexcept;
  void fin_acknowledged(TcpConnection& c) noexcept;
  void update_window(TcpConnection& c, const TcpArrival& a) noexcept;
  void set_window(TcpConnection& c, std::uint32_t window) noexcept;

  // open.cc, listen.cc, input_listen.cc: connections begin.
  [[nodiscard]] std::optional<FourTuple> choose_tuple(const TcpConnectRequest& request,
                                                      TcpConnectError& error) noexcept;
  [[nodiscard]] bool is_free(const FourTuple& tuple) noexcept;
  [[nodiscard]] TcpConnection* make_connection(const FourTuple& tuple, wire::SequenceNumber iss,
                                               wire::SequenceNumber rcv_nxt,
                                               const TcpSocketOptions& options) noexcept;
  void apply_options(TcpConnection& c, const TcpSocketOptions& options) const noexcept;
  void input_syn_sent(TcpConnection& c, TcpArrival& a) noexcept;
  [[nodiscard]] bool check_syn_sent_ack(TcpConnection& c, const TcpArrival& a) noexcept;
  void agree(TcpConnection& c, const Agreement& agreement) noexcept;
  [[nodiscard]] Agreement agreement_of(const TcpConnection& c, const TcpArrival& a) const noexcept;
  void establish(TcpConnection& c, const TcpArrival& a) noexcept;
  [[nodiscard]] TcpListener* listener_for(const FourTuple& tuple) noexcept;
  [[nodiscard]] bool is_full(const TcpListener& listener) const noexcept;
  [[nodiscard]] std::uint16_t index_of(const TcpListener& listener) const noexcept {
    return static_cast<std::uint16_t>(&listener - listeners_.data());
  }
  void input_unknown(TcpArrival& a) noexcept;
  void input_time_wait(const TimeWaitRecord& record, TcpArrival& a) noexcept;
  void acknowledge_for(const FourTuple& tuple, wire::SequenceNumber sequence,
                       wire::SequenceNumber acknowledgment, std::uint16_t window,
                       std::optional<std::uint32_t> ts_recent) noexcept;
  void input_half_open(SynRecord& record, TcpArrival& a) noexcept;
  void input_half_open_reset(SynRecord& record, const TcpArrival& a) noexcept;
  [[nodiscard]] bool fits_half_open(SynRecord& record, const TcpArrival& a) noexcept;
  void challenge(SynRecord& record, const FourTuple& tuple) noexcept;
  [[nodiscard]] bool may_challenge(std::uint8_t last) noexcept;
  void acknowledge(const SynRecord& record, const FourTuple& tuple) noexcept;
  bool input_listen(TcpListener& listener, TcpArrival& a,
                    std::optional<wire::SequenceNumber> behind) noexcept;
  [[nodiscard]] bool answer_syn(TcpListener& listener, const TcpArrival& a,
                                std::optional<wire::SequenceNumber> behind) noexcept;
  [[nodiscard]] bool accept_cookie(TcpListener& listener, TcpArrival& a) noexcept;
  [[nodiscard]] bool send_syn_ack(const SynRecord& record, const FourTuple& tuple,
                                  std::uint32_t timestamp,
                                  const TcpListenOptions& options) noexcept;
  bool resend_syn_ack(const SynRecord& record) noexcept;
  [[nodiscard]] bool complete_passive_open(TcpListener& listener, TcpArrival& a,
                                           wire::SequenceNumber irs, const Agreement& agreement,
                                           bool syn_resent) noexcept;
  void wait_for_accept(TcpListener& listener, TcpConnection& c) noexcept;
  void leave_accept_queue(TcpConnection& c) noexcept;
  [[nodiscard]] TcpListener* find(TcpListenerHandle handle) noexcept;

  // complaint.cc.
  void learn_mtu(TcpConnection& c, std::size_t mtu) noexcept;
  bool adopt_path_mss(TcpConnection& c) noexcept;
  bool follow_path(TcpConnection& c) noexcept;

  // segment.cc: sizes, windows and headers.
  [[nodiscard]] std::uint16_t path_mss(const FourTuple& tuple) const noexcept;
  [[nodiscard]] std::uint16_t announced_mss(const FourTuple& tuple,
                                            std::uint16_t clamp) const noexcept;
  [[nodiscard]] std::uint8_t scale_for(std::uint32_t receive_buffer) const noexcept;
  [[nodiscard]] bool emit(const Outgoing& out, const wire::TcpOptions& options,
                          PacketPtr payload) noexcept;
  [[nodiscard]] bool emit(TcpConnection& c, wire::SequenceNumber sequence, wire::TcpFlags flags,
                          PacketPtr payload, std::size_t sack_blocks) noexcept;
  void depart(const FourTuple& tuple, std::uint8_t traffic_class, PacketPtr segment) noexcept;
  void send_syn(TcpConnection& c) noexcept;
  void send_ack(TcpConnection& c) noexcept;
  void send_reset(TcpConnection& c) noexcept;
  void answer_by_reset(const TcpArrival& a) noexcept;
  [[nodiscard]] wire::SequenceNumber ack_sequence(const TcpConnection& c) const noexcept;

  // output.cc: data.
  void output(TcpConnection& c) noexcept;
  void send_data(TcpConnection& c) noexcept;
  void restart_if_idle(TcpConnection& c) noexcept;
  [[nodiscard]] std::uint32_t room_for_data(const TcpConnection& c) const noexcept;
  [[nodiscard]] std::optional<Piece> next_piece(const TcpConnection& c, bool forced) const noexcept;
  [[nodiscard]] bool is_worth_sending(const TcpConnection& c, const Piece& piece,
                                      std::uint32_t unsent) const noexcept;
  [[nodiscard]] bool send_piece(TcpConnection& c, const Piece& piece) noexcept;
  void note_sent(TcpConnection& c, wire::SequenceNumber begin, wire::SequenceNumber end) noexcept;
  void send_first_again(TcpConnection& c) noexcept;
  void decide_ack(TcpConnection& c) noexcept;
  void send_duplicate_acks(TcpConnection& c) noexcept;

  // timers.cc, persist.cc, keepalive.cc.
  [[nodiscard]] TcpTimer wanted_timer(const TcpConnection& c) const noexcept;
  [[nodiscard]] std::uint32_t timer_delay(const TcpConnection& c) const noexcept;
  void set_protocol_timer(TcpConnection& c) noexcept;
  void set_application_timer(TcpConnection& c) noexcept;
  /// The layer's seconds.
  [[nodiscard]] std::uint32_t seconds() const noexcept {
    return static_cast<std::uint32_t>(now_.time_since_epoch().count() / 1'000'000'000);
  }
  /// Milliseconds since `time`.
  [[nodiscard]] std::uint32_t ms_since(TcpTime time) const noexcept {
    return static_cast<std::uint32_t>(std::max(time_ - time, 0));
  }
  [[nodiscard]] bool has_passed(TcpTime time) const noexcept { return time_ - time >= 0; }
  [[nodiscard]] TcpTime in_ms(std::uint32_t delay) const noexcept { return time_after_ + delay; }
  [[nodiscard]] bool is_crowded(const TcpConnection& c) noexcept;
  void on_protocol_timer(TcpConnection& c) noexcept;
  void on_application_timer(TcpConnection& c) noexcept;
  void on_retransmission_timeout(TcpConnection& c) noexcept;
  [[nodiscard]] std::uint32_t timeout_ms(const TcpConnection& c) const noexcept {
    return (c.round_trip.timeout_us(retransmission_) + 999) / 1'000;
  }
  void forgive(TcpConnection& c, std::uint32_t late_ms) const noexcept;
  void give_up(TcpConnection& c) noexcept;
  [[nodiscard]] Delay patience(const TcpConnection& c) const noexcept;
  [[nodiscard]] std::uint32_t patience_left_ms(const TcpConnection& c) const noexcept;
  void on_persist_timeout(TcpConnection& c) noexcept;
  [[nodiscard]] static bool probes_unanswered(const TcpConnection& c) noexcept;
  void send_window_probe(TcpConnection& c) noexcept;
  [[nodiscard]] std::uint32_t persist_delay(const TcpConnection& c) const noexcept;
  [[nodiscard]] static std::uint32_t keepalive_patience_ms(const TcpConnection& c) noexcept;
  [[nodiscard]] static TcpTime keepalive_due(const TcpConnection& c) noexcept;
  void bound_silence(TcpConnection& c) const noexcept;
  void on_keepalive(TcpConnection& c) noexcept;
  void apply_keepalive(TcpConnection& c, const TcpKeepalive& keepalive) const noexcept;
  static void apply_user_timeout(TcpConnection& c, Delay timeout) noexcept;
  static void on_syn_timer(TimerEntry& entry) noexcept;
  static void on_time_wait_timer(TimerEntry& entry) noexcept;
  void set_table_timers() noexcept;

  // close.cc: connections end.
  void queue_fin(TcpConnection& c) noexcept;
  void become_orphan(TcpConnection& c) noexcept;
  void leave_orphans(const TcpConnection& c) noexcept;
  void note_taken(TcpConnection& c, std::uint32_t acked) noexcept;
  [[nodiscard]] bool is_overdue(const TcpConnection& c) const noexcept;
  void displace_orphan() noexcept;
  void finish(TcpConnection& c, TcpEnd why) noexcept;
  void reset(TcpConnection& c, TcpEnd why) noexcept;
  void enter_time_wait(TcpConnection& c) noexcept;
  void clear_queues(TcpConnection& c) noexcept;
  void release_if_done(TcpConnection& c) noexcept;

  // socket.cc.
  [[nodiscard]] std::size_t room_to_write(const TcpConnection& c) const noexcept;
  [[nodiscard]] bool has_write_room(const TcpConnection& c) const noexcept;
  [[nodiscard]] std::optional<TcpOutcome> why_not_write(const TcpConnection* c) const noexcept;
  [[nodiscard]] TcpTransferred written(TcpConnection& c, std::size_t taken, bool all) noexcept;
  [[nodiscard]] TcpOutcome empty_outcome(const TcpConnection& c) const noexcept;

  TcpConfig config_;
  IpLayer& ip_;
  TimingWheel& wheel_;
  PacketPool& packets_;
  Random random_;
  Instant now_;
  TcpTime time_;        ///< `now_`, rounded down: what has passed,
  TcpTime time_after_;  ///< and up: what delays are counted from.
  RetransmissionSettings retransmission_;
  std::uint32_t delayed_ack_ms_;
  std::uint32_t linger_ms_;
  std::uint32_t orphan_ms_;  ///< Not less than `linger_ms_`.
  std::uint8_t paths_ = 0;   ///< How often some path has shrunk, as far as 8 bits go.
  TcpStats stats_;

  SipKey table_secret_;
  ConnectionPool connections_;
  ConnectionTable table_;
  std::vector<TcpListener> listeners_;
  std::size_t listening_ = 0;  ///< Of these.
  TouchedList touched_;
  TcpConnection* settling_ = nullptr;
  bool acceptors_wait_ = false;
  std::uint32_t first_orphan_ = TcpListener::kNone;  ///< The one closed first,
  std::uint32_t last_orphan_ = TcpListener::kNone;

  ReceiveMemory receive_memory_;
  OutOfOrderMemory out_of_order_memory_;
  SendMemory send_memory_;

  InitialSequence initial_sequence_;
  EphemeralPorts ports_;
  ChallengeBudget challenge_budget_{kChallengesPerSecond};         ///< Of connections,
  ChallengeBudget record_challenge_budget_{kChallengesPerSecond};  ///< and of records.
  SynCookies cookies_;
  Instant cookies_until_{};  ///< No cookie that is about is good any longer.
  SynCache syn_cache_;
  TimeWaitTable time_waits_;
  TableTimer syn_timer_{&on_syn_timer, *this};
  TableTimer time_wait_timer_{&on_time_wait_timer, *this};
};

}  // namespace pinion
