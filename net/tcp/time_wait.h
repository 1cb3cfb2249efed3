#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include <pinion/lib/sip_hash.h>
#include <pinion/lib/time.h>

#include "../wire/sequence_number.h"
#include "challenge_limit.h"
#include "connection_table.h"
#include "four_tuple.h"
#include "local_addresses.h"
#include "record_pool.h"

/// Connections in TIME-WAIT (RFC 9293, 3.4.2), of which 48 bytes are kept: enough to acknowledge
/// the peer's FIN again, and to tell a new connection's SYN from an old one's.
///
/// Ownership:  records and their table, taken at start. A record is the pool's; a reference to one
///             is good until the next call that isn't const.
/// Threading:  one lcore.
/// Cost:       every operation O(1): all records wait equally long, so that the first in is the
///             first out, and no timer is kept for any.
/// Errors:     full: the oldest record gives way. Whoever closes is then protected for a shorter
///             time, and nobody's connection fails.
///
/// RST segments change nothing here (RFC 1337, 3, fix 1), so that no old duplicate and no stranger
/// ends the wait.

namespace pinion {

struct TimeWaitRecord {
  CompactAddress remote{};
  std::uint16_t remote_port = 0;
  std::uint16_t local_port = 0;
  std::uint16_t local_address = 0;  ///< Among the table's LocalAddresses.
  bool timestamps = false;          ///< The connection had them (RFC 7323, 3).
  std::uint8_t challenged = 0;      ///< Last: challenge_second().
  wire::SequenceNumber snd_nxt{};   ///< Behind our FIN.
  wire::SequenceNumber rcv_nxt{};   ///< Behind the peer's FIN.
  std::uint32_t ts_recent = 0;
  RecordTime due{};
  std::uint32_t prev = 0;
  std::uint32_t next = 0;
};

static_assert(sizeof(TimeWaitRecord) == 48);

/// What a connection leaves behind.
struct TimeWaitState {
  wire::SequenceNumber snd_nxt{};
  wire::SequenceNumber rcv_nxt{};
  std::uint32_t ts_recent = 0;
  bool timestamps = false;
};

/// A segment for a connection in TIME-WAIT, checked and parsed.
struct TimeWaitSegment {
  wire::SequenceNumber sequence{};
  wire::SequenceNumber acknowledgement{};
  std::uint32_t length = 0;  ///< Of data, SYN and FIN.
  bool syn = false;
  bool ack = false;
  bool fin = false;
  bool rst = false;
  std::optional<std::uint32_t> timestamp{};  ///< TSval, when there is one.
};

enum class TimeWaitVerdict : std::uint8_t {
  drop,
  acknowledge,  ///< Always: the peer sends again what it doesn't know to have arrived.
  challenge,    ///< Acknowledge, as far as the limits of RFC 5961 allow.
  reopen,       ///< A SYN of a new connection.
};

/// What the segment asks for (RFC 9293, 3.10.7.4). Changes nothing.
[[nodiscard]] TimeWaitVerdict judge_time_wait(const TimeWaitRecord& record,
                                              const TimeWaitSegment& segment) noexcept;

/// Our first number for a connection that reopens one in TIME-WAIT: `chosen`, if that is behind all
/// the old one used (RFC 1122, 4.2.2.13), otherwise what lies a window of 64 KiB behind them.
[[nodiscard]] constexpr wire::SequenceNumber reopening_number(
    wire::SequenceNumber chosen, wire::SequenceNumber snd_nxt) noexcept {
  constexpr std::uint32_t kClear = 65'536;
  return after(chosen, snd_nxt) ? chosen : snd_nxt + kClear;
}

struct TimeWaitOptions {
  std::size_t limit = 1024;            ///< 1 to 2^30 records.
  std::uint32_t duration_ms = 60'000;  ///< 2 MSL, up to 20 days.
  std::size_t local_addresses = 256;   ///< Up to 65,536.
};

class TimeWaitTable {
 public:
  /// `secret` comes from the system's random numbers.
  TimeWaitTable(const TimeWaitOptions& options, const SipKey& secret) noexcept;

  /// A connection, of which there is no record, enters TIME-WAIT. False when a record had to give
  /// way; when more local addresses than the options say are in use, it is the oldest of any.
  bool enter(const FourTuple& tuple, const TimeWaitState& state, Instant now) noexcept;

  [[nodiscard]] const TimeWaitRecord* find(const FourTuple& tuple) const noexcept;

  /// What to do about a segment. A FIN that comes again begins the wait anew.
  [[nodiscard]] TimeWaitVerdict answer(const TimeWaitRecord& record, const TimeWaitSegment& segment,
                                       Instant now) noexcept;

  /// A challenge goes out.
  void note_challenge(const TimeWaitRecord& record, Instant now) noexcept;

  /// Whether we may connect again although the wait isn't over: with timestamps, which have moved
  /// on after a second, the peer tells new segments from old ones, and so do we (RFC 6191).
  [[nodiscard]] bool may_reconnect(const TimeWaitRecord& record, Instant now) const noexcept;

  /// The wait is over, or the connection reopened.
  void remove(const TimeWaitRecord& record) noexcept;

  /// Removes at most `budget` records whose wait is over; how many.
  std::size_t expire(Instant now, std::size_t budget) noexcept;

  /// When the first record's wait is over; kNever without records.
  [[nodiscard]] Instant next_expiry(Instant now) const noexcept;

  [[nodiscard]] FourTuple tuple_of(const TimeWaitRecord& record) const noexcept {
    return {locals_[record.local_address], record.remote, record.local_port, record.remote_port};
  }
  [[nodiscard]] std::size_t size() const noexcept { return pool_.size(); }

 private:
  void remove_oldest() noexcept { remove(pool_[queue_.front()]); }

  SipKey secret_;
  std::uint32_t duration_ms_;
  RecordPool<TimeWaitRecord> pool_;
  RecordQueue<TimeWaitRecord> queue_;
  ConnectionTable table_;
  LocalAddresses locals_;
};

}  // namespace pinion
