#include "stack_core.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>
#include <pinion/lib/log.h>
#include <pinion/net/packet_copy.h>

namespace pinion::detail {
namespace {

/// How long bytes may lie in packets when there are too few.
constexpr Delay kPatience = std::chrono::milliseconds{100};

/// The part of the packets below which they count as scarce: before TCP takes no more from whoever
/// holds some, which it does at a fifth.
constexpr std::size_t kScarcePart = 4;

/// And the part from which on there is room again: more, so that what the others send next doesn't
/// use it up at once.
constexpr std::size_t kEnoughPart = 3;

/// How many connections one walk looks at to find the one that has held packets longest.
constexpr std::size_t kReliefBudget = 1024;

/// Ports to listen on where any will do: below those that connect() takes, so that no connection
/// goes from one to itself.
constexpr std::uint16_t kFirstListenPort = 32'768;
constexpr std::uint16_t kLastListenPort = 49'151;

}  // namespace

TransportStats StackCore::stats() const noexcept {
  TransportStats stats = counters_;
  const TcpStats& tcp = host_->tcp().stats();
  stats.bytes_in = tcp.bytes_in;
  stats.resets_sent = tcp.connections_reset;
  stats.keepalive_probes = tcp.keepalive_probes;
  stats.receive_starved = tcp.dropped(TcpDrop::no_room);
  stats.partial_checksums = partial_checksums();
  stats.tx_dropped = host_->ip().counters().tx_queue_full;
  stats.buffers_free = packets_.available();
  stats.buffers_lowest = lowest_available_;
  return stats;
}

StackConnection* StackCore::make_connection() noexcept {
  StackConnection* const connection = connections_.allocate(*this);
  if (connection == nullptr) return nullptr;
  ++places_;
  all_.push_back(*connection);
  return connection;
}

void StackCore::unmake(StackConnection& connection) noexcept {
  --places_;
  free(connection);
}

void StackCore::free(StackConnection& connection) noexcept {
  all_.erase(connection);
  connections_.release(connection);
  tell_listeners();
  end_if_unused();
}

void StackCore::place_freed() noexcept {
  --places_;
  tell_listeners();
}

/// There may be room for a client that waits: both a place and a record were needed.
void StackCore::tell_listeners() noexcept {
  for (StackListener& listener : listeners_) listener.room_appeared();
}

void StackCore::make_room(bool for_caller) noexcept {
  const auto wanted = [&] {
    const auto wants = [](const StackListener& listener) { return listener.wants_room(); };
    return for_caller || std::any_of(listeners_.begin(), listeners_.end(), wants);
  };
  while (!may_open() && !closing_.empty() && wanted()) closing_.front().end(StreamError::closed);
}

/// A chunk's bytes are its holder's to change: what others see is copied. That is so only with
/// what the host has sent to itself. None when there is no packet for the copy.
std::optional<Chunk> StackCore::lend(PacketPtr packet) noexcept {
  if (packet->shared()) {
    PacketPtr copy = copy_packet(*packet, packets_);
    if (!copy || copy->next_segment() != nullptr) return std::nullopt;
    packet = std::move(copy);
  }
  ++chunks_out_;
  Packet* const lent = packet.take();
  return Chunk(lent->bytes(), *this, reinterpret_cast<std::uintptr_t>(lent));
}

PacketPtr StackCore::take_back(Chunk& chunk) noexcept {
  if (chunk.owner() != this) return {};
  const std::byte* const begin = chunk.data();
  const std::size_t size = chunk.size();
  PacketPtr packet(reinterpret_cast<Packet*>(chunk.take_buffer()));
  --chunks_out_;
  packet->remove_prefix(static_cast<std::size_t>(begin - packet->data()));
  packet->remove_suffix(packet->size() - size);
  return packet;
}

void StackCore::release_buffer(std::uintptr_t token) noexcept {
  reinterpret_cast<Packet*>(token)->release();
  --chunks_out_;
  end_if_unused();
}

TcpSocketOptions StackCore::socket_options(const StreamOptions& stream) const noexcept {
  return {.no_delay = stream.no_delay,
          .send_buffer = options_.send_buffer,
          .receive_buffer = options_.receive_buffer};
}

std::uint16_t StackCore::next_listen_port() noexcept {
  const bool inside = kFirstListenPort <= last_listen_port_ && last_listen_port_ < kLastListenPort;
  last_listen_port_ = inside ? static_cast<std::uint16_t>(last_listen_port_ + 1) : kFirstListenPort;
  return last_listen_port_;
}

Result<Listener> StackCore::listen(const Endpoint& endpoint, const ListenOptions& options) {
  if (draining_) return fail(ErrorCode::unavailable, "cannot listen: the loop drains");
  for (std::size_t i = 0; i < ports_.size(); ++i) {
    const auto state = host_->ip().address_state(static_cast<std::uint8_t>(i), endpoint.address);
    if (state != AddressState::checking) continue;
    return fail(ErrorCode::unavailable,
                fmt::format("cannot listen on {}: whether somebody else has the address is being "
                            "checked",
                            to_string(endpoint)),
                "some seconds later, or check_duplicates = false");
  }
  auto listener = std::make_unique<StackListener>(*this);
  const TcpListenOptions wanted{
      .socket = socket_options(options.stream),
      .backlog = static_cast<std::uint32_t>(std::clamp(options.backlog, 1, 65'535))};
  if (Result<> listening = listener->listen(endpoint, wanted); !listening) {
    return tl::unexpected(listening.error());
  }
  listeners_.push_back(*listener);
  return Listener(*listener.release());
}

void StackCore::free(StackListener& listener) noexcept {
  listeners_.erase(listener);
  delete &listener;
  end_if_unused();
}

tl::expected<TcpHandle, TcpConnectError> StackCore::open_tcp(const ConnectAwaiter& connect,
                                                             StackConnection& connection) noexcept {
  return host_->tcp().connect(
      {.remote = connect.peer(), .options = socket_options(connect.options())}, &connection,
      loop_.now());
}

/// What has ended keeps its record until that was told. Whether something had.
bool StackCore::settle() noexcept {
  if (host_->is_settled()) return false;
  host_->end_of_burst(loop_.now());
  return true;
}

bool StackCore::start_connect(ConnectAwaiter& connect) noexcept {
  const auto refuse = [&](StreamError why) {
    count_failure(why);
    connect.settle(tl::unexpected(why));
    return false;
  };
  if (draining_) return refuse(StreamError::draining);
  if (connect.timeout() <= Delay{}) return refuse(StreamError::connect_timeout);
  if (!may_open()) {
    make_room(true);
    settle();
  }
  if (!may_open()) return refuse(StreamError::no_resources);
  StackConnection* const connection = make_connection();
  if (connection == nullptr) return refuse(StreamError::no_resources);
  auto tcp = open_tcp(connect, *connection);
  if (!tcp && tcp.error() == TcpConnectError::no_resources && settle()) {
    tcp = open_tcp(connect, *connection);
  }
  if (!tcp) {
    unmake(*connection);
    const bool no_way = tcp.error() == TcpConnectError::unreachable;
    return refuse(no_way ? StreamError::unreachable : StreamError::no_resources);
  }
  connection->start_connect(connect, *tcp);
  make_way();
  return true;
}

void StackCore::cancel_connect(ConnectAwaiter& connect) noexcept {
  static_cast<StackConnection*>(connect.operation())->cancel_connect(StreamError::cancelled);
}

void StackCore::abandon_connect(ConnectAwaiter& connect) noexcept {
  static_cast<StackConnection*>(connect.operation())->abandon_connect();
}

StackCore::Port::~Port() {
  for (Packet* const packet : std::span(burst_).subspan(first_, count_)) packet->release();
}

void StackCore::Port::receive(Instant now, std::span<Packet* const> packets) {
  core_.host_->receive(index_, packets, now);
  if (!core_.told_of_checksums_) core_.watch_checksums();
  static_cast<void>(core_.serve(now));
}

std::size_t StackCore::Port::flush(Instant now) noexcept {
  std::size_t sent = 0;
  for (;;) {
    if (count_ == 0) {
      first_ = 0;
      count_ = core_.host_->take(index_, burst_);
      if (count_ == 0) return sent;
    }
    const std::size_t taken = device_.tx_burst(now, std::span(burst_).subspan(first_, count_));
    PINION_ASSERT(taken <= count_);
    first_ += taken;
    count_ -= taken;
    sent += taken;
    if (count_ != 0) return sent;
  }
}

/// Lets connections decide what they send, and offers it to the devices. Answers how much was done.
std::size_t StackCore::serve(Instant now) noexcept {
  std::size_t done = 0;
  if (!host_->is_settled()) {
    host_->end_of_burst(now);
    ++done;
  }
  for (const std::unique_ptr<Port>& port : ports_) done += port->flush(now);
  if (done != 0) watch_packets(now);
  return done;
}

void StackCore::offer() noexcept {
  for (const std::unique_ptr<Port>& port : ports_) static_cast<void>(port->flush(loop_.now()));
}

std::size_t StackCore::poll(Instant now, std::size_t) {
  const std::size_t done = serve(now);
  return done + settle_late_reads();
}

std::size_t StackCore::settle_late_reads() noexcept {
  std::size_t done = 0;
  while (StackConnection* const connection = late_.pop_front()) {
    connection->settle_late_read();
    ++done;
  }
  return done;
}

ParkAnswer StackCore::prepare_park() {
  const auto waits = [](const std::unique_ptr<Port>& port) { return port->waits(); };
  const bool busy = !late_.empty() || !host_->is_settled() || std::ranges::any_of(ports_, waits);
  return busy ? ParkAnswer::refuse() : ParkAnswer::elsewhere();
}

std::uint64_t StackCore::partial_checksums() const noexcept {
  return host_->tcp().stats().faulty(wire::WireFault::tcp_checksum_partial) +
         host_->udp().counters().malformed[wire_fault_index(wire::WireFault::udp_checksum_partial)];
}

/// Tells it once: to whoever waits for an answer, nothing else would say why there is none.
void StackCore::watch_checksums() noexcept {
  if (partial_checksums() == 0) return;
  told_of_checksums_ = true;
  log_warn(
      "packets are dropped whose checksums their sender has left to a NIC: it is probably on this "
      "machine, behind a veth pair, where there is none; fix: ethtool -K veth1 tx off, for the "
      "interface at the sender's end, or trust_partial_checksums");
}

void StackCore::watch_packets(Instant now) noexcept {
  const std::size_t available = packets_.available();
  lowest_available_ = std::min(lowest_available_, available);
  const bool scarce = available < packets_.capacity() / kScarcePart;
  if (!scarce || relief_timer_.armed()) return;
  loop_.wheel().arm(relief_timer_, now);
}

void StackCore::ReliefTimer::fire(TimerEntry& entry) {
  static_cast<ReliefTimer&>(entry).core.relieve();
}

/// Until there is room again, resets the connection that has held some longest, if that is too
/// long: one in each tick. If its patience isn't at its end yet, it is looked at again then.
void StackCore::relieve() noexcept {
  if (packets_.available() >= packets_.capacity() / kEnoughPart) return;
  const Instant now = loop_.now();
  StackConnection* longest = nullptr;
  Instant since = kNever;
  StackConnection* const last = holding_.empty() ? nullptr : &holding_.back();
  for (std::size_t i = 0; i < kReliefBudget && !holding_.empty(); ++i) {
    StackConnection& connection = *holding_.pop_front();
    if (const std::optional<Instant> held = connection.holds_since(now)) {
      holding_.push_back(connection);
      if (*held < since) longest = &connection;
      since = std::min(since, *held);
    }
    if (&connection == last) break;
  }
  if (longest == nullptr) {
    // Those looked at hold none. Behind the last, packets are in chunks that are kept, or devices.
    if (!holding_.empty()) loop_.wheel().arm(relief_timer_, now);
    return;
  }
  if (saturating_add(since, kPatience) <= now) longest->give_way();
  loop_.wheel().arm(relief_timer_, std::max(saturating_add(since, kPatience), now));
}

/// What arrived before is still answered: reads that wait are told when the devices have been asked
/// once more.
void StackCore::on_drain() {
  if (draining_) return;
  draining_ = true;
  for (auto at = listeners_.begin(); at != listeners_.end();) (*at++).stop(StreamError::draining);
  for (auto at = all_.begin(); at != all_.end();) (*at++).drain();
}

void StackCore::on_drain_expired() {
  on_drain();
  for (auto at = all_.begin(); at != all_.end();) (*at++).end(StreamError::draining);
}

bool StackCore::drained() const {
  const auto waits = [](const std::unique_ptr<Port>& port) { return port->waits(); };
  return places_ == 0 && std::ranges::none_of(ports_, waits);
}

/// Resets what is left, and lets that go out.
void StackCore::shut_down() noexcept {
  loop_.remove_drainable(*this);
  draining_ = true;
  for (auto at = listeners_.begin(); at != listeners_.end();) (*at++).stop(StreamError::closed);
  for (auto at = all_.begin(); at != all_.end();) (*at++).transport_ends();
  static_cast<void>(serve(loop_.now()));
  loop_.wheel().cancel(relief_timer_);
  loop_.remove_poller(*this);
  ports_.clear();
  host_.reset();
  alive_ = false;
  end_if_unused();
}

/// Deletes the core once the transport is gone and nobody refers to it. The last thing its callers
/// do.
void StackCore::end_if_unused() noexcept {
  if (alive_ || connections_.live() != 0 || !listeners_.empty() || chunks_out_ != 0) return;
  delete this;
}

}  // namespace pinion::detail
