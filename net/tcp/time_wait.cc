#include "time_wait.h"

#include <chrono>

#include <pinion/lib/assert.h>

namespace pinion {

namespace {

/// Whether a SYN is of a new connection and no old duplicate (RFC 6191, 2): its timestamp is newer
/// than the last one's; or there is none to compare and its number is beyond the last one's; or
/// only the new connection has timestamps.
bool reopens(const TimeWaitRecord& record, const TimeWaitSegment& syn) noexcept {
  const bool newer_number = after(syn.sequence, record.rcv_nxt);
  if (!syn.timestamp) return newer_number;
  if (!record.timestamps) return true;
  const auto ahead = static_cast<std::int32_t>(*syn.timestamp - record.ts_recent);
  return ahead > 0 || (ahead == 0 && newer_number);
}

}  // namespace

TimeWaitVerdict judge_time_wait(const TimeWaitRecord& record,
                                const TimeWaitSegment& segment) noexcept {
  if (segment.rst) return TimeWaitVerdict::drop;
  if (segment.syn) {
    const bool reopen = !segment.ack && reopens(record, segment);
    return reopen ? TimeWaitVerdict::reopen : TimeWaitVerdict::challenge;
  }
  if (!segment.ack) return TimeWaitVerdict::drop;
  // Data or a FIN can only be old: the peer's last acknowledgement from us was lost.
  if (segment.length != 0) return TimeWaitVerdict::acknowledge;
  const bool expected =
      segment.sequence == record.rcv_nxt && at_or_before(segment.acknowledgement, record.snd_nxt);
  return expected ? TimeWaitVerdict::drop : TimeWaitVerdict::challenge;
}

TimeWaitTable::TimeWaitTable(const TimeWaitOptions& options, const SipKey& secret) noexcept
    : secret_(secret),
      duration_ms_(options.duration_ms),
      pool_(options.limit),
      table_(options.limit),
      locals_(options.local_addresses) {}

bool TimeWaitTable::enter(const FourTuple& tuple, const TimeWaitState& state,
                          Instant now) noexcept {
  PINION_DCHECK(find(tuple) == nullptr);
  bool had_room = pool_.size() < pool_.limit();
  if (!had_room) remove_oldest();
  std::optional<std::uint16_t> local = locals_.take(tuple.local);
  while (!local) {
    had_room = false;
    remove_oldest();
    local = locals_.take(tuple.local);
  }
  const std::uint32_t index = pool_.allocate();
  pool_[index] = {.remote = tuple.remote,
                  .remote_port = tuple.remote_port,
                  .local_port = tuple.local_port,
                  .local_address = *local,
                  .timestamps = state.timestamps,
                  .challenged = no_challenge_second(now),
                  .snd_nxt = state.snd_nxt,
                  .rcv_nxt = state.rcv_nxt,
                  .ts_recent = state.ts_recent,
                  .due = RecordTime::after(now, duration_ms_)};
  queue_.push_back(pool_, index);
  const bool inserted = table_.insert(table_hash(secret_, tuple), index);
  PINION_ASSERT(inserted);
  return had_room;
}

const TimeWaitRecord* TimeWaitTable::find(const FourTuple& tuple) const noexcept {
  const auto found = table_.find(table_hash(secret_, tuple), [&](std::uint32_t index) {
    return tuple_of(pool_[index]) == tuple;
  });
  return found ? &pool_[*found] : nullptr;
}

TimeWaitVerdict TimeWaitTable::answer(const TimeWaitRecord& record, const TimeWaitSegment& segment,
                                      Instant now) noexcept {
  const TimeWaitVerdict verdict = judge_time_wait(record, segment);
  const bool fin_again = verdict == TimeWaitVerdict::acknowledge && segment.fin &&
                         segment.sequence + segment.length == record.rcv_nxt;
  if (!fin_again) return verdict;
  const std::uint32_t index = pool_.index_of(record);
  TimeWaitRecord& waiting = pool_[index];
  // Our acknowledgement will echo what the peer measures its round trip by (RFC 7323, 4.3).
  if (segment.timestamp && static_cast<std::int32_t>(*segment.timestamp - waiting.ts_recent) > 0) {
    waiting.ts_recent = *segment.timestamp;
  }
  waiting.due = RecordTime::after(now, duration_ms_);
  queue_.erase(pool_, index);
  queue_.push_back(pool_, index);
  return verdict;
}

void TimeWaitTable::note_challenge(const TimeWaitRecord& record, Instant now) noexcept {
  pool_[pool_.index_of(record)].challenged = challenge_second(now);
}

bool TimeWaitTable::may_reconnect(const TimeWaitRecord& record, Instant now) const noexcept {
  if (!record.timestamps) return false;
  const Instant entered = record.due.near(now) - std::chrono::milliseconds{duration_ms_};
  return now - entered >= std::chrono::seconds{1};
}

void TimeWaitTable::remove(const TimeWaitRecord& record) noexcept {
  const std::uint32_t index = pool_.index_of(record);
  table_.erase(table_hash(secret_, tuple_of(record)), index);
  locals_.give_back(record.local_address);
  queue_.erase(pool_, index);
  pool_.release(index);
}

std::size_t TimeWaitTable::expire(Instant now, std::size_t budget) noexcept {
  std::size_t expired = 0;
  while (expired < budget && pool_.size() != 0 && pool_[queue_.front()].due.passed(now)) {
    remove_oldest();
    ++expired;
  }
  return expired;
}

Instant TimeWaitTable::next_expiry(Instant now) const noexcept {
  return pool_.size() == 0 ? kNever : pool_[queue_.front()].due.near(now);
}

}  // namespace pinion
