#include "load/client.h"

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>

namespace pinion::apps {
namespace {

using namespace std::chrono_literals;

/// Bytes per write, at most: a larger request is written in slices.
constexpr std::size_t kSlice = 16384;

constexpr std::chrono::milliseconds kReconnectPause = 100ms;

/// What ends a connection because we end the run.
constexpr bool is_our_end(StreamError error) {
  return error == StreamError::closed || error == StreamError::draining ||
         error == StreamError::cancelled;
}

}  // namespace

Client::Client(const LoadPlan& plan, Loop& loop, Transport& transport, unsigned lcore,
               unsigned lcores)
    : plan_(plan), loop_(loop), transport_(transport), pacer_(loop) {
  const auto slice =
      static_cast<std::size_t>(std::min<std::uint64_t>(plan.options.size.value, kSlice));
  const std::uint64_t speaking = plan.options.connections;
  for (std::uint64_t id = lcore; id < speaking + plan.options.silent; id += lcores) {
    if (id < speaking) {
      connections_.emplace_back(id, slice);
    } else {
      silent_.push_back(id);
    }
  }
  loop_.add_drainable(*this);
}

void Client::start() {
  live_ = connections_.size() + silent_.size();
  for (Connection& conn : connections_) {
    if (!loop_.spawn(run(conn), "connection")) leave();
  }
  for (const std::uint64_t number : silent_) {
    if (!loop_.spawn(run_silent(number), "silent connection")) leave();
  }
  if (connections_.empty() && silent_.empty()) loop_.stop();
}

void Client::leave() {
  if (--live_ == 0) loop_.stop();
}

/// A signal. What is due by this turn's clock, the pacer still wakes; later requests aren't
/// missing.
void Client::on_drain() {
  results_.interrupted = saturating_add(loop_.now(), 1ns);
}

Task<> Client::run(Connection& conn) {
  co_await sleep_until(plan_.opens_at(conn.id));
  while (!over()) {
    const std::uint64_t before = conn.incarnation;
    co_await converse(conn);
    if (!plan_.options.reconnect || cancelled()) break;
    // A peer that refuses, or closes at once, isn't asked again at full speed.
    if (conn.incarnation == before || conn.answered == 0) co_await sleep_for(kReconnectPause);
  }
  if (plan_.open_loop()) count_never_sent(conn);
  results_.spoke_until = std::max(results_.spoke_until, loop_.fresh_now());
  leave();
}

void Client::count_never_sent(const Connection& conn) {
  const std::uint64_t due = plan_.first_due(conn.id, plan_.end_at(results_.interrupted)) -
                            plan_.first_due(conn.id, plan_.measure_from);
  results_.missed += due - conn.on_time;
}

/// One connection from its begin to its end.
Task<> Client::converse(Connection& conn) {
  auto stream = co_await transport_.connect(plan_.options.connect, plan_.options.timeout);
  if (!stream) {
    if (!is_our_end(stream.error())) results_.connect_errors.add(stream.error());
    co_return;
  }
  begin(conn, std::move(*stream));
  const TaskHandle sender = loop_.spawn(send(conn), "sender");
  conn.sending = static_cast<bool>(sender);
  if (conn.sending) {
    co_await receive(conn);
  } else {
    results_.request_errors.add(StreamError::no_resources);
  }
  sender.cancel();
  while (conn.sending) co_await conn.sender_gone.wait();
  results_.unanswered += conn.sent - conn.answered;
  conn.stream = Stream();
  --results_.open;
}

void Client::begin(Connection& conn, Stream stream) {
  ++results_.opened;
  ++results_.open;
  conn.stream = std::move(stream);
  conn.stream.set_deadline(plan_.last_moment());
  conn.pattern = Pattern(plan_.options.seed, conn.id, conn.incarnation++);
  conn.sent_at = loop_.fresh_now();
  conn.first = plan_.open_loop() ? plan_.first_due(conn.id, conn.sent_at) : 0;
  conn.sent = conn.answered = conn.offered = conn.received = 0;
  conn.finished = false;
  conn.answer.reset();
  conn.sender_gone.reset();
}

/// Sends requests until the time is over or the connection is.
Task<> Client::send(Connection& conn) {
  StreamResult<void> written;
  while (written) {
    if (plan_.open_loop()) {
      // A connection with nothing left to send stays open to the end, as in a closed loop.
      const Instant when = std::min(plan_.due(conn.id, conn.first + conn.sent), plan_.end);
      // What is due before the end is sent, however late, unless the peer stands still.
      const Instant now = loop_.fresh_now();
      if (now >= plan_.last_moment()) break;
      if (now < when) co_await pacer_.until(when);
      if (when >= plan_.end || when >= results_.interrupted) break;
    } else if (conn.sent == 0) {
      co_await sleep_until(plan_.start);
    } else {
      co_await conn.answer.wait();
      if (plan_.options.think > Delay{}) co_await sleep_until(next_thought());
      if (over()) break;
    }
    if (cancelled() || (loop_.draining() && !plan_.open_loop())) break;
    begin_request(conn);
    while (written && conn.offered < conn.sent * plan_.options.size.value) {
      const std::span<const std::byte> slice = next_slice(conn);
      written = co_await conn.stream.write(slice, plan_.options.timeout);
    }
  }
  if (written && !cancelled()) {
    conn.finished = true;
    conn.stream.shutdown_write();
  } else if (!written && written.error() == StreamError::write_timeout) {
    // Of any other end the receiver hears as well.
    results_.request_errors.add(StreamError::write_timeout);
    conn.stream.abort();
  }
  conn.sending = false;
  conn.sender_gone.open();
}

Instant Client::next_thought() {
  return std::min(saturating_add(loop_.fresh_now(), plan_.options.think), plan_.end);
}

void Client::begin_request(Connection& conn) {
  conn.sent_at = loop_.fresh_now();
  ++conn.sent;
  ++results_.sent;
  if (plan_.measures(due(conn, conn.sent - 1))) ++conn.on_time;
}

std::span<const std::byte> Client::next_slice(Connection& conn) {
  const std::uint64_t left = conn.sent * plan_.options.size.value - conn.offered;
  const std::span<std::byte> slice =
      std::span(conn.buffer).first(std::min<std::uint64_t>(conn.buffer.size(), left));
  conn.pattern.fill(conn.offered, slice);
  conn.offered += slice.size();
  return slice;
}

/// Verifies what comes back until the peer ends the stream or something is wrong.
Task<> Client::receive(Connection& conn) {
  for (;;) {
    auto chunk = co_await conn.stream.read(plan_.options.timeout);
    if (chunk) {
      if (!take(conn, *chunk)) co_return;
      continue;
    }
    const StreamError error = chunk.error();
    if (error == StreamError::read_timeout && !overdue(conn)) continue;
    if (error == StreamError::end_of_file) {
      if (!conn.finished) ++results_.closed_by_peer;
    } else if (!is_our_end(error)) {
      results_.request_errors.add(error);
    }
    co_return;
  }
}

/// Whether the oldest request waits for its answer longer than the peer may take, or all is sent
/// and the peer doesn't close.
bool Client::overdue(const Connection& conn) {
  const bool waits = conn.answered < conn.sent;
  if (!waits && !conn.finished) return false;
  const Instant since = waits ? due(conn, conn.answered) : conn.sent_at;
  return saturating_sub(loop_.fresh_now(), since) >= plan_.options.timeout;
}

bool Client::take(Connection& conn, const Chunk& chunk) {
  const std::size_t known =
      static_cast<std::size_t>(std::min<std::uint64_t>(chunk.size(), conn.offered - conn.received));
  const std::size_t matching = conn.pattern.matching(conn.received, chunk.span().first(known));
  if (matching < chunk.size()) {
    note_mismatch(conn, chunk, matching);
    conn.stream.abort();
    return false;
  }
  conn.received += chunk.size();
  complete_requests(conn);
  return true;
}

void Client::complete_requests(Connection& conn) {
  const std::uint64_t complete = conn.received / plan_.options.size.value;
  if (conn.answered == complete) return;
  const Instant now = loop_.fresh_now();
  for (; conn.answered < complete; ++conn.answered) {
    const Instant begun = due(conn, conn.answered);
    ++results_.answered;
    if (!plan_.measures(begun)) continue;
    ++results_.measured;
    const std::int64_t latency = saturating_sub(now, begun).count();
    results_.latency.record(static_cast<std::uint64_t>(std::max<std::int64_t>(latency, 0)));
  }
  conn.answer.open();
}

void Client::note_mismatch(Connection& conn, const Chunk& chunk, std::size_t matching) {
  ++results_.mismatches;
  if (results_.first_mismatch) return;
  const std::uint64_t place = conn.received + matching;
  results_.first_mismatch = Mismatch{
      .connection = conn.id,
      .request = place / plan_.options.size.value,
      .offset = place % plan_.options.size.value,
      .expected = std::to_integer<std::uint8_t>(conn.pattern.at(place)),
      .received = std::to_integer<std::uint8_t>(chunk.data()[matching]),
      .surplus = place >= conn.offered,
  };
}

Task<> Client::run_silent(std::uint64_t number) {
  co_await sleep_until(plan_.opens_at(number));
  while (!over()) {
    co_await keep_silent(number);
    if (!plan_.options.reconnect || cancelled()) break;
    co_await sleep_for(kReconnectPause);
  }
  leave();
}

/// Connects, sends nothing and waits for the peer to close.
Task<> Client::keep_silent(std::uint64_t number) {
  auto stream = co_await transport_.connect(plan_.options.connect, plan_.options.timeout);
  if (!stream) {
    if (!is_our_end(stream.error())) results_.connect_errors.add(stream.error());
    co_return;
  }
  ++results_.silent_opened;
  ++results_.open;
  const Instant since = loop_.fresh_now();
  const auto chunk = co_await stream->read(saturating_sub(plan_.end, since));
  --results_.open;
  if (chunk) {
    ++results_.mismatches;
    if (!results_.first_mismatch) {
      results_.first_mismatch = Mismatch{.connection = number, .surplus = true};
    }
  } else if (chunk.error() == StreamError::end_of_file) {
    ++results_.silent_closed_by_peer;
    const Delay lived = saturating_sub(loop_.fresh_now(), since);
    results_.silent_lifetime.record(static_cast<std::uint64_t>(lived.count()));
  } else if (chunk.error() != StreamError::read_timeout && !is_our_end(chunk.error())) {
    results_.request_errors.add(chunk.error());
  }
}

}  // namespace pinion::apps
