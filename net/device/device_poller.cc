#include <pinion/net/device_poller.h>

#include <algorithm>
#include <array>

namespace pinion {
namespace {

/// The wake-up is all that matters: the turn that follows polls the device.
void on_next_event(TimerEntry&) noexcept {}

}  // namespace

DevicePoller::DevicePoller(Loop& loop, Device& device, PacketSink& sink) noexcept
    : loop_(loop), device_(device), sink_(sink), next_event_(&on_next_event) {
  loop.add_poller(*this);
}

DevicePoller::~DevicePoller() {
  loop_.remove_poller(*this);
}

std::size_t DevicePoller::poll(Instant now, std::size_t budget) {
  std::array<Packet*, kBurst> burst;
  std::size_t taken = 0;
  while (taken < budget) {
    const std::size_t room = std::min(kBurst, budget - taken);
    const std::size_t count = device_.rx_burst(now, std::span(burst).first(room));
    PINION_ASSERT(count <= room);
    if (count == 0) break;
    taken += count;
    ++stats_.bursts;
    stats_.packets += count;
    if (count == room) ++stats_.full_bursts;
    sink_.receive(now, std::span(burst).first(count));
    // A short burst has emptied the device; what has come since announces itself.
    if (count < room) break;
  }
  return taken;
}

/// The loop polls once more after this and before it sleeps, so that a packet which came before the
/// descriptor was asked for is not slept through.
ParkAnswer DevicePoller::prepare_park() {
  const Instant event = device_.next_event();
  // Due already: a device may give less than it has.
  if (event <= loop_.now()) return ParkAnswer::refuse();
  if (event != kNever) loop_.wheel().arm(next_event_, event);
  const int fd = device_.wait_descriptor();
  if (fd >= 0) return ParkAnswer::wait_for(fd);
  const bool announced = event != kNever && device_.announces_arrivals();
  return announced ? ParkAnswer::elsewhere() : ParkAnswer::doze();
}

void DevicePoller::cancel_park() {
  loop_.wheel().cancel(next_event_);
}

}  // namespace pinion
