#include "ring_setup.h"

#include <fmt/format.h>
#include <liburing.h>
#include <sys/utsname.h>

#include <array>
#include <cerrno>
#include <cstdio>

namespace pinion::detail {
namespace {

// Why these: docs/decisions/ring-flags.md.
constexpr unsigned kFlags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
                            IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_SUBMIT_ALL |
                            IORING_SETUP_R_DISABLED | IORING_SETUP_CQSIZE;

constexpr unsigned kFeatures =
    IORING_FEAT_EXT_ARG | IORING_FEAT_NODROP | IORING_FEAT_SUBMIT_STABLE | IORING_FEAT_CQE_SKIP;

struct NeededOperation {
  int code;
  const char* name;
};
constexpr std::array kOperations = {
    NeededOperation{IORING_OP_MSG_RING, "MSG_RING"},
    NeededOperation{IORING_OP_ASYNC_CANCEL, "ASYNC_CANCEL"},
    NeededOperation{IORING_OP_POLL_ADD, "POLL_ADD"},
    NeededOperation{IORING_OP_ACCEPT, "ACCEPT"},
    NeededOperation{IORING_OP_CONNECT, "CONNECT"},
    NeededOperation{IORING_OP_RECV, "RECV"},
    NeededOperation{IORING_OP_SEND, "SEND"},
    NeededOperation{IORING_OP_SHUTDOWN, "SHUTDOWN"},
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

Result<> check_features(io_uring& ring) {
  if ((ring.features & kFeatures) != kFeatures) {
    return tl::unexpected(too_old(
        fmt::format("io_uring features (has {:#x}, needs {:#x})", ring.features, kFeatures)));
  }
  io_uring_probe* probe = io_uring_get_probe_ring(&ring);
  if (probe == nullptr) return tl::unexpected(too_old("the io_uring probe"));
  const char* missing = nullptr;
  for (const NeededOperation& operation : kOperations) {
    if (io_uring_opcode_supported(probe, operation.code) == 0) missing = operation.name;
  }
  io_uring_free_probe(probe);
  if (missing == nullptr) return {};
  return tl::unexpected(too_old(fmt::format("the io_uring operation {}", missing)));
}

}  // namespace

Result<> set_up_ring(io_uring& ring, RingOptions options) {
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
  if (Result<> checked = check_features(ring); !checked) {
    io_uring_queue_exit(&ring);
    return checked;
  }
  return {};
}

}  // namespace pinion::detail
