#include "echo_load.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace pinion::bench {
namespace {

constexpr unsigned kSubmissions = 4096;
constexpr unsigned kCompletions = 32768;
constexpr unsigned kBuffers = 1024;
constexpr std::size_t kBufferSize = EchoLoad::kMaxRequest;
constexpr std::uint32_t kPatternSize = 1U << 16;
constexpr std::chrono::seconds kPatience{10};
/// Fewer than the kernel chooses from by default.
constexpr std::size_t kPortsOfAnAddress = 20'000;

/// Blocking, so that no more wait to be accepted than the server's line holds.
int connect_to(std::uint16_t port, std::uint32_t source) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  sockaddr_in from{};
  from.sin_family = AF_INET;
  from.sin_addr.s_addr = htonl(source);
  const int on = 1;
  const bool connected =
      ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0 &&
      ::setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on) == 0 &&
      ::bind(fd, reinterpret_cast<const sockaddr*>(&from), sizeof from) == 0 &&
      ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  if (connected) return fd;
  const int error = errno;
  ::close(fd);
  errno = error;
  return -1;
}

}  // namespace

double percentile(const std::vector<double>& sorted, double share) {
  if (sorted.empty()) return 0;
  const double place = share * static_cast<double>(sorted.size());
  return sorted[std::min(static_cast<std::size_t>(place), sorted.size() - 1)];
}

EchoLoad::EchoLoad() : memory_(kBuffers * kBufferSize), pattern_(kPatternSize + kMaxRequest) {
  std::mt19937_64 random(1);
  std::generate_n(pattern_.begin(), kPatternSize, [&] { return static_cast<char>(random()); });
  std::copy_n(pattern_.begin(), kMaxRequest, pattern_.begin() + kPatternSize);

  io_uring_params params{};
  params.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
                 IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_SUBMIT_ALL | IORING_SETUP_CQSIZE;
  params.cq_entries = kCompletions;
  if (const int error = io_uring_queue_init_params(kSubmissions, &ring_, &params); error != 0) {
    fail(fmt::format("io_uring_setup: {}", std::strerror(-error)));
    return;
  }
  buffers_ =
      static_cast<io_uring_buf_ring*>(std::aligned_alloc(4096, kBuffers * sizeof(io_uring_buf)));
  io_uring_buf_reg registration{};
  registration.ring_addr = reinterpret_cast<std::uint64_t>(buffers_);
  registration.ring_entries = kBuffers;
  if (const int error = io_uring_register_buf_ring(&ring_, &registration, 0); error != 0) {
    fail(fmt::format("io_uring_register_buf_ring: {}", std::strerror(-error)));
    return;
  }
  io_uring_buf_ring_init(buffers_);
  for (unsigned i = 0; i < kBuffers; ++i) {
    io_uring_buf_ring_add(buffers_, memory_.data() + i * kBufferSize, kBufferSize,
                          static_cast<std::uint16_t>(i), io_uring_buf_ring_mask(kBuffers),
                          static_cast<int>(i));
  }
  io_uring_buf_ring_advance(buffers_, static_cast<int>(kBuffers));
}

/// Disconnecting resets at once, whatever the ring still holds of the socket.
EchoLoad::~EchoLoad() {
  sockaddr nowhere{};
  nowhere.sa_family = AF_UNSPEC;
  for (const Client& client : clients_) {
    if (client.fd < 0) continue;
    ::connect(client.fd, &nowhere, sizeof nowhere);
    ::close(client.fd);
  }
  if (ring_.ring_fd > 0) io_uring_queue_exit(&ring_);
  std::free(buffers_);
}

std::string EchoLoad::connect(std::uint16_t port, std::size_t connections) {
  clients_.resize(connections);
  for (std::size_t i = 0; i < connections && error_.empty(); ++i) {
    Client& client = clients_[i];
    const auto source = static_cast<std::uint32_t>(INADDR_LOOPBACK + i / kPortsOfAnAddress);
    client.fd = connect_to(port, source);
    client.start = static_cast<std::uint32_t>(i * 40'503 % kPatternSize);
    if (client.fd < 0) fail(fmt::format("connection {}: {}", i + 1, std::strerror(errno)));
    if (error_.empty()) receive(i);
  }
  return error_;
}

void EchoLoad::fail(std::string error) {
  if (error_.empty()) error_ = std::move(error);
}

io_uring_sqe& EchoLoad::entry(Operation operation, std::size_t client) {
  io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
  while (sqe == nullptr) {
    io_uring_submit(&ring_);
    sqe = io_uring_get_sqe(&ring_);
  }
  sqe->user_data = std::uint64_t{client} << 8 | static_cast<std::uint64_t>(operation);
  return *sqe;
}

void EchoLoad::receive(std::size_t client) {
  io_uring_sqe& sqe = entry(Operation::receive, client);
  io_uring_prep_recv_multishot(&sqe, clients_[client].fd, nullptr, 0, 0);
  sqe.flags |= IOSQE_BUFFER_SELECT;
}

void EchoLoad::ask(std::size_t client) {
  clients_[client].asked += size_;
  if (!clients_[client].sending) send(client);
}

/// One send at a time keeps the stream in order.
void EchoLoad::send(std::size_t index) {
  Client& client = clients_[index];
  client.sending = true;
  const std::uint64_t place = (client.start + client.sent) % kPatternSize;
  const std::uint64_t count = std::min<std::uint64_t>(client.asked - client.sent, kMaxRequest);
  io_uring_sqe& sqe = entry(Operation::send, index);
  io_uring_prep_send(&sqe, client.fd, pattern_.data() + place, count, MSG_NOSIGNAL | MSG_WAITALL);
}

void EchoLoad::turn() {
  const unsigned flags = __atomic_load_n(ring_.sq.kflags, __ATOMIC_RELAXED);
  const bool reason = (flags & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW)) != 0;
  if (reason || io_uring_sq_ready(&ring_) != 0) io_uring_submit_and_get_events(&ring_);
  unsigned head = 0;
  unsigned count = 0;
  io_uring_cqe* cqe = nullptr;
  io_uring_for_each_cqe(&ring_, head, cqe) {
    handle(*cqe);
    ++count;
  }
  io_uring_cq_advance(&ring_, count);
  for (const std::size_t client : std::exchange(starved_, {})) receive(client);
}

void EchoLoad::handle(const io_uring_cqe& cqe) {
  const std::size_t client = cqe.user_data >> 8;
  if (static_cast<Operation>(cqe.user_data & 0xff) == Operation::send) {
    return on_sent(client, cqe.res);
  }
  on_received(client, cqe);
}

void EchoLoad::on_received(std::size_t client, const io_uring_cqe& cqe) {
  if ((cqe.flags & IORING_CQE_F_BUFFER) != 0) {
    const auto buffer = static_cast<std::uint16_t>(cqe.flags >> IORING_CQE_BUFFER_SHIFT);
    char* bytes = memory_.data() + buffer * kBufferSize;
    if (cqe.res > 0) take(client, bytes, static_cast<std::size_t>(cqe.res));
    io_uring_buf_ring_add(buffers_, bytes, kBufferSize, buffer, io_uring_buf_ring_mask(kBuffers),
                          0);
    io_uring_buf_ring_advance(buffers_, 1);
  }
  if ((cqe.flags & IORING_CQE_F_MORE) != 0) return;
  if (cqe.res > 0) return receive(client);
  if (cqe.res == -ENOBUFS) return starved_.push_back(client);
  fail(cqe.res == 0 ? "the server closed a connection"
                    : fmt::format("receiving: {}", std::strerror(-cqe.res)));
}

void EchoLoad::on_sent(std::size_t index, int result) {
  Client& client = clients_[index];
  client.sending = false;
  if (result <= 0) return fail(fmt::format("sending: {}", std::strerror(-result)));
  client.sent += static_cast<std::uint64_t>(result);
  if (client.sent < client.asked) send(index);
}

void EchoLoad::take(std::size_t index, const char* bytes, std::size_t count) {
  Client& client = clients_[index];
  const std::uint64_t place = (client.start + client.received) % kPatternSize;
  if (client.received + count > client.asked) return fail("the server sent more than it was sent");
  if (std::memcmp(bytes, pattern_.data() + place, count) != 0) {
    return fail("the server sent a byte that is not the one it was sent");
  }
  client.received += count;
  while (client.received - client.answered >= size_) {
    client.answered += size_;
    ++replies_;
    on_reply(client);
    if (closed_loop_) ask(index);
  }
}

void EchoLoad::on_reply(Client& client) {
  if (client.due.empty()) return;
  if (keeps_latencies_) {
    latencies_.push_back(
        std::chrono::duration<double, std::nano>(Clock::now() - client.due.front()).count());
  }
  client.due.pop_front();
}

void EchoLoad::send_what_is_due() {
  if (mean_gap_ns_ <= 0) return;
  for (const Clock::time_point now = Clock::now(); next_due_ <= now;) {
    clients_[next_client_].due.push_back(next_due_);
    ask(next_client_);
    next_client_ += every_;
    if (next_client_ >= clients_.size()) next_client_ = 0;
    choose_next_due();
  }
}

void EchoLoad::choose_next_due() {
  const auto into_period = [this](Clock::time_point when) {
    return std::chrono::nanoseconds(when - first_due_) % (on_ + off_);
  };
  const bool quiet = off_.count() > 0 && into_period(next_due_) >= on_;
  std::exponential_distribution<double> gap(1 / (quiet ? quiet_gap_ns_ : mean_gap_ns_));
  next_due_ += std::chrono::nanoseconds(static_cast<std::int64_t>(gap(random_)));
  if (off_.count() <= 0 || quiet_gap_ns_ > 0) return;
  const std::chrono::nanoseconds at = into_period(next_due_);
  if (at >= on_) next_due_ += on_ + off_ - at;
}

/// Waits for the replies to all requests, so that the next run begins with none.
void EchoLoad::settle() {
  const Clock::time_point end = Clock::now() + kPatience;
  const auto under_way = [](const Client& client) { return client.answered < client.asked; };
  while (error_.empty() && std::ranges::any_of(clients_, under_way)) {
    turn();
    if (Clock::now() > end) fail("the server doesn't answer");
  }
}

LoadFigures EchoLoad::measure(const LoadWindow& window, const CpuClock& server_cpu) {
  const auto run_until = [this](Clock::time_point end) {
    while (error_.empty() && Clock::now() < end) {
      send_what_is_due();
      turn();
    }
  };
  const Clock::time_point begin = Clock::now();
  run_until(begin + window.warm_up);
  // However slow it is, the server has served every connection and used all its buffers once.
  const std::uint64_t enough = std::max(clients_.size() / every_, window.warm_up_replies);
  std::uint64_t seen = 0;
  for (Clock::time_point heard = Clock::now(); error_.empty() && replies_ < enough;) {
    run_until(Clock::now() + std::chrono::milliseconds{1});
    if (replies_ != std::exchange(seen, replies_)) heard = Clock::now();
    if (Clock::now() > heard + kPatience) fail("the server doesn't answer");
  }
  const std::uint64_t replies_before = replies_;
  keeps_latencies_ = mean_gap_ns_ > 0;
  const Clock::time_point opened = Clock::now();
  const std::int64_t cpu_before = server_cpu();
  run_until(opened + window.length);
  LoadFigures figures;
  figures.server_cpu_ns = static_cast<double>(server_cpu() - cpu_before);
  figures.seconds = std::chrono::duration<double>(Clock::now() - opened).count();
  figures.replies = replies_ - replies_before;
  closed_loop_ = false;
  mean_gap_ns_ = 0;
  settle();
  keeps_latencies_ = false;
  figures.error = error_;
  figures.latencies_ns = std::exchange(latencies_, {});
  std::ranges::sort(figures.latencies_ns);
  return figures;
}

LoadFigures EchoLoad::run_closed(std::size_t size, const LoadWindow& window,
                                 const CpuClock& server_cpu) {
  size_ = size;
  replies_ = 0;
  closed_loop_ = true;
  every_ = 1;
  for (std::size_t i = 0; i < clients_.size(); ++i) ask(i);
  return measure(window, server_cpu);
}

LoadFigures EchoLoad::run_open(std::size_t size, double rate, const LoadWindow& window,
                               std::uint64_t seed, const CpuClock& server_cpu) {
  size_ = size;
  replies_ = 0;
  random_.seed(seed);
  mean_gap_ns_ = 1e9 / rate;
  every_ = window.every;
  next_client_ = 0;
  on_ = window.on;
  off_ = window.off;
  quiet_gap_ns_ = window.quiet_rate > 0 ? 1e9 / window.quiet_rate : 0;
  next_due_ = first_due_ = Clock::now();
  return measure(window, server_cpu);
}

std::string EchoLoad::run_on_each(std::size_t size) {
  size_ = size;
  for (std::size_t i = 0; i < clients_.size(); ++i) ask(i);
  settle();
  return error_;
}

LoadFigures EchoLoad::run_once(std::size_t size) {
  size_ = size;
  keeps_latencies_ = true;
  clients_.front().due.push_back(Clock::now());
  ask(0);
  settle();
  keeps_latencies_ = false;
  return {.error = error_, .replies = 1, .latencies_ns = std::exchange(latencies_, {})};
}

}  // namespace pinion::bench
