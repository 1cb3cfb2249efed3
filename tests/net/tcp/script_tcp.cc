#include "script_tcp.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <utility>

#include <gtest/gtest.h>

#include "../script/segment.h"
#include "wire/byte_order.h"

namespace pinion::test {
namespace {

constexpr std::uint64_t kSeed = 0x5eed;

std::uint64_t number(std::span<const std::string> arguments, std::size_t at) {
  return at < arguments.size() ? std::stoull(arguments[at]) : 0;
}

Delay milliseconds(std::span<const std::string> arguments, std::size_t at) {
  return std::chrono::milliseconds{number(arguments, at)};
}

std::string name_of(TcpOutcome outcome) {
  switch (outcome) {
    case TcpOutcome::done:
      return "done";
    case TcpOutcome::again:
      return "again";
    case TcpOutcome::finished:
      return "finished";
    case TcpOutcome::closed:
      return "closed";
    case TcpOutcome::gone:
      return "gone";
  }
  return "unknown";
}

std::string name_of(TcpState state) {
  constexpr std::array kNames = {"syn_sent",   "syn_received", "established",
                                 "fin_wait_1", "fin_wait_2",   "close_wait",
                                 "closing",    "last_ack",     "over"};
  return kNames[static_cast<std::size_t>(state)];
}

std::string name_of(TcpConnectError error) {
  constexpr std::array kNames = {"unreachable", "address_used", "no_ports", "no_resources"};
  return kNames[static_cast<std::size_t>(error)];
}

}  // namespace

namespace detail {

ScriptPool::ScriptPool(const ScriptTcpOptions& options) {
  auto made = SlabPacketPool::create(options.pool);
  PINION_ASSERT(made);
  pool = std::move(*made);
  if (!options.small_pool) return;
  auto small = SlabPacketPool::create(*options.small_pool);
  PINION_ASSERT(small);
  small_pool = std::move(*small);
}

ScriptPool::~ScriptPool() {
  EXPECT_EQ(pool->live(), 0U) << "packets that were not returned";
  EXPECT_EQ(small_pool ? small_pool->live() : 0, 0U) << "small ones";
}

}  // namespace detail

ScriptTcp::ScriptTcp(const ScriptTcpOptions& options)
    : ScriptPool(options),
      TransportWorld(*ScriptPool::pool, options.v6, options.mtu),
      options_(options) {
  auto made = Tcp::create(options.config,
                          {.ip = ip(),
                           .wheel = wheel(),
                           .packets = *ScriptPool::pool,
                           .small_packets = *(small_pool ? small_pool : ScriptPool::pool),
                           .max_segments = 8},
                          kSeed, now());
  PINION_ASSERT(made);
  tcp_ = std::move(*made);
  if (options.listens) static_cast<void>(listen({}));
}

ScriptTcp::~ScriptTcp() {
  tcp_.reset();
}

const std::map<std::string, ScriptTcp::Call, std::less<>>& ScriptTcp::calls() {
  static const std::map<std::string, Call, std::less<>> kCalls = {
      {"connect", &ScriptTcp::connect},
      {"listen", &ScriptTcp::listen},
      {"unlisten", &ScriptTcp::unlisten},
      {"accept", &ScriptTcp::accept},
      {"write", &ScriptTcp::write},
      {"read", &ScriptTcp::read},
      {"reading", &ScriptTcp::reading},
      {"shutdown", &ScriptTcp::shutdown},
      {"close", &ScriptTcp::close},
      {"abort", &ScriptTcp::abort},
      {"no_delay", &ScriptTcp::no_delay},
      {"keepalive", &ScriptTcp::keepalive},
      {"user_timeout", &ScriptTcp::user_timeout},
      {"read_deadline", &ScriptTcp::read_deadline},
      {"stall", &ScriptTcp::stall},
      {"complain", &ScriptTcp::complain},
      {"state", &ScriptTcp::state},
      {"events", &ScriptTcp::events},
      {"dropped", &ScriptTcp::dropped},
      {"leave", &ScriptTcp::leave},
      {"count", &ScriptTcp::count},
  };
  return kCalls;
}

std::string ScriptTcp::call(std::string_view name, std::span<const std::string> arguments) {
  const auto found = calls().find(name);
  if (found == calls().end()) return "no such call";
  std::string answer = (this->*found->second)(arguments);
  if (!tcp_->is_settled()) tcp_->end_of_burst(now());
  return answer;
}

void ScriptTcp::note(const std::string& event) {
  if (!events_.empty()) events_ += ' ';
  events_ += event;
}

void ScriptTcp::on_connected(TcpHandle, Instant) noexcept {
  note("connected");
}

void ScriptTcp::on_readable(TcpHandle, Instant) noexcept {
  note("readable");
  TcpOutcome outcome = TcpOutcome::done;
  while (reads_ && outcome == TcpOutcome::done) read_ += read_some(4096, outcome);
}

void ScriptTcp::on_writable(TcpHandle, Instant) noexcept {
  note("writable");
}

void ScriptTcp::on_read_deadline(TcpHandle, Instant) noexcept {
  note("read_deadline");
}

void ScriptTcp::on_write_deadline(TcpHandle, Instant) noexcept {
  note("write_deadline");
}

void ScriptTcp::on_closed(TcpHandle, TcpEnd why, Instant) noexcept {
  note("closed:" + std::string(to_string(why)));
}

void ScriptTcp::on_acceptable(TcpListenerHandle, Instant) noexcept {
  note("acceptable");
}

void ScriptTcp::start_connection(TcpHandle handle) {
  handle_ = handle;
  written_ = 0;
  read_ = 0;
  garbled_ = false;
}

std::string ScriptTcp::connect(std::span<const std::string> arguments) {
  const auto made = tcp_->connect({.remote = peer(),
                                   .local_address = {},
                                   .local_port = static_cast<std::uint16_t>(number(arguments, 0)),
                                   .options = options_.socket},
                                  this, now());
  if (!made) return name_of(made.error());
  start_connection(*made);
  return "in progress";
}

std::string ScriptTcp::listen(std::span<const std::string>) {
  const auto made =
      tcp_->listen(host(), {.socket = options_.socket, .backlog = options_.backlog}, this);
  if (!made) return to_string(made.error());
  listener_ = *made;
  return "";
}

std::string ScriptTcp::unlisten(std::span<const std::string>) {
  tcp_->close(listener_, now());
  return "";
}

std::string ScriptTcp::accept(std::span<const std::string>) {
  const TcpHandle accepted = tcp_->accept(listener_, this);
  if (!accepted) return "none";
  start_connection(accepted);
  return "accepted";
}

std::string ScriptTcp::write(std::span<const std::string> arguments) {
  std::vector<std::byte> bytes(number(arguments, 0));
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = pattern_byte(written_ + i);
  const TcpTransferred done = tcp_->write(handle_, bytes, now());
  if (done.outcome != TcpOutcome::done && done.outcome != TcpOutcome::again) {
    return name_of(done.outcome);
  }
  written_ += done.bytes;
  return std::to_string(done.bytes);
}

std::size_t ScriptTcp::read_some(std::size_t most, TcpOutcome& outcome) {
  std::vector<std::byte> bytes(most);
  const TcpTransferred done = tcp_->read(handle_, bytes, now());
  outcome = done.outcome;
  for (std::size_t i = 0; i < done.bytes; ++i) {
    garbled_ |= bytes[i] != pattern_byte(read_ + i);
  }
  return done.bytes;
}

std::string ScriptTcp::read(std::span<const std::string> arguments) {
  const std::size_t most = arguments.empty() ? 1'000'000 : number(arguments, 0);
  TcpOutcome outcome = TcpOutcome::done;
  const std::size_t got = read_some(most, outcome);
  read_ += got;
  if (garbled_) return "garbled";
  return outcome == TcpOutcome::done ? std::to_string(got) : name_of(outcome);
}

std::string ScriptTcp::reading(std::span<const std::string> arguments) {
  reads_ = arguments[0] == "on";
  return "";
}

std::string ScriptTcp::shutdown(std::span<const std::string>) {
  tcp_->shutdown_write(handle_, now());
  return "";
}

std::string ScriptTcp::close(std::span<const std::string>) {
  tcp_->close(handle_, now());
  return "";
}

std::string ScriptTcp::abort(std::span<const std::string>) {
  tcp_->abort(handle_, now());
  return "";
}

std::string ScriptTcp::no_delay(std::span<const std::string> arguments) {
  tcp_->set_no_delay(handle_, arguments[0] == "on", now());
  return "";
}

std::string ScriptTcp::keepalive(std::span<const std::string> arguments) {
  tcp_->set_keepalive(handle_,
                      {.idle = milliseconds(arguments, 0),
                       .interval = milliseconds(arguments, 1),
                       .probes = static_cast<int>(number(arguments, 2))},
                      now());
  return "";
}

std::string ScriptTcp::user_timeout(std::span<const std::string> arguments) {
  tcp_->set_user_timeout(handle_, milliseconds(arguments, 0));
  return "";
}

std::string ScriptTcp::read_deadline(std::span<const std::string> arguments) {
  tcp_->set_read_deadline(handle_, now() + milliseconds(arguments, 0), now());
  return "";
}

std::string ScriptTcp::stall(std::span<const std::string> arguments) {
  advance(std::chrono::ceil<std::chrono::milliseconds>(now() + milliseconds(arguments, 0)));
  return "";
}

std::string ScriptTcp::complain(std::span<const std::string> arguments) {
  const std::map<std::string, IpTrouble> troubles = {
      {"net", IpTrouble::net_unreachable},           {"host", IpTrouble::host_unreachable},
      {"protocol", IpTrouble::protocol_unreachable}, {"port", IpTrouble::port_unreachable},
      {"too_big", IpTrouble::packet_too_big},        {"exceeded", IpTrouble::time_exceeded},
  };
  const auto info = tcp_->info(handle_);
  if (!info) return "gone";
  std::array<std::byte, 8> quoted{};
  wire::store_be16(quoted.data(), info->local.port);
  wire::store_be16(quoted.data() + 2, info->remote.port);
  const auto offset = static_cast<std::uint32_t>(std::stoll(arguments[1]));
  wire::store_be32(quoted.data() + 4, (info->first_unacknowledged + offset).value());
  tcp_->complain({.trouble = troubles.at(arguments[0]),
                  .mtu = number(arguments, 2),
                  .source = info->local.address,
                  .destination = info->remote.address,
                  .quoted = quoted},
                 now());
  return "";
}

std::string ScriptTcp::state(std::span<const std::string>) {
  const auto info = tcp_->info(handle_);
  return info ? name_of(info->state) : "gone";
}

std::string ScriptTcp::events(std::span<const std::string>) {
  return std::exchange(events_, {});
}

std::string ScriptTcp::dropped(std::span<const std::string> arguments) {
  for (std::size_t i = 0; i < kTcpDrops; ++i) {
    const auto why = static_cast<TcpDrop>(i);
    if (to_string(why) == arguments[0]) return std::to_string(tcp_->stats().dropped(why));
  }
  for (std::size_t i = 0; i < wire::kWireFaults; ++i) {
    const auto why = static_cast<wire::WireFault>(i);
    if (to_string(why) == arguments[0]) return std::to_string(tcp_->stats().faulty(why));
  }
  return "no such reason";
}

std::string ScriptTcp::leave(std::span<const std::string> arguments) {
  hoard_.clear();
  if (arguments[0] == "all") return "";
  SlabPacketPool& packets = *ScriptPool::pool;
  while (packets.available() > number(arguments, 0)) hoard_.emplace_back(packets.allocate());
  return "";
}

std::string ScriptTcp::count(std::span<const std::string> arguments) {
  if (arguments[0] == "connections") return std::to_string(tcp_->connections());
  if (arguments[0] == "half_open") return std::to_string(tcp_->half_open());
  if (arguments[0] == "time_waits") return std::to_string(tcp_->time_waits());
  if (arguments[0] == "packets") return std::to_string(ScriptPool::pool->live());
  if (arguments[0] == "suspicions") return std::to_string(ip().suspicions());
  if (arguments[0] == "resets") return std::to_string(tcp_->stats().connections_reset);
  if (arguments[0] == "confirmations") return std::to_string(ip().confirmations());
  return "no such count";
}

}  // namespace pinion::test
