#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <pinion/lib/random.h>
#include <pinion/lib/time.h>

#include "stack_peer.h"
#include "stack_subjects.h"

/// One stack with many connections, and what the bench lets it do.
///
/// Ownership:  owns its server, made when it begins, and the peer.
/// Threading:  one thread.
/// Cost:       what is no turn of the server (making packets, checking what leaves) takes as long
///             as the turns themselves, and is for the caller to leave out.
/// Errors:     what the server did wrong, or not at all: fault().
///
/// The operations, `burst` of them in a turn, on connections in random order: a permutation, and
/// then another one. In a turn no connection has two, unless there is but one connection.
///
/// - receive: a segment of 1460 bytes comes and is taken by the application. The acknowledgments,
///   of every second one or fewer, are part of it.
/// - send: the application writes a segment of 1460 bytes, and it leaves. Its acknowledgment, one
///   for each, comes at the beginning of the next turn, and is part of it.
/// - request: 64 bytes come, 64 bytes answer them. The acknowledgment of the answer comes with the
///   next turn's requests, and is part of it; so a burst of 32 packets has 16 requests.
///
/// Time passes by 250 ns for an operation, or less where each connection would otherwise wait
/// longer than 25 ms for its next turn: then every segment would have a delayed acknowledgment (40
/// ms) of its own, which is other work than with few connections. Timers that fall due are in the
/// turns.

namespace pinion::bench {

enum class StackCase : std::uint8_t { receive, send, request };

inline constexpr StackCase kStackCases[] = {StackCase::receive, StackCase::send,
                                            StackCase::request};
[[nodiscard]] const char* to_string(StackCase what) noexcept;

/// Packets that come in one turn, as a device gives them; of one connection's requests, whose next
/// one waits for the answer, one and its acknowledgment.
inline constexpr std::size_t kStackBurst = 32;

/// Operations in a turn.
[[nodiscard]] constexpr std::size_t stack_burst(StackCase what, std::size_t connections) noexcept {
  if (what != StackCase::request) return kStackBurst;
  return std::min(kStackBurst / 2, connections);
}

class StackRun {
 public:
  /// Calls its argument, once: the turn that it is to measure.
  using Around = std::function<void(const std::function<void()>& turn)>;

  /// Opens the connections.
  StackRun(const StackSubject& subject, std::size_t connections, std::uint64_t seed);

  /// So many operations, rounded up to whole turns; returns how many it were.
  std::size_t run(StackCase what, std::size_t operations, std::size_t burst, const Around& around);

  /// The same without measuring: for caches and congestion windows, and so that connections are not
  /// all at the same point.
  void warm_up(StackCase what, std::size_t burst);

  /// Empty when all was done that was asked for.
  [[nodiscard]] const std::string& fault() const { return fault_; }
  [[nodiscard]] const StackPeer& peer() const { return peer_; }
  [[nodiscard]] const StackServer& server() const { return *server_; }

 private:
  /// What there was so far; of what was made by one side and taken by the other, the difference.
  struct Sums {
    std::uint64_t segments = 0;
    std::uint64_t bytes_out = 0;
    std::uint64_t numbers_out = 0;
    std::uint64_t bytes_in = 0;
    std::uint64_t numbers_in = 0;
  };

  void open();
  void turn(std::span<const std::uint32_t> writers, std::size_t operations, const Around& around);
  [[nodiscard]] std::span<const std::uint32_t> draw(std::size_t count);
  void acknowledge();
  [[nodiscard]] Sums sums() const;
  void check(StackCase what, std::size_t operations, const Sums& before);

  Instant now_;
  Random random_;
  std::unique_ptr<StackServer> server_;
  StackPeer peer_;
  std::chrono::nanoseconds step_;
  std::vector<std::uint32_t> order_;
  std::size_t next_ = 0;
  std::string fault_;
};

}  // namespace pinion::bench
