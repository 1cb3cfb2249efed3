#include <sys/random.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "../tcp/segment_size.h"
#include "sized.h"
#include "sockaddr.h"
#include "stack.h"

/// Stacks begin and end.

namespace pinion::c_abi {
namespace {

constexpr std::size_t kMostAddresses = Interface::kMostAddresses - 1;
constexpr std::uint32_t kMostObjects = std::uint32_t{1} << 20;
constexpr std::size_t kBuffer = 2048;

Result<> out_of_range(const char* name, std::uint64_t value, std::uint64_t least,
                      std::uint64_t most) {
  return fail(ErrorCode::invalid_argument, std::string(name) + " = " + std::to_string(value),
              std::string(name) + " from " + std::to_string(least) + " to " + std::to_string(most) +
                  ", or 0 for the default");
}

/// What has to lie in a range of its own, by the field's name; what isn't here the layers check.
Result<> check_ranges(const pinion_stack_options& o) {
  struct Range {
    const char* name;
    std::uint32_t value;
    std::uint32_t least;
    std::uint32_t most;
  };
  const Range ranges[] = {
      {"max_sockets", o.max_sockets, 1, kMostObjects},
      {"max_connections", o.max_connections, 1, kMostObjects},
      {"max_listeners", o.max_listeners, 1, 65'535},
      {"max_half_open", o.max_half_open, 1, 65'535},
      {"max_time_waits", o.max_time_waits, 1, kMostObjects},
      {"packets", o.packets, 64, kMostObjects},
      {"tx_queue", o.tx_queue, 1, kMostObjects},
      {"receive_buffer", o.receive_buffer, kLeastBuffer, kLargestBuffer},
      {"send_buffer", o.send_buffer, kLeastBuffer, kLargestBuffer},
  };
  for (const Range& range : ranges) {
    if (range.value == 0) continue;
    if (range.value < range.least || range.value > range.most) {
      return out_of_range(range.name, range.value, range.least, range.most);
    }
  }
  constexpr std::uint32_t kFlags = PINION_STACK_NO_TIMESTAMPS | PINION_STACK_NO_WINDOW_SCALE |
                                   PINION_STACK_NO_SACK | PINION_STACK_TRUST_PARTIAL_CHECKSUMS;
  if ((o.flags & ~kFlags) != 0) return out_of_range("flags", o.flags, 0, kFlags);
  if (o.start_ns >= kTimeLimit) return out_of_range("start_ns", o.start_ns, 0, kTimeLimit - 1);
  if (o.address_count > kMostAddresses) {
    return out_of_range("address_count", o.address_count, 0, kMostAddresses);
  }
  return {};
}

template <class To, class From>
void set_unless_zero(To& to, From value) noexcept {
  if (value != 0) to = static_cast<To>(value);
}

void set_unless_zero(Delay& to, std::uint32_t milliseconds) noexcept {
  if (milliseconds != 0) to = std::chrono::milliseconds{milliseconds};
}

TcpConfig tcp_config(const pinion_stack_options& o) noexcept {
  TcpConfig config{.max_listeners = 64};
  set_unless_zero(config.max_connections, o.max_connections);
  set_unless_zero(config.max_listeners, o.max_listeners);
  set_unless_zero(config.max_half_open, o.max_half_open);
  set_unless_zero(config.max_time_waits, o.max_time_waits);
  config.max_reordering = std::min<std::size_t>(config.max_reordering, config.max_connections);
  config.timestamps = (o.flags & PINION_STACK_NO_TIMESTAMPS) == 0;
  config.window_scale = (o.flags & PINION_STACK_NO_WINDOW_SCALE) == 0;
  config.sack = (o.flags & PINION_STACK_NO_SACK) == 0;
  config.trust_partial_checksums = (o.flags & PINION_STACK_TRUST_PARTIAL_CHECKSUMS) != 0;
  set_unless_zero(config.delayed_ack, o.delayed_ack_ms);
  set_unless_zero(config.rto_min, o.rto_min_ms);
  set_unless_zero(config.rto_max, o.rto_max_ms);
  set_unless_zero(config.retransmission_limit, o.retransmission_limit_ms);
  set_unless_zero(config.connect_limit, o.connect_limit_ms);
  set_unless_zero(config.time_wait, o.time_wait_ms);
  set_unless_zero(config.fin_wait_2, o.fin_wait_2_ms);
  set_unless_zero(config.linger, o.linger_ms);
  set_unless_zero(config.first_ephemeral_port, o.first_port);
  set_unless_zero(config.last_ephemeral_port, o.last_port);
  return config;
}

StackOptions stack_options(const pinion_stack_options& o) noexcept {
  StackOptions options;
  options.host.tcp = tcp_config(o);
  options.host.udp.trust_partial_checksums = options.host.tcp.trust_partial_checksums;
  set_unless_zero(options.pool.packets, o.packets);
  options.pool.views = options.pool.packets;
  options.pool.buffer_size = kBuffer;
  options.interface.link = LinkKind::ip;
  set_unless_zero(options.interface.mtu, o.mtu);
  set_unless_zero(options.interface.tx_queue, o.tx_queue);
  options.sockets.receive_buffer = TcpSocketOptions{}.receive_buffer;
  options.sockets.send_buffer = TcpSocketOptions{}.send_buffer;
  set_unless_zero(options.sockets.receive_buffer, o.receive_buffer);
  set_unless_zero(options.sockets.send_buffer, o.send_buffer);
  options.max_sockets = 1'024;
  set_unless_zero(options.max_sockets, o.max_sockets);
  options.start = Instant{std::chrono::nanoseconds{static_cast<std::int64_t>(o.start_ns)}};
  options.seed = o.seed;
  return options;
}

/// The caller's addresses: structs of one size, one after the other.
int read_addresses(const pinion_stack_options& o, std::vector<IpPrefix>& into) {
  if (o.address_count == 0) return 0;
  if (o.addresses == nullptr) return -EFAULT;
  const auto* at = reinterpret_cast<const char*>(o.addresses);
  std::size_t stride = 0;
  std::memcpy(&stride, at, sizeof(stride));
  for (std::size_t i = 0; i < o.address_count; ++i, at += stride) {
    pinion_stack_address own{};
    const auto* const given = reinterpret_cast<const pinion_stack_address*>(at);
    if (const int error = read_sized(given, sizeof(own), own); error != 0) return error;
    Endpoint endpoint;
    if (const int error = read_sockaddr(own.address, own.address_size, endpoint); error != 0) {
      return error;
    }
    if (own.prefix_length > 128) return -EINVAL;
    into.push_back(
        {.address = endpoint.address, .length = static_cast<std::uint8_t>(own.prefix_length)});
  }
  return 0;
}

int errno_of(const Error& error) noexcept {
  switch (error.code) {
    case ErrorCode::resource_exhausted:
      return ENOMEM;
    case ErrorCode::already_exists:
      return EEXIST;
    case ErrorCode::unavailable:
    case ErrorCode::not_found:
      return EADDRNOTAVAIL;
    default:
      return EINVAL;
  }
}

void say(const pinion_stack_options& o, const std::string& text) noexcept {
  if (o.message == nullptr || o.message_size == 0) return;
  const std::size_t size = std::min(text.size(), o.message_size - 1);
  std::memcpy(o.message, text.data(), size);
  o.message[size] = '\0';
}

int refuse(const pinion_stack_options& o, const Error& error) {
  say(o, to_string(error));
  return -errno_of(error);
}

/// The layers below take their memory piece by piece and end the process when there is none; so it
/// is asked for once in one piece before.
bool has_memory(const StackOptions& options) noexcept {
  constexpr std::size_t kOfPacket = 128;  // Its own line, its view's and its place in a queue.
  constexpr std::size_t kOfConnection = 1'024;  // The record, tables, queues, TIME-WAIT.
  constexpr std::size_t kOfAll = std::size_t{4} << 20;
  const TcpConfig& tcp = options.host.tcp;
  const std::size_t size =
      options.pool.packets * (kBuffer + kOfPacket) +
      (tcp.max_connections + tcp.max_half_open + tcp.max_time_waits) * kOfConnection +
      options.max_sockets * sizeof(Socket) + kOfAll;
  void* const probe = ::operator new(size, std::nothrow);
  ::operator delete(probe, std::nothrow);
  return probe != nullptr;
}

int create(const pinion_stack_options& o, pinion_stack** stack) {
  if (Result<> good = check_ranges(o); !good) return refuse(o, good.error());
  std::vector<IpPrefix> addresses;
  if (const int error = read_addresses(o, addresses); error != 0) {
    say(o, "error: an address is no struct sockaddr_in or sockaddr_in6, or has a wrong size");
    return error;
  }
  StackOptions options = stack_options(o);
  options.interface.addresses = addresses;
  if (options.seed == 0 &&
      ::getrandom(&options.seed, sizeof(options.seed), 0) != sizeof(options.seed)) {
    say(o, "error: the system gives no random numbers\nfix: set seed");
    return -EIO;
  }
  if (!has_memory(options)) {
    say(o, "error: no memory for the stack\nfix: smaller packets, max_connections or max_sockets");
    return -ENOMEM;
  }
  auto pool = SlabPacketPool::create(options.pool);
  if (!pool) return refuse(o, pool.error());
  auto made = std::make_unique<pinion_stack>(std::move(*pool), options);
  if (Result<> ready = made->set_up(options); !ready) return refuse(o, ready.error());
  *stack = made.release();
  return 0;
}

}  // namespace
}  // namespace pinion::c_abi

const char* pinion_stack_version(void) noexcept {
  return PINION_VERSION;
}

int pinion_stack_create(const pinion_stack_options* options, pinion_stack** stack) noexcept {
  if (stack == nullptr) return -EFAULT;
  *stack = nullptr;
  if (options == nullptr) return -EFAULT;
  pinion_stack_options known{};
  constexpr std::size_t kFirstVersion = offsetof(pinion_stack_options, last_port) + 2;
  if (const int error = pinion::c_abi::read_sized(options, kFirstVersion, known); error != 0) {
    return error;
  }
  if (known.message != nullptr && known.message_size != 0) *known.message = '\0';
  return pinion::c_abi::with_memory([&] { return pinion::c_abi::create(known, stack); });
}

int pinion_stack_destroy(pinion_stack* stack) noexcept {
  if (stack == nullptr) return -EFAULT;
  if (stack->in_hook()) return -EBUSY;
  delete stack;
  return 0;
}

int pinion_stack_get_stats(pinion_stack* stack, pinion_stack_stats* stats) noexcept {
  if (stack == nullptr || stats == nullptr) return -EFAULT;
  const pinion::IpCounters& ip = stack->ip().counters();
  const pinion::TcpStats& tcp = stack->tcp().stats();
  const pinion::UdpCounters& udp = stack->udp().counters();
  std::uint64_t dropped = 0;
  for (const std::uint64_t count : tcp.drops) dropped += count;
  for (const std::uint64_t count : tcp.faults) dropped += count;
  const pinion_stack_stats now{
      .size = sizeof(now),
      .packets_in = ip.packets_in,
      .packets_out = ip.packets_out,
      .tx_dropped = ip.tx_queue_full,
      .tcp_segments_in = tcp.segments_in,
      .tcp_segments_out = tcp.segments_out,
      .tcp_retransmitted = tcp.retransmitted_segments,
      .tcp_dropped = dropped,
      .tcp_resets_in = tcp.resets_in,
      .tcp_resets_out = tcp.resets_out,
      .tcp_keepalive_probes = tcp.keepalive_probes,
      .udp_received = udp.received,
      .udp_sent = udp.sent,
      .udp_dropped = udp.queue_full,
      .sockets = stack->open_sockets(),
      .tcp_connections = stack->tcp().connections(),
      .tcp_half_open = stack->tcp().half_open(),
      .tcp_time_waits = stack->tcp().time_waits(),
      .packets_free = stack->pool().available(),
  };
  return pinion::c_abi::write_sized(now, stats);
}
