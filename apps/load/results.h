#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include <pinion/lib/histogram.h>
#include <pinion/lib/time.h>
#include <pinion/net/stream_error.h>

/// What one lcore of pinion-load counts.
///
/// Ownership: plain values of 60 KiB. Threading: written by their lcore; copies are merged.

namespace pinion::apps {

/// A count per StreamError.
class ErrorCounts {
 public:
  static constexpr std::size_t kKinds = static_cast<std::size_t>(StreamError::io_error) + 1;

  void add(StreamError error) noexcept { ++counts_[static_cast<std::size_t>(error)]; }
  [[nodiscard]] std::uint64_t of(std::size_t kind) const noexcept { return counts_[kind]; }
  [[nodiscard]] std::uint64_t of(StreamError kind) const noexcept {
    return counts_[static_cast<std::size_t>(kind)];
  }
  [[nodiscard]] std::uint64_t total() const noexcept {
    std::uint64_t sum = 0;
    for (const std::uint64_t count : counts_) sum += count;
    return sum;
  }
  void merge(const ErrorCounts& other) noexcept {
    for (std::size_t i = 0; i < kKinds; ++i) counts_[i] += other.counts_[i];
  }

 private:
  std::array<std::uint64_t, kKinds> counts_{};
};

/// The first byte that came back wrong.
struct Mismatch {
  std::uint64_t connection = 0;
  std::uint64_t request = 0;  ///< On this connection, from 0.
  std::uint64_t offset = 0;   ///< Within the answer.
  std::uint8_t expected = 0;
  std::uint8_t received = 0;
  bool surplus = false;  ///< More came back than was sent.
};

struct LoadResults {
  std::uint64_t sent = 0;        ///< Requests begun.
  std::uint64_t answered = 0;    ///< Answered whole, every byte right.
  std::uint64_t unanswered = 0;  ///< Begun on a connection that ended first.
  std::uint64_t measured = 0;    ///< Answered, and due within the measured time.
  std::uint64_t missed = 0;      ///< Due within the measured time at --rate, and never sent.
  Instant interrupted = kNever;  ///< When a signal ended the run.
  Instant spoke_until{};         ///< When the last connection ended, silent ones not counted.

  std::uint64_t open = 0;            ///< Now, silent ones included.
  std::uint64_t opened = 0;          ///< Connections made, silent ones not counted.
  std::uint64_t closed_by_peer = 0;  ///< Closed in order before we had finished.
  std::uint64_t mismatches = 0;
  std::optional<Mismatch> first_mismatch;

  std::uint64_t silent_opened = 0;
  std::uint64_t silent_closed_by_peer = 0;

  ErrorCounts connect_errors;
  ErrorCounts request_errors;  ///< Why connections broke.

  Histogram latency;          ///< Nanoseconds, of the measured requests.
  Histogram silent_lifetime;  ///< Nanoseconds, of the silent connections that the peer closed.

  void merge(const LoadResults& other) noexcept {
    sent += other.sent;
    answered += other.answered;
    unanswered += other.unanswered;
    measured += other.measured;
    missed += other.missed;
    interrupted = std::min(interrupted, other.interrupted);
    spoke_until = std::max(spoke_until, other.spoke_until);
    open += other.open;
    opened += other.opened;
    closed_by_peer += other.closed_by_peer;
    mismatches += other.mismatches;
    if (!first_mismatch) first_mismatch = other.first_mismatch;
    silent_opened += other.silent_opened;
    silent_closed_by_peer += other.silent_closed_by_peer;
    connect_errors.merge(other.connect_errors);
    request_errors.merge(other.request_errors);
    latency.merge(other.latency);
    silent_lifetime.merge(other.silent_lifetime);
  }
};

}  // namespace pinion::apps
