#pragma once

#include <cstddef>

#include <pinion/eventloop/loop.h>
#include <pinion/eventloop/poller.h>
#include <pinion/lib/export.h>
#include <pinion/lib/time.h>
#include <pinion/timers/shared_timer_shard.h>

/// Serves a shard of shared timers on a loop: on its wheel, in its turns, waking it when it must.
///
///   // A shard for each lcore that there will ever be.
///   auto runtime_wide = pinion::SharedTimers::create({.capacity = 100'000, .shards = 2});
///   runtime->run([&](pinion::Lcore& lcore) -> pinion::Result<> {
///     lcore.keep(std::make_unique<pinion::SharedTimerPoller>(
///         lcore.loop(), (*runtime_wide)->shard(lcore.index())));
///     …
///
/// Ownership:  the caller's; loop and shard outlive it.
/// Threading:  made, drained and destroyed on the loop's thread, or before it runs; no shared
///             timer's callback destroys or drains it.
/// Cost:       some loads per turn. A schedule from another thread that comes before what the wheel
///             knows of takes effect in the next turn; it costs that thread a system call when the
///             loop sleeps, and at most one per sleep.
/// End:        drain(), the destructor, and in a Runtime the end of the loop's run leave what is
///             scheduled to the shards that still run.
///             One that an Lcore keeps does so when that lcore is drained alone, and after all have
///             ended: then the timers wait for ever.

namespace pinion {

class PINION_EXPORT SharedTimerPoller final : public Poller {
 public:
  /// Attaches the shard.
  SharedTimerPoller(Loop& loop, SharedTimerShard& shard) noexcept;
  ~SharedTimerPoller() override;

  /// The loop serves the shard no longer; others adopt its timers. Repeated calls do nothing.
  void drain() noexcept;

  std::size_t poll(Instant now, std::size_t budget) override;
  ParkAnswer prepare_park() override;
  void cancel_park() override;
  void on_run_ended() override { drain(); }
  [[nodiscard]] const char* name() const override { return "shared timers"; }

 private:
  Loop& loop_;
  SharedTimerShard& shard_;
  bool drained_ = false;
};

}  // namespace pinion
