#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>
#include <vector>

#include <gtest/gtest.h>
#include <pinion/eventloop/loop.h>
#include <pinion/net/device_poller.h>
#include <pinion/timers/time_source.h>

namespace pinion::test {
namespace {

using namespace std::chrono_literals;

/// Its packets are made by nobody: a poller passes them on and looks into none.
Packet* packet_number(std::uintptr_t number) {
  return reinterpret_cast<Packet*>(number * alignof(Packet));
}

class FakeDevice final : public Device {
 public:
  const DeviceInfo& info() const noexcept override { return info_; }
  std::size_t rx_burst(Instant now, std::span<Packet*> into) noexcept override {
    ++polls;
    if (now < opens || polls < opens_at_poll) return 0;
    const std::size_t count = std::min(into.size(), waiting.size());
    std::copy_n(waiting.begin(), count, into.begin());
    waiting.erase(waiting.begin(), waiting.begin() + static_cast<std::ptrdiff_t>(count));
    return count;
  }
  std::size_t tx_burst(Instant, std::span<Packet* const>) noexcept override { return 0; }
  Instant next_event() const noexcept override { return event; }
  int wait_descriptor() const noexcept override { return fd; }
  bool announces_arrivals() const noexcept override { return announces || fd >= 0; }
  void on_wait_error() noexcept override { ++wait_errors; }
  DeviceStats stats() const noexcept override { return {}; }

  void arrive(std::uintptr_t count) {
    while (count-- > 0) waiting.push_back(packet_number(++last));
  }

  std::deque<Packet*> waiting;
  std::uintptr_t last = 0;
  std::size_t polls = 0;
  Instant opens{};                ///< Before it, nothing comes.
  std::size_t opens_at_poll = 0;  ///< Nor before so many polls.
  Instant event = kNever;
  int fd = -1;
  bool announces = false;
  int wait_errors = 0;

 private:
  DeviceInfo info_;
};

class Kept final : public PacketSink {
 public:
  void receive(Instant, std::span<Packet* const> packets) override {
    bursts.push_back(packets.size());
    taken.insert(taken.end(), packets.begin(), packets.end());
    if (loop != nullptr && taken.size() >= enough) loop->stop();
  }

  std::vector<std::size_t> bursts;
  std::vector<Packet*> taken;
  Loop* loop = nullptr;
  std::size_t enough = 0;
};

std::unique_ptr<Loop> parking_loop(TimeSource& time) {
  LoopOptions options;
  options.idle = IdlePolicy::park;
  Result<std::unique_ptr<Loop>> loop = Loop::create(options, time);
  if (!loop) {
    ADD_FAILURE() << to_string(loop.error());
    std::abort();
  }
  return std::move(*loop);
}

/// A descriptor that is readable from then on.
int readable_at(Instant when) {
  const int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
  const auto count = when.time_since_epoch().count();
  itimerspec timer{};
  timer.it_value = {.tv_sec = count / 1'000'000'000, .tv_nsec = count % 1'000'000'000};
  EXPECT_EQ(timerfd_settime(fd, TFD_TIMER_ABSTIME, &timer, nullptr), 0);
  return fd;
}

class ADevicePoller : public ::testing::Test {
 protected:
  MonotonicTime time;
  std::unique_ptr<Loop> loop = parking_loop(time);
  FakeDevice device;
  Kept sink;
  DevicePoller poller{*loop, device, sink};
};

TEST_F(ADevicePoller, PassesPacketsOnInBurstsAndInOrder) {
  device.arrive(70);
  EXPECT_EQ(poller.poll(loop->now(), 256), 70U);
  EXPECT_EQ(sink.bursts, (std::vector<std::size_t>{32, 32, 6}));
  for (std::size_t i = 0; i < sink.taken.size(); ++i) {
    EXPECT_EQ(sink.taken[i], packet_number(i + 1));
  }
  EXPECT_EQ(device.polls, 3U) << "a short burst has emptied the device";
  EXPECT_EQ(poller.stats().packets, 70U);
  EXPECT_EQ(poller.stats().bursts, 3U);
  EXPECT_EQ(poller.stats().full_bursts, 2U);
}

TEST_F(ADevicePoller, TakesNoMoreThanItsBudget) {
  device.arrive(100);
  EXPECT_EQ(poller.poll(loop->now(), 40), 40U);
  EXPECT_EQ(sink.bursts, (std::vector<std::size_t>{32, 8}));
  EXPECT_EQ(device.waiting.size(), 60U);
}

TEST_F(ADevicePoller, IsIdleWhenTheDeviceIs) {
  EXPECT_EQ(poller.poll(loop->now(), 256), 0U);
  EXPECT_TRUE(sink.bursts.empty());
  EXPECT_EQ(poller.stats().bursts, 0U);
}

TEST_F(ADevicePoller, SaysWhatAnnouncesPackets) {
  EXPECT_EQ(poller.prepare_park().kind, ParkAnswer::Kind::doze);
  poller.cancel_park();
  device.fd = 7;
  const ParkAnswer by_descriptor = poller.prepare_park();
  EXPECT_EQ(by_descriptor.kind, ParkAnswer::Kind::descriptor);
  EXPECT_EQ(by_descriptor.fd, 7);
  poller.cancel_park();
  device.fd = -1;
  device.event = loop->fresh_now() + 1h;
  device.announces = true;
  EXPECT_EQ(poller.prepare_park().kind, ParkAnswer::Kind::elsewhere);
  EXPECT_LE(loop->wheel().next_expiry(), device.event + 1ms);
  poller.cancel_park();
  EXPECT_EQ(loop->wheel().next_expiry(), kNever) << "the sleep's timer goes with the sleep";
  device.event = loop->now();
  EXPECT_EQ(poller.prepare_park().kind, ParkAnswer::Kind::refuse) << "due now";
  poller.cancel_park();
}

TEST_F(ADevicePoller, DozesBesideADeviceOfWhichOnlyAPartIsAnnounced) {
  device.event = loop->fresh_now() + 1h;  // As of a fault injector around a blind device.
  EXPECT_EQ(poller.prepare_park().kind, ParkAnswer::Kind::doze);
  EXPECT_LE(loop->wheel().next_expiry(), device.event + 1ms);
  poller.cancel_park();
  device.opens_at_poll = 20;
  device.arrive(1);
  sink.loop = loop.get();
  sink.enough = 1;
  loop->run();
  EXPECT_EQ(sink.taken.size(), 1U);
  EXPECT_GE(loop->stats().dozes, 1U);
}

TEST_F(ADevicePoller, TellsTheDeviceOfAnErrorOfItsDescriptor) {
  device.fd = 1'000'000;
  device.opens_at_poll = 20;
  device.arrive(1);
  sink.loop = loop.get();
  sink.enough = 1;
  loop->run();
  EXPECT_GE(device.wait_errors, 1);
  EXPECT_GE(loop->stats().dozes, 1U);
}

TEST_F(ADevicePoller, WakesTheLoopByTheDevicesDescriptor) {
  device.opens = loop->fresh_now() + 20ms;
  device.fd = readable_at(device.opens);
  device.arrive(1);
  sink.loop = loop.get();
  sink.enough = 1;
  loop->run();
  EXPECT_EQ(sink.taken.size(), 1U);
  EXPECT_LT(device.polls, 100U) << "it slept";
  EXPECT_EQ(loop->stats().dozes, 0U);
  close(device.fd);
}

TEST_F(ADevicePoller, WakesTheLoopForTheDevicesNextEvent) {
  device.event = device.opens = loop->fresh_now() + 20ms;
  device.announces = true;
  device.arrive(1);
  sink.loop = loop.get();
  sink.enough = 1;
  loop->run();
  EXPECT_EQ(sink.taken.size(), 1U);
  EXPECT_LT(device.polls, 100U) << "it slept, and not in dozes";
}

TEST_F(ADevicePoller, DozesBesideADeviceThatNothingAnnounces) {
  device.opens_at_poll = 20;
  device.arrive(1);
  sink.loop = loop.get();
  sink.enough = 1;
  loop->run();
  EXPECT_EQ(sink.taken.size(), 1U);
  EXPECT_GE(loop->stats().dozes, 1U);
}

TEST_F(ADevicePoller, LeavesTheLoopWhenItDies) {
  {
    FakeDevice other;
    const DevicePoller its_poller(*loop, other, sink);
    loop->turn();
    EXPECT_GE(other.polls, 1U);
  }
  loop->turn();
}

}  // namespace
}  // namespace pinion::test
