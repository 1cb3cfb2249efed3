#include <pinion/net/stack_transport.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <pinion/test/seed.h>

#include "stack_served.h"

// What the own stack's transport does when its places are taken.

namespace pinion::test {
namespace {

constexpr std::size_t kMany = 3'000;

TEST(StackLimits, AtItsLimitItPausesUntilAConnectionEnds) {
  constexpr std::size_t kPlaces = 10;
  Served served({.server = {.max_connections = kPlaces}});
  served.serve();
  std::vector<Stream> clients;
  finish(served.world,
         served.world.loop().spawn(open_streams(served.world.client_transport(),
                                                served.listener.local(), 3 * kPlaces, clients)));
  const std::vector<std::byte> data = pattern(100, seed());
  const auto body = [&]() -> Task<> {
    for (Stream& client : clients) {
      co_await ask(client, data);
      EXPECT_LE(served.world.transport().stats().open, kPlaces);
      client = Stream();
    }
  };
  finish(served.world, served.world.loop().spawn(body()));
  EXPECT_EQ(served.world.transport().stats().accepted, 3 * kPlaces);
  EXPECT_GE(served.world.transport().stats().accept_pauses, 1U);
}

// Clients that don't close hold up nobody: closes that wait for them are cut short.
TEST(StackLimits, ACloseThatWaitsForItsPeerGivesUpItsPlace) {
  constexpr std::size_t kClients = 5;
  Served served({.server = {.max_connections = 1, .linger = 60s}});
  std::vector<Stream> clients;
  finish(served.world,
         served.world.loop().spawn(open_streams(served.world.client_transport(),
                                                served.listener.local(), kClients, clients)));
  const auto body = [&]() -> Task<> {
    for (std::size_t i = 0; i < kClients; ++i) {
      auto stream = co_await served.listener.accept();
      CO_ASSERT_TRUE(stream);
      stream->close();
      EXPECT_EQ(served.world.transport().stats().closing, 1U);
    }
    // So does one for a connection of our own.
    auto own = co_await served.world.transport().connect(served.listener.local(), 5s);
    EXPECT_EQ(outcome(own), "ok");
    EXPECT_EQ(served.world.transport().stats().closing, 0U);
    auto another = co_await served.world.transport().connect(served.listener.local(), 5s);
    EXPECT_EQ(outcome(another), "no_resources");
  };
  finish(served.world, served.world.loop().spawn(body()));
}

// The linger time over, the place is free though the peer never closes.
TEST(StackLimits, ACloseWaitsForThePeerNoLongerThanItsTime) {
  Served served({.server = {.linger = 50ms}});
  std::vector<Stream> clients;
  finish(served.world, served.world.loop().spawn(open_streams(
                           served.world.client_transport(), served.listener.local(), 1, clients)));
  const auto body = [&]() -> Task<> {
    auto stream = co_await served.listener.accept();
    CO_ASSERT_TRUE(stream);
  };
  finish(served.world, served.world.loop().spawn(body()));
  EXPECT_EQ(served.world.transport().stats().closing, 1U);
  EXPECT_TRUE(served.world.loop().run_until(
      [&] { return served.world.transport().stats().closing == 0; }, 5s));
}

// A stream that is over has its record while its handle is kept. Whoever drops one lets the client
// in that waits for it.
TEST(StackLimits, AnEndedStreamThatIsDroppedLetsTheNextClientIn) {
  Served served({.server = {.max_connections = 1, .max_waiting = 1}});
  std::vector<Stream> ended;
  std::vector<Stream> clients;
  std::string accepted;
  const auto fill = [&]() -> Task<> {
    for (int i = 0; i < 2; ++i) {
      auto client = co_await served.world.client_transport().connect(served.listener.local(), 5s);
      auto server = co_await served.listener.accept();
      CO_ASSERT_TRUE(client && server);
      client->abort();
      const auto read = co_await server->read(5s);
      EXPECT_EQ(outcome(read), "reset");
      ended.push_back(std::move(*server));
    }
    co_await open_streams(served.world.client_transport(), served.listener.local(), 1, clients);
  };
  const auto accept = [&]() -> Task<> {
    const auto stream = co_await served.listener.accept();
    accepted = outcome(stream);
  };
  finish(served.world, served.world.loop().spawn(fill()));
  TaskHandle acceptor = served.world.loop().spawn(accept());
  ASSERT_TRUE(served.world.loop().run_until(
      [&] { return served.world.transport().stats().accept_pauses == 1; }, 5s));
  ended.pop_back();
  EXPECT_TRUE(served.world.loop().run_until([&] { return acceptor.done(); }, 5s));
  EXPECT_EQ(accepted, "ok");
  if (acceptor.done()) return;
  acceptor.cancel();
  EXPECT_TRUE(served.world.loop().run_until([&] { return acceptor.done(); }, 5s));
}

// Those that nobody accepts have places of their own, and take none of the others'.
TEST(StackLimits, ClientsThatWaitLeaveTheOthersTheirPlaces) {
  constexpr std::size_t kPlaces = 4;
  Served served({.server = {.max_connections = kPlaces, .max_waiting = 2}});
  Listener there = or_abort(
      served.world.client_transport().listen({StackStreamWorld::client_address().address, 0}));
  std::vector<Stream> clients;
  const auto connect = [&]() -> Task<> {
    auto stream = co_await served.world.client_transport().connect(served.listener.local(), 1s);
    if (stream) clients.push_back(std::move(*stream));
  };
  // The first of them learns the way.
  finish(served.world, served.world.loop().spawn(connect()));
  std::vector<TaskHandle> connecting;
  for (std::size_t i = 0; i < 4 * kPlaces; ++i) {
    connecting.push_back(served.world.loop().spawn(connect()));
  }
  for (TaskHandle& task : connecting) finish(served.world, std::move(task));
  std::vector<Stream> own;
  finish(served.world, served.world.loop().spawn(
                           open_streams(served.world.transport(), there.local(), kPlaces, own)));
  EXPECT_EQ(own.size(), kPlaces);
}

StackWorldOptions many_at_once() {
  StackWorldOptions options;
  for (StackOptions* const host : {&options.client, &options.server}) {
    host->max_connections = kMany;
    host->max_waiting = kMany;
  }
  options.link.queue_packets = 65'536;
  options.link.capacity_packets = 65'536;
  return options;
}

/// Opens `count` streams and accepts them: both ends.
void open_both(Served& served, std::size_t count, std::vector<Stream>& clients,
               std::vector<Stream>& servers) {
  const auto accept = [&]() -> Task<> {
    while (servers.size() < count) {
      auto stream = co_await served.listener.accept();
      CO_ASSERT_TRUE(stream);
      servers.push_back(std::move(*stream));
    }
  };
  TaskHandle acceptor = served.world.loop().spawn(accept());
  finish(served.world,
         served.world.loop().spawn(open_streams(served.world.client_transport(),
                                                served.listener.local(), count, clients)));
  finish(served.world, std::move(acceptor));
}

// Tasks that become ready in one turn may send more than a tx queue holds.
TEST(StackLimits, WhatAllTasksOfATurnSendGoesOut) {
  Served served(many_at_once());
  std::vector<Stream> clients;
  std::vector<Stream> servers;
  const std::vector<std::byte> data = pattern(14'000, seed());
  open_both(served, 400, clients, servers);
  const auto write_all = [&]() -> Task<> {
    for (Stream& server : servers) CO_ASSERT_TRUE(co_await server.write(data, 10s));
    for (Stream& client : clients) {
      const std::string text = co_await read_text(client, data.size());
      CO_ASSERT_TRUE(text.size() == data.size());
    }
  };
  finish(served.world, served.world.loop().spawn(write_all()));
  EXPECT_EQ(served.world.transport().stats().tx_dropped, 0U);
}

TEST(StackLimits, AnEndThatResetsVeryManyReachesAllTheirPeers) {
  Served served(many_at_once());
  std::vector<Stream> clients;
  std::vector<Stream> servers;
  open_both(served, kMany, clients, servers);
  served.world.end_client();
  EXPECT_TRUE(served.world.loop().run_until(
      [&] { return served.world.transport().stats().resets_received == kMany; }, 10s))
      << served.world.transport().stats().resets_received;
}

// For whatever reason: those that a listener's end resets had no handle yet.
TEST(StackLimits, EveryConnectionThatIsResetCounts) {
  Served served;
  std::vector<Stream> clients;
  finish(served.world, served.world.loop().spawn(open_streams(
                           served.world.client_transport(), served.listener.local(), 5, clients)));
  const auto body = [&]() -> Task<> {
    auto aborted = co_await served.listener.accept();
    auto unread = co_await served.listener.accept();
    CO_ASSERT_TRUE(aborted && unread);
    CO_ASSERT_TRUE(co_await clients[1].write(pattern(100, seed()), 5s));
    co_await sleep_for(10ms);
    aborted->abort();
    unread->close();
    co_await sleep_for(10ms);
    EXPECT_EQ(served.world.transport().stats().resets_sent, 2U);
    served.listener = Listener();
    co_await sleep_for(10ms);
    EXPECT_EQ(served.world.transport().stats().resets_sent, 5U);
    EXPECT_EQ(served.world.client_transport().stats().resets_sent, 0U);
    EXPECT_EQ(served.world.client_transport().stats().resets_received, 5U);
  };
  finish(served.world, served.world.loop().spawn(body()));
}

// The place of a close that is cut short is free for who asked, though somebody waits, too.
TEST(StackLimits, AConnectForWhichRoomIsMadeGetsIt) {
  Served served({.server = {.max_connections = 1, .max_waiting = 1, .linger = 60s}});
  Listener there = or_abort(
      served.world.client_transport().listen({StackStreamWorld::client_address().address, 0}));
  std::vector<Stream> clients;
  const auto body = [&]() -> Task<> {
    co_await open_streams(served.world.client_transport(), served.listener.local(), 1, clients);
    {
      auto stream = co_await served.listener.accept();
      CO_ASSERT_TRUE(stream);
    }
    EXPECT_EQ(served.world.transport().stats().closing, 1U);
    co_await open_streams(served.world.client_transport(), served.listener.local(), 1, clients);
    co_await sleep_for(50ms);
    auto own = co_await served.world.transport().connect(there.local(), 5s);
    EXPECT_EQ(outcome(own), "ok");
    EXPECT_EQ(served.world.transport().stats().closing, 0U);
  };
  finish(served.world, served.world.loop().spawn(body()));
}

}  // namespace
}  // namespace pinion::test
