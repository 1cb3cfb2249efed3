#include <pinion/net/dpdk_eal.h>

#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <pinion/lib/assert.h>
#include <pinion/lib/log.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_mempool.h>

#include "dpdk_arguments.h"
#include "dpdk_checks.h"
#include "dpdk_log.h"
#include "dpdk_setup.h"

namespace pinion {
namespace {

/// rte_eal_init() works once per process, whatever has become of it.
std::atomic<bool> used{false};

Result<std::vector<unsigned>> cpus_of_thread() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) {
    return tl::unexpected(errno_error(errno, "cannot ask for this thread's CPUs"));
  }
  std::vector<unsigned> cpus;
  for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

/// EAL permutes what it is given, and keeps none of it.
int start_eal(std::vector<std::string> arguments) {
  std::vector<char*> words;
  words.reserve(arguments.size() + 1);
  for (std::string& argument : arguments) words.push_back(argument.data());
  words.push_back(nullptr);
  return rte_eal_init(static_cast<int>(arguments.size()), words.data());
}

/// Whatever it is told, EAL makes a folder for files, and leaves it there, with telemetry's socket,
/// which that takes away when the process ends.
void remove_runtime_folder() {
  const std::string folder = rte_eal_get_runtime_dir();
  ::unlink((folder + "/dpdk_telemetry.v2").c_str());
  ::rmdir(folder.c_str());
}

Error start_error(const detail::DpdkWords& words, int error) {
  const bool memory = error == ENOMEM;
  return {.code = memory ? ErrorCode::resource_exhausted : ErrorCode::unavailable,
          .what = fmt::format("DPDK does not start: {}", words.or_else(rte_strerror(error))),
          .hint = memory ? "less memory: --memory=small" : "the arguments behind --, if any"};
}

}  // namespace

Result<std::unique_ptr<DpdkEal>> DpdkEal::create(const DpdkOptions& options) {
  const Result<> checked = detail::check_memory(options.memory).and_then([&] {
    return detail::check_eal_arguments(options.arguments);
  });
  if (!checked) return tl::unexpected(checked.error());
  const Result<bool> hugepages =
      detail::choose_hugepages(options.memory, detail::free_hugepage_bytes());
  if (!hugepages) return tl::unexpected(hugepages.error());
  const Result<std::vector<unsigned>> cpus = cpus_of_thread();
  if (!cpus) return tl::unexpected(cpus.error());
  if (used.exchange(true)) {
    return fail(ErrorCode::already_exists,
                "DPDK has been started in this process before, and works once",
                "make one DpdkEal and keep it until the end, or start another process");
  }

  if (!detail::open_dpdk_log(options.verbose)) {
    return fail(ErrorCode::resource_exhausted, "no memory for DPDK's log");
  }
  const detail::DpdkSetUp setup;
  const std::string prefix = fmt::format("pinion-{}", getpid());
  if (start_eal(detail::eal_arguments(options, *hugepages, *cpus, prefix)) < 0) {
    Error error = start_error(setup.words(), rte_errno);
    remove_runtime_folder();
    detail::close_dpdk_log();
    return tl::unexpected(std::move(error));
  }
  log_info("DPDK has {} MiB of {}", options.memory.bytes >> 20,
           *hugepages ? "hugepages" : "ordinary pages");
  return std::unique_ptr<DpdkEal>(new DpdkEal(*hugepages));
}

DpdkEal::~DpdkEal() {
  PINION_ASSERT(users_ == 0);
  {
    const detail::DpdkSetUp setup;
    rte_eal_cleanup();
    remove_runtime_folder();
  }
  detail::close_dpdk_log();
}

Result<std::unique_ptr<DpdkThread>> DpdkThread::create(DpdkEal& eal) {
  if (rte_lcore_id() != LCORE_ID_ANY) {
    return fail(ErrorCode::already_exists, "DPDK knows this thread already",
                "one DpdkThread for each thread, none on that of DpdkEal::create()");
  }
  const detail::DpdkSetUp setup;
  if (rte_thread_register() != 0) {
    return fail(ErrorCode::resource_exhausted,
                fmt::format("DPDK can't take in one more thread: {}", rte_strerror(rte_errno)),
                fmt::format("at most {} threads with a DpdkThread", RTE_MAX_LCORE));
  }
  return std::unique_ptr<DpdkThread>(new DpdkThread(eal));
}

DpdkThread::DpdkThread(DpdkEal& eal) noexcept : eal_(eal) {
  ++eal_.users_;
}

DpdkThread::~DpdkThread() {
  // rte_thread_unregister() leaves the caches as they are: their packets would be lent to nobody.
  rte_mempool_walk(
      [](rte_mempool* pool, void*) {
        rte_mempool_cache* const cache = rte_mempool_default_cache(pool, rte_lcore_id());
        if (cache != nullptr) rte_mempool_cache_flush(cache, pool);
      },
      nullptr);
  rte_thread_unregister();
  --eal_.users_;
}

}  // namespace pinion
