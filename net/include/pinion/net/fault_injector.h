#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <pinion/lib/export.h>
#include <pinion/lib/result.h>
#include <pinion/lib/time.h>
#include <pinion/net/device.h>
#include <pinion/net/packet.h>

/// A bad network around a device: what passes is lost, doubled, overtaken, delayed, cut and spoiled
/// by chance, and blocked by schedule, in each direction by a plan of its own.
///
/// Ownership:  the device and the pool are the caller's and outlive the injector, which owns the
///             packets that it holds back. The pool is for copies: of what is doubled, and of what
///             is shared before its bytes change. The device must be able to send its packets.
/// Threading:  one lcore.
/// Time:       on virtual time, next_event() tells when a packet that is held back is due, in
///             either direction; rx_burst() passes on what is due in both.
/// Chance:     one seed, and each kind of fault draws from numbers of its own, once for each
///             packet: the same seed and the same packets give the same outcome, and another
///             probability of one kind does not change which packets the others meet.
/// Cost:       O(log held) per packet. All memory is taken by create().
/// Errors:     options out of range: create() says which. A packet that can't be held or copied is
///             dropped and counted. What the device does not take is offered again 100 us later.

namespace pinion {

/// Nothing passes from `from` until just before `until`.
struct Partition {
  Instant from;
  Instant until;
};

/// What happens to the packets of one direction. In this order: partition, loss, truncation,
/// corruption, rate, delay, reordering; a duplicate is a copy of the outcome and follows at once.
/// Probabilities are per packet, from 0 to 1.
struct FaultPlan {
  double loss = 0;
  double duplication = 0;
  double reordering = 0;
  double corruption = 0;
  double truncation = 0;  ///< To fewer bytes than there were, each number of them as likely.

  Delay delay{};       ///< 0 to 1 hour.
  Delay jitter{};      ///< 0 to 1 hour, drawn evenly and added; the order is kept.
  Delay reorder_by{};  ///< What is reordered waits longer by this, and is overtaken; same range.

  /// A corrupted packet has a run of bits inverted, at most so many, each length as likely. 1 to
  /// 1024. The Internet checksum sees every run of up to 15.
  std::uint32_t corrupted_bits = 8;

  /// Up to 10^13; packets wait for each other. 0: no limit.
  std::uint64_t bits_per_second = 0;

  std::vector<Partition> partitions{};  ///< In order, none into the next.
};

struct FaultOptions {
  std::uint64_t seed = 0;
  FaultPlan tx{};
  FaultPlan rx{};
  std::size_t hold_packets = 4096;  ///< Held back at once, per direction; 1 to 2^20.
};

/// What happened to the packets of one direction. Of `packets` + `duplicated`, each was passed on,
/// is held, or was partitioned, lost, or dropped for want of a buffer or room.
struct FaultStats {
  std::uint64_t packets = 0;  ///< That came, before any fault.
  std::uint64_t partitioned = 0;
  std::uint64_t lost = 0;
  std::uint64_t truncated = 0;
  std::uint64_t corrupted = 0;
  std::uint64_t duplicated = 0;
  std::uint64_t reordered = 0;
  std::uint64_t no_buffer = 0;       ///< Dropped: no packet for the copy to be spoiled.
  std::uint64_t not_duplicated = 0;  ///< Passed once: no packet for the second one.
  std::uint64_t overflowed = 0;      ///< Dropped: too many were held back.
  std::uint64_t passed = 0;          ///< Handed on, duplicates included.
};

class FaultInjector final : public Device {
 public:
  [[nodiscard]] PINION_EXPORT static Result<std::unique_ptr<FaultInjector>> create(
      Device& device, PacketPool& pool, const FaultOptions& options);
  PINION_EXPORT ~FaultInjector() override;

  [[nodiscard]] PINION_EXPORT const DeviceInfo& info() const noexcept override;
  [[nodiscard]] PINION_EXPORT std::size_t rx_burst(Instant now,
                                                   std::span<Packet*> into) noexcept override;
  [[nodiscard]] PINION_EXPORT std::size_t tx_burst(
      Instant now, std::span<Packet* const> packets) noexcept override;
  [[nodiscard]] PINION_EXPORT Instant next_event() const noexcept override;
  [[nodiscard]] PINION_EXPORT int wait_descriptor() const noexcept override;
  [[nodiscard]] PINION_EXPORT bool announces_arrivals() const noexcept override;
  PINION_EXPORT void on_wait_error() noexcept override;

  /// The device's: what it received and was given to send.
  [[nodiscard]] PINION_EXPORT DeviceStats stats() const noexcept override;

  [[nodiscard]] PINION_EXPORT const FaultStats& tx_faults() const noexcept;
  [[nodiscard]] PINION_EXPORT const FaultStats& rx_faults() const noexcept;

 private:
  struct Parts;

  explicit FaultInjector(std::unique_ptr<Parts> parts) noexcept;

  std::unique_ptr<Parts> parts_;
};

}  // namespace pinion
