#include <array>
#include <cstddef>
#include <span>

#include <pinion/eventloop/snapshot.h>
#include <pinion/net/transport.h>

#include "count_failure.h"

namespace pinion {
namespace {

constexpr std::array kCounters = std::to_array<TransportCounter>({
    {&TransportStats::accepted, "accepted"},
    {&TransportStats::connected, "connected"},
    {&TransportStats::open, "open"},
    {&TransportStats::closing, "closing"},
    {&TransportStats::bytes_in, "bytes_in"},
    {&TransportStats::bytes_out, "bytes_out"},
    {&TransportStats::read_timeouts, "read_timeouts"},
    {&TransportStats::write_timeouts, "write_timeouts"},
    {&TransportStats::deadlines_exceeded, "deadlines_exceeded", true},
    {&TransportStats::keepalive_timeouts, "keepalive_timeouts"},
    {&TransportStats::keepalive_probes, "keepalive_probes"},
    {&TransportStats::peer_timeouts, "peer_timeouts", true},
    {&TransportStats::resets_received, "resets_received"},
    {&TransportStats::resets_sent, "resets_sent"},
    {&TransportStats::gave_way, "gave_way", true},
    {&TransportStats::out_of_resources, "out_of_resources", true},
    {&TransportStats::io_errors, "io_errors", true},
    {&TransportStats::connects_refused, "connects_refused"},
    {&TransportStats::connects_unreachable, "connects_unreachable"},
    {&TransportStats::connect_timeouts, "connect_timeouts"},
    {&TransportStats::accept_pauses, "accept_pauses", true},
    {&TransportStats::accept_dropped, "accept_dropped", true},
    {&TransportStats::receive_starved, "receive_starved", true},
    {&TransportStats::receive_paused, "receive_paused", true},
    {&TransportStats::receive_copied, "receive_copied", true},
    {&TransportStats::partial_checksums, "partial_checksums", true},
    {&TransportStats::tx_dropped, "tx_dropped", true},
    {&TransportStats::buffers_free, "buffers_free"},
    {&TransportStats::buffers_lowest, "buffers_lowest"},
});
static_assert(sizeof(TransportStats) == kCounters.size() * sizeof(std::uint64_t),
              "each counter has its line above");

}  // namespace

std::span<const TransportCounter> transport_counters() noexcept {
  return kCounters;
}

void add_to(ReportText& text, const TransportStats& stats) {
  constexpr std::size_t kInALine = 6;
  std::size_t shown = 0;
  for (const TransportCounter& counter : kCounters) {
    const std::uint64_t count = stats.*counter.member;
    if (count == 0 && !counter.name.starts_with("buffers_")) continue;
    const char* const before = shown == 0 ? "transport " : shown % kInALine == 0 ? ",\n  " : ", ";
    text.add("{}{} {}", before, counter.name, count);
    ++shown;
  }
  text.add("\n");
}

namespace detail {

void count_failure(TransportStats& stats, StreamError error) noexcept {
  switch (error) {
    case StreamError::peer_timeout:
      ++stats.peer_timeouts;
      break;
    case StreamError::refused:
      ++stats.connects_refused;
      break;
    case StreamError::unreachable:
      ++stats.connects_unreachable;
      break;
    case StreamError::connect_timeout:
      ++stats.connect_timeouts;
      break;
    case StreamError::no_resources:
      ++stats.out_of_resources;
      break;
    case StreamError::read_timeout:
      ++stats.read_timeouts;
      break;
    case StreamError::write_timeout:
      ++stats.write_timeouts;
      break;
    case StreamError::deadline_exceeded:
      ++stats.deadlines_exceeded;
      break;
    case StreamError::keepalive_timeout:
      ++stats.keepalive_timeouts;
      break;
    case StreamError::reset:
      ++stats.resets_received;
      break;
    case StreamError::io_error:
      ++stats.io_errors;
      break;
    default:
      break;
  }
}

}  // namespace detail
}  // namespace pinion
