#pragma once

#include <liburing.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

/// The load of the echo bench: one thread that never sleeps, the same for every server.
///
/// Every connection sends requests of one size and compares each byte that comes back with the one
/// that stands at this place of its stream. In a closed loop each connection has one request under
/// way and sends the next when the reply is whole. In an open loop requests become due at random
/// moments of a given rate, whether or not the server keeps up, and go to the connections in turn;
/// the latency of each is counted from when it was due.
///
/// Ownership:  owns its sockets and its ring; its end resets the connections.
/// Threading:  one thread, which it keeps busy while it runs.
/// Errors:     a lost connection, a wrong byte, a server that says nothing for 10 s: an error text,
///             after which the load is of no use any more.

namespace pinion::bench {

/// What a server's process has used so far, in nanoseconds.
using CpuClock = std::function<std::int64_t()>;

struct LoadWindow {
  std::chrono::nanoseconds warm_up = std::chrono::milliseconds{100};
  std::size_t warm_up_replies = 0;  ///< at least that many, and one for each connection
  std::size_t every = 1;            ///< in an open loop, every how-manieth connection sends
  std::chrono::nanoseconds length = std::chrono::milliseconds{400};

  // Bursts of an open loop: its rate holds for `on`, then `quiet_rate` for `off`. 0: no bursts.
  std::chrono::nanoseconds on{};
  std::chrono::nanoseconds off{};
  double quiet_rate = 0;
};

struct LoadFigures {
  std::string error;                 ///< empty: all replies were right
  std::uint64_t replies = 0;         ///< in the window
  double seconds = 0;                ///< the window's real length
  double server_cpu_ns = 0;          ///< what the server used in the window
  std::vector<double> latencies_ns;  ///< of the open loop's replies in the window, sorted
};

/// Why figures can't be used: their error, or that no reply fell into the window. Empty: they can.
inline std::string complaint(const LoadFigures& figures) {
  if (!figures.error.empty()) return figures.error;
  return figures.replies == 0 ? "no reply in the window; fix: a longer --window-ms" : "";
}

/// The part of sorted figures below which a share of them lies: 0.5 is the median.
double percentile(const std::vector<double>& sorted, double share);

class EchoLoad {
 public:
  static constexpr std::size_t kMaxRequest = 4096;

  EchoLoad();
  ~EchoLoad();
  EchoLoad(const EchoLoad&) = delete;
  EchoLoad& operator=(const EchoLoad&) = delete;

  /// Connects to 127.0.0.1, from as many addresses as there have to be for the ports to suffice; an
  /// error text, empty when all connections stand.
  std::string connect(std::uint16_t port, std::size_t connections);

  LoadFigures run_closed(std::size_t size, const LoadWindow& window, const CpuClock& server_cpu);

  /// `rate` requests a second. The moments depend on the seed alone.
  LoadFigures run_open(std::size_t size, double rate, const LoadWindow& window, std::uint64_t seed,
                       const CpuClock& server_cpu);

  /// One request on each connection; an error text, empty when all replies were right.
  std::string run_on_each(std::size_t size);

  /// One request on the first connection; its figures are this latency.
  LoadFigures run_once(std::size_t size);

 private:
  using Clock = std::chrono::steady_clock;

  struct Client {
    int fd = -1;
    std::uint32_t start = 0;     ///< where in the pattern its stream begins
    std::uint64_t asked = 0;     ///< bytes of all requests
    std::uint64_t sent = 0;      ///< bytes that the kernel took
    std::uint64_t received = 0;  ///< bytes that came back
    std::uint64_t answered = 0;  ///< bytes of all requests whose reply is whole
    bool sending = false;
    std::deque<Clock::time_point> due;  ///< of the open loop's requests without a reply
  };
  enum class Operation : std::uint8_t { receive, send };

  io_uring_sqe& entry(Operation operation, std::size_t client);
  void receive(std::size_t client);
  void ask(std::size_t client);
  void send(std::size_t client);
  void turn();
  void handle(const io_uring_cqe& cqe);
  void on_received(std::size_t client, const io_uring_cqe& cqe);
  void on_sent(std::size_t client, int result);
  void take(std::size_t client, const char* bytes, std::size_t count);
  void on_reply(Client& client);
  void send_what_is_due();
  void choose_next_due();
  void settle();
  void fail(std::string error);
  LoadFigures measure(const LoadWindow& window, const CpuClock& server_cpu);

  io_uring ring_{};
  io_uring_buf_ring* buffers_ = nullptr;
  std::vector<char> memory_;
  std::vector<char> pattern_;
  std::vector<Client> clients_;
  std::vector<std::size_t> starved_;  ///< whose receive found no buffer

  std::size_t size_ = 0;
  bool closed_loop_ = false;  ///< a reply is followed by a request
  double mean_gap_ns_ = 0;    ///< of the open loop; 0: none
  double quiet_gap_ns_ = 0;   ///< between bursts; 0: silence
  std::chrono::nanoseconds on_{};
  std::chrono::nanoseconds off_{};
  Clock::time_point first_due_;
  bool keeps_latencies_ = false;
  Clock::time_point next_due_;
  std::size_t next_client_ = 0;
  std::size_t every_ = 1;
  std::mt19937_64 random_;
  std::vector<double> latencies_;
  std::uint64_t replies_ = 0;
  std::string error_;
};

}  // namespace pinion::bench
