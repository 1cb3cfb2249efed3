#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <pinion/lib/export.h>
#include <pinion/lib/result.h>

/// DPDK's environment, under which ports and their packets live. In libpinion_dpdk, apart from
/// libpinion, so that only who uses it has DPDK in the process.
///
///   auto eal = pinion::DpdkEal::create({});
///   auto pool = pinion::DpdkPacketPool::create(**eal, {.packets = 8191});
///   auto port = pinion::DpdkPort::open(**eal, **pool, *pinion::PortName::parse("tap:ptap0"));
///
/// Ownership:  the caller's. Pools and ports die before it (asserted).
/// Once:       a process has it once: DPDK can't be started again, neither beside the first nor
///             after it. create() says so; a create() whose own checks failed may be repeated.
/// Threading:  created and destroyed on one thread, whose CPUs and signal mask stay what they were.
///             EAL's own threads have every signal blocked. A loop's thread that uses ports has a
///             DpdkThread.
/// Signals:    while a port or EAL is made or ends, real-time signals whose action is the default
///             are handled by doing nothing: one that would end the process then, doesn't.
/// Cost:       the memory is taken at once. Starting loads every driver that is installed: 0.3 s.
/// Output:     what DPDK says goes to the log: errors as warnings, the rest at level debug, or info
///             when verbose. Wrong `arguments` make it print its usage to standard output, too.
/// Errors:     what is missing (hugepages, rights) is said before DPDK is touched; what DPDK itself
///             refuses is said with its words. Nothing is left behind: no files, no hugepages.

namespace pinion {

/// How much memory DPDK takes, and of which kind.
struct DpdkMemory {
  enum class Pages : std::uint8_t {
    ordinary,  ///< As any memory of the process; for virtual ports, and where no hugepages are.
    huge,      ///< Hugepages, or an error.
    either,    ///< Hugepages if enough are free.
  };

  std::size_t bytes = std::size_t{64} << 20;  ///< 32 MiB to 1 TiB; rounded up to MiB.
  Pages pages = Pages::ordinary;

  /// `small` (64 MiB, ordinary), `medium` (512 MiB, huge), `large` (2 GiB, huge), or a size such as
  /// `256M` or `4G` (either).
  [[nodiscard]] PINION_EXPORT static Result<DpdkMemory> parse(std::string_view text);

  friend bool operator==(const DpdkMemory&, const DpdkMemory&) noexcept = default;
};

struct DpdkOptions {
  DpdkMemory memory = {};
  /// Its socket, for dpdk-telemetry.py, and a thread that serves it until the process ends.
  bool telemetry = false;
  bool verbose = false;
  /// EAL's own arguments, as they come behind `--`. What Pinion decides by itself (memory, lcores,
  /// processes) is refused.
  std::vector<std::string> arguments = {};
};

class PINION_EXPORT DpdkEal {
 public:
  [[nodiscard]] static Result<std::unique_ptr<DpdkEal>> create(const DpdkOptions& options);

  ~DpdkEal();
  DpdkEal(const DpdkEal&) = delete;
  DpdkEal& operator=(const DpdkEal&) = delete;

  /// Whether its memory is hugepages.
  [[nodiscard]] bool hugepages() const noexcept { return hugepages_; }

 private:
  friend class DpdkPacketPool;
  friend class DpdkPort;
  friend class DpdkThread;

  explicit DpdkEal(bool hugepages) noexcept : hugepages_(hugepages) {}

  const bool hugepages_;
  std::atomic<std::size_t> users_ = 0;  ///< Pools, ports and threads that live.
};

/// Makes the calling thread one that DPDK knows, so that its packets come from a cache of its own
/// and not from the pool that all share. The thread of DpdkEal::create() is one already.
///
/// Ownership:  a member or local of the thread; dies on it, before DpdkEal and after its ports.
/// Threading:  the thread's own; no pool is made or dies while one is destroyed.
/// Errors:     DPDK knows at most 128 threads.
class PINION_EXPORT DpdkThread {
 public:
  [[nodiscard]] static Result<std::unique_ptr<DpdkThread>> create(DpdkEal& eal);

  /// Gives what is in the thread's caches back to the pools.
  ~DpdkThread();
  DpdkThread(const DpdkThread&) = delete;
  DpdkThread& operator=(const DpdkThread&) = delete;

 private:
  explicit DpdkThread(DpdkEal& eal) noexcept;

  DpdkEal& eal_;
};

}  // namespace pinion
