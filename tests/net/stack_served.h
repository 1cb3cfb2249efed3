#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "kernel_world.h"
#include "stack_stream_world.h"

/// An echo server over the own stack, and clients that ask it.

namespace pinion::test {

using namespace std::chrono_literals;

inline Task<> echo(Stream stream) {
  while (auto chunk = co_await stream.read(30s)) {
    if (!co_await stream.write(std::move(*chunk), 30s)) break;
  }
}

inline Task<> accept_all(Loop& loop, Listener& listener) {
  while (auto stream = co_await listener.accept()) loop.spawn(echo(std::move(*stream)));
}

/// Sends `data` and reads it back.
inline Task<> ask(Stream& stream, const std::vector<std::byte>& data) {
  CO_ASSERT_TRUE(co_await stream.write(data, 10s));
  std::size_t at = 0;
  while (at < data.size()) {
    const auto chunk = co_await stream.read(10s);
    CO_ASSERT_TRUE(chunk);
    CO_ASSERT_TRUE(at + chunk->size() <= data.size());
    EXPECT_TRUE(std::ranges::equal(chunk->span(), std::span(data).subspan(at, chunk->size())));
    at += chunk->size();
  }
}

/// `count` connections, one after the other, each asks `requests` times and closes.
inline Task<> come_and_go(Transport& transport, Endpoint peer, std::uint64_t count,
                          std::uint64_t requests, const std::vector<std::byte>& data) {
  for (std::uint64_t i = 0; i < count; ++i) {
    auto stream = co_await transport.connect(peer, 20s);
    CO_ASSERT_TRUE(stream);
    for (std::uint64_t j = 0; j < requests; ++j) co_await ask(*stream, data);
  }
}

/// A task that hangs is ended, since it refers to what its test holds.
template <class World>
void finish(World& world, TaskHandle task) {
  const auto done = [&task] { return task.done(); };
  EXPECT_TRUE(world.loop().run_until(done, 60s)) << "the task hangs";
  if (task.done()) return;
  task.cancel();
  EXPECT_TRUE(world.loop().run_until(done, 5s));
}

struct Served {
  explicit Served(const StackWorldOptions& options = {})
      : world(options), listener(or_abort(world.transport().listen(world.any_port()))) {}

  void serve() { world.loop().spawn(accept_all(world.loop(), listener)); }
  void go(std::uint64_t count, std::uint64_t requests, const std::vector<std::byte>& data) {
    finish(world, world.loop().spawn(come_and_go(world.client_transport(), listener.local(), count,
                                                 requests, data)));
  }

  StackStreamWorld world;
  Listener listener;
};

inline Task<> open_streams(Transport& transport, Endpoint peer, std::size_t count,
                           std::vector<Stream>& into) {
  for (std::size_t i = 0; i < count; ++i) {
    auto stream = co_await transport.connect(peer, 5s);
    CO_ASSERT_TRUE(stream);
    into.push_back(std::move(*stream));
  }
}

}  // namespace pinion::test
