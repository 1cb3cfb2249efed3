#include <pinion/net/capture.h>

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <pinion/lib/random.h>
#include <pinion/net/link.h>
#include <pinion/test/packets.h>
#include <pinion/test/seed.h>

#include "pcapng_reader.h"
#include "scripted_device.h"

namespace pinion {
namespace {

using test::at_ns;
using test::Bytes;
using test::make_chain;
using test::make_packet;
using test::PcapngFile;
using test::read_pcapng;
using test::receive;
using test::ScriptedDevice;
using test::send;
using test::TestPool;
using namespace std::chrono_literals;

constexpr std::uint32_t kInbound = 1;
constexpr std::uint32_t kOutbound = 2;

/// Takes as much at a time as it is told to, and nothing when it is told to fail.
class MemorySink final : public CaptureSink {
 public:
  Result<std::size_t> write(std::span<const std::byte> bytes) override {
    ++writes;
    if (room == 0) return fail(ErrorCode::resource_exhausted, "full", "room");
    const std::size_t taken = std::min({bytes.size(), most, room});
    const auto* const data = reinterpret_cast<const std::uint8_t*>(bytes.data());
    content.insert(content.end(), data, data + taken);
    room -= taken;
    return taken;
  }

  Bytes content;
  std::size_t most = ~std::size_t{0};  ///< At once.
  std::size_t room = ~std::size_t{0};
  int writes = 0;
};

std::unique_ptr<Capture> capture_of(Device& device, CaptureSink& sink,
                                    const CaptureOptions& options = {}) {
  auto capture = Capture::create(device, sink, options);
  EXPECT_TRUE(capture) << to_string(capture.error());
  return std::move(*capture);
}

TEST(Capture, WritesWhatPassesWithItsDirectionAndTime) {
  TestPool pool;
  ScriptedDevice device;
  MemorySink sink;
  const auto capture =
      capture_of(device, sink, {.interface_name = "net0", .wall_clock_offset = 1'700'000'000s});
  ASSERT_TRUE(send(*capture, make_packet(*pool, Bytes{1, 2, 3, 4, 5}), at_ns(123'456'789)));
  device.arriving.push_back(make_chain(*pool, {Bytes{6, 7}, Bytes{8}, Bytes{9, 10}}));
  EXPECT_TRUE(receive(*capture, at_ns(5'000'000'001)));
  capture->set_wall_clock_offset(1'800'000'000s);
  device.arriving.push_back(make_packet(*pool, Bytes{11}));
  EXPECT_TRUE(receive(*capture, at_ns(6'000'000'000)));
  EXPECT_EQ(sink.writes, 0) << "only a flush writes";
  ASSERT_TRUE(capture->flush(at_ns(7'000'000'000)));

  const PcapngFile file = read_pcapng(sink.content);
  EXPECT_EQ(file.interface_name, "net0");
  EXPECT_EQ(file.link_type, 1U);
  EXPECT_EQ(file.snap_length, 262'144U);
  EXPECT_EQ(file.mac, (Bytes{2, 0, 0, 0, 0, 1}));
  EXPECT_EQ(file.time_resolution, 9U);
  ASSERT_EQ(file.packets.size(), 3U);
  EXPECT_EQ(file.packets[0].bytes, (Bytes{1, 2, 3, 4, 5}));
  EXPECT_EQ(file.packets[0].flags, kOutbound);
  EXPECT_EQ(file.packets[0].time, 1'700'000'000'123'456'789U);
  EXPECT_EQ(file.packets[1].bytes, (Bytes{6, 7, 8, 9, 10}));
  EXPECT_EQ(file.packets[1].flags, kInbound);
  EXPECT_EQ(file.packets[1].time, 1'700'000'005'000'000'001U);
  EXPECT_EQ(file.packets[2].time, 1'800'000'006'000'000'000U);
  ASSERT_EQ(file.statistics.size(), 1U);
  EXPECT_EQ(file.statistics[0].received, 3U);
  EXPECT_EQ(file.statistics[0].dropped, 0U);
  EXPECT_EQ(file.statistics[0].time, 1'800'000'007'000'000'000U);
  EXPECT_EQ(capture->capture_stats().written_bytes, sink.content.size());
}

TEST(Capture, LeavesTheDeviceAsItIs) {
  TestPool pool;
  ScriptedDevice device;
  device.event = at_ns(9);
  MemorySink sink;
  const auto capture = capture_of(device, sink);
  EXPECT_EQ(capture->next_event(), at_ns(9));
  EXPECT_EQ(capture->wait_descriptor(), 77);
  EXPECT_TRUE(capture->announces_arrivals());
  device.announces = false;
  EXPECT_FALSE(capture->announces_arrivals());
  capture->on_wait_error();
  EXPECT_EQ(device.wait_errors, 1);
  EXPECT_EQ(&capture->info(), &device.info());
  PacketPtr packet = make_packet(*pool, Bytes{1});
  const Packet* const sent = packet.get();
  ASSERT_TRUE(send(*capture, std::move(packet), at_ns(0)));
  EXPECT_EQ(device.sent.at(0).packet, sent);
  EXPECT_EQ(device.sent_shared, 0U);
  EXPECT_EQ(capture->stats().tx_packets, 1U);
}

TEST(Capture, CutsToItsSnapLength) {
  TestPool pool;
  ScriptedDevice device;
  MemorySink sink;
  const auto capture = capture_of(device, sink, {.snap_length = 3});
  ASSERT_TRUE(send(*capture, make_chain(*pool, {Bytes{1, 2}, Bytes{3, 4}}), at_ns(0)));
  ASSERT_TRUE(send(*capture, make_packet(*pool, Bytes{5}), at_ns(0)));
  ASSERT_TRUE(capture->flush(at_ns(0)));
  const PcapngFile file = read_pcapng(sink.content);
  EXPECT_EQ(file.snap_length, 3U);
  EXPECT_EQ(file.packets.at(0).bytes, (Bytes{1, 2, 3}));
  EXPECT_EQ(file.packets.at(0).original_length, 4U);
  EXPECT_EQ(file.packets.at(1).bytes, (Bytes{5}));
  EXPECT_EQ(file.packets.at(1).original_length, 1U);
}

TEST(Capture, RecordsOnlyWhatTheDeviceTakes) {
  TestPool pool;
  for (const std::size_t room : {0U, 1U, 31U, 32U, 33U, 63U, 64U, 99U, 100U}) {
    ScriptedDevice device;
    device.room = room;
    MemorySink sink;
    const auto capture = capture_of(device, sink);
    std::vector<Packet*> packets;
    for (std::uint8_t i = 0; i < 100; ++i) {
      packets.push_back(make_packet(*pool, Bytes(20, i)).take());
    }
    const std::size_t taken = capture->tx_burst(at_ns(0), packets);
    EXPECT_EQ(taken, room);
    for (std::size_t i = taken; i < packets.size(); ++i) packets[i]->release();
    ASSERT_TRUE(capture->flush(at_ns(0)));
    const PcapngFile file = read_pcapng(sink.content);
    ASSERT_EQ(file.packets.size(), room);
    for (std::size_t i = 0; i < room; ++i) {
      EXPECT_EQ(file.packets[i].bytes, Bytes(20, static_cast<std::uint8_t>(i)));
    }
    EXPECT_EQ(capture->capture_stats().packets, room);
  }
}

TEST(Capture, CountsWhatItsBufferHasNoRoomFor) {
  TestPool pool;
  ScriptedDevice device;
  MemorySink sink;
  const auto capture = capture_of(device, sink, {.buffer_bytes = 65'536});
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(send(*capture, make_packet(*pool, Bytes(1000)), at_ns(i)));
  }
  EXPECT_EQ(device.sent.size(), 100U) << "they pass all the same";
  const std::uint64_t dropped = capture->capture_stats().dropped;
  EXPECT_EQ(dropped, 100U - (65'536 - 200) / 1044);
  ASSERT_TRUE(capture->flush(at_ns(200)));
  ASSERT_TRUE(send(*capture, make_packet(*pool, Bytes(1000)), at_ns(300)));
  ASSERT_TRUE(capture->flush(at_ns(400)));
  ASSERT_TRUE(capture->flush(at_ns(500))) << "nothing new";
  const PcapngFile file = read_pcapng(sink.content);
  EXPECT_EQ(file.packets.size(), 101U - dropped);
  ASSERT_EQ(file.statistics.size(), 2U);
  EXPECT_EQ(file.statistics[0].received, 100U);
  EXPECT_EQ(file.statistics[0].dropped, dropped);
  EXPECT_EQ(file.statistics[1].received, 101U);
  EXPECT_EQ(file.statistics[1].dropped, dropped);
}

TEST(Capture, GoesOnWhereItsSinkFailed) {
  TestPool pool;
  Random random(test::seed());
  for (int round = 0; round < 100; ++round) {
    ScriptedDevice device;
    MemorySink sink;
    sink.most = random.between<std::size_t>(1, 300);
    std::vector<Bytes> expected;
    {
      const auto capture = capture_of(device, sink);
      for (int i = 0; i < 20; ++i) {
        expected.push_back(test::random_bytes(random, random.between<std::size_t>(1, 300)));
        ASSERT_TRUE(send(*capture, make_packet(*pool, expected.back()), at_ns(i)));
        if (!random.chance(0.3)) continue;
        sink.room = random.below(500);
        const std::size_t before = sink.content.size();
        const Result<> flushed = capture->flush(at_ns(i));
        if (flushed) continue;
        EXPECT_EQ(flushed.error().what, "full");
        EXPECT_EQ(sink.room, 0U);
        EXPECT_EQ(capture->capture_stats().written_bytes, sink.content.size());
        EXPECT_GE(sink.content.size(), before);
      }
      sink.room = ~std::size_t{0};
    }
    const PcapngFile file = read_pcapng(sink.content);  // Its end has written the rest.
    ASSERT_EQ(file.packets.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(file.packets[i].bytes, expected[i]);
    }
    EXPECT_EQ(file.statistics.back().received, expected.size());
  }
}

TEST(Capture, BeginsTimeIn1970) {
  TestPool pool;
  ScriptedDevice device;
  MemorySink sink;
  const auto capture = capture_of(device, sink, {.wall_clock_offset = -5s});
  ASSERT_TRUE(send(*capture, make_packet(*pool, Bytes{1}), at_ns(1)));
  capture->set_wall_clock_offset(std::chrono::nanoseconds::max());
  ASSERT_TRUE(send(*capture, make_packet(*pool, Bytes{1}), at_ns(1)));
  ASSERT_TRUE(capture->flush(at_ns(1)));
  const PcapngFile file = read_pcapng(sink.content);
  EXPECT_EQ(file.packets.at(0).time, 0U);
  EXPECT_EQ(file.packets.at(1).time, ~std::uint64_t{0} >> 1);
}

TEST(Capture, RefusesBadOptions) {
  ScriptedDevice device;
  MemorySink sink;
  const auto refuses = [&](const CaptureOptions& options) {
    const auto capture = Capture::create(device, sink, options);
    return !capture && !capture.error().hint.empty();
  };
  EXPECT_TRUE(refuses({.snap_length = 0}));
  EXPECT_TRUE(refuses({.snap_length = 262'145}));
  EXPECT_TRUE(refuses({.buffer_bytes = 65'535}));
  EXPECT_TRUE(refuses({.buffer_bytes = (std::size_t{1} << 30) + 1}));
  EXPECT_TRUE(refuses({.interface_name = std::string(256, 'n')}));
  EXPECT_FALSE(refuses({.interface_name = std::string(255, 'n')}));
}

TEST(CaptureFile, SaysWhyItCannotWrite) {
  const auto nowhere = CaptureFile::create("/nonexistent/trace.pcapng");
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().code, ErrorCode::not_found);
  EXPECT_FALSE(nowhere.error().hint.empty());
  auto full = CaptureFile::create("/dev/full");
  ASSERT_TRUE(full);
  ScriptedDevice device;
  const auto capture = capture_of(device, **full);
  const Result<> flushed = capture->flush(at_ns(0));
  ASSERT_FALSE(flushed);
  EXPECT_EQ(flushed.error().code, ErrorCode::resource_exhausted);
}

/// A folder for one test.
class ACaptureFile : public ::testing::Test {
 protected:
  void SetUp() override {
    folder = testing::TempDir() + "/pinion_capture_XXXXXX";
    ASSERT_NE(::mkdtemp(folder.data()), nullptr);
    path = folder + "/trace.pcapng";
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  /// A file of another program's making.
  void make_file(const std::string& name) const {
    std::ofstream(name) << "what was there";
    ASSERT_EQ(::chmod(name.c_str(), 0644), 0);
  }
  [[nodiscard]] static mode_t mode_of(const std::string& name) {
    struct stat status{};
    EXPECT_EQ(::stat(name.c_str(), &status), 0);
    return status.st_mode & 07777U;
  }

  std::string folder;
  std::string path;
};

TEST_F(ACaptureFile, IsItsUsersAlone) {
  ASSERT_TRUE(CaptureFile::create(path));
  EXPECT_EQ(mode_of(path), 0600U);
  make_file(path);
  ASSERT_EQ(mode_of(path), 0644U);
  ASSERT_TRUE(CaptureFile::create(path));
  EXPECT_EQ(mode_of(path), 0600U) << "although it was there";
  EXPECT_EQ(std::filesystem::file_size(path), 0U);
}

TEST_F(ACaptureFile, FollowsNoLinkToAFile) {
  const std::string victim = folder + "/victim";
  make_file(victim);
  std::filesystem::create_symlink(victim, path);
  const auto linked = CaptureFile::create(path);
  ASSERT_FALSE(linked);
  EXPECT_EQ(linked.error().code, ErrorCode::permission_denied);
  EXPECT_NE(linked.error().hint.find(path), std::string::npos);
  EXPECT_EQ(mode_of(victim), 0644U);
  EXPECT_GT(std::filesystem::file_size(victim), 0U);
  std::filesystem::remove(victim);
  EXPECT_FALSE(CaptureFile::create(path)) << "nor makes one at its end";
  EXPECT_FALSE(std::filesystem::exists(victim));
}

TEST_F(ACaptureFile, LeavesDevicesAsTheyAre) {
  const mode_t before = mode_of("/dev/null");
  EXPECT_TRUE(CaptureFile::create("/dev/null"));
  std::filesystem::create_symlink("/dev/null", path);
  EXPECT_TRUE(CaptureFile::create(path)) << "as /dev/stdout is";
  EXPECT_EQ(mode_of("/dev/null"), before);
}

TEST_F(ACaptureFile, IsNotAnothersFile) {
  if (::geteuid() != 0) GTEST_SKIP() << "no root";
  make_file(path);
  ASSERT_EQ(::chown(path.c_str(), 65534, 65534), 0);
  const auto others = CaptureFile::create(path);
  ASSERT_FALSE(others);
  EXPECT_EQ(others.error().code, ErrorCode::permission_denied);
  EXPECT_NE(others.error().what.find("user 65534"), std::string::npos);
  EXPECT_GT(std::filesystem::file_size(path), 0U);
}

/// What a command prints; empty when it fails.
std::string output_of(const std::string& command) {
  std::FILE* const pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return {};
  std::string text;
  std::array<char, 4096> part{};
  while (const std::size_t count = std::fread(part.data(), 1, part.size(), pipe)) {
    text.append(part.data(), count);
  }
  return ::pclose(pipe) == 0 ? text : std::string();
}

/// An ARP request from `last` for 10.0.0.1.
Bytes arp_request(std::uint8_t last) {
  return {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2,  0, 0, 0,    0, last,  //
          0x08, 0x06, 0,    1,    0x08, 0,    6,  4, 0, 1,              //
          2,    0,    0,    0,    0,    last, 10, 0, 0, last,           //
          0,    0,    0,    0,    0,    0,    10, 0, 0, 1};
}

TEST(CaptureFile, IsReadByTcpdump) {
  if (output_of("tcpdump --version 2>&1").empty()) GTEST_SKIP() << "no tcpdump";
  TestPool pool;
  // Where tcpdump is confined, it may read what is called so.
  constexpr std::string_view kEnding = ".pcapng";
  std::string path = testing::TempDir() + "/pinion_capture_XXXXXX" + std::string(kEnding);
  const int descriptor = ::mkstemps(path.data(), static_cast<int>(kEnding.size()));
  ASSERT_GE(descriptor, 0);
  ASSERT_EQ(::close(descriptor), 0);
  auto file = CaptureFile::create(path);
  ASSERT_TRUE(file);
  auto link = Link::create(*pool, *pool, {});
  {
    const auto capture = capture_of((*link)->a(), **file, {.wall_clock_offset = 1'700'000'000s});
    ASSERT_TRUE(send(*capture, make_packet(*pool, arp_request(7)), at_ns(123'456'789)));
    ASSERT_TRUE(send((*link)->b(), make_packet(*pool, arp_request(8)), at_ns(200'000'001)));
    EXPECT_TRUE(receive(*capture, at_ns(200'000'001)));
    ASSERT_TRUE(capture->flush(at_ns(300'000'000)));
  }
  ASSERT_TRUE((*file)->close());
  const std::string text =
      output_of("tcpdump -n -tt --time-stamp-precision=nano -r " + path + " 2>/dev/null");
  EXPECT_EQ(text,
            "1700000000.123456789 ARP, Request who-has 10.0.0.1 tell 10.0.0.7, length 28\n"
            "1700000000.200000001 ARP, Request who-has 10.0.0.1 tell 10.0.0.8, length 28\n");
  EXPECT_EQ(std::remove(path.c_str()), 0);
}

}  // namespace
}  // namespace pinion
