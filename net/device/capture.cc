#include <pinion/net/capture.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "pcapng.h"

namespace pinion {
namespace {

using detail::PcapngDirection;

constexpr std::size_t kBurst = 32;
constexpr std::size_t kLargestSnapLength = 262'144;  // MAXIMUM_SNAPLEN of libpcap
constexpr std::size_t kLeastBuffer = std::size_t{64} << 10;
constexpr std::size_t kLargestBuffer = std::size_t{1} << 30;
constexpr std::size_t kLongestName = 255;

Result<> check(const CaptureOptions& options) {
  if (options.snap_length == 0 || options.snap_length > kLargestSnapLength) {
    return fail(ErrorCode::invalid_argument,
                "a capture with snap_length " + std::to_string(options.snap_length),
                "snap_length from 1 to 262144");
  }
  if (options.buffer_bytes < kLeastBuffer || options.buffer_bytes > kLargestBuffer) {
    return fail(ErrorCode::invalid_argument,
                "a capture with buffer_bytes " + std::to_string(options.buffer_bytes),
                "buffer_bytes from 65536 to 1073741824");
  }
  if (options.interface_name.size() > kLongestName) {
    return fail(ErrorCode::invalid_argument,
                "a capture with an interface_name of " +
                    std::to_string(options.interface_name.size()) + " bytes",
                "interface_name of up to 255 bytes");
  }
  return {};
}

}  // namespace

struct Capture::Parts {
  /// What to go back to when the device did not take a packet.
  struct Mark {
    std::size_t size;
    std::uint64_t packets;
    std::uint64_t dropped;
  };

  Parts(Device& inner, CaptureSink& to, const CaptureOptions& options)
      : device(inner),
        sink(to),
        snap_length(static_cast<std::uint32_t>(options.snap_length)),
        wall_clock_offset(options.wall_clock_offset),
        buffer(options.buffer_bytes) {
    buffer.add_header(options.interface_name, inner.info().mac, snap_length);
  }

  [[nodiscard]] std::uint64_t unix_time(Instant at) const noexcept {
    const Instant shifted = at + Delay(wall_clock_offset);
    return static_cast<std::uint64_t>(
        std::max<std::int64_t>(shifted.time_since_epoch().count(), 0));
  }

  void record(const Packet& packet, PcapngDirection direction, std::uint64_t unix_ns) noexcept {
    ++stats.packets;
    if (!buffer.add_packet(packet, direction, snap_length, unix_ns)) ++stats.dropped;
  }

  [[nodiscard]] Mark mark() const noexcept {
    return {.size = buffer.size(), .packets = stats.packets, .dropped = stats.dropped};
  }
  void go_back_to(const Mark& mark) noexcept {
    buffer.cut_to(mark.size);
    stats.packets = mark.packets;
    stats.dropped = mark.dropped;
  }

  [[nodiscard]] Result<> flush(Instant now);
  [[nodiscard]] std::size_t send(Instant now, std::span<Packet* const> burst) noexcept;

  Device& device;
  CaptureSink& sink;
  const std::uint32_t snap_length;
  std::chrono::nanoseconds wall_clock_offset;
  detail::PcapngBuffer buffer;
  CaptureStats stats;
  std::uint64_t told_packets = 0;  ///< As in the last statistics block.
  Instant last{};                  ///< When something last passed.
};

Result<> Capture::Parts::flush(Instant now) {
  if (stats.packets != told_packets &&
      buffer.add_statistics(stats.packets, stats.dropped, unix_time(now))) {
    told_packets = stats.packets;
  }
  std::size_t done = 0;
  while (done != buffer.size()) {
    const Result<std::size_t> taken = sink.write(buffer.bytes().subspan(done));
    if (!taken) {
      buffer.remove_front(done);
      return tl::unexpected(taken.error());
    }
    PINION_ASSERT(*taken != 0);
    PINION_ASSERT(*taken <= buffer.size() - done);
    done += *taken;
    stats.written_bytes += *taken;
  }
  buffer.cut_to(0);
  return {};
}

/// Records first, since what the device takes is its own from then on, and takes off again what it
/// left. `burst` is of kBurst packets at most.
std::size_t Capture::Parts::send(Instant now, std::span<Packet* const> burst) noexcept {
  const std::uint64_t unix_ns = unix_time(now);
  std::array<Mark, kBurst> before;
  for (std::size_t i = 0; i < burst.size(); ++i) {
    before[i] = mark();
    record(*burst[i], PcapngDirection::outbound, unix_ns);
  }
  const std::size_t taken = device.tx_burst(now, burst);
  if (taken < burst.size()) go_back_to(before[taken]);
  return taken;
}

Result<std::unique_ptr<Capture>> Capture::create(Device& device, CaptureSink& sink,
                                                 const CaptureOptions& options) {
  if (Result<> checked = check(options); !checked) return tl::unexpected(checked.error());
  return std::unique_ptr<Capture>(new Capture(std::make_unique<Parts>(device, sink, options)));
}

Capture::Capture(std::unique_ptr<Parts> parts) noexcept : parts_(std::move(parts)) {}

Capture::~Capture() {
  static_cast<void>(parts_->flush(parts_->last));
}

Result<> Capture::flush(Instant now) {
  return parts_->flush(now);
}

void Capture::set_wall_clock_offset(std::chrono::nanoseconds offset) noexcept {
  parts_->wall_clock_offset = offset;
}

const CaptureStats& Capture::capture_stats() const noexcept {
  return parts_->stats;
}

const DeviceInfo& Capture::info() const noexcept {
  return parts_->device.info();
}

std::size_t Capture::rx_burst(Instant now, std::span<Packet*> into) noexcept {
  const std::size_t count = parts_->device.rx_burst(now, into);
  const std::uint64_t unix_ns = parts_->unix_time(now);
  for (Packet* const packet : into.first(count)) {
    parts_->record(*packet, PcapngDirection::inbound, unix_ns);
  }
  if (count != 0) parts_->last = now;
  return count;
}

std::size_t Capture::tx_burst(Instant now, std::span<Packet* const> packets) noexcept {
  std::size_t done = 0;
  // An empty burst is passed on too: a device may have something held back.
  do {
    const auto burst = packets.subspan(done, std::min(kBurst, packets.size() - done));
    const std::size_t taken = parts_->send(now, burst);
    done += taken;
    if (taken < burst.size()) break;
  } while (done < packets.size());
  if (done != 0) parts_->last = now;
  return done;
}

Instant Capture::next_event() const noexcept {
  return parts_->device.next_event();
}

int Capture::wait_descriptor() const noexcept {
  return parts_->device.wait_descriptor();
}

bool Capture::announces_arrivals() const noexcept {
  return parts_->device.announces_arrivals();
}

void Capture::on_wait_error() noexcept {
  parts_->device.on_wait_error();
}

DeviceStats Capture::stats() const noexcept {
  return parts_->device.stats();
}

}  // namespace pinion
