#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include <pinion/eventloop/loop.h>
#include <pinion/eventloop/poller.h>
#include <pinion/eventloop/task.h>
#include <pinion/eventloop/wait.h>
#include <pinion/net/stream.h>
#include <pinion/net/transport.h>

#include "load/gate.h"
#include "load/pacer.h"
#include "load/pattern.h"
#include "load/plan.h"
#include "load/results.h"

/// One lcore's share of the load: connections that send requests and verify every byte of the
/// answers, and silent ones that only wait to be closed.
///
/// A connection is two tasks, one that sends and one that receives. So requests at a rate go out
/// when they are due, whether or not earlier ones were answered, and a request larger than all
/// socket buffers can't block both sides.
///
/// Latency counts from the moment a request was due (at a rate) or its first byte was handed over
/// (closed loop) to the arrival of the last byte of its answer.
///
/// Ownership:  the plan, the loop and the transport outlive the client.
/// Threading:  the loop's thread.
/// Cost:       no allocation while it runs.

namespace pinion::apps {

class Client : private Drainable {
 public:
  /// Takes every connection whose number modulo `lcores` is `lcore`.
  Client(const LoadPlan& plan, Loop& loop, Transport& transport, unsigned lcore, unsigned lcores);
  ~Client() override { loop_.remove_drainable(*this); }

  /// Starts all connections; the plan begins before the loop runs. The loop is stopped when the
  /// last one has finished.
  void start();

  [[nodiscard]] const LoadResults& results() const noexcept { return results_; }

 private:
  struct Connection {
    explicit Connection(std::uint64_t number, std::size_t slice) : id(number), buffer(slice) {}

    std::uint64_t id;
    std::vector<std::byte> buffer;  ///< What is being written.
    std::uint64_t incarnation = 0;
    Pattern pattern{0, 0, 0};
    Stream stream;

    std::uint64_t first = 0;     ///< Sequence number of the first request on this stream.
    std::uint64_t sent = 0;      ///< Requests begun on this stream.
    std::uint64_t answered = 0;  ///< Of these, answered.
    std::uint64_t offered = 0;   ///< Bytes that were given to write().
    std::uint64_t received = 0;  ///< Bytes that came back.
    Instant sent_at{};           ///< When the last request was begun.
    bool finished = false;       ///< Everything was sent: the peer's end of file is right.
    bool sending = false;        ///< The sender lives.
    std::uint64_t on_time = 0;   ///< Over all streams: begun, of those due in the measured time.
    Gate answer;
    Gate sender_gone;
  };

  void on_drain() override;
  void on_drain_expired() override {}
  [[nodiscard]] bool drained() const override { return true; }

  Task<> run(Connection& conn);
  Task<> run_silent(std::uint64_t number);
  Task<> keep_silent(std::uint64_t number);
  Task<> converse(Connection& conn);
  Task<> send(Connection& conn);
  Task<> receive(Connection& conn);

  void begin(Connection& conn, Stream stream);
  void begin_request(Connection& conn);
  std::span<const std::byte> next_slice(Connection& conn);
  bool take(Connection& conn, const Chunk& chunk);
  void complete_requests(Connection& conn);
  void note_mismatch(Connection& conn, const Chunk& chunk, std::size_t matching);
  bool overdue(const Connection& conn);
  void count_never_sent(const Connection& conn);
  Instant next_thought();
  void leave();
  [[nodiscard]] bool over() { return loop_.fresh_now() >= plan_.end || loop_.draining(); }
  [[nodiscard]] Instant due(const Connection& conn, std::uint64_t index) const noexcept {
    return plan_.open_loop() ? plan_.due(conn.id, conn.first + index) : conn.sent_at;
  }

  const LoadPlan& plan_;
  Loop& loop_;
  Transport& transport_;
  Pacer pacer_;
  std::deque<Connection> connections_;
  std::vector<std::uint64_t> silent_;
  std::size_t live_ = 0;
  LoadResults results_;
};

}  // namespace pinion::apps
