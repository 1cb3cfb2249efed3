#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

#include <pinion/lib/list.h>
#include <pinion/lib/time.h>
#include <pinion/net/address.h>
#include <pinion/net/device.h>
#include <pinion/net/packet.h>
#include <pinion/timers/timing_wheel.h>

#include "ip_counters.h"
#include "ip_kinds.h"
#include "keyed_table.h"

/// Who has which link-layer address: one cache for ARP and NDP, with the states of RFC 4861, 7.3,
/// which also meet RFC 1122, 2.3.2.1.
///
/// Ownership:  the cache owns what waits for an answer; its host, wheel and counters outlive it.
/// Threading:  one lcore.
/// Cost:       send() and confirm() one lookup. All memory is taken by the constructor. One wheel
///             entry for the whole cache.
/// Full:       a new neighbour takes the place of the one used longest ago, if that was not in the
///             last kActive; otherwise its packet is dropped and nobody is asked. At most half of
///             the cache may be waiting for an answer, so that addresses that nobody has leave room
///             for neighbours that speak to us. What waits for answers is bounded for each
///             neighbour and for all of them, in packets and in what these cost their pool. Of one
///             neighbour the oldest packet gives way (RFC 4861, 7.2.2), of all of them the oldest
///             of the neighbour that has kept packets waiting longest: those that are dead, not one
///             that is about to answer.
/// Learning:   an entry is made or changed only by an answer that was asked for (the entry is
///             INCOMPLETE or PROBE) or by a request for an address of ours, whose sender is going
///             to hear from us. Gratuitous ARP, unsolicited advertisements and answers to others
///             change nothing: when a neighbour's address moves, the probes that follow the end of
///             REACHABLE find out. So RFC 4861's unsolicited updates (7.2.6) are not believed.
/// Timing:     a target is asked at most once a second, 3 times; then what waits for it is given to
///             the host as unreachable. REACHABLE lasts 15 to 45 seconds since the last answer or
///             forward progress, drawn once per cache (RFC 4861, 6.3.2).

namespace pinion {

/// What the cache asks of the IP layer.
class NeighbourHost {
 public:
  /// Asks who has `target`: everybody, or only `to`.
  virtual void solicit(std::uint8_t interface, const IpAddress& target, const MacAddress* to,
                       Instant now) noexcept = 0;

  /// Sends an IP packet to a neighbour.
  virtual void transmit(std::uint8_t interface, const MacAddress& to, PacketPtr packet,
                        Instant now) noexcept = 0;

  /// Nobody answers for `target`, for whom `packet` was.
  virtual void unreachable(std::uint8_t interface, const IpAddress& target, PacketPtr packet,
                           Instant now) noexcept = 0;

 protected:
  ~NeighbourHost() = default;
};

struct NeighbourOptions {
  std::size_t capacity = 1024;            ///< Neighbours; 2 and up.
  std::size_t held_packets = 256;         ///< That wait for an answer, of all neighbours together.
  std::size_t held_bytes = 512UL * 1024;  ///< Theirs, by the packets' true size.
};

struct NeighbourKey {
  IpAddress address;
  std::uint8_t interface = 0;

  [[nodiscard]] std::array<std::uint64_t, 3> words() const noexcept {
    const auto halves = words_of(address);
    return {halves[0], halves[1], interface};
  }
  friend bool operator==(const NeighbourKey&, const NeighbourKey&) noexcept = default;
};

enum class NeighbourState : std::uint8_t { incomplete, reachable, stale, delay, probe };

/// An answer to a solicitation. ARP has no flags: its answers are solicited and override.
struct NeighbourAnswer {
  const MacAddress* mac = nullptr;  ///< None: an NDP answer may leave it out.
  bool solicited = true;
  bool override = true;
};

class NeighbourCache {
 public:
  static constexpr std::size_t kHeldPerNeighbour = 3;
  static constexpr unsigned kSolicitations = 3;
  static constexpr Delay kRetransmit = std::chrono::seconds{1};
  static constexpr Delay kDelayFirstProbe = std::chrono::seconds{5};
  static constexpr Delay kActive = std::chrono::seconds{10};

  NeighbourCache(const NeighbourOptions& options, NeighbourHost& host, TimingWheel& wheel,
                 IpCounters& counters, std::uint64_t seed);
  NeighbourCache(const NeighbourCache&) = delete;
  NeighbourCache& operator=(const NeighbourCache&) = delete;
  ~NeighbourCache();

  /// Sends `packet` to a neighbour: at once, or when it has answered.
  void send(std::uint8_t interface, const IpAddress& to, PacketPtr packet, Instant now) noexcept;

  /// `from` has answered us.
  void answered(std::uint8_t interface, const IpAddress& from, const NeighbourAnswer& answer,
                Instant now) noexcept;

  /// `from` has asked for one of our addresses and told its own (RFC 826; RFC 4861, 7.2.3).
  void asked_by(std::uint8_t interface, const IpAddress& from, const MacAddress& mac,
                Instant now) noexcept;

  /// What we sent to `to` has arrived (RFC 4861, 7.3.1).
  void confirm(std::uint8_t interface, const IpAddress& to, Instant now) noexcept;

  /// What we send to `to` seems not to arrive: it is asked at once, unless it has answered in the
  /// last kDelayFirstProbe. If it doesn't answer, the next packet asks everybody.
  void suspect(std::uint8_t interface, const IpAddress& to, Instant now) noexcept;

  /// For tests and reports: the state at `now`; none without an entry.
  [[nodiscard]] std::optional<NeighbourState> state(std::uint8_t interface,
                                                    const IpAddress& address,
                                                    Instant now) const noexcept;
  [[nodiscard]] std::size_t size() const noexcept { return table_.size(); }
  [[nodiscard]] std::size_t held() const noexcept { return held_; }
  [[nodiscard]] std::size_t held_bytes() const noexcept { return held_bytes_; }

 private:
  struct ByDue;
  struct ByWait;
  struct Neighbour : KeyedRecord<NeighbourKey>, TaggedListNode<ByDue>, TaggedListNode<ByWait> {
    explicit Neighbour(const NeighbourKey& its) noexcept : KeyedRecord(its) {}

    NeighbourState state = NeighbourState::incomplete;
    std::uint8_t asked = 0;  ///< Solicitations since INCOMPLETE or PROBE began.
    MacAddress mac{};
    Instant used;       ///< When a packet last went to it, to within a second.
    Instant confirmed;  ///< When it was last known to answer.
    Instant due;        ///< Of what is in a DueList.
    PacketQueue held;
  };
  struct Timer : TimerEntry {
    explicit Timer(NeighbourCache& its) noexcept;
    NeighbourCache& cache;
  };
  using DueList = List<Neighbour, ByDue>;
  using WaitList = List<Neighbour, ByWait>;

  [[nodiscard]] Neighbour* make(const NeighbourKey& key, Instant now) noexcept;
  [[nodiscard]] Neighbour* ask_for(const NeighbourKey& key, Instant now) noexcept;
  void touch(Neighbour& neighbour, Instant now) noexcept;
  void hold(Neighbour& neighbour, PacketPtr packet) noexcept;
  [[nodiscard]] PacketPtr let_go(Neighbour& neighbour) noexcept;
  void drop_one(Neighbour& neighbour) noexcept;
  void flush(Neighbour& neighbour, Instant now) noexcept;
  void enter(Neighbour& neighbour, NeighbourState state, Instant now) noexcept;
  void give_up(Neighbour& neighbour, Instant now) noexcept;
  void on_due(Instant now) noexcept;
  void rearm() noexcept;

  NeighbourHost& host_;
  TimingWheel& wheel_;
  IpCounters& counters_;
  const std::size_t held_limit_;
  const std::size_t held_byte_limit_;
  const Delay reachable_time_;
  Timer timer_{*this};
  KeyedTable<Neighbour> table_;
  DueList retransmits_;  ///< INCOMPLETE and PROBE, by when they are asked again.
  DueList delays_;       ///< DELAY, by when they are probed.
  WaitList waits_;       ///< Of which packets wait, by since when some do.
  std::size_t incomplete_ = 0;
  std::size_t held_ = 0;
  std::size_t held_bytes_ = 0;
};

}  // namespace pinion
