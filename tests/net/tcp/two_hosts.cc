#include "two_hosts.h"

#include <algorithm>
#include <utility>

#include <gtest/gtest.h>
#include <pinion/net/packet_copy.h>

#include "stack/ip_kinds.h"
#include "wire/tcp_checksum.h"
#include "wire/tcp_emitter.h"

namespace pinion::test {
namespace {

IpAddress address_of(int host, bool v6) {
  const auto last = static_cast<std::uint8_t>(host + 1);
  if (!v6) return IpAddress::v4({192, 0, 2, last});
  return IpAddress::v6({0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last});
}

}  // namespace

std::byte stream_byte(std::uint64_t offset) {
  return static_cast<std::byte>((offset * 0x9e3779b97f4a7c15U) >> 56);
}

std::vector<std::byte> stream_bytes(std::uint64_t offset, std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = stream_byte(offset + i);
  return bytes;
}

class TwoHosts::Host final : public IpLayer {
 public:
  Host(TwoHosts& its_world, int its_number)
      : world(its_world), number(its_number), mtu(its_world.options_.mtu), wheel(its_world.now_) {
    Result<std::unique_ptr<Tcp>> made =
        Tcp::create(world.options_.config,
                    {.ip = *this,
                     .wheel = wheel,
                     .packets = *world.pool_,
                     .small_packets = *world.pool_,
                     .max_segments = 8},
                    world.options_.seed + static_cast<std::uint64_t>(number), world.now_);
    PINION_ASSERT(made);
    tcp = std::move(*made);
  }

  void send(PacketPtr packet, const IpDeparture& how, Instant) noexcept override {
    if (packet->chain_size() + (how.source.is_v4() ? 20 : 40) > mtu) return;
    world.put_on_line(number, std::move(packet), how);
  }
  std::size_t path_mtu(const IpAddress&, const IpAddress&) const noexcept override { return mtu; }
  std::size_t link_mtu(const IpAddress&, const IpAddress&) const noexcept override {
    return world.options_.mtu;
  }
  void learn_path_mtu(const IpAddress&, const IpAddress&, std::size_t learnt,
                      Instant) noexcept override {
    mtu = std::min(mtu, learnt);
    tcp->paths_shrank();
  }
  std::optional<IpAddress> source_for(const IpAddress& destination) const noexcept override {
    if (destination.is_v6() != world.options_.v6) return {};
    return address_of(number, world.options_.v6);
  }
  bool is_local(const IpAddress& address) const noexcept override {
    return address == address_of(number, world.options_.v6);
  }
  bool is_unicast(const IpAddress& address) const noexcept override {
    return !is_never_a_host(address);
  }
  void confirm_reachable(const IpAddress&, const IpAddress&, Instant) noexcept override {}
  void suspect(const IpAddress&, const IpAddress&, Instant) noexcept override {}

  TwoHosts& world;
  int number;
  std::size_t mtu;
  TimingWheel wheel;
  std::unique_ptr<Tcp> tcp;
};

TwoHosts::TwoHosts(const TwoHostsOptions& options) : options_(options), random_(options.seed) {
  auto pool = SlabPacketPool::create(options.pool);
  PINION_ASSERT(pool);
  pool_ = std::move(*pool);
  for (int number = 0; number < 2; ++number)
    hosts_.push_back(std::make_unique<Host>(*this, number));
}

TwoHosts::~TwoHosts() {
  line_.clear();
  hosts_.clear();
  EXPECT_EQ(pool_->live(), 0U);
}

Tcp& TwoHosts::tcp(int host) {
  return *hosts_[static_cast<std::size_t>(host)]->tcp;
}

Endpoint TwoHosts::endpoint(int host, std::uint16_t port) const {
  return {address_of(host, options_.v6), port};
}

void TwoHosts::put_on_line(int from, PacketPtr packet, const IpDeparture& how) {
  PacketPtr copy = copy_packet(*packet, *pool_);
  packet.reset();
  PINION_ASSERT(copy);
  EXPECT_TRUE(wire::tcp_checksum_good(*copy, copy->chain_size(), how.source, how.destination));
  const auto segment = wire::parse_tcp(std::as_const(*copy).bytes());
  PINION_ASSERT(segment);
  const LineSegment line{.from = from,
                         .segment = *segment,
                         .size = copy->chain_size() - segment->header.size(),
                         .traffic_class = how.traffic_class};
  EXPECT_LE(copy->chain_size() + (how.source.is_v4() ? 20 : 40), options_.mtu);
  if (recording) sent.push_back(line);
  if (!passes(line)) return;
  fly(from, std::move(copy), {.source = how.source, .destination = how.destination});
}

void TwoHosts::fly(int from, PacketPtr packet, const IpArrival& arrival) {
  const auto extra = random_.below(static_cast<std::uint64_t>(options_.jitter.count()) + 1);
  const Instant arrives =
      now_ + options_.latency + Delay(std::chrono::nanoseconds{static_cast<std::int64_t>(extra)});
  const auto place =
      std::upper_bound(line_.begin(), line_.end(), arrives,
                       [](Instant time, const Flying& flying) { return time < flying.arrives; });
  line_.insert(
      place, {.arrives = arrives, .to = 1 - from, .packet = std::move(packet), .arrival = arrival});
}

void TwoHosts::forge(int from, const wire::TcpHeader& header, const wire::TcpOptions& options,
                     std::span<const std::byte> data) {
  PacketPtr packet(pool_->allocate());
  const std::size_t size = wire::kTcpHeaderSize + wire::tcp_options_size(options);
  wire::emit_tcp({packet->append(size), size}, header, options);
  if (!data.empty()) std::copy(data.begin(), data.end(), packet->append(data.size()));
  const IpAddress source = address_of(from, options_.v6);
  const IpAddress destination = address_of(1 - from, options_.v6);
  wire::store_tcp_checksum(*packet, packet->size(), source, destination);
  fly(from, std::move(packet), {.source = source, .destination = destination});
}

Instant TwoHosts::next_event() const {
  Instant next = line_.empty() ? kNever : line_.front().arrives;
  for (const auto& host : hosts_) next = std::min(next, host->wheel.next_expiry());
  return next;
}

void TwoHosts::deliver() {
  bool burst[2] = {false, false};
  while (!line_.empty() && line_.front().arrives <= now_) {
    Flying flying = std::move(line_.front());
    line_.pop_front();
    burst[flying.to] = true;
    tcp(flying.to).receive(std::move(flying.packet), flying.arrival, now_);
  }
  if (wheels_first) {
    for (const auto& host : hosts_) host->wheel.advance(now_);
  }
  for (int host = 0; host < 2; ++host) {
    if (burst[host] || !tcp(host).is_settled()) tcp(host).end_of_burst(now_);
  }
}

void TwoHosts::step(Instant to) {
  now_ = std::max(now_, to);
  deliver();
  for (const auto& host : hosts_) host->wheel.advance(now_);
  deliver();
}

void TwoHosts::run_for(Delay time) {
  const Instant end = now_ + time;
  step(now_);
  while (next_event() <= end) step(next_event());
  step(end);
}

bool TwoHosts::run_until(const std::function<bool()>& holds, Delay limit) {
  const Instant end = now_ + limit;
  step(now_);
  while (!holds() && next_event() <= end) step(next_event());
  return holds();
}

void TestSocket::on_connected(TcpHandle connection, Instant) noexcept {
  EXPECT_EQ(connection, handle);
  ++connected;
}

void TestSocket::on_readable(TcpHandle connection, Instant now) noexcept {
  EXPECT_EQ(connection, handle);
  ++readable;
  if (reads) read_all(now);
  if (when_readable) when_readable(now);
}

void TestSocket::read_all(Instant now) {
  while (read_piece(now)) {
  }
}

bool TestSocket::read_piece(Instant now) {
  std::byte buffer[4096];
  const TcpTransferred got = tcp_->read(handle, buffer, now);
  for (std::size_t i = 0; i < got.bytes; ++i) {
    if (buffer[i] != stream_byte(received++)) garbled = true;
  }
  if (got.outcome == TcpOutcome::finished) {
    finished = true;
    if (closes_at_end) tcp_->close(handle, now);
  }
  return got.outcome == TcpOutcome::done;
}

void TestSocket::on_writable(TcpHandle connection, Instant now) noexcept {
  EXPECT_EQ(connection, handle);
  ++writable;
  write_up_to(write_goal, now);
}

void TestSocket::write_up_to(std::uint64_t total, Instant now) {
  write_goal = total;
  while (written < write_goal) {
    const std::vector<std::byte> bytes =
        stream_bytes(written, std::min<std::uint64_t>(write_goal - written, 10'000));
    const TcpTransferred sent = tcp_->write(handle, bytes, now);
    written += sent.bytes;
    if (sent.outcome != TcpOutcome::done) return;
  }
}

void TestSocket::on_read_deadline(TcpHandle, Instant) noexcept {
  ++read_deadlines;
}

void TestSocket::on_write_deadline(TcpHandle, Instant) noexcept {
  ++write_deadlines;
}

void TestSocket::on_closed(TcpHandle connection, TcpEnd why, Instant now) noexcept {
  EXPECT_EQ(connection, handle);
  ++closed;
  end = why;
  if (reads) read_all(now);
}

bool TestSocket::received_stream(std::uint64_t size) const {
  return received == size && !garbled;
}

TestPair::TestPair(TwoHosts& its_world, const TcpSocketOptions& client_options,
                   const TcpListenOptions& listen_options)
    : world(its_world), client(its_world.tcp(0)), server(its_world.tcp(1)) {
  const auto made = world.tcp(1).listen(world.endpoint(1, 7), listen_options, nullptr);
  PINION_ASSERT(made);
  listener = *made;
  const auto connected = world.tcp(0).connect(
      {.remote = world.endpoint(1, 7), .options = client_options}, &client, world.now());
  PINION_ASSERT(connected);
  client.handle = *connected;
  world.run_until([&] { return client.connected != 0; }, std::chrono::seconds{10});
  world.run_until(
      [&] {
        if (!server.handle) server.handle = world.tcp(1).accept(listener, &server);
        return bool{server.handle};
      },
      std::chrono::seconds{10});
  EXPECT_TRUE(bool{server.handle});
}

void TestPair::close_both() {
  world.tcp(0).close(client.handle, world.now());
  world.tcp(1).close(server.handle, world.now());
  world.run_for(std::chrono::seconds{1});
}

}  // namespace pinion::test
