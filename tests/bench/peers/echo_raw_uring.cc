#include <liburing.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "peers/echo_server.h"
#include "peers/heap_timeouts.h"

/// The floor: an echo server on io_uring alone. Multishot accept and receive, one ring of provided
/// buffers, each sent out of where it came in, everything of a batch submitted in the call that
/// waits for the next one. A connection is its descriptor; one send of it is in flight at a time,
/// what comes meanwhile stands in line.

namespace pinion::bench {
namespace {

constexpr unsigned kSubmissions = 4096;
constexpr unsigned kCompletions = 32768;
constexpr unsigned kBuffers = 1024;  ///< few enough to stay in the cache, in which they go round
constexpr int kGroup = 0;
constexpr std::uint16_t kNone = 0xffff;

enum class Operation : std::uint8_t { accept, receive, send };

/// What travels as user data.
struct Tag {
  Operation operation;
  std::uint16_t buffer = 0;
  std::uint32_t fd = 0;

  std::uint64_t packed() const {
    return std::uint64_t{fd} << 32 | std::uint64_t{buffer} << 8 |
           static_cast<std::uint64_t>(operation);
  }
  static Tag unpacked(std::uint64_t data) {
    return {static_cast<Operation>(data & 0xff), static_cast<std::uint16_t>(data >> 8),
            static_cast<std::uint32_t>(data >> 32)};
  }
};

struct Buffer {
  std::uint32_t size = 0;
  std::uint16_t next = kNone;  ///< of the same connection's line
};

struct Connection {
  std::uint16_t sending = kNone;
  std::uint16_t last_in_line = kNone;
  bool receiving = false;
  bool ended = false;  ///< closed once nothing is in flight
};

class Server {
 public:
  explicit Server(const EchoServerOptions& options)
      : listener_(listen_on_loopback()), spins_(options.waiting != Waiting::park) {
    rlimit limit{};
    require(getrlimit(RLIMIT_NOFILE, &limit) == 0, "getrlimit");
    connections_.resize(limit.rlim_cur);
    if (options.timers) timeouts_.emplace(limit.rlim_cur);
    set_up_ring();
    set_up_buffers();
    accept();
    announce(port_of(listener_));
  }

  [[noreturn]] void run() {
    for (;;) {
      enter();
      if (timeouts_) timeouts_->read_clock();
      handle_completions();
      if (!timeouts_) continue;
      for (const std::uint32_t fd : timeouts_->expire()) shutdown(static_cast<int>(fd), SHUT_RDWR);
    }
  }

 private:
  void set_up_ring() {
    io_uring_params params{};
    params.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
                   IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_SUBMIT_ALL | IORING_SETUP_CQSIZE;
    params.cq_entries = kCompletions;
    errno = -io_uring_queue_init_params(kSubmissions, &ring_, &params);
    require(errno == 0, "io_uring_setup");
    require(io_uring_register_ring_fd(&ring_) == 1, "io_uring_register_ring_fd");
  }

  void set_up_buffers() {
    const auto map = [](std::size_t size) {
      void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
      require(memory != MAP_FAILED, "mmap");
      std::memset(memory, 0, size);  // a hypervisor may see pages when they are touched, not before
      return memory;
    };
    buffers_ = static_cast<io_uring_buf_ring*>(map(kBuffers * sizeof(io_uring_buf)));
    memory_ = static_cast<char*>(map(kBuffers * kReadSize));
    io_uring_buf_reg registration{};
    registration.ring_addr = reinterpret_cast<std::uint64_t>(buffers_);
    registration.ring_entries = kBuffers;
    registration.bgid = kGroup;
    errno = -io_uring_register_buf_ring(&ring_, &registration, 0);
    require(errno == 0, "io_uring_register_buf_ring");
    io_uring_buf_ring_init(buffers_);
    for (unsigned i = 0; i < kBuffers; ++i) give_back(static_cast<std::uint16_t>(i));
    publish();
  }

  void give_back(std::uint16_t buffer) {
    io_uring_buf_ring_add(buffers_, memory_ + buffer * kReadSize, kReadSize, buffer,
                          io_uring_buf_ring_mask(kBuffers), given_back_++);
  }

  void publish() {
    if (given_back_ == 0) return;
    io_uring_buf_ring_advance(buffers_, given_back_);
    given_back_ = 0;
    for (const int fd : starved_) receive(fd);
    starved_.clear();
  }

  io_uring_sqe& entry(Tag tag) {
    io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
    while (sqe == nullptr) {
      io_uring_submit(&ring_);
      sqe = io_uring_get_sqe(&ring_);
    }
    sqe->user_data = tag.packed();
    return *sqe;
  }

  /// Submits, and sleeps until something has come or a timeout passes; a spinning one enters the
  /// kernel only for a reason.
  void enter() {
    if (spins_) {
      const unsigned flags = __atomic_load_n(ring_.sq.kflags, __ATOMIC_RELAXED);
      const bool reason = (flags & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW)) != 0;
      if (reason || io_uring_sq_ready(&ring_) != 0) io_uring_submit_and_get_events(&ring_);
      return;
    }
    const int wait_ms = timeouts_ ? timeouts_->wait_ms() : -1;
    if (wait_ms < 0) {
      io_uring_submit_and_wait(&ring_, 1);
      return;
    }
    io_uring_cqe* first = nullptr;
    __kernel_timespec wait{.tv_sec = wait_ms / 1'000, .tv_nsec = wait_ms % 1'000 * 1'000'000L};
    io_uring_submit_and_wait_timeout(&ring_, &first, 1, &wait, nullptr);
  }

  void handle_completions() {
    unsigned head = 0;
    unsigned count = 0;
    io_uring_cqe* cqe = nullptr;
    io_uring_for_each_cqe(&ring_, head, cqe) {
      handle(Tag::unpacked(cqe->user_data), cqe->res, cqe->flags);
      ++count;
    }
    if (count == 0) return;
    io_uring_cq_advance(&ring_, count);
    publish();
  }

  void handle(Tag tag, int result, std::uint32_t flags) {
    const int fd = static_cast<int>(tag.fd);
    switch (tag.operation) {
      case Operation::accept:
        if (result >= 0) begin(result);
        if ((flags & IORING_CQE_F_MORE) == 0) accept();
        return;
      case Operation::receive:
        return received(fd, result, flags);
      case Operation::send:
        return sent(fd, tag.buffer, result);
    }
  }

  void accept() {
    io_uring_sqe& sqe = entry({Operation::accept});
    io_uring_prep_multishot_accept(&sqe, listener_, nullptr, nullptr, SOCK_CLOEXEC);
  }

  void begin(int fd) {
    set_no_delay(fd);
    at(fd) = {};
    start(fd, Timeout::read, echo_timeouts.read);
    start(fd, Timeout::idle, echo_timeouts.idle);
    receive(fd);
  }

  void receive(int fd) {
    at(fd).receiving = true;
    io_uring_sqe& sqe = entry({Operation::receive, 0, static_cast<std::uint32_t>(fd)});
    io_uring_prep_recv_multishot(&sqe, fd, nullptr, 0, 0);
    sqe.flags |= IOSQE_BUFFER_SELECT;
    sqe.buf_group = kGroup;
  }

  void received(int fd, int result, std::uint32_t flags) {
    Connection& connection = at(fd);
    if ((flags & IORING_CQE_F_MORE) == 0) connection.receiving = false;
    if ((flags & IORING_CQE_F_BUFFER) != 0) {
      const auto buffer = static_cast<std::uint16_t>(flags >> IORING_CQE_BUFFER_SHIFT);
      if (result <= 0 || connection.ended) {
        give_back(buffer);
      } else {
        start(fd, Timeout::idle, echo_timeouts.idle);
        start(fd, Timeout::read, echo_timeouts.read);
        state(buffer) = {.size = static_cast<std::uint32_t>(result)};
        send_in_turn(fd, buffer);
      }
    }
    if (connection.receiving) return;
    if (result == -ENOBUFS) {
      starved_.push_back(fd);
    } else if (result > 0) {
      receive(fd);
    } else {
      connection.ended = true;
      end_if_quiet(fd);
    }
  }

  void send_in_turn(int fd, std::uint16_t buffer) {
    Connection& connection = at(fd);
    if (connection.sending == kNone) return send(fd, buffer);
    const std::uint16_t before =
        connection.last_in_line == kNone ? connection.sending : connection.last_in_line;
    state(before).next = buffer;
    connection.last_in_line = buffer;
  }

  void send(int fd, std::uint16_t buffer) {
    at(fd).sending = buffer;
    start(fd, Timeout::write, echo_timeouts.write);
    io_uring_sqe& sqe = entry({Operation::send, buffer, static_cast<std::uint32_t>(fd)});
    io_uring_prep_send(&sqe, fd, memory_ + buffer * kReadSize, state(buffer).size,
                       MSG_NOSIGNAL | MSG_WAITALL);
  }

  void sent(int fd, std::uint16_t buffer, int result) {
    Connection& connection = at(fd);
    if (timeouts_) timeouts_->stop(static_cast<std::uint32_t>(fd), Timeout::write);
    const Buffer done = state(buffer);
    give_back(buffer);
    connection.sending = kNone;
    if (connection.last_in_line == done.next) connection.last_in_line = kNone;
    if (result != static_cast<int>(done.size)) {
      for (std::uint16_t waiting = done.next; waiting != kNone; waiting = state(waiting).next) {
        give_back(waiting);
      }
      connection.last_in_line = kNone;
      shutdown(fd, SHUT_RDWR);
    } else if (done.next != kNone) {
      send(fd, done.next);
    }
    end_if_quiet(fd);
  }

  void end_if_quiet(int fd) {
    const Connection& connection = at(fd);
    if (!connection.ended || connection.receiving || connection.sending != kNone) return;
    if (timeouts_) timeouts_->stop_all(static_cast<std::uint32_t>(fd));
    close(fd);
  }

  void start(int fd, Timeout kind, std::chrono::milliseconds delay) {
    if (timeouts_) timeouts_->start(static_cast<std::uint32_t>(fd), kind, delay);
  }

  Connection& at(int fd) { return connections_[static_cast<std::size_t>(fd)]; }
  Buffer& state(std::uint16_t buffer) { return buffer_states_[buffer]; }

  io_uring ring_{};
  int listener_;
  bool spins_;
  io_uring_buf_ring* buffers_ = nullptr;
  char* memory_ = nullptr;
  int given_back_ = 0;
  std::array<Buffer, kBuffers> buffer_states_;
  std::vector<Connection> connections_;
  std::vector<int> starved_;
  std::optional<HeapTimeouts> timeouts_;
};

}  // namespace
}  // namespace pinion::bench

int main(int argc, char** argv) {
  using namespace pinion::bench;
  Server server(start_echo_server(argc, argv));
  server.run();
}
