#include "mixed_server.h"

#include <fmt/core.h>
#include <pinion/eventloop/runtime.h>
#include <pinion/net/kernel_transport.h>
#include <pthread.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <future>
#include <utility>

#include "support/machine.h"

namespace pinion::bench {
namespace {

template <class T>
T must(Result<T> result) {
  if (result) return std::move(*result);
  fmt::print(stderr, "error: {}\nfix: {}\n", result.error().what, result.error().hint);
  std::exit(1);
}

/// About 3 us of arithmetic, each step of which needs the one before.
void compute_piece(std::uint64_t& state) {
  constexpr int kSteps = 3'600;
  std::uint64_t value = state;
  for (int i = 0; i < kSteps; ++i) value = value * 6'364'136'223'846'793'005U + 1;
  state = value;
  asm volatile("" : : "r"(value) : "memory");
}

/// As many pieces as a millisecond has.
std::uint64_t pieces_per_millisecond() {
  constexpr int kTries = 2'000;
  std::uint64_t state = 1;
  std::int64_t best = INT64_MAX;
  for (int i = 0; i < kTries; ++i) {
    const Instant begin = MonotonicTime::read();
    compute_piece(state);
    best = std::min(best, saturating_sub(MonotonicTime::read(), begin).count());
  }
  return 1'000'000 / static_cast<std::uint64_t>(std::max<std::int64_t>(best, 1));
}

struct Counter {
  std::atomic<std::uint64_t>& pieces;
  std::uint64_t per_task;

  /// Only this lcore writes.
  void add() {
    pieces.store(pieces.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
};

Task<> compute(Counter counter, bool asks) {
  std::uint64_t state = 1;
  for (Wake wake = Wake::elapsed; wake == Wake::elapsed; wake = co_await yield()) {
    for (std::uint64_t i = 0; i < counter.per_task && !cancelled(); ++i) {
      compute_piece(state);
      counter.add();
      if (asks) co_await maybe_yield();
    }
  }
}

Task<> serve(Stream conn) {
  while (auto chunk = co_await conn.read(kNoTimeout)) {
    if (!co_await conn.write(std::move(*chunk), kNoTimeout)) break;
  }
}

Task<> accept_all(Loop& loop, Listener listener) {
  while (auto conn = co_await listener.accept()) {
    loop.spawn(serve(std::move(*conn)), "connection");
  }
}

Result<std::uint16_t> set_up(Lcore& lcore, Sharing sharing, Counter counter) {
  Loop& loop = lcore.loop();
  auto transport = KernelTransport::create(loop);
  if (!transport) return tl::unexpected(transport.error());
  KernelTransport& kept = lcore.keep(std::move(*transport));
  auto listener = kept.listen({.address = IpAddress::v4({127, 0, 0, 1})});
  if (!listener) return tl::unexpected(listener.error());
  const std::uint16_t port = listener->local().port;
  TaskGroup batch = loop.default_group();
  if (sharing == Sharing::groups) batch = must(loop.make_group("batch"));
  for (std::size_t i = 0; i < MixedServer::kComputing; ++i) {
    loop.spawn(compute(counter, sharing != Sharing::neither), "compute", batch);
  }
  loop.spawn(accept_all(loop, std::move(*listener)), "acceptor");
  return port;
}

}  // namespace

MixedServer::MixedServer(Sharing sharing, int cpu) {
  std::promise<std::uint16_t> port;
  std::future<std::uint16_t> listening = port.get_future();
  thread_ = std::thread([this, sharing, cpu, told = std::move(port)]() mutable {
    pin_to_cpu(cpu);  // The bench's own thread is tied to another one.
    static const std::uint64_t per_task = pieces_per_millisecond();
    runtime_ =
        must(Runtime::create({.cpus = {static_cast<unsigned>(cpu)}, .handle_signals = false}));
    must(runtime_->run([&](Lcore& lcore) -> Result<> {
      pthread_getcpuclockid(pthread_self(), &clock_);
      const auto set = set_up(lcore, sharing, {pieces_, per_task});
      if (!set) return tl::unexpected(set.error());
      told.set_value(*set);
      return {};
    }));
  });
  port_ = listening.get();
}

MixedServer::~MixedServer() {
  runtime_->request_stop();
  thread_.join();
}

std::int64_t MixedServer::cpu_ns() const {
  timespec used{};
  clock_gettime(clock_, &used);
  return used.tv_sec * 1'000'000'000 + used.tv_nsec;
}

}  // namespace pinion::bench
