#pragma once

#include <cstdint>

/// What TCP does about every segment in every state, by the RFCs: each row is what they say of some
/// states, segments, places and acknowledgments, and each combination belongs to exactly one row.
/// Rows that say "ours:" are where the RFC leaves it open or is not followed, and why.

namespace pinion::test::matrix {

/// Bits: a row is about any of them.
using States = std::uint32_t;
inline constexpr States kClosed = 1U << 0;
inline constexpr States kListen = 1U << 1;
inline constexpr States kSynSent = 1U << 2;
inline constexpr States kHalfOpen = 1U << 3;  ///< SYN-RECEIVED from LISTEN.
inline constexpr States kBothOpen = 1U << 4;  ///< SYN-RECEIVED from SYN-SENT.
inline constexpr States kEstablished = 1U << 5;
inline constexpr States kFinWait1 = 1U << 6;
inline constexpr States kFinWait2 = 1U << 7;
inline constexpr States kCloseWait = 1U << 8;
inline constexpr States kClosing = 1U << 9;
inline constexpr States kLastAck = 1U << 10;
inline constexpr States kTimeWait = 1U << 11;
inline constexpr int kStateCount = 12;
inline constexpr States kEveryState = (1U << kStateCount) - 1;
inline constexpr States kSynReceived = kHalfOpen | kBothOpen;
inline constexpr States kReceiving = kEstablished | kFinWait1 | kFinWait2;
inline constexpr States kPeerDone = kCloseWait | kClosing | kLastAck;
inline constexpr States kSynchronized = kReceiving | kPeerDone;  // TIME-WAIT has rows of its own.

using Events = std::uint32_t;
inline constexpr Events kSyn = 1U << 0;
inline constexpr Events kSynAck = 1U << 1;
inline constexpr Events kSynFin = 1U << 2;
inline constexpr Events kFin = 1U << 3;
inline constexpr Events kFinAck = 1U << 4;
inline constexpr Events kAck = 1U << 5;
inline constexpr Events kRst = 1U << 6;
inline constexpr Events kRstAck = 1U << 7;
inline constexpr Events kData = 1U << 8;
inline constexpr Events kBareData = 1U << 9;  ///< Without ACK.
inline constexpr int kEventCount = 10;
inline constexpr Events kAnyRst = kRst | kRstAck;
inline constexpr Events kAnySyn = kSyn | kSynAck;

/// Where the segment begins.
using Places = std::uint32_t;
inline constexpr Places kOld = 1U << 0;     ///< So that all of it lies left of the window.
inline constexpr Places kBefore = 1U << 1;  ///< RCV.NXT - 1: data reach into the window.
inline constexpr Places kNext = 1U << 2;    ///< RCV.NXT, the left edge.
inline constexpr Places kInside = 1U << 3;
inline constexpr Places kLast = 1U << 4;  ///< The window's last number.
inline constexpr Places kEdge = 1U << 5;  ///< RCV.NXT + RCV.WND, the first one behind it.
inline constexpr Places kBeyond = 1U << 6;
inline constexpr int kPlaceCount = 7;
inline constexpr Places kAnywhere = (1U << kPlaceCount) - 1;
inline constexpr Places kInWindow = kNext | kInside | kLast;
inline constexpr Places kAhead = kInside | kLast;
inline constexpr Places kOutside = kOld | kEdge | kBeyond;

/// What it acknowledges.
using Acks = std::uint32_t;
inline constexpr Acks kTooOld = 1U << 0;      ///< Below SND.UNA - MAX.SND.WND (RFC 5961, 5.2).
inline constexpr Acks kDuplicate = 1U << 1;   ///< Below SND.UNA; in SYN-SENT and SYN-RECEIVED, ISS.
inline constexpr Acks kNothingNew = 1U << 2;  ///< SND.UNA, something being in flight.
inline constexpr Acks kAll = 1U << 3;         ///< SND.NXT: a FIN too, if one is in flight.
inline constexpr Acks kTooNew = 1U << 4;      ///< Above SND.NXT.
inline constexpr Acks kNoAck = 1U << 5;
inline constexpr int kAckCount = 6;
inline constexpr Acks kAnyAck = (1U << kAckCount) - 1;
inline constexpr Acks kValid = kDuplicate | kNothingNew | kAll;
inline constexpr Acks kNotAll = kDuplicate | kNothingNew;
inline constexpr Acks kInvalid = kTooOld | kTooNew;
inline constexpr Acks kNotEvery = kAnyAck & ~kAll;
inline constexpr Acks kNotOurSyn = kTooOld | kDuplicate | kTooNew;

enum class Answer : std::uint8_t {
  drop,                       ///< Nothing; nor does the segment change anything.
  quiet,                      ///< Nothing; its acknowledgment counts.
  refuse,                     ///< <SEQ=SND.NXT><ACK=RCV.NXT><CTL=ACK>; nothing changes.
  challenge,                  ///< The same, within the limits of RFC 5961, 7.
  acknowledge,                ///< The same; the segment's acknowledgment counts.
  acknowledge_within_limits,  ///< The same, as a challenge.
  ack_fin,                    ///< An acknowledgement of its FIN too,
  ack_syn,                    ///< or of its SYN,
  ack_data,      ///< or of its data, which may be delayed (3.8.6.3); the user gets them.
  syn_ack,       ///< <SEQ=ISS><ACK=SEG.SEQ+1><CTL=SYN,ACK>.
  reset_at_ack,  ///< <SEQ=SEG.ACK><CTL=RST>.
  reset_all,     ///< <SEQ=0><ACK=SEG.SEQ+SEG.LEN><CTL=RST,ACK>.
};

enum class Next : std::uint8_t {
  same,
  gone,  ///< CLOSED, or LISTEN again: nobody is told.
  syn_received,
  established,
  fin_wait_2,
  close_wait,
  closing,
  time_wait,
  refused,  ///< CLOSED, and the user is told that it was refused,
  reset,    ///< was reset,
  orderly,  ///< is over in order.
};

struct Row {
  States states;
  Events events;
  Places places;
  Acks acks;
  Answer answer;
  Next next;
  const char* why;
};

// clang-format off
inline constexpr Row kRows[] = {
    // Before any state is looked at.
    {kEveryState, kSynFin, kAnywhere, kAnyAck, Answer::drop, Next::same,
     "ours: no TCP sends SYN and FIN in one segment; dropped with what is malformed"},

    // RFC 9293, 3.10.7.1.
    {kClosed, kAnyRst, kAnywhere, kAnyAck, Answer::drop, Next::same, "3.10.7.1"},
    {kClosed, kSyn | kFin | kBareData, kAnywhere, kAnyAck,
     Answer::reset_all, Next::same, "3.10.7.1"},
    {kClosed, kSynAck | kFinAck | kAck | kData, kAnywhere, kAnyAck,
     Answer::reset_at_ack, Next::same, "3.10.7.1"},

    // 3.10.7.2.
    {kListen, kAnyRst, kAnywhere, kAnyAck, Answer::drop, Next::same, "3.10.7.2 first"},
    {kListen, kSynAck | kFinAck | kAck | kData, kAnywhere, kAnyAck,
     Answer::reset_at_ack, Next::same, "3.10.7.2 second"},
    {kListen, kSyn, kAnywhere, kAnyAck, Answer::syn_ack, Next::syn_received,
     "3.10.7.2 third"},
    {kListen, kFin | kBareData, kAnywhere, kAnyAck, Answer::drop, Next::same, "3.10.7.2 fourth"},

    // 3.10.7.3. There is no RCV.NXT yet, and no place is wrong.
    {kSynSent, kSynAck | kFinAck | kAck | kData, kAnywhere, kNotOurSyn,
     Answer::reset_at_ack, Next::same, "3.10.7.3 first"},
    {kSynSent, kRstAck, kAnywhere, kNotOurSyn, Answer::drop, Next::same, "3.10.7.3 first"},
    {kSynSent, kRstAck, kAnywhere, kAll, Answer::drop, Next::refused,
     "3.10.7.3 second; RFC 5961, 3.2: in SYN-SENT the ACK makes a RST valid"},
    {kSynSent, kRst, kAnywhere, kAnyAck, Answer::drop, Next::same, "3.10.7.3 second"},
    {kSynSent, kSyn, kAnywhere, kAnyAck, Answer::syn_ack, Next::syn_received,
     "3.10.7.3 fourth"},
    {kSynSent, kSynAck, kAnywhere, kAll, Answer::ack_syn, Next::established, "3.10.7.3 fourth"},
    {kSynSent, kFinAck | kAck | kData, kAnywhere, kAll, Answer::drop, Next::same,
     "3.10.7.3 fifth"},
    {kSynSent, kFin | kBareData, kAnywhere, kAnyAck, Answer::drop, Next::same, "3.10.7.3 fifth"},

    // 3.10.7.4, first: the sequence number. What bears data, SYN or FIN is always answered, and so
    // is a keepalive probe; what is empty only within limits (RFC 5961, 7), since two ends that
    // misunderstand each other would answer for ever.
    {kHalfOpen, kFin | kFinAck, kOutside | kBefore, kAnyAck,
     Answer::challenge, Next::same, "3.10.7.4 first; ours: none was taken yet that comes again"},
    {kHalfOpen, kData | kBareData, kOutside, kAnyAck,
     Answer::challenge, Next::same, "3.10.7.4 first; ours: none was taken yet that comes again"},
    {kHalfOpen, kAck, kOld | kBeyond | kBefore, kAnyAck,
     Answer::challenge, Next::same, "3.10.7.4 first"},
    {kBothOpen, kFin | kFinAck, kOutside | kBefore, kAnyAck,
     Answer::refuse, Next::same, "3.10.7.4 first"},
    {kBothOpen, kData | kBareData, kOutside, kAnyAck,
     Answer::refuse, Next::same, "3.10.7.4 first"},
    {kBothOpen, kAck, kOld | kBeyond, kAnyAck,
     Answer::challenge, Next::same, "3.10.7.4 first"},
    {kBothOpen, kAck, kBefore, kAnyAck,
     Answer::refuse, Next::same, "3.10.7.4 first; 3.8.4: an answer to a keepalive probe"},
    {kSynchronized, kFin | kFinAck, kEdge | kBeyond, kAnyAck,
     Answer::refuse, Next::same, "3.10.7.4 first"},
    {kSynchronized, kFin | kFinAck, kOld | kBefore, kNotEvery,
     Answer::refuse, Next::same, "3.10.7.4 first"},
    {kSynchronized, kData | kBareData, kEdge | kBeyond, kAnyAck,
     Answer::refuse, Next::same, "3.10.7.4 first"},
    {kSynchronized, kData | kBareData, kOld, kNotEvery,
     Answer::refuse, Next::same, "3.10.7.4 first"},
    {kSynchronized, kAck, kBeyond, kAnyAck, Answer::challenge, Next::same, "3.10.7.4 first"},
    {kSynchronized, kAck, kOld, kNotEvery, Answer::challenge, Next::same, "3.10.7.4 first"},
    {kSynchronized, kAck, kBefore, kNotEvery,
     Answer::refuse, Next::same, "3.10.7.4 first; 3.8.4: an answer to a keepalive probe"},
    // ours: left of the window the acknowledgment counts all the same, as in BSD. Two ends whose
    // windows open while their probes cross would otherwise refuse each other's updates for ever.
    {kEstablished | kFinWait2 | kCloseWait, kFinAck, kOld | kBefore, kAll,
     Answer::acknowledge, Next::same,
     "3.10.7.4 first, fifth"},
    {kEstablished | kFinWait2 | kCloseWait, kData, kOld, kAll, Answer::acknowledge, Next::same,
     "3.10.7.4 first, fifth"},
    {kEstablished | kFinWait2 | kCloseWait, kAck, kBefore, kAll, Answer::acknowledge, Next::same,
     "3.10.7.4 first, fifth"},
    {kEstablished | kFinWait2 | kCloseWait, kAck, kOld, kAll,
     Answer::acknowledge_within_limits, Next::same,
     "3.10.7.4 first, fifth"},
    {kFinWait1, kFinAck, kOld | kBefore, kAll, Answer::acknowledge, Next::fin_wait_2,
     "3.10.7.4 first, fifth"},
    {kFinWait1, kData, kOld, kAll, Answer::acknowledge, Next::fin_wait_2,
     "3.10.7.4 first, fifth"},
    {kFinWait1, kAck, kBefore, kAll, Answer::acknowledge, Next::fin_wait_2,
     "3.10.7.4 first, fifth"},
    {kFinWait1, kAck, kOld, kAll, Answer::acknowledge_within_limits, Next::fin_wait_2,
     "3.10.7.4 first, fifth"},
    {kClosing, kFinAck, kOld | kBefore, kAll, Answer::acknowledge, Next::time_wait,
     "3.10.7.4 first, fifth"},
    {kClosing, kData, kOld, kAll, Answer::acknowledge, Next::time_wait,
     "3.10.7.4 first, fifth"},
    {kClosing, kAck, kBefore, kAll, Answer::acknowledge, Next::time_wait,
     "3.10.7.4 first, fifth"},
    {kClosing, kAck, kOld, kAll, Answer::acknowledge_within_limits, Next::time_wait,
     "3.10.7.4 first, fifth"},
    {kLastAck, kFinAck, kOld | kBefore, kAll, Answer::quiet, Next::orderly,
     "3.10.7.4 first, fifth"},
    {kLastAck, kData, kOld, kAll, Answer::quiet, Next::orderly,
     "3.10.7.4 first, fifth"},
    {kLastAck, kAck, kBefore, kAll, Answer::quiet, Next::orderly,
     "3.10.7.4 first, fifth"},
    {kLastAck, kAck, kOld, kAll, Answer::quiet, Next::orderly,
     "3.10.7.4 first, fifth"},

    // Second: RST, by its sequence number alone.
    {kSynReceived | kSynchronized, kAnyRst, kOutside | kBefore, kAnyAck,
     Answer::drop, Next::same, "3.10.7.4 second 1; RFC 5961, 3.2"},
    {kSynReceived | kSynchronized, kAnyRst, kAhead, kAnyAck,
     Answer::challenge, Next::same, "3.10.7.4 second 3; RFC 5961, 3.2"},
    {kHalfOpen, kAnyRst, kNext, kAnyAck, Answer::drop, Next::gone, "3.10.7.4 second 2"},
    {kBothOpen, kAnyRst, kNext, kAnyAck, Answer::drop, Next::refused, "3.10.7.4 second 2"},
    {kSynchronized, kAnyRst, kNext, kAnyAck, Answer::drop, Next::reset,
     "3.10.7.4 second 2; RFC 5961, 3.2"},

    // Fourth: SYN.
    {kSynReceived, kSyn, kBefore, kAnyAck, Answer::syn_ack, Next::same,
     "ours: it is the peer's SYN once more, and its answer was lost; the ACK that the first "
     "check asks for is in it"},
    {kHalfOpen, kSynAck, kAnywhere, kAnyAck, Answer::challenge, Next::same,
     "RFC 5961, 4.2; ours: no return to LISTEN, by which a stranger could end a handshake"},
    {kHalfOpen, kSyn, kAnywhere & ~kBefore, kAnyAck, Answer::challenge, Next::same,
     "RFC 5961, 4.2; ours: no return to LISTEN, by which a stranger could end a handshake"},
    {kBothOpen, kSynAck, kBefore, kAll, Answer::quiet, Next::established,
     "3.5, figure 7; A.2: the first check would never let it pass"},
    {kBothOpen, kSynAck, kBefore, kNotOurSyn, Answer::reset_at_ack, Next::same,
     "3.10.7.4 fifth"},
    {kBothOpen, kAnySyn, kAnywhere & ~kBefore, kAnyAck, Answer::challenge, Next::same,
     "3.10.7.4 fourth; RFC 5961, 4.2"},
    {kSynchronized, kSynAck, kBefore, kAnyAck, Answer::refuse, Next::same,
     "RFC 5961, 4.2; ours: without limits, since it may be the SYN-ACK once more, its ACK lost"},
    {kSynchronized, kSynAck, kAnywhere & ~kBefore, kAnyAck, Answer::challenge, Next::same,
     "3.10.7.4 fourth; RFC 5961, 4.2"},
    {kSynchronized, kSyn, kAnywhere, kAnyAck, Answer::challenge, Next::same,
     "3.10.7.4 fourth; RFC 5961, 4.2"},

    // Fifth: ACK.
    {kSynReceived | kSynchronized, kFin, kInWindow, kAnyAck, Answer::drop, Next::same,
     "3.10.7.4 fifth"},
    {kSynReceived | kSynchronized, kBareData, kInWindow | kBefore, kAnyAck,
     Answer::drop, Next::same, "3.10.7.4 fifth"},
    // An empty segment right behind the window counts as one in it, wherever kEdge stands here: so
    // the ACKs of a peer arrive that has filled the window and lost the first segment (A.2).
    {kSynReceived, kAck, kInWindow | kEdge, kNotOurSyn, Answer::reset_at_ack, Next::same,
     "3.10.7.4 fifth; 3.5.2, 2: RFC 5961, 5.2, is for connections that are open"},
    {kSynReceived, kFinAck, kInWindow, kNotOurSyn, Answer::reset_at_ack, Next::same,
     "3.10.7.4 fifth"},
    {kSynReceived, kData, kInWindow | kBefore, kNotOurSyn, Answer::reset_at_ack, Next::same,
     "3.10.7.4 fifth"},
    {kSynReceived, kAck, kInWindow | kEdge, kAll, Answer::quiet, Next::established,
     "3.10.7.4 fifth"},
    {kSynchronized, kAck, kInWindow | kEdge, kInvalid, Answer::challenge, Next::same,
     "3.10.7.4 fifth; RFC 5961, 5.2 and 7"},
    {kSynchronized, kFinAck, kInWindow, kInvalid, Answer::refuse, Next::same,
     "3.10.7.4 fifth; RFC 5961, 5.2"},
    {kSynchronized, kData, kInWindow | kBefore, kInvalid, Answer::refuse, Next::same,
     "3.10.7.4 fifth; RFC 5961, 5.2"},
    {kEstablished | kFinWait2 | kCloseWait, kAck, kInWindow | kEdge, kValid,
     Answer::quiet, Next::same, "3.10.7.4 fifth"},
    {kFinWait1 | kClosing | kLastAck, kAck, kInWindow | kEdge, kNotAll,
     Answer::quiet, Next::same, "3.10.7.4 fifth"},
    {kFinWait1, kAck, kInWindow | kEdge, kAll, Answer::quiet, Next::fin_wait_2,
     "3.10.7.4 fifth"},
    {kClosing, kAck, kInWindow | kEdge, kAll, Answer::quiet, Next::time_wait, "3.10.7.4 fifth"},
    {kLastAck, kAck, kInWindow | kEdge, kAll, Answer::quiet, Next::orderly, "3.10.7.4 fifth"},

    // Seventh: data. What lies ahead is kept (SHLD-31) and acknowledged at once (MAY-13;
    // RFC 5681, 4.2).
    {kSynReceived, kData, kNext | kBefore, kAll, Answer::ack_data, Next::established,
     "3.10.7.4 fifth, seventh"},
    {kSynReceived, kData | kFinAck, kAhead, kAll, Answer::acknowledge, Next::established,
     "3.10.7.4 fifth, seventh"},
    {kEstablished | kFinWait2, kData, kNext | kBefore, kValid, Answer::ack_data, Next::same,
     "3.10.7.4 seventh"},
    {kEstablished | kFinWait2, kData | kFinAck, kAhead, kValid, Answer::acknowledge, Next::same,
     "3.10.7.4 first, seventh"},
    {kFinWait1, kData, kNext | kBefore, kNotAll, Answer::ack_data, Next::same,
     "3.10.7.4 seventh"},
    {kFinWait1, kData, kNext | kBefore, kAll, Answer::ack_data, Next::fin_wait_2,
     "3.10.7.4 fifth, seventh"},
    {kFinWait1, kData | kFinAck, kAhead, kNotAll, Answer::acknowledge, Next::same,
     "3.10.7.4 first, seventh"},
    {kFinWait1, kData | kFinAck, kAhead, kAll, Answer::acknowledge, Next::fin_wait_2,
     "3.10.7.4 first, fifth"},

    // Eighth: FIN.
    {kSynReceived, kFinAck, kNext, kAll, Answer::ack_fin, Next::close_wait, "3.10.7.4 eighth"},
    {kEstablished, kFinAck, kNext, kValid, Answer::ack_fin, Next::close_wait,
     "3.10.7.4 eighth"},
    {kFinWait1, kFinAck, kNext, kNotAll, Answer::ack_fin, Next::closing, "3.10.7.4 eighth"},
    {kFinWait1, kFinAck, kNext, kAll, Answer::ack_fin, Next::time_wait, "3.10.7.4 eighth"},
    {kFinWait2, kFinAck, kNext, kValid, Answer::ack_fin, Next::time_wait, "3.10.7.4 eighth"},

    // Behind the peer's own FIN there is nothing. (The FIN itself once more begins at kBefore.)
    {kCloseWait, kData, kInWindow | kBefore, kValid, Answer::acknowledge, Next::same,
     "3.10.7.4 seventh; ours: ignored, and answered that the peer may notice"},
    {kCloseWait, kFinAck, kInWindow, kValid, Answer::acknowledge, Next::same,
     "3.10.7.4 eighth; ours: RCV.NXT stays, since a stream has one FIN"},
    {kClosing | kLastAck, kData, kInWindow | kBefore, kNotAll, Answer::acknowledge, Next::same,
     "3.10.7.4 seventh; ours: as in CLOSE-WAIT"},
    {kClosing | kLastAck, kFinAck, kInWindow, kNotAll, Answer::acknowledge, Next::same,
     "3.10.7.4 eighth; ours: as in CLOSE-WAIT"},
    {kClosing, kData, kInWindow | kBefore, kAll, Answer::quiet, Next::time_wait,
     "3.10.7.4 fifth"},
    {kClosing, kFinAck, kInWindow, kAll, Answer::quiet, Next::time_wait, "3.10.7.4 fifth"},
    {kLastAck, kData, kInWindow | kBefore, kAll, Answer::quiet, Next::orderly,
     "3.10.7.4 fifth"},
    {kLastAck, kFinAck, kInWindow, kAll, Answer::quiet, Next::orderly, "3.10.7.4 fifth"},

    // TIME-WAIT, of which a record is left that knows no window.
    {kTimeWait, kAnyRst, kAnywhere, kAnyAck, Answer::drop, Next::same,
     "RFC 1337, 3, fix 1, instead of 3.10.7.4 second: no reset ends the wait"},
    {kTimeWait, kSyn, kAhead | kEdge | kBeyond, kAnyAck,
     Answer::syn_ack, Next::syn_received, "MAY-2; RFC 6191, 2"},
    {kTimeWait, kSyn, kOld | kBefore | kNext, kAnyAck, Answer::challenge, Next::same,
     "3.10.7.4 fourth; RFC 5961, 4.2; ours: RCV.NXT itself could be an old SYN's"},
    {kTimeWait, kSynAck, kAnywhere, kAnyAck, Answer::challenge, Next::same,
     "3.10.7.4 fourth; RFC 5961, 4.2"},
    {kTimeWait, kFin | kBareData, kAnywhere, kAnyAck, Answer::drop, Next::same,
     "3.10.7.4 fifth; ours: also outside the window, since no TCP sends such a segment"},
    {kTimeWait, kFinAck | kData, kAnywhere, kAnyAck, Answer::refuse, Next::same,
     "3.10.7.4 fifth: our last ACK was lost; ours: inside the window too"},
    {kTimeWait, kAck, kNext, kTooOld | kValid, Answer::drop, Next::same,
     "3.10.7.4 fifth; ours: silent about what is too old"},
    {kTimeWait, kAck, kNext, kTooNew, Answer::challenge, Next::same,
     "3.10.7.4 fifth; RFC 5961, 5.2"},
    {kTimeWait, kAck, kAnywhere & ~kNext, kAnyAck, Answer::challenge, Next::same,
     "3.10.7.4 first; ours: inside the window too"},
};
// clang-format on

}  // namespace pinion::test::matrix
