#pragma once

#include <memory>
#include <string>

#include "peers/subject.h"

/// DPDK's rte_timer: a skip list per lcore.
///
/// One lcore of an EAL without hugepages, PCI devices, shared configuration or telemetry. Its clock
/// is set by hand (see manual_tsc.h) and runs 2^20 cycles per tick, about what a TSC does in a
/// millisecond. Deadlines within a tick are spread over its cycles, as they would be on a real TSC:
/// equal ones make rte_timer walk all its equals, 150 us per extend. extend is rte_timer_reset on a
/// pending timer. The rte headers stay in the .cc, at the price of one direct call per operation.

namespace pinion::bench {

class RteTimers {
 public:
  static constexpr const char* kName = "rte_timer";
  static constexpr bool kLazyExtend = false;
  static constexpr std::size_t kLargestInFull = 100'000;
  static constexpr std::size_t kLargestAtAll = 1'000'000;

  /// Starts the EAL once. Empty when rte_timer can be measured, otherwise why it can't.
  static std::string prepare(int cpu);

  RteTimers(std::size_t capacity, Tick start);
  ~RteTimers();
  RteTimers(const RteTimers&) = delete;
  RteTimers& operator=(const RteTimers&) = delete;

  void arm(std::uint32_t index, Tick deadline);
  void extend(std::uint32_t index, Tick deadline);
  void cancel(std::uint32_t index);
  void touch(std::uint32_t index);
  void advance(Tick target);
  Tick next_expiry() const;

 private:
  struct Entry;
  std::unique_ptr<Entry[]> entries_;
  std::uint64_t armed_ = 0;
};

}  // namespace pinion::bench
