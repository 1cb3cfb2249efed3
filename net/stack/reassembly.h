#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include <pinion/lib/slab.h>
#include <pinion/lib/time.h>
#include <pinion/net/address.h>
#include <pinion/net/packet.h>
#include <pinion/timers/timing_wheel.h>

#include "ip_counters.h"
#include "ip_kinds.h"
#include "keyed_table.h"

/// Fragments of IPv4 and IPv6 datagrams, until they are whole.
///
/// Ownership:  the fragments that wait belong to the reassembly; its host, wheel and counters
///             outlive it.
/// Threading:  one lcore.
/// Cost:       a fragment that follows the last O(1), any other at most kMostFragments steps;
///             nothing is copied. All memory but the packets' is taken by the constructor. One
///             wheel entry for all.
/// Full:       under three caps: bytes, by what the packets cost their pool (Packet::true_size);
///             datagrams; and fragments of one datagram. At the first two the oldest datagram gives
///             way, at the third the datagram is dropped. Whoever owns the reassembly has the
///             oldest ones give way, too, when the pool runs dry.
/// Overlap:    a fragment that overlaps another condemns its datagram, with what is still to come
///             of it: RFC 5722, which we apply to IPv4, too. So does one that contradicts where the
///             datagram ends. The exact repetition of a fragment is dropped alone (RFC 8200, 4.5).
/// Time:       60 s after its first fragment a datagram is given up, whatever its family: RFC 8200,
///             4.5, wants that, and RFC 1122, 3.3.2, 60 to 120 s. If its first part is there, the
///             host hears of it, to answer time exceeded.

namespace pinion {

/// What the fragments of one datagram have in common. Of IPv6, without the protocol.
struct FragmentKey {
  IpAddress source;
  IpAddress destination;
  std::uint32_t id = 0;
  std::uint8_t protocol = 0;

  [[nodiscard]] std::array<std::uint64_t, 5> words() const noexcept {
    const auto from = words_of(source);
    const auto to = words_of(destination);
    return {from[0], from[1], to[0], to[1], std::uint64_t{id} << 8 | protocol};
  }
  friend bool operator==(const FragmentKey&, const FragmentKey&) noexcept = default;
};

/// Where a fragment belongs. Its size is above 0, and a multiple of 8 unless it is the last; it
/// ends within 65,535 bytes: the parsers see to that.
struct FragmentPlace {
  std::uint32_t offset = 0;
  std::uint32_t size = 0;
  bool more = false;
  std::uint8_t header_size = 0;  ///< Of the packet's bytes, those in front of the payload.
  std::uint8_t ecn = 0;          ///< The two bits.
};

enum class FragmentFate : std::uint8_t {
  held,
  complete,
  dropped,  ///< And counted.
};

struct ReassemblyResult {
  FragmentFate fate = FragmentFate::dropped;
  /// Of a complete datagram: the first fragment with its header, and the payloads of the others
  /// chained to it.
  PacketPtr datagram{};
  std::uint8_t header_size = 0;
  std::uint32_t payload_size = 0;
  std::uint8_t ecn = 0;  ///< RFC 3168, 5.3: CE if any of the fragments had it.
};

class ReassemblyHost {
 public:
  /// A datagram was given up, of which this is the first fragment, `header_size` bytes of header
  /// in front.
  virtual void reassembly_timed_out(PacketPtr first_fragment, Instant now) noexcept = 0;

 protected:
  ~ReassemblyHost() = default;
};

struct ReassemblyOptions {
  std::size_t datagrams = 256;    ///< At once; 1 and up.
  std::size_t bytes = 4UL << 20;  ///< By the packets' true size.
  std::size_t fragments = 2048;   ///< Of all datagrams; kMostFragments and up.
};

class Reassembly {
 public:
  static constexpr std::size_t kMostFragments = 128;  ///< Of one datagram.
  static constexpr Delay kTimeout = std::chrono::seconds{60};

  Reassembly(const ReassemblyOptions& options, ReassemblyHost& host, TimingWheel& wheel,
             IpCounters& counters, std::uint64_t seed);
  Reassembly(const Reassembly&) = delete;
  Reassembly& operator=(const Reassembly&) = delete;
  ~Reassembly();

  /// Takes a fragment, no segment of which is shared. Its header lies in the first, with a byte of
  /// the payload at least.
  [[nodiscard]] ReassemblyResult insert(PacketPtr packet, const FragmentKey& key,
                                        const FragmentPlace& place, Instant now) noexcept;

  /// The oldest datagram gives way. There is one.
  void displace() noexcept;

  [[nodiscard]] std::size_t datagrams() const noexcept { return table_.size(); }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::size_t fragments() const noexcept { return fragments_.live(); }

 private:
  struct Fragment {
    PacketPtr packet;
    std::uint32_t offset;
    std::uint32_t end;
    std::uint8_t header_size;
    Fragment* next = nullptr;
  };
  struct Datagram : KeyedRecord<FragmentKey> {
    explicit Datagram(const FragmentKey& its) noexcept : KeyedRecord(its) {}

    Instant expires;
    Fragment* first = nullptr;  ///< By offset.
    Fragment* last = nullptr;
    std::uint32_t have = 0;  ///< Bytes of payload.
    std::uint32_t size = 0;  ///< Of the whole payload; 0 while unknown.
    std::uint16_t count = 0;
    bool condemned = false;
    std::uint8_t ecn_seen = 0;  ///< A bit for each of the four values.
  };
  struct Timer : TimerEntry {
    explicit Timer(Reassembly& its) noexcept;
    Reassembly& reassembly;
  };
  enum class Fit : std::uint8_t { fits, repeats, overlaps };

  [[nodiscard]] Datagram* find_or_make(const FragmentKey& key, Instant now) noexcept;
  [[nodiscard]] bool agrees_on_end(Datagram& datagram, const FragmentPlace& place) noexcept;
  [[nodiscard]] static Fit find_place(const Datagram& datagram, const FragmentPlace& place,
                                      Fragment*& before) noexcept;
  [[nodiscard]] bool make_room(const Datagram& keep, std::size_t bytes) noexcept;
  [[nodiscard]] ReassemblyResult finish(Datagram& datagram) noexcept;
  void condemn(Datagram& datagram) noexcept;
  void release_fragments(Datagram& datagram) noexcept;
  void drop_oldest() noexcept;
  void on_due(Instant now) noexcept;

  ReassemblyHost& host_;
  TimingWheel& wheel_;
  IpCounters& counters_;
  const std::size_t byte_limit_;
  Timer timer_{*this};
  Slab<Fragment> fragments_;
  KeyedTable<Datagram> table_;  ///< The oldest expires first.
  std::size_t bytes_ = 0;
};

}  // namespace pinion
