#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include "tcp.h"

namespace pinion {
namespace {

constexpr std::size_t kMostConnections = std::size_t{1} << 30;
constexpr std::size_t kMostHalfOpen = 65'535;
constexpr std::size_t kBlocksPerReordering = 16;

std::uint32_t to_us(Delay delay) noexcept {
  return to_tcp_milliseconds(delay) * 1'000U;
}

RetransmissionSettings retransmission_settings(const TcpConfig& config) noexcept {
  RetransmissionSettings settings;
  settings.min_us = to_us(config.rto_min);
  settings.max_us = to_us(config.rto_max);
  return settings;
}

Result<void> out_of_range(const char* name, const char* range) {
  return fail(ErrorCode::invalid_argument, std::string("TCP's ") + name + " is out of range",
              std::string(name) + " = " + range);
}

Result<void> check_bounds(const TcpConfig& config) {
  if (config.max_connections < 1 || config.max_connections > kMostConnections) {
    return out_of_range("max_connections", "1 to 2^30");
  }
  if (config.max_listeners < 1 || config.max_listeners > kMostHalfOpen) {
    return out_of_range("max_listeners", "1 to 65535");
  }
  if (config.max_waiting < 1) return out_of_range("max_waiting", "1 and more");
  if (config.max_half_open < 1 || config.max_half_open > kMostHalfOpen) {
    return out_of_range("max_half_open", "1 to 65535");
  }
  if (config.max_time_waits < 1 || config.max_time_waits > kMostConnections) {
    return out_of_range("max_time_waits", "1 to 2^30");
  }
  if (config.max_reordering < 1 || config.max_reordering > kMostConnections) {
    return out_of_range("max_reordering", "1 to 2^30");
  }
  return {};
}

Result<void> check_times(const TcpConfig& config) {
  using std::chrono::milliseconds;
  using std::chrono::seconds;
  const auto lies_in = [](Delay value, Delay low, Delay high) {
    return low <= value && value <= high;
  };
  if (!lies_in(config.delayed_ack, milliseconds{1}, milliseconds{400})) {
    return out_of_range("delayed_ack", "1 ms to 400 ms (RFC 9293, MUST-40)");
  }
  if (!lies_in(config.rto_min, milliseconds{10}, seconds{60})) {
    return out_of_range("rto_min", "10 ms to 60 s");
  }
  if (!lies_in(config.rto_max, seconds{60}, seconds{400})) {
    return out_of_range("rto_max", "60 s to 400 s (RFC 6298, 2.5)");
  }
  if (config.retransmission_limit < kLeastR2Data) {
    return out_of_range("retransmission_limit", "100 s and more (RFC 9293, 3.8.3)");
  }
  if (config.connect_limit < kLeastR2Syn) {
    return out_of_range("connect_limit", "3 min and more (RFC 9293, MUST-23)");
  }
  return {};
}

Result<void> check_ports(const TcpConfig& config) {
  if (config.first_ephemeral_port == 0 ||
      config.first_ephemeral_port > config.last_ephemeral_port) {
    return out_of_range("first_ephemeral_port", "1 to last_ephemeral_port");
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Tcp>> Tcp::create(const TcpConfig& config, const TcpParts& parts,
                                         std::uint64_t seed, Instant now) {
  for (const auto check : {&check_bounds, &check_times, &check_ports}) {
    if (Result<void> checked = check(config); !checked) {
      return tl::unexpected(std::move(checked.error()));
    }
  }
  std::unique_ptr<Tcp> tcp(new (std::nothrow) Tcp(config, parts, SecretNumbers(seed), now));
  if (tcp == nullptr || !tcp->reserve()) {
    return fail(ErrorCode::resource_exhausted, "no memory for TCP's connections",
                "a smaller max_connections");
  }
  return tcp;
}

Tcp::Tcp(const TcpConfig& config, const TcpParts& parts, SecretNumbers secrets,
         Instant now) noexcept
    : config_(config),
      ip_(parts.ip),
      wheel_(parts.wheel),
      packets_(parts.packets),
      random_(secrets.next()),
      now_(now),
      time_(TcpTime::at(now)),
      time_after_(TcpTime::after(now)),
      retransmission_(retransmission_settings(config)),
      delayed_ack_ms_(to_tcp_milliseconds(config.delayed_ack)),
      linger_ms_(to_tcp_milliseconds(config.linger)),
      orphan_ms_(std::max(to_tcp_milliseconds(config.orphan_limit), linger_ms_)),
      table_secret_(secrets.next_key()),
      connections_(config.max_connections),
      table_(config.max_connections),
      listeners_(config.max_listeners),
      touched_(config.max_connections),
      receive_memory_{.unread = Slab<PacketChain>(config.max_connections),
                      .compact = parts.small_packets},
      out_of_order_memory_({
          .connections = config.max_reordering,
          .blocks = config.max_reordering * kBlocksPerReordering,
          .true_size = std::uint64_t{packets_.capacity()} * packets_.buffer_size() / 4,
      }),
      send_memory_{.packets = parts.packets,
                   .max_segments = parts.max_segments,
                   .records = Slab<SendRecord>(config.max_connections),
                   .nodes = Slab<SendNode>(parts.packets.capacity())},
      initial_sequence_(secrets.next_key()),
      ports_({.first = config.first_ephemeral_port, .last = config.last_ephemeral_port},
             secrets.next_key(), random_),
      cookies_(secrets.next_key()),
      syn_cache_({.limit = config.max_half_open}, secrets.next_key()),
      time_waits_(
          {.limit = config.max_time_waits, .duration_ms = to_tcp_milliseconds(config.time_wait)},
          secrets.next_key()) {}

bool Tcp::reserve() noexcept {
  return connections_.limit() != 0 && receive_memory_.unread.reserve(config_.max_connections) &&
         out_of_order_memory_.reserve() && send_memory_.records.reserve(config_.max_connections) &&
         send_memory_.nodes.reserve(packets_.capacity());
}

Tcp::~Tcp() {
  connections_.for_each([this](TcpConnection& c) {
    clear_queues(c);
    connections_.release(c);
  });
}

}  // namespace pinion
