#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <pinion/lib/sip_hash.h>
#include <pinion/lib/time.h>

#include "../wire/sequence_number.h"
#include "challenge_limit.h"
#include "connection_table.h"
#include "four_tuple.h"
#include "local_addresses.h"
#include "record_pool.h"

/// Passive opens in progress, 48 bytes each: what SYN-RECEIVED takes until the handshake's last
/// acknowledgement makes a connection of it (RFC 4987, 3.5).
///
/// Ownership:  records and their table, taken at start. A record is the cache's; a reference to one
///             is good until the next call that isn't const.
/// Threading:  one lcore.
/// Cost:       every operation O(1): the records that wait for the same retransmission wait equally
///             long, so that the first in is the first due, and no timer is kept for any.
/// Errors:     full, or more local addresses in use than expected: insert() says no, and the caller
///             answers with a SYN cookie. What is there stays: in a flood of spoofed SYNs a record
///             that others push out would go sooner than its peer can answer, and nobody would get
///             in; with cookies, everybody who answers does.
///
/// A SYN-ACK is sent again after 1, 2, 4, 8 and 16 s, and the record goes after 32 s more. RFC
/// 9293's three minutes (MUST-23) are for the open that a user waits for; here it is the peer who
/// tries again.

namespace pinion {

/// What a SYN said, and what we answered.
struct SynRecord {
  CompactAddress remote{};
  std::uint16_t remote_port = 0;
  std::uint16_t local_port = 0;
  std::uint16_t local_address = 0;       ///< Among the cache's LocalAddresses.
  std::uint16_t mss = 0;                 ///< The peer's.
  wire::SequenceNumber sequence{};       ///< Of our SYN-ACK.
  wire::SequenceNumber peer{};           ///< Of the peer's SYN.
  std::uint32_t ts_recent = 0;           ///< The SYN's TSval.
  std::uint8_t retransmissions : 3 = 0;  ///< Of our SYN-ACK.
  std::uint8_t challenged : 5 = 0;       ///< Last: challenge_second().
  std::uint8_t window_scale : 4 = 0;
  bool scales : 1 = false;  ///< The SYN had a window scale.
  bool timestamps : 1 = false;
  bool sack : 1 = false;
  bool answered : 1 = false;  ///< The peer's SYN has come again since our SYN-ACK was due.
  std::uint16_t prev = 0;
  RecordTime due{};
  std::uint16_t next = 0;
  std::uint16_t listener = 0;  ///< The caller's number for whom the SYN was for, who completes it.
};

static_assert(sizeof(SynRecord) == 48);

struct SynCacheOptions {
  std::size_t limit = 1024;           ///< 1 to 65,535 records.
  std::uint32_t timeout_ms = 1'000;   ///< Before the first retransmission (RFC 6298, 2.1).
  unsigned retransmissions = 5;       ///< Up to 7.
  std::size_t local_addresses = 256;  ///< Up to 65,536.
};

class SynCache {
 public:
  /// `secret` comes from the system's random numbers.
  SynCache(const SynCacheOptions& options, const SipKey& secret) noexcept;

  /// A record for a SYN whose tuple has none, to which the SYN-ACK goes out now: a copy of
  /// `record`, in which only what the SYN said and our number have to be set. nullptr when there is
  /// no room.
  SynRecord* insert(const FourTuple& tuple, const SynRecord& record, Instant now) noexcept;

  [[nodiscard]] SynRecord* find(const FourTuple& tuple) noexcept;

  /// The handshake is complete, or was reset.
  void remove(const SynRecord& record) noexcept;

  /// Nobody is there any more to complete what is for `listener`. Cost: O(records).
  void remove_all_for(std::uint16_t listener) noexcept;

  /// Goes over at most `budget` records that are due. Calls `resend(record)` for those whose
  /// SYN-ACK goes out again, and `drop(record)` before one is removed. Neither may call the cache,
  /// except for tuple_of(). How many there were.
  template <class Resend, class Drop>
  std::size_t expire(Instant now, std::size_t budget, Resend&& resend, Drop&& drop) noexcept {
    std::size_t done = 0;
    // The last queue first, so that no record is met twice.
    for (std::size_t level = retransmissions_ + 1; level-- > 0;) {
      for (; done < budget && is_due(level, now); ++done) {
        const Index index = queues_[level].front();
        SynRecord& record = pool_[index];
        if (level == retransmissions_) {
          drop(record);
          remove(record);
        } else {
          requeue(index, now);
          resend(record);
        }
      }
    }
    return done;
  }

  /// When the first record is due; kNever without records.
  [[nodiscard]] Instant next_expiry(Instant now) const noexcept;

  [[nodiscard]] FourTuple tuple_of(const SynRecord& record) const noexcept {
    return {locals_[record.local_address], record.remote, record.local_port, record.remote_port};
  }
  [[nodiscard]] std::size_t size() const noexcept { return pool_.size(); }

 private:
  using Index = RecordPool<SynRecord>::Index;
  static constexpr unsigned kMostRetransmissions = 7;

  [[nodiscard]] bool is_due(std::size_t level, Instant now) const noexcept {
    const Index front = queues_[level].front();
    return front != RecordPool<SynRecord>::kNone && pool_[front].due.passed(now);
  }
  void enqueue(Index index, Instant now) noexcept;
  void requeue(Index index, Instant now) noexcept;

  SipKey secret_;
  std::uint32_t timeout_ms_;
  unsigned retransmissions_;
  RecordPool<SynRecord> pool_;
  /// One for each number of retransmissions so far.
  std::array<RecordQueue<SynRecord>, kMostRetransmissions + 1> queues_;
  ConnectionTable table_;
  LocalAddresses locals_;
};

}  // namespace pinion
