#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <pinion/lib/time.h>
#include <pinion/net/link.h>
#include <pinion/net/packet.h>

#include "line.h"

/// One direction of a link: frames on their way, in the order in which they arrive.
///
/// Ownership:  owns the packets that are under way.
/// Threading:  one lcore.
/// Cost:       O(1) per packet, and a copy where the packet can't be passed on itself.
/// Errors:     what doesn't fit is released and counted.

namespace pinion::detail {

class LinkDirection {
 public:
  LinkDirection(const LinkOptions& options, PacketPool& pool);
  LinkDirection(const LinkDirection&) = delete;
  LinkDirection& operator=(const LinkDirection&) = delete;
  ~LinkDirection();

  void send(PacketPtr packet, Instant now) noexcept;
  [[nodiscard]] std::size_t receive(Instant now, std::span<Packet*> into) noexcept;

  /// When the first frame arrives or has arrived; kNever with none under way.
  [[nodiscard]] Instant next_arrival() const noexcept;

  [[nodiscard]] const LinkDrops& drops() const noexcept { return drops_; }
  [[nodiscard]] std::uint64_t sent_packets() const noexcept { return sent_packets_; }
  [[nodiscard]] std::uint64_t sent_bytes() const noexcept { return sent_bytes_; }
  [[nodiscard]] std::uint64_t received_packets() const noexcept { return received_packets_; }
  [[nodiscard]] std::uint64_t received_bytes() const noexcept { return received_bytes_; }

 private:
  struct Frame {
    Packet* packet;
    std::size_t bytes;
    Instant departs;
  };

  [[nodiscard]] bool admits(const Packet& packet, std::size_t bytes) noexcept;
  [[nodiscard]] PacketPtr as_received(PacketPtr packet) noexcept;
  void count_departures(Instant now) noexcept;
  [[nodiscard]] std::size_t time_on_line(std::size_t bytes) const noexcept;
  [[nodiscard]] Frame& frame(std::uint64_t number) noexcept {
    return frames_[number % frames_.size()];
  }

  const LinkOptions options_;
  PacketPool& pool_;
  Line line_;

  /// Frames [first_, departed_) are past the line, [departed_, end_) wait for it or are on it;
  /// number n is in slot n modulo the capacity.
  std::vector<Frame> frames_;
  std::uint64_t first_ = 0;
  std::uint64_t departed_ = 0;
  std::uint64_t end_ = 0;
  std::size_t queued_bytes_ = 0;

  std::uint64_t sent_packets_ = 0;
  std::uint64_t sent_bytes_ = 0;
  std::uint64_t received_packets_ = 0;
  std::uint64_t received_bytes_ = 0;
  LinkDrops drops_;
};

}  // namespace pinion::detail
