#include <pinion/net/stack_transport.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <pinion/net/fault_injector.h>
#include <pinion/test/seed.h>

#include "device/scripted_device.h"
#include "kernel_world.h"
#include "malloc_counter.h"
#include "stack_served.h"

// What only the own stack's transport has: its options, its packets, its devices, its limits.

namespace pinion::test {
namespace {

using namespace std::chrono_literals;

TEST(StackTransport, NothingIsAllocatedPerConnectionOrRequest) {
  if (!malloc_is_counted()) GTEST_SKIP() << "the sanitizer owns malloc";
  Served served;
  served.serve();
  const std::vector<std::byte> small = pattern(16, 1);
  const std::vector<std::byte> large = pattern(10'000, 2);
  served.go(50, 20, large);
  const std::uint64_t before = mallocs();
  ASSERT_GT(before, 0U);
  served.go(1, 10'000, small);
  EXPECT_EQ(mallocs() - before, 0U) << "per small request";
  served.go(1, 1'000, large);
  EXPECT_EQ(mallocs() - before, 0U) << "per large request";
  served.go(1'000, 1, small);
  EXPECT_EQ(mallocs() - before, 0U) << "per connection";
}

TEST(StackTransport, EveryPacketComesBack) {
  Served served;
  served.serve();
  served.go(20, 20, pattern(20'000, seed()));
  ASSERT_TRUE(served.world.loop().run_until(
      [&] {
        return served.world.transport().stats().closing == 0 &&
               served.world.client_transport().stats().closing == 0;
      },
      10s));
  served.world.end_transport();
  EXPECT_EQ(served.world.server_packets().live(), 0U);
  EXPECT_EQ(served.world.client_packets().live(), 0U);
}

// The packet that came in is the one that goes out: the chunk's buffer is not given back by the
// write, only by the acknowledgement.
TEST(StackTransport, AWrittenChunkGoesOutFromWhereItWasReceived) {
  Served served;
  const std::vector<std::byte> data = pattern(1000, seed());
  const auto body = [&]() -> Task<> {
    auto client = co_await served.world.client_transport().connect(served.listener.local(), 5s);
    auto server = co_await served.listener.accept();
    CO_ASSERT_TRUE(client && server);
    CO_ASSERT_TRUE(co_await client->write(data, 5s));
    auto chunk = co_await server->read(5s);
    CO_ASSERT_TRUE(chunk && chunk->size() == data.size());
    chunk->remove_prefix(100);
    chunk->remove_suffix(100);
    chunk->span()[0] = std::byte{0x5a};
    const std::size_t live = served.world.server_packets().live();
    CO_ASSERT_TRUE(co_await server->write(std::move(*chunk), 5s));
    // Behind it a segment of headers and a view: a copy would be a packet more.
    EXPECT_EQ(served.world.server_packets().live(), live + 2);
    EXPECT_EQ(served.world.server_packets().live_views(), 1U);
    const std::string text = co_await read_text(*client, 800);
    CO_ASSERT_TRUE(text.size() == 800);
    EXPECT_EQ(text[0], 0x5a);
    EXPECT_EQ(static_cast<std::byte>(text[799]), data[899]);
  };
  finish(served.world, served.world.loop().spawn(body()));
}

// A host's packets to itself share their bytes with the sender's, who may have to send them again:
// a chunk, whose holder may change it, has its own.
TEST(StackTransport, AChunkFromOneselfIsNotTheSendersPacket) {
  Served served({.itself = true});
  const std::vector<std::byte> data = pattern(1000, seed());
  const auto body = [&]() -> Task<> {
    auto client = co_await served.world.client_transport().connect(served.listener.local(), 5s);
    auto server = co_await served.listener.accept();
    CO_ASSERT_TRUE(client && server);
    CO_ASSERT_TRUE(co_await client->write(data, 5s));
    std::vector<std::byte> received;
    while (received.size() < data.size()) {
      const auto chunk = co_await server->read(5s);
      CO_ASSERT_TRUE(chunk);
      EXPECT_FALSE(reinterpret_cast<const Packet*>(chunk->token())->shared());
      received.insert(received.end(), chunk->span().begin(), chunk->span().end());
    }
    EXPECT_TRUE(received == data);
  };
  finish(served.world, served.world.loop().spawn(body()));
}

TEST(StackTransport, StreamsOfBothTransportsPassChunksToEachOther) {
  Served served;
  served.serve();
  KernelOptions kernel_options;
  kernel_options.buffer_count = 64;
  auto kernel = or_abort(KernelTransport::create(served.world.loop(), kernel_options));
  Listener front = or_abort(kernel->listen({IpAddress::v4({127, 0, 0, 1}), 0}));
  const std::vector<std::byte> data = pattern(300'000, seed());
  const auto forward = [](Stream& from, Stream& to) -> Task<> {
    while (auto chunk = co_await from.read(10s)) {
      if (!co_await to.write(std::move(*chunk), 10s)) break;
    }
    to.shutdown_write();
  };
  const auto proxy = [&]() -> Task<> {
    auto outside = co_await front.accept();
    auto inside = co_await served.world.client_transport().connect(served.listener.local(), 5s);
    CO_ASSERT_TRUE(outside && inside);
    TaskHandle there = served.world.loop().spawn(forward(*outside, *inside));
    co_await forward(*inside, *outside);
    while (!there.done()) co_await yield();
  };
  const auto send = [&](Stream& stream) -> Task<> {
    const auto written = co_await stream.write(data, 10s);
    EXPECT_EQ(outcome(written), "ok");
    stream.shutdown_write();
  };
  const auto body = [&]() -> Task<> {
    TaskHandle between = served.world.loop().spawn(proxy());
    auto stream = co_await kernel->connect(front.local(), 5s);
    CO_ASSERT_TRUE(stream);
    TaskHandle sender = served.world.loop().spawn(send(*stream));
    std::vector<std::byte> received;
    while (auto chunk = co_await stream->read(10s)) {
      received.insert(received.end(), chunk->span().begin(), chunk->span().end());
    }
    EXPECT_TRUE(received == data);
    while (!between.done() || !sender.done()) co_await yield();
  };
  finish(served.world, served.world.loop().spawn(body()));
}

StackOptions on(Device& device) {
  StackOptions options;
  options.interfaces = {{.device = &device, .addresses = {StackStreamWorld::server_address()}}};
  return options;
}

TEST(StackTransport, WrongOptionsAreNamedAndChangeNothing) {
  MonotonicTime time;
  const auto loop = or_abort(Loop::create({}, time));
  const auto packets = or_abort(SlabPacketPool::create());
  ScriptedDevice device;
  const auto refused = [&](const std::function<void(StackOptions&)>& spoil, std::string_view what,
                           std::string_view hint) {
    StackOptions options = on(device);
    spoil(options);
    const auto transport = StackTransport::create(*loop, *packets, options);
    ASSERT_FALSE(transport.has_value()) << what;
    EXPECT_NE(transport.error().what.find(what), std::string::npos) << transport.error().what;
    EXPECT_NE(transport.error().hint.find(hint), std::string::npos) << transport.error().hint;
  };
  refused([](auto& o) { o.interfaces.clear(); }, "without an interface", "interfaces");
  refused([](auto& o) { o.interfaces[0].device = nullptr; }, "interface 0", "device");
  refused([](auto& o) { o.interfaces[0].addresses.clear(); }, "no address", "10.9.0.1/24");
  refused([](auto& o) { o.interfaces[0].tx_queue = 0; }, "queues no packet", "tx_queue");
  refused([](auto& o) { o.interfaces[0].gateways = {IpAddress::v4({192, 0, 2, 1})}; }, "192.0.2.1",
          "prefix");
  refused(
      [](auto& o) {
        const IpAddress gateway = IpAddress::v4({10, 9, 0, 7});
        o.interfaces[0].gateways = {gateway, gateway};
      },
      "two gateways", "one gateway");
  refused([](auto& o) { o.max_connections = 0; }, "max_connections of 0", "1 to 1048576");
  refused([](auto& o) { o.max_waiting = 70'000; }, "max_waiting of 70000", "1 to 65535");
  refused([](auto& o) { o.send_buffer = 100; }, "send_buffer of 100", "4096 to");
  refused([](auto& o) { o.linger = -1s; }, "linger", "from 0");
  EXPECT_EQ(loop->turn(), 0U);
  EXPECT_TRUE(device.sent.empty());
  EXPECT_EQ(packets->live(), 0U);
}

TEST(StackTransport, ListeningWhereItCantIsExplained) {
  Served served;
  const Endpoint used = served.listener.local();
  const auto again = served.world.transport().listen(used);
  ASSERT_FALSE(again.has_value());
  EXPECT_EQ(again.error().code, ErrorCode::already_exists);
  EXPECT_NE(again.error().what.find(to_string(used)), std::string::npos) << again.error().what;
  const auto foreign = served.world.transport().listen({IpAddress::v4({192, 0, 2, 1}), 80});
  ASSERT_FALSE(foreign.has_value());
  EXPECT_NE(foreign.error().what.find("192.0.2.1"), std::string::npos) << foreign.error().what;
  // Ports that any will do for are all different.
  const auto other = served.world.transport().listen(served.world.any_port());
  ASSERT_TRUE(other.has_value());
  EXPECT_NE(other->local().port, used.port);
}

TEST(StackTransport, AnAddressThatIsBeingCheckedIsNotListenedOn) {
  MonotonicTime time;
  const auto loop = or_abort(Loop::create({}, time));
  const auto packets = or_abort(SlabPacketPool::create());
  ScriptedDevice device;
  StackOptions options = on(device);
  options.interfaces[0].check_duplicates = true;
  const auto transport = or_abort(StackTransport::create(*loop, *packets, options));
  const auto listener = transport->listen({StackStreamWorld::server_address().address, 7});
  ASSERT_FALSE(listener.has_value());
  EXPECT_EQ(listener.error().code, ErrorCode::unavailable);
  EXPECT_NE(listener.error().hint.find("check_duplicates"), std::string::npos);
}

// What the device leaves is offered again, in order, and meanwhile the loop doesn't sleep.
TEST(StackTransport, WhatTheDeviceLeavesIsOfferedAgain) {
  MonotonicTime time;
  const auto loop = or_abort(Loop::create({.idle = IdlePolicy::park}, time));
  or_abort(loop->adopt_thread());
  const auto packets = or_abort(SlabPacketPool::create());
  ScriptedDevice device;
  device.room = 0;
  auto transport = or_abort(StackTransport::create(*loop, *packets, on(device)));
  const auto connect = [&]() -> Task<> {
    // Asks for the neighbour, over and over.
    (void)co_await transport->connect({StackStreamWorld::client_address().address, 7}, 10s);
  };
  TaskHandle connecting = loop->spawn(connect());
  for (int i = 0; i < 10; ++i) loop->turn();
  const std::uint64_t parks = loop->stats().parks;
  EXPECT_FALSE(loop->run_until([] { return false; }, 20ms));
  EXPECT_EQ(loop->stats().parks, parks);
  EXPECT_TRUE(device.sent.empty());
  device.room = 1;
  EXPECT_TRUE(loop->run_until([&] { return device.sent.size() == 1; }, 5s));
  connecting.cancel();
  EXPECT_TRUE(loop->run_until([&] { return connecting.done(); }, 5s));
  transport.reset();
  EXPECT_EQ(packets->live(), 0U);
}

// Peers that send and servers that don't read, peers that don't read what servers send: packets run
// out, and those who hold them give way to who uses them.
TEST(StackTransport, WhoHoldsScarcePacketsForLongGivesWay) {
  constexpr std::size_t kHolders = 20;
  for (const bool sending : {false, true}) {
    // Of tasks that may end with the world, so they outlive it.
    const std::vector<std::byte> much(1'000'000);
    std::set<std::string> endings;
    const auto fill = [&](Stream& stream) -> Task<> {
      const auto written = co_await stream.write(much, 20s);
      endings.insert(outcome(written));
    };
    Served served({.server_packets = {.packets = 1024, .views = 1024}});
    std::vector<Stream> clients;
    std::vector<Stream> servers;
    const auto hold = [&]() -> Task<> {
      for (std::size_t i = 0; i < kHolders; ++i) {
        auto client = co_await served.world.client_transport().connect(served.listener.local(), 5s);
        CO_ASSERT_TRUE(client);
        auto server = co_await served.listener.accept();
        CO_ASSERT_TRUE(server);
        clients.push_back(std::move(*client));
        servers.push_back(std::move(*server));
      }
      for (std::size_t i = 0; i < kHolders; ++i) {
        served.world.loop().spawn(fill(sending ? servers[i] : clients[i]));
      }
    };
    finish(served.world, served.world.loop().spawn(hold()));
    EXPECT_TRUE(served.world.loop().run_until(
        [&] { return served.world.transport().stats().gave_way != 0; }, 10s));
    EXPECT_LT(served.world.transport().stats().buffers_lowest, 1024U / 4);
    // Whoever comes is served.
    served.serve();
    served.go(3, 3, pattern(10'000, seed()));
    EXPECT_LT(served.world.transport().stats().gave_way, kHolders) << "enough is enough";
    EXPECT_TRUE(endings.contains(sending ? "no_resources" : "reset"));
    servers.clear();
    clients.clear();
    served.world.loop().run_until([] { return false; }, 10ms);
  }
}

// On virtual time: it takes ten minutes to give the peer up.
TEST(StackTransport, APeerThatTheLinkCannotReachIsUnreachable) {
  ManualTime time(Instant{1000s});
  const auto loop = or_abort(Loop::create({}, time));
  or_abort(loop->adopt_thread());
  const auto packets = or_abort(SlabPacketPool::create());
  const auto link = or_abort(Link::create(*packets, *packets, {}));
  const std::vector<Partition> unplugged{{.from = Instant{1010s}, .until = kNever}};
  const auto device = or_abort(FaultInjector::create(
      link->a(), *packets, {.tx = {.partitions = unplugged}, .rx = {.partitions = unplugged}}));
  StackOptions near = on(*device);
  near.interfaces[0].addresses = {StackStreamWorld::client_address()};
  auto client = or_abort(StackTransport::create(*loop, *packets, near));
  auto server = or_abort(StackTransport::create(*loop, *packets, on(link->b())));
  Listener listener = or_abort(server->listen({StackStreamWorld::server_address().address, 7}));
  std::string ending;
  std::string next_write;
  const std::vector<std::byte> data = pattern(100, seed());
  const auto body = [&]() -> Task<> {
    auto stream = co_await client->connect(listener.local(), 5s);
    auto there = co_await listener.accept();
    CO_ASSERT_TRUE(stream && there);
    co_await sleep_for(20s);
    CO_ASSERT_TRUE(co_await stream->write(data));
    const auto read = co_await stream->read();
    ending = outcome(read);
    const auto written = co_await stream->write(data);
    next_write = outcome(written);
  };
  TaskHandle task = loop->spawn(body());
  for (int i = 0; i < 30'000 && !task.done(); ++i) {
    loop->turn();
    time.advance(50ms);
  }
  ASSERT_TRUE(task.done());
  EXPECT_EQ(ending, "unreachable");
  EXPECT_EQ(next_write, "unreachable");
  EXPECT_EQ(client->stats().peer_timeouts, 1U);
  EXPECT_EQ(client->stats().connects_unreachable, 0U);
  client.reset();
  server.reset();
}

TEST(StackTransport, AfterTheDrainTimeoutWhatIsLeftIsReset) {
  StackStreamWorld world({}, {.drain_timeout = 100ms, .wind_down = 1s});
  Listener listener = or_abort(world.transport().listen(world.any_port()));
  std::string write_ending;
  const std::vector<std::byte> much(64'000'000);
  const auto write = [&](Stream stream) -> Task<> {
    const auto written = co_await stream.write(much);
    write_ending = outcome(written);
  };
  const auto body = [&]() -> Task<> {
    auto client = co_await world.client_transport().connect(listener.local(), 5s);
    auto server = co_await listener.accept();
    CO_ASSERT_TRUE(client && server);
    world.loop().spawn(write(std::move(*server)));
    co_await sleep_for(10ms);
    world.loop().begin_drain();
    co_await sleep_for(1h);
  };
  world.loop().spawn(body());
  EXPECT_EQ(world.loop().run(), Ending::drain_expired);
  EXPECT_EQ(write_ending, "draining");
  EXPECT_EQ(world.transport().stats().open, 0U);
}

TEST(StackTransport, ATransportThatEndsTellsItsPeers) {
  Served served;
  std::string ending;
  const auto body = [&]() -> Task<> {
    auto client = co_await served.world.client_transport().connect(served.listener.local(), 5s);
    auto server = co_await served.listener.accept();
    CO_ASSERT_TRUE(client && server);
    const auto read = co_await server->read(10s);
    ending = outcome(read);
  };
  TaskHandle task = served.world.loop().spawn(body());
  served.world.loop().run_until([&] { return served.world.transport().stats().open != 0; }, 5s);
  served.world.end_client();
  finish(served.world, std::move(task));
  EXPECT_EQ(ending, "reset");
}

}  // namespace
}  // namespace pinion::test
