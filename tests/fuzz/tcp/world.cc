#include "world.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include <pinion/net/packet_copy.h>

#include "../byte_choices.h"

namespace pinion::test {
namespace {

constexpr std::uint16_t kHostPort = 7;
constexpr std::uint16_t kPeerPort = 1000;

IpAddress address_of(std::uint8_t last, bool v6) {
  if (!v6) return IpAddress::v4({192, 0, 2, last});
  return IpAddress::v6({0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last});
}

/// One for all worlds, which come one after the other: to make it takes longer than a world lives.
SlabPacketPool& pool_of_all() {
  static const auto pool = SlabPacketPool::create(
      {.packets = TcpWorld::kPackets, .views = TcpWorld::kPackets, .buffer_size = 2048});
  require(pool.has_value(), "there is a pool");
  return **pool;
}

}  // namespace

TcpWorld::TcpWorld(const TcpWorldOptions& options)
    : host_{address_of(1, options.v6), kHostPort},
      peer_{address_of(2, options.v6), kPeerPort},
      socket_(options.socket),
      now_(options.start),
      pool_(pool_of_all()),
      wheel_(now_),
      watch_({.host = host_,
              .peer = peer_,
              .mtu = options.mtu,
              .time_wait = options.config.time_wait,
              .patience = options.config.retransmission_limit}),
      patience_(options.config.retransmission_limit) {
  const HostOptions host_options{
      .ip = {.neighbours = {.capacity = 8, .held_packets = 8},
             .reassembly = {.datagrams = 2, .bytes = 8192, .fragments = 128},
             .path_mtus = 8},
      .tcp = options.config};
  auto made = Host::create(host_options,
                           {.wheel = wheel_,
                            .packets = pool_,
                            .small_packets = pool_,
                            .max_segments = options.max_segments},
                           options.seed, now_);
  if (!made) stop("a host can be made: " + to_string(made.error()));
  stack_ = std::move(*made);
  const std::array addresses{
      IpPrefix{host_.address, static_cast<std::uint8_t>(options.v6 ? 64 : 24)}};
  const bool added = stack_->ip()
                         .add_interface({.link = LinkKind::ip,
                                         .mtu = options.mtu,
                                         .max_segments = options.max_segments,
                                         .addresses = addresses},
                                        now_)
                         .has_value();
  require(added, "an interface can be added");
  if (options.listens) listen();
}

TcpWorld::~TcpWorld() {
  hoard_.clear();
  if (const std::string fault = wheel_.check(); !fault.empty()) stop("the wheel: " + fault);
  stack_.reset();
  require(pool_.live() == 0, "every packet comes back");
}

// ---------------------------------------------------------------------------------------------
// Moves

std::optional<TcpInfo> TcpWorld::info() {
  return handle_ ? stack_->tcp().info(handle_) : std::nullopt;
}

template <class Act>
void TcpWorld::move(Move move, const Act& act) {
  watch_.begin(move, info(), now_);
  act();
  watch_.acted(info());
  take_what_leaves();
  watch_.end();
}

void TcpWorld::take_what_leaves() {
  const TcpStats& stats = stack_->tcp().stats();
  const bool lost = stats.out_of_packets != 0 || stack_->ip().counters().out_no_packet != 0 ||
                    stack_->ip().counters().tx_queue_full != 0;
  if (lost) watch_.loses_packets();
  std::array<Packet*, 64> burst{};
  while (const std::size_t count = stack_->take(0, burst)) {
    for (std::size_t i = 0; i < count; ++i) {
      const PacketPtr packet(burst[i]);
      PacketBytes bytes(packet->chain_size());
      copy_out(*packet, 0, bytes);
      watch_.leaves(bytes);
    }
  }
}

/// Until nothing is left to be told or sent.
void TcpWorld::settle() {
  constexpr int kMostRounds = 8;
  for (int round = 0; round == 0 || !stack_->is_settled(); ++round) {
    require(round < kMostRounds, "what follows from a move comes to an end");
    move(Move::burst_end, [&] { stack_->end_of_burst(now_); });
  }
  watch_.check_deadlines(stack_->tcp(), wheel_.next_expiry());
}

PacketPtr TcpWorld::packet_of(std::span<const std::byte> bytes, std::size_t piece) {
  PacketPtr first(pool_.allocate());
  Packet* last = first.get();
  while (last != nullptr && !bytes.empty()) {
    if (last->tailroom() == 0 || last->size() >= piece) {
      Packet* const more = pool_.allocate();
      if (more == nullptr) return {};
      last->set_next_segment(more);
      last = more;
    }
    const std::size_t part = std::min({bytes.size(), last->tailroom(), piece - last->size()});
    std::memcpy(last->append(part), bytes.data(), part);
    bytes = bytes.subspan(part);
  }
  return first;
}

void TcpWorld::receive(std::span<const PacketBytes> packets, std::size_t piece) {
  for (const PacketBytes& bytes : packets) {
    PacketPtr packet = packet_of(bytes, piece);
    if (!packet) continue;  // Its device has none for it.
    move(Move::segment, [&] {
      watch_.arrives(bytes);
      Packet* const burst = packet.take();
      stack_->receive(0, {&burst, 1}, now_);
    });
  }
  settle();
}

void TcpWorld::complain(const PacketBytes& bytes) {
  PacketPtr packet = packet_of(bytes, SIZE_MAX);
  if (!packet) return;
  move(Move::complaint, [&] {
    Packet* const burst = packet.take();
    stack_->receive(0, {&burst, 1}, now_);
  });
  settle();
}

void TcpWorld::pass(Delay time, int most) {
  const Instant end = now_ + time;
  for (; most != 0 && wheel_.next_expiry() <= end; --most) pass_to_deadline();
  if (wheel_.next_expiry() <= end) return;
  now_ = end;
  move(Move::time, [&] { wheel_.advance(now_); });
  settle();
}

void TcpWorld::pass_to_deadline() {
  const Instant due = wheel_.next_expiry();
  if (due == kNever) return;
  require(due > now_, "deadlines lie ahead");
  now_ = due;
  move(Move::time, [&] { wheel_.advance(now_); });
  settle();
}

void TcpWorld::check_idle() const {
  const std::size_t ours = handle_ ? 1 : 0;
  if (stack_->tcp().connections() != ours || !hoard_.empty()) return;
  require(pool_.live() == 0, "an idle host holds no packet");
}

void TcpWorld::hoard(std::size_t left) {
  while (!hoard_.empty() && pool_.available() < left) hoard_.pop_back();
  while (pool_.available() > left) hoard_.emplace_back(pool_.allocate());
}

// ---------------------------------------------------------------------------------------------
// The user's calls

void TcpWorld::connect() {
  if (handle_) return;
  move(Move::call, [&] {
    const auto made = stack_->tcp().connect(
        {.remote = peer_, .local_address = {}, .local_port = kHostPort, .options = socket_}, this,
        now_);
    if (!made) return;
    handle_ = *made;
    over_ = false;
    to_write_ = 0;
    watch_.connects(*info());
  });
  settle();
}

void TcpWorld::listen() {
  const auto made = stack_->tcp().listen(host_, {.socket = socket_, .backlog = 2}, this);
  if (made) listener_ = *made;
}

void TcpWorld::stop_listening() {
  move(Move::call, [&] { stack_->tcp().close(listener_, now_); });
  settle();
}

void TcpWorld::accept() {
  if (handle_) return;
  move(Move::call, [&] { accept_first(); });
  settle();
}

void TcpWorld::write(std::size_t size) {
  to_write_ = size;
  move(Move::call, [&] { write_rest(); });
  settle();
}

void TcpWorld::write_more() {
  move(Move::call, [&] { write_rest(); });
  settle();
}

void TcpWorld::write_rest() {
  while (to_write_ != 0 && watch_.connection()) {
    std::array<std::byte, 4096> bytes{};
    const std::size_t size = std::min(to_write_, bytes.size());
    for (std::size_t i = 0; i < size; ++i) {
      bytes[i] = written_byte(watch_.connection()->written + i);
    }
    const TcpTransferred done = stack_->tcp().write(handle_, std::span(bytes).first(size), now_);
    require(
        done.outcome == TcpOutcome::done || done.outcome == TcpOutcome::again || done.bytes == 0,
        "a write that fails takes nothing");
    if (done.bytes != 0) watch_.writes(done.bytes);
    to_write_ -= done.bytes;
    if (done.outcome != TcpOutcome::done) {
      if (done.outcome != TcpOutcome::again) to_write_ = 0;
      return;
    }
  }
}

void TcpWorld::write_packet(std::size_t size) {
  if (!watch_.connection()) return;
  PacketBytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) {
    bytes[i] = written_byte(watch_.connection()->written + i);
  }
  PacketPtr packet = packet_of(bytes, SIZE_MAX);
  if (!packet) return;
  move(Move::call, [&] {
    const TcpTransferred done = stack_->tcp().write(handle_, packet, now_);
    const std::size_t left = packet ? packet->chain_size() : 0;
    require(done.bytes + left == size, "what a write leaves is what it hasn't taken");
    if (done.bytes != 0) watch_.writes(done.bytes);
  });
  packet.reset();
  settle();
}

void TcpWorld::read_some(std::size_t most, TcpOutcome& outcome) {
  std::array<std::byte, 8192> buffer;
  const auto bytes = std::span(buffer).first(std::min(most, buffer.size()));
  const TcpTransferred done = stack_->tcp().read(handle_, bytes, now_);
  outcome = done.outcome;
  require((outcome == TcpOutcome::done) == (done.bytes != 0), "a read that is done has bytes");
  if (done.bytes != 0) watch_.reads(bytes.first(done.bytes));
  if (outcome == TcpOutcome::finished) watch_.reads_end();
}

void TcpWorld::read_all() {
  TcpOutcome outcome = TcpOutcome::done;
  while (outcome == TcpOutcome::done) read_some(8192, outcome);
  if (outcome == TcpOutcome::finished && habits.closes_at_end) {
    watch_.shuts_down(true);
    stack_->tcp().close(handle_, now_);
  }
}

void TcpWorld::read(std::size_t most) {
  if (!handle_) return check_stale();
  if (most == 0) return;
  TcpOutcome outcome = TcpOutcome::done;
  move(Move::call, [&] { read_some(most, outcome); });
  settle();
}

void TcpWorld::read_to_end() {
  if (!handle_) return check_stale();
  move(Move::call, [&] { read_all(); });
  settle();
}

void TcpWorld::take() {
  if (!handle_) return check_stale();
  move(Move::call, [&] {
    PacketPtr packet;
    const TcpOutcome outcome = stack_->tcp().take(handle_, packet, now_);
    require((outcome == TcpOutcome::done) == static_cast<bool>(packet),
            "a take that is done has bytes");
    if (outcome == TcpOutcome::finished) watch_.reads_end();
    if (!packet) return;
    PacketBytes bytes(packet->chain_size());
    copy_out(*packet, 0, bytes);
    require(!bytes.empty(), "a packet that was taken isn't empty");
    watch_.reads(bytes);
  });
  settle();
}

void TcpWorld::shutdown() {
  move(Move::call, [&] {
    watch_.shuts_down(false);
    stack_->tcp().shutdown_write(handle_, now_);
  });
  settle();
}

void TcpWorld::close() {
  move(Move::call, [&] {
    watch_.shuts_down(true);
    stack_->tcp().close(handle_, now_);
    if (over_) let_go();
  });
  settle();
}

void TcpWorld::abort() {
  move(Move::call, [&] {
    watch_.aborts();
    stack_->tcp().abort(handle_, now_);
    if (over_) let_go();
  });
  settle();
}

void TcpWorld::bury() {
  if (handle_ && over_) close();
}

/// The handle names nothing any more.
void TcpWorld::let_go() {
  stale_ = std::exchange(handle_, TcpHandle{});
  watch_.forgets();
}

void TcpWorld::check_stale() {
  if (!stale_) return;
  std::array<std::byte, 16> bytes{};
  require(stack_->tcp().read(stale_, bytes, now_).outcome == TcpOutcome::gone &&
              !stack_->tcp().info(stale_),
          "a handle of what is gone names nothing");
}

void TcpWorld::set_no_delay(bool no_delay) {
  move(Move::call, [&] { stack_->tcp().set_no_delay(handle_, no_delay, now_); });
  settle();
}

void TcpWorld::set_keepalive(const TcpKeepalive& keepalive) {
  stack_->tcp().set_keepalive(handle_, keepalive, now_);
}

void TcpWorld::set_user_timeout(Delay timeout) {
  if (!handle_) return;
  stack_->tcp().set_user_timeout(handle_, timeout);
  watch_.sets_patience(timeout <= Delay{} || timeout == kNoTimeout ? patience_ : timeout);
}

void TcpWorld::set_deadlines(Delay read, Delay write) {
  stack_->tcp().set_read_deadline(handle_, now_ + read, now_);
  stack_->tcp().set_write_deadline(handle_, now_ + write, now_);
}

void TcpWorld::set_traffic_class(std::uint8_t traffic_class) {
  stack_->tcp().set_traffic_class(handle_, traffic_class);
}

// ---------------------------------------------------------------------------------------------
// What the user is told

void TcpWorld::on_connected(TcpHandle connection, Instant /*now*/) noexcept {
  require(connection == handle_, "events are of the user's connection");
  watch_.is_told_connected();
}

void TcpWorld::on_readable(TcpHandle connection, Instant /*now*/) noexcept {
  require(connection == handle_ && !over_, "events are of the user's connection");
  if (habits.reads) read_all();
}

void TcpWorld::on_writable(TcpHandle connection, Instant /*now*/) noexcept {
  require(connection == handle_ && !over_, "events are of the user's connection");
  if (habits.writes) write_rest();
}

void TcpWorld::on_read_deadline(TcpHandle connection, Instant /*now*/) noexcept {
  require(connection == handle_ && !over_, "events are of the user's connection");
}

void TcpWorld::on_write_deadline(TcpHandle connection, Instant /*now*/) noexcept {
  require(connection == handle_ && !over_, "events are of the user's connection");
}

void TcpWorld::on_closed(TcpHandle connection, TcpEnd why, Instant /*now*/) noexcept {
  require(connection == handle_ && !over_, "events are of the user's connection");
  watch_.is_told_closed(why);
  over_ = true;
  if (watch_.connection()->released) return let_go();
  if (habits.reads) read_all();
  if (habits.keeps_the_dead && !watch_.connection()->released) return;
  stack_->tcp().close(handle_, now_);
  let_go();
}

void TcpWorld::on_acceptable(TcpListenerHandle listener, Instant /*now*/) noexcept {
  require(listener == listener_, "events are of the user's listener");
  if (habits.accepts && !handle_) accept_first();
}

/// The peer's connection. Those from other ports have no user.
void TcpWorld::accept_first() {
  Tcp& tcp = stack_->tcp();
  while (const TcpHandle accepted = tcp.accept(listener_, nullptr)) {
    const std::optional<TcpInfo> info = tcp.info(accepted);
    require(info.has_value(), "what is accepted is there");
    if (info->remote != peer_) {
      tcp.close(accepted, now_);
      continue;
    }
    tcp.set_observer(accepted, this);
    handle_ = accepted;
    over_ = false;
    to_write_ = 0;
    watch_.accepts(*info);
    return;
  }
}

}  // namespace pinion::test
