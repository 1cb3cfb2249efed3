#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <pinion/lib/random.h>
#include <pinion/lib/time.h>
#include <pinion/net/fault_injector.h>
#include <pinion/net/packet.h>

#include "line.h"

/// The faults of one direction, and what it holds back.
///
/// Ownership:  owns the packets that are held back.
/// Threading:  one lcore.
/// Cost:       O(log held) per packet.
/// Errors:     what can't be held or copied is dropped and counted.

namespace pinion::detail {

class FaultDirection {
 public:
  /// A packet that waits. Those due at the same time go in the order in which they came.
  struct Held {
    Instant due;
    std::uint64_t number = 0;
    Packet* packet = nullptr;
  };

  FaultDirection(const FaultPlan& plan, std::uint64_t seed, std::size_t hold_packets,
                 PacketPool& pool);
  FaultDirection(const FaultDirection&) = delete;
  FaultDirection& operator=(const FaultDirection&) = delete;
  ~FaultDirection();

  /// Takes a packet in: it is held until it is due, which may be now.
  void admit(PacketPtr packet, Instant now) noexcept;

  /// How many more it can hold.
  [[nodiscard]] std::size_t room() const noexcept { return held_.capacity() - held_.size(); }

  /// How many packets it has room for, whatever becomes of them.
  [[nodiscard]] std::size_t admissible() const noexcept {
    return plan_.duplication > 0 ? room() / 2 : room();
  }

  /// The first packet that is due by `now`, for the caller to hand on.
  [[nodiscard]] std::optional<Held> take_due(Instant now) noexcept;

  /// Holds again what take_due() gave and nobody took.
  void put_back(const Held& held) noexcept;

  void count_passed(std::size_t packets) noexcept { stats_.passed += packets; }

  /// When the first packet is due; kNever when none is held.
  [[nodiscard]] Instant next_due() const noexcept {
    return held_.empty() ? kNever : held_.front().due;
  }

  [[nodiscard]] const FaultStats& stats() const noexcept { return stats_; }

 private:
  /// What chance has in store for one packet. All of it is drawn, whatever comes of it.
  struct Fate {
    bool lost = false;
    bool duplicated = false;
    bool reordered = false;
    bool corrupted = false;
    bool truncated = false;
    Delay jitter;
    std::uint64_t truncation = 0;  ///< Seeds for where and how much.
    std::uint64_t corruption = 0;
  };

  [[nodiscard]] Fate draw() noexcept;
  [[nodiscard]] bool partitioned(Instant now) noexcept;
  [[nodiscard]] bool spoil(PacketPtr& packet, const Fate& fate) noexcept;
  void truncate(Packet& packet, std::uint64_t seed) noexcept;
  void corrupt(Packet& packet, std::uint64_t seed) noexcept;
  [[nodiscard]] Instant due_time(std::size_t bytes, const Fate& fate, Instant now) noexcept;
  [[nodiscard]] bool hold(PacketPtr packet, Instant due) noexcept;

  const FaultPlan plan_;
  PacketPool& pool_;
  Line line_;
  Random loss_;
  Random duplication_;
  Random reordering_;
  Random corruption_;
  Random truncation_;
  Random jitter_;
  std::size_t next_partition_ = 0;
  Instant last_due_ = Instant::min();  ///< Of those that keep their order.
  std::uint64_t next_number_ = 0;
  std::vector<Held> held_;  ///< A heap, the first due in front. Its capacity is the bound.
  FaultStats stats_;
};

}  // namespace pinion::detail
