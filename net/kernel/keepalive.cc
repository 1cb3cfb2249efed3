#include <algorithm>
#include <chrono>

#include "connection.h"
#include "kernel_core.h"
#include "socket.h"

// Keepalive, driven by the wheel: the kernel sends the probes and knows when the peer answered
// (docs/decisions/wheel-driven-keepalive.md).

namespace pinion::detail {
namespace {

using std::chrono::milliseconds;

constexpr Delay kLeastIdle = std::chrono::seconds{1};
constexpr Delay kLeastInterval = milliseconds{100};

/// The kernel counts the silence in its own ticks, of up to 10 ms, and a probe leaves a little
/// after it was asked for. Before a probe the peer had been silent for kLeastIdle, so half of it
/// tells the two apart.
constexpr Delay kSlack = milliseconds{-500};

}  // namespace

void KernelConnection::set_keepalive(const Keepalive& keepalive) noexcept {
  if (phase_ != Phase::open) return;
  if (keepalive_idle_ != kNoTimeout) stop_keepalive_probes(fd_);
  probes_sent_ = 0;
  probes_limit_ = static_cast<std::uint8_t>(std::clamp(keepalive.probes, 1, 127));
  keepalive_interval_ = std::max(keepalive.interval, kLeastInterval);
  keepalive_idle_ = std::max(keepalive.idle, kLeastIdle);
  if (keepalive_idle_ == kNoTimeout) return;
  core_.wheel().extend(keepalive_timer_, deadline_of(keepalive_idle_));
}

/// One store: the entry moves when its old place comes up.
void KernelConnection::peer_heard() noexcept {
  if (keepalive_idle_ == kNoTimeout || phase_ != Phase::open) return;
  probes_sent_ = 0;
  core_.wheel().extend(keepalive_timer_, saturating_add(core_.loop().now(), keepalive_idle_));
}

void KernelConnection::on_keepalive_timer(TimerEntry& entry) {
  static_cast<Timer&>(entry).connection.keepalive_timer_fired();
}

/// Silence for `idle`: probe. Silence since a probe: count, probe again or reset. May end the
/// connection.
void KernelConnection::keepalive_timer_fired() noexcept {
  if (phase_ != Phase::open || keepalive_idle_ == kNoTimeout) return;
  const Instant now = core_.loop().now();
  const Delay silence = peer_silence(fd_);
  const Instant heard = saturating_add(now, -silence.to_nanoseconds());
  const bool answered = probes_sent_ != 0 && heard >= saturating_add(first_probe_, kSlack);
  if (answered || (probes_sent_ == 0 && silence < keepalive_idle_)) {
    probes_sent_ = 0;
    const Instant next = std::max(saturating_add(heard, keepalive_idle_), now);
    core_.wheel().extend(keepalive_timer_, next);
    return;
  }
  if (probes_sent_ >= probes_limit_) {
    core_.count_failure(StreamError::keepalive_timeout);
    return end(StreamError::keepalive_timeout);
  }
  if (probes_sent_ == 0) first_probe_ = now;
  ++probes_sent_;
  ++core_.counters().keepalive_probes;
  send_keepalive_probe(fd_);
  core_.wheel().extend(keepalive_timer_, saturating_add(now, keepalive_interval_));
}

}  // namespace pinion::detail
