#include <pinion/eventloop/runtime.h>

#include <fmt/format.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

#include <pinion/lib/log.h>

#include "runtime_parts.h"

namespace pinion {
namespace {

constexpr std::size_t kMaxLcores = CPU_SETSIZE;

Result<cpu_set_t> allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) {
    return tl::unexpected(errno_error(errno, "cannot read which CPUs this process may use"));
  }
  return set;
}

std::string to_list(const cpu_set_t& set) {
  std::string list;
  for (std::size_t cpu = 0; cpu < kMaxLcores; ++cpu) {
    if (!CPU_ISSET(cpu, &set)) continue;
    std::size_t last = cpu;
    while (last + 1 < kMaxLcores && CPU_ISSET(last + 1, &set)) ++last;
    list += fmt::format("{}{}", list.empty() ? "" : ",", cpu);
    if (last > cpu) list += fmt::format("-{}", last);
    cpu = last;
  }
  return list;
}

/// Several lcores on one CPU, if that is allowed: none may spin without end while another waits.
Result<> check_sharing(const RuntimeOptions& options, unsigned cpu) {
  if (!options.allow_shared_cpus) {
    return fail(ErrorCode::invalid_argument, fmt::format("two lcores on CPU {}", cpu),
                "give each lcore a CPU of its own, or allow them to share (allow_shared_cpus)");
  }
  if (options.loop.idle == IdlePolicy::spin) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("lcores that never sleep would take CPU {} from each other", cpu),
                "idle policy park or adaptive, or a CPU for each lcore");
  }
  return {};
}

void warn_of_sharing(const std::vector<unsigned>& cpus, const cpu_set_t& shared) {
  const auto count = std::count_if(cpus.begin(), cpus.end(),
                                   [&](unsigned cpu) { return CPU_ISSET(cpu, &shared) != 0; });
  if (count == 0) return;
  log_warn("{} lcores share CPU {}: each waits while another runs", count, to_list(shared));
}

Result<> check_cpus(const RuntimeOptions& options) {
  const std::vector<unsigned>& cpus = options.cpus;
  const Result<cpu_set_t> allowed = allowed_cpus();
  if (!allowed) return tl::unexpected(allowed.error());
  if (cpus.empty()) {
    return fail(ErrorCode::invalid_argument, "no CPU given for any lcore",
                fmt::format("choose from {}", to_list(*allowed)));
  }
  cpu_set_t taken;
  cpu_set_t shared;
  CPU_ZERO(&taken);
  CPU_ZERO(&shared);
  for (const unsigned cpu : cpus) {
    const bool again = cpu < kMaxLcores && CPU_ISSET(cpu, &taken);
    if (Result<> checked = check_cpu(options, cpu, again); !checked) return checked;
    CPU_SET(cpu, again ? &shared : &taken);
  }
  warn_of_sharing(cpus, shared);
  return {};
}

}  // namespace

Result<> check_cpu(const RuntimeOptions& options, unsigned cpu, bool taken) {
  const Result<cpu_set_t> allowed = allowed_cpus();
  if (!allowed) return tl::unexpected(allowed.error());
  if (cpu >= kMaxLcores || !CPU_ISSET(cpu, &*allowed)) {
    return fail(ErrorCode::invalid_argument, fmt::format("this process may not use CPU {}", cpu),
                fmt::format("choose from {}, or widen the set with taskset or the cgroup's cpuset",
                            to_list(*allowed)));
  }
  return taken ? check_sharing(options, cpu) : Result<>{};
}

Result<std::vector<unsigned>> first_cpus(std::size_t count) {
  const Result<cpu_set_t> allowed = allowed_cpus();
  if (!allowed) return tl::unexpected(allowed.error());
  std::vector<unsigned> cpus;
  for (unsigned cpu = 0; cpu < kMaxLcores && cpus.size() < count; ++cpu) {
    if (CPU_ISSET(cpu, &*allowed)) cpus.push_back(cpu);
  }
  if (cpus.size() == count && count > 0) return cpus;
  return fail(ErrorCode::invalid_argument,
              fmt::format("{} lcores asked for, {} CPUs to run them on", count, cpus.size()),
              fmt::format("choose 1 to {} lcores", CPU_COUNT(&*allowed)));
}

Result<std::unique_ptr<Runtime>> Runtime::create(RuntimeOptions options) {
  if (Result<> checked = check_cpus(options); !checked) {
    return tl::unexpected(std::move(checked.error()));
  }
  const int wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (wake_fd < 0) {
    return tl::unexpected(errno_error(errno, "no descriptor for the runtime", "ulimit -n 65536"));
  }
  return std::unique_ptr<Runtime>(new Runtime(std::move(options), wake_fd));
}

Runtime::Runtime(RuntimeOptions options, int wake_fd) noexcept
    : options_(std::move(options)), wake_fd_(wake_fd) {}

Runtime::~Runtime() {
  for (Request& left : take_requests()) refuse(left);
  close(wake_fd_);
}

void Runtime::request_drain() noexcept {
  drain_requested_.store(true, std::memory_order_release);
  wake();
}

void Runtime::request_stop() noexcept {
  stop_requested_.store(true, std::memory_order_release);
  wake();
}

void Runtime::request_report() noexcept {
  report_requested_.store(true, std::memory_order_release);
  wake();
}

void Runtime::wake() noexcept {
  const std::uint64_t one = 1;
  // It fails only when the counter is full, and then run() is awake.
  static_cast<void>(!write(wake_fd_, &one, sizeof(one)));
}

void Runtime::add_lcore(unsigned cpu, Added done) {
  request({.number = cpu, .added = std::move(done), .drained = {}, .adds = true});
}

void Runtime::drain_lcore(unsigned index, Drained done) {
  request({.number = index, .added = {}, .drained = std::move(done), .adds = false});
}

void Runtime::request(Request request) {
  {
    const std::scoped_lock lock(requests_mutex_);
    requests_.push_back(std::move(request));
  }
  wake();
}

/// What nobody can do any more.
void Runtime::refuse(Request& request) {
  Error error = {.code = ErrorCode::cancelled, .what = "the runtime has ended", .hint = {}};
  if (request.added) request.added(tl::unexpected(error));
  if (request.drained) request.drained(tl::unexpected(error));
}

std::vector<Runtime::Request> Runtime::take_requests() {
  const std::scoped_lock lock(requests_mutex_);
  return std::exchange(requests_, {});
}

Result<RunReport> Runtime::run(const Setup& setup) {
  sigset_t handled;
  sigemptyset(&handled);
  if (options_.handle_signals) {
    for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) sigaddset(&handled, signal);
  }
  const int signal_fd = signalfd(-1, &handled, SFD_NONBLOCK | SFD_CLOEXEC);
  if (signal_fd < 0) {
    return tl::unexpected(errno_error(errno, "no descriptor for signals", "ulimit -n 65536"));
  }
  Result<RunReport> report = Supervisor(*this, setup, handled, signal_fd).run();
  close(signal_fd);
  return report;
}

}  // namespace pinion
