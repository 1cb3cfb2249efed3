#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include <pinion/timers/timer_entry.h>

#include "../wire/sequence_number.h"
#include "challenge_limit.h"
#include "congestion.h"
#include "four_tuple.h"
#include "out_of_order.h"
#include "receive_queue.h"
#include "round_trip.h"
#include "send_queue.h"
#include "tcp_events.h"
#include "tcp_options.h"
#include "tcp_time.h"

/// What the stack keeps of a connection, in five cache lines, in the order in which they are used.
/// SND.UNA and so on are as RFC 9293, 3.3.1, has them; RCV.NXT and RCV.WND are the receive queue's.
///
/// Ownership:  the layer's ConnectionPool. Its queues hold packets; whoever ends it clears them.
/// Threading:  one lcore.
/// Cost:       320 bytes, the two timer entries included; an idle connection holds no packet and no
///             record of any other pool.
/// Errors:     none: a record has no rules of its own. Those are Tcp's.

namespace pinion {

class Tcp;

/// A traffic class without the bits of ECN, which are not the user's.
[[nodiscard]] constexpr std::uint8_t dscp_of(std::uint8_t traffic_class) noexcept {
  return traffic_class & 0xfcU;
}

enum class TcpState : std::uint8_t {
  syn_sent,
  syn_received,  ///< After a simultaneous open; other passive opens wait in the SynCache.
  established,
  fin_wait_1,
  fin_wait_2,
  close_wait,
  closing,
  last_ack,
  over,  ///< Nothing comes or goes any more; a reader may be left. TIME-WAIT has other records.
};

/// What `retransmit_at` is the time of.
enum class TcpTimer : std::uint8_t {
  none,
  retransmit,
  persist,     ///< Of a probe, the window being shut or too small (RFC 9293, 3.8.6.1).
  fin_wait_2,  ///< Of giving up: we have closed, and the peer's FIN doesn't come.
};

/// What the user is yet to be told: bits.
enum class TcpNews : std::uint8_t {
  connected = 0x01,
  readable = 0x02,
  writable = 0x04,
  read_deadline = 0x08,
  write_deadline = 0x10,
};

/// TS.Recent and what belongs to it (RFC 7323, 4.3 and 5.5).
struct TcpTimestampState {
  std::uint32_t recent = 0;
  std::uint32_t recent_at_s = 0;  ///< By the layer's clock, in seconds.
  std::uint32_t offset = 0;       ///< How far our own are ahead of the layer's milliseconds.
};

/// Lines 0 to 2: what segments look at.
struct alignas(64) TcpTransfer {
  TcpTransfer(const FourTuple& its_tuple, wire::SequenceNumber iss, wire::SequenceNumber rcv_nxt,
              std::uint32_t receive_buffer) noexcept
      : tuple(its_tuple),
        snd_una(iss),
        snd_nxt(iss),
        snd_max(iss),
        receive(rcv_nxt, receive_buffer),
        send(iss + 1, 0),
        timed{} {}

  FourTuple tuple;
  TcpState state = TcpState::syn_sent;
  TcpTimer timer : 4 = TcpTimer::none;
  TcpEnd end : 4 = TcpEnd::orderly;
  std::uint16_t mss = 0;         ///< Eff.snd.MSS: data in a segment, options taken off (3.7.1).
  std::uint16_t max_window = 0;  ///< MAX.SND.WND, as it stands in the header.
  std::uint8_t unacked_segments = 0;  ///< With data, since we have last acknowledged any.
  std::uint8_t news = 0;              ///< Of TcpNews.

  bool touched : 1 = false;  ///< Waits for Tcp::settle_all().
  bool ack_now : 1 = false;
  bool ack_later : 1 = false;        ///< At `ack_at`.
  bool with_timestamps : 1 = false;  ///< Agreed on: `timestamps` counts, otherwise `timed`.
  bool with_sack : 1 = false;        ///< The peer takes our SACKs.
  bool no_delay : 1 = false;
  bool fin_queued : 1 = false;   ///< To be sent behind the last byte queued.
  bool fin_passed : 1 = false;   ///< The peer's, with everything ahead of it.
  bool wants_write : 1 = false;  ///< A write wasn't taken whole.
  bool released : 1 = false;     ///< The user has called close() or abort().
  bool discarding : 1 = false;   ///< After close(): nobody reads what comes, until `read_at`.
  bool told_end : 1 = false;
  bool waits_for_accept : 1 = false;
  bool syn_resent : 1 = false;
  bool soft_error : 1 = false;    ///< ICMP has complained, and nothing was acknowledged since.
  bool read_timed : 1 = false;    ///< `read_at` counts.
  bool write_timed : 1 = false;   ///< `write_at` counts.
  bool progress : 1 = false;      ///< The peer has acknowledged something in this burst.
  bool received : 1 = false;      ///< Data has come in this burst.
  bool has_read : 1 = false;      ///< Room was made: the peer may have to hear of it.
  bool resend_first : 1 = false;  ///< What is at SND.UNA is taken for lost.
  bool heard : 1 = false;         ///< Something acceptable has come since `unacked_since`.
  /// Segments behind a hole in this burst, up to three, of a peer that counts acknowledgements.
  std::uint8_t beyond_hole : 2 = 0;
  std::uint8_t snd_scale : 4 = 0;  ///< Of the windows we receive (RFC 7323, 2.3),
  std::uint8_t rcv_scale : 4 = 0;  ///< and of those we send.

  wire::SequenceNumber snd_una;
  wire::SequenceNumber snd_nxt;  ///< The next to send, perhaps not for the first time,
  wire::SequenceNumber snd_max;  ///< and the first that never was. The RFC calls both SND.NXT.
  std::uint32_t snd_wnd = 0;

  [[no_unique_address]] ReceiveQueue receive;
  std::uint16_t user_timeout_s = 0;  ///< 0: the layer's limit.
  std::uint8_t retransmissions = 0;  ///< Timeouts since SND.UNA has moved.
  std::uint8_t traffic_class = 0;    ///< DSCP.
  SendQueue send;  ///< Begins at SND.UNA, but while that is our SYN or behind our FIN.
  wire::SequenceNumber snd_wl1;
  wire::SequenceNumber last_ack_sent;
  union {
    TcpTimestampState timestamps;
    TimedSegment timed;
  };
  TcpTime last_heard;  ///< When the last acceptable segment came, as far as keepalive counts it.

  [[no_unique_address]] Congestion congestion;
  std::uint8_t paths_seen = 0;  ///< Of the layer's `paths_`: as of then `mss` fits the path.
  [[no_unique_address]] RoundTrip round_trip;
  union {
    std::uint16_t listener = 0;   ///< While it waits to be accepted.
    std::uint16_t announced_mss;  ///< Of a connection that we open: what our SYN says.
  };
  OutOfOrder beyond;
  TcpTime retransmit_at;
  TcpTime ack_at;
  TcpTime unacked_since;  ///< When SND.UNA moved or, later, something came to be in flight.
  ChallengeLimit challenges;
};

/// Carries the earliest of `retransmit_at` and `ack_at`.
struct TcpProtocolTimer : TimerEntry {
  TcpProtocolTimer() noexcept : TimerEntry(&on_fire) {}
  static void on_fire(TimerEntry& entry) noexcept;
};

/// Carries the earliest of `read_at`, `write_at` and the next keepalive probe.
struct TcpApplicationTimer : TimerEntry {
  TcpApplicationTimer() noexcept : TimerEntry(&on_fire) {}
  static void on_fire(TimerEntry& entry) noexcept;
};

/// The last 32 bytes: what the user has set. An orphan, which was closed and isn't over, has no use
/// for some of it.
struct TcpUserSide {
  explicit TcpUserSide(Tcp& its_tcp) noexcept
      : tcp(&its_tcp), observer(nullptr), write_at{}, keepalive_idle_ms(0) {}

  /// Neighbours in the queue of a listener, by index.
  struct AcceptLinks {
    std::uint32_t next;
    std::uint32_t previous;
  };

  Tcp* tcp;
  union {
    TcpObserver* observer;
    AcceptLinks accept_links;  ///< While `waits_for_accept`.
  };
  TcpTime read_at;
  union {
    TcpTime write_at;
    std::uint32_t next_orphan;  ///< By index, while `discarding`: closed later,
  };
  union {
    std::uint32_t keepalive_idle_ms;
    std::uint32_t previous_orphan;  ///< and before.
  };
  union {
    std::uint16_t keepalive_interval_ds = 0;  ///< In tenths of a second.
    std::uint16_t taken;  ///< What an orphan's peer has since `read_at` was set: bytes.
  };
  std::uint8_t keepalive_limit = 0;
  std::uint8_t keepalive_sent = 0;  ///< Probes since `last_heard`.
};

struct TcpConnection final : TcpTransfer, TcpProtocolTimer, TcpApplicationTimer, TcpUserSide {
  TcpConnection(Tcp& its_tcp, const FourTuple& its_tuple, wire::SequenceNumber iss,
                wire::SequenceNumber rcv_nxt, std::uint32_t receive_buffer) noexcept
      : TcpTransfer(its_tuple, iss, rcv_nxt, receive_buffer), TcpUserSide(its_tcp) {}
  TcpConnection(const TcpConnection&) = delete;
  TcpConnection& operator=(const TcpConnection&) = delete;
  ~TcpConnection() = default;

  [[nodiscard]] TcpProtocolTimer& protocol_timer() noexcept { return *this; }
  [[nodiscard]] TcpApplicationTimer& application_timer() noexcept { return *this; }

  void add(TcpNews what) noexcept { news |= static_cast<std::uint8_t>(what); }
  /// Whether `what` is to be told; it then counts as told.
  [[nodiscard]] bool take(TcpNews what) noexcept {
    const bool had = (news & static_cast<std::uint8_t>(what)) != 0;
    news &= static_cast<std::uint8_t>(~static_cast<unsigned>(what));
    return had;
  }

  /// RCV.NXT.
  [[nodiscard]] wire::SequenceNumber rcv_nxt() const noexcept { return receive.next(); }

  /// Sent and not acknowledged, SYN and FIN included.
  [[nodiscard]] bool in_flight() const noexcept { return snd_una != snd_max; }
  [[nodiscard]] std::uint32_t flight() const noexcept {
    return static_cast<std::uint32_t>(snd_max - snd_una);
  }

  /// Behind the last byte to send, and behind the FIN too.
  [[nodiscard]] wire::SequenceNumber send_end() const noexcept {
    return send.end() + (fin_queued ? 1U : 0U);
  }
  [[nodiscard]] bool fin_sent() const noexcept { return fin_queued && snd_max == send_end(); }
  [[nodiscard]] bool has_unsent() const noexcept { return before(snd_nxt, send_end()); }

  /// Both SYNs have been acknowledged.
  [[nodiscard]] bool synchronized() const noexcept {
    return state != TcpState::syn_sent && state != TcpState::syn_received;
  }
  [[nodiscard]] bool over() const noexcept { return state == TcpState::over; }

  /// Asks a silent peer whether it is there. An orphan has its limit.
  [[nodiscard]] bool has_keepalive() const noexcept {
    return !discarding && keepalive_idle_ms != 0;
  }

  /// The peer may still send data.
  [[nodiscard]] bool receives() const noexcept { return !fin_passed && !over(); }

  /// The largest window that the peer has offered.
  [[nodiscard]] std::uint32_t max_snd_wnd() const noexcept {
    return std::uint32_t{max_window} << snd_scale;
  }
};

static_assert(sizeof(TcpTransfer) == 192);
static_assert(sizeof(TcpUserSide) == 32);
static_assert(sizeof(TcpConnection) == 320);

}  // namespace pinion
