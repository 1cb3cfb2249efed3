#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include <time.h>

/// One lcore of pinion's on which tasks compute and others answer: the server of the mixed bench.
///
/// 32 tasks compute for a millisecond at a time, for ever. Beside them it echoes, on a port of
/// 127.0.0.1.
///
/// Ownership:  owns its runtime; its end stops that.
/// Threading:  of the bench's thread; what it tells may be read while it works.
/// Errors:     a program that can't have a runtime ends with what it says.

namespace pinion {
class Runtime;
}

namespace pinion::bench {

enum class Sharing : std::uint8_t {
  groups,       ///< Those that compute ask maybe_yield(), and are in a group of their own.
  maybe_yield,  ///< They ask, and all tasks are in one group.
  neither,      ///< They yield after each millisecond.
};

class MixedServer {
 public:
  static constexpr std::size_t kComputing = 32;

  MixedServer(Sharing sharing, int cpu);
  ~MixedServer();
  MixedServer(const MixedServer&) = delete;
  MixedServer& operator=(const MixedServer&) = delete;

  [[nodiscard]] std::uint16_t port() const { return port_; }

  /// What the lcore's thread has used so far, in nanoseconds.
  [[nodiscard]] std::int64_t cpu_ns() const;

  /// How many pieces of a few microseconds have been computed so far.
  [[nodiscard]] std::uint64_t pieces() const { return pieces_.load(std::memory_order_relaxed); }

 private:
  std::unique_ptr<Runtime> runtime_;
  std::thread thread_;
  std::atomic<std::uint64_t> pieces_{0};
  std::uint16_t port_ = 0;
  clockid_t clock_ = 0;
};

}  // namespace pinion::bench
