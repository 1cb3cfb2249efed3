#include "ring_setup.h"

#include <fmt/format.h>
#include <liburing.h>
#include <sys/utsname.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <mutex>
#include <optional>

namespace pinion::detail {
namespace {

// Why these: docs/decisions/ring-flags.md.
constexpr unsigned kFlags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
                            IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_SUBMIT_ALL |
                            IORING_SETUP_R_DISABLED | IORING_SETUP_CQSIZE;

struct Needed {
  std::uint32_t code;
  const char* name;
};

constexpr std::array kFeatures = {
    Needed{IORING_FEAT_EXT_ARG, "EXT_ARG"},
    Needed{IORING_FEAT_NODROP, "NODROP"},
    Needed{IORING_FEAT_SUBMIT_STABLE, "SUBMIT_STABLE"},
    Needed{IORING_FEAT_CQE_SKIP, "CQE_SKIP"},
};

constexpr std::array kOperations = {
    Needed{IORING_OP_ASYNC_CANCEL, "ASYNC_CANCEL"},
    Needed{IORING_OP_POLL_ADD, "POLL_ADD"},
    Needed{IORING_OP_ACCEPT, "ACCEPT"},
    Needed{IORING_OP_CONNECT, "CONNECT"},
    Needed{IORING_OP_RECV, "RECV"},
    Needed{IORING_OP_SEND, "SEND"},
};

std::string kernel_release() {
  utsname name{};
  return uname(&name) == 0 ? name.release : "unknown";
}

// kernel.io_uring_disabled: 0 for everybody, 1 for CAP_SYS_ADMIN and io_uring_group, 2 for nobody.
int disabled_by_sysctl() {
  std::FILE* file = std::fopen("/proc/sys/kernel/io_uring_disabled", "re");
  if (file == nullptr) return 0;
  const int digit = std::fgetc(file);
  std::fclose(file);
  return digit == '1' || digit == '2' ? digit - '0' : 0;
}

Error too_old(std::string missing) {
  return {ErrorCode::unsupported,
          fmt::format("this kernel ({}) lacks {}", kernel_release(), missing),
          "run Linux 6.1 or newer"};
}

Error forbidden() {
  if (const int value = disabled_by_sysctl(); value != 0) {
    return {ErrorCode::permission_denied,
            fmt::format("io_uring is disabled by the sysctl kernel.io_uring_disabled = {}", value),
            "sysctl -w kernel.io_uring_disabled=0"};
  }
  return {ErrorCode::permission_denied,
          "io_uring is blocked, most likely by the seccomp profile of a container or service",
          "allow the system calls io_uring_setup, io_uring_enter and io_uring_register: "
          "docker run --security-opt seccomp=PROFILE.json, or SystemCallFilter=@system-service in "
          "the systemd unit"};
}

Error set_up_error(int error, const RingOptions& options) {
  switch (-error) {
    case ENOSYS:
      return too_old("io_uring");
    case EINVAL:
      return too_old("io_uring with DEFER_TASKRUN");
    case EPERM:
    case EACCES:
      return forbidden();
    case ENOMEM:
      return errno_error(
          error,
          fmt::format("no memory for an io_uring with {} + {} entries", options.submission_entries,
                      options.completion_entries),
          "more memory for the service or container (MemoryMax=, --memory), or fewer "
          "lcores");
    case EMFILE:
    case ENFILE:
      return errno_error(error, "no descriptor left for an io_uring", "ulimit -n 65536");
    default:
      return errno_error(error, "cannot set up an io_uring");
  }
}

/// Submits one operation on no descriptor. A kernel that knows it finds that there is none; another
/// refuses the request before it looks. The result; or that the kernel took nothing over, for want
/// of memory.
template <class Prepare>
int ask(io_uring& ring, Prepare prepare) {
  constexpr int kNoDescriptor = -1;
  io_uring_sqe* const entry = io_uring_get_sqe(&ring);
  if (entry == nullptr) return -ENOMEM;
  prepare(*entry, kNoDescriptor);
  if (const int submitted = io_uring_submit(&ring); submitted < 0) return submitted;
  io_uring_cqe* completion = nullptr;
  if (io_uring_peek_cqe(&ring, &completion) != 0) return -ENOMEM;
  const int result = completion->res;
  io_uring_cqe_seen(&ring, completion);
  return result;
}

Result<RingFeatures> try_features() {
  io_uring ring;
  if (const int error = io_uring_queue_init(1, &ring, 0); error < 0) {
    return tl::unexpected(set_up_error(error, {.submission_entries = 1, .completion_entries = 2}));
  }
  RingFeatures found;
  int refused = 0;
  const auto look_for = [&](RingFeature feature, auto prepare) {
    const int result = ask(ring, prepare);
    if (result == -ENOMEM || result == -EAGAIN) {
      refused = result;
    } else if (result != -EINVAL && result != -EOPNOTSUPP) {
      found.add(feature);
    }
  };
  look_for(RingFeature::message,
           [](io_uring_sqe& entry, int fd) { io_uring_prep_msg_ring(&entry, fd, 0, 0, 0); });
  look_for(RingFeature::multishot_accept, [](io_uring_sqe& entry, int fd) {
    io_uring_prep_multishot_accept(&entry, fd, nullptr, nullptr, 0);
  });
  look_for(RingFeature::multishot_receive, [](io_uring_sqe& entry, int fd) {
    io_uring_prep_recv_multishot(&entry, fd, nullptr, 0, 0);
    entry.flags |= IOSQE_BUFFER_SELECT;
  });
  io_uring_queue_exit(&ring);
  if (refused != 0) return tl::unexpected(errno_error(refused, "cannot probe io_uring"));
  return found;
}

}  // namespace

Result<KernelAnswer> ask_kernel(io_uring& ring) {
  KernelAnswer answer;
  answer.features = ring.features;
  constexpr std::size_t kSize =
      sizeof(io_uring_probe) + KernelAnswer::kOperations * sizeof(io_uring_probe_op);
  const auto memory = std::make_unique<std::byte[]>(kSize);  // Zeroed, as the kernel wants it.
  auto* const probe = new (memory.get()) io_uring_probe;
  const int error = io_uring_register_probe(&ring, probe, KernelAnswer::kOperations);
  if (error == -EPERM || error == -EACCES || error == -ENOSYS) return tl::unexpected(forbidden());
  if (error < 0) return tl::unexpected(too_old("the io_uring probe"));
  for (std::size_t i = 0; i < probe->ops_len; ++i) {
    answer.operations[i] = (probe->ops[i].flags & IO_URING_OP_SUPPORTED) != 0;
  }
  return answer;
}

Result<> check_floor(const KernelAnswer& answer) {
  for (const Needed& feature : kFeatures) {
    if ((answer.features & feature.code) != 0) continue;
    return tl::unexpected(too_old(fmt::format("the io_uring feature {}", feature.name)));
  }
  for (const Needed& operation : kOperations) {
    if (answer.operations[operation.code]) continue;
    return tl::unexpected(too_old(fmt::format("the io_uring operation {}", operation.name)));
  }
  return {};
}

Result<RingFeatures> probe_features() {
  // A kernel doesn't change. Of threads that begin together one asks it.
  static std::mutex asking;
  static std::optional<RingFeatures> known;
  const std::lock_guard<std::mutex> alone(asking);
  if (known) return *known;
  const Result<RingFeatures> found = try_features();
  if (found) known = *found;
  return found;
}

Result<RingFeatures> set_up_ring(io_uring& ring, RingOptions options) {
  if (options.submission_entries < 1 || options.submission_entries > 32768) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("submission_entries is {}", options.submission_entries),
                "choose 1 to 32768");
  }
  if (options.completion_entries < options.submission_entries ||
      options.completion_entries > 65536) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("completion_entries is {}", options.completion_entries),
                "choose submission_entries to 65536");
  }
  io_uring_params params{};
  params.flags = kFlags;
  params.cq_entries = options.completion_entries;
  if (const int error = io_uring_queue_init_params(options.submission_entries, &ring, &params);
      error < 0) {
    return tl::unexpected(set_up_error(error, options));
  }
  const Result<RingFeatures> features =
      ask_kernel(ring).and_then(check_floor).and_then([] { return probe_features(); });
  if (!features) {
    io_uring_queue_exit(&ring);
    return features;
  }
  return features->without(options.masked);
}

}  // namespace pinion::detail
