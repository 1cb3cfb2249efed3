#include <malloc.h>
#include <netinet/tcp.h>
#include <sys/resource.h>

#include <array>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "../malloc_counter.h"
#include "abi_world.h"

/// Stacks begin and end; packets; time; what the library shows of itself.

namespace pinion::test {
namespace {

using std::chrono::hours;

class AbiStack : public TwoStacks {
 protected:
  static int create(const pinion_stack_options& options) {
    pinion_stack* stack = nullptr;
    const int error = pinion_stack_create(&options, &stack);
    EXPECT_EQ(error == 0, stack != nullptr);
    if (stack == nullptr) return error;
    EXPECT_EQ(pinion_stack_destroy(stack), 0);
    return error;
  }
  /// With one field changed.
  template <class Change>
  static int create_with(Change change) {
    pinion_stack_options options{.size = sizeof(options)};
    change(options);
    return create(options);
  }
};

TEST_F(AbiStack, ExportsItsFunctionsAloneEachWithItsVersion) {
  std::FILE* const nm = ::popen("nm -D --defined-only " PINION_STACK_LIBRARY, "r");
  ASSERT_NE(nm, nullptr);
  std::array<char, 500> line{};
  int functions = 0;
  while (std::fgets(line.data(), line.size(), nm) != nullptr) {
    std::istringstream words(line.data());
    std::string address;
    std::string kind;
    std::string name;
    words >> address >> kind >> name;
    if (kind == "A" && name.starts_with("PINION_STACK_0")) continue;
    EXPECT_TRUE(kind == "T" && name.starts_with("pinion_stack_")) << line.data();
    EXPECT_TRUE(name.ends_with("@@PINION_STACK_0")) << line.data();
    ++functions;
  }
  EXPECT_EQ(::pclose(nm), 0);
  std::ifstream header(PINION_STACK_HEADER);
  std::stringstream text;
  text << header.rdbuf();
  int declared = -1;  // The macro's own definition.
  for (std::size_t at = 0; (at = text.str().find("PINION_STACK_API ", at)) != std::string::npos;) {
    ++declared;
    ++at;
  }
  EXPECT_EQ(functions, declared);
}

/// The sizes of the first version: a struct that changes must only grow.
TEST_F(AbiStack, StructsHaveTheSizesThatProgramsWereBuiltWith) {
  if (sizeof(void*) != 8) GTEST_SKIP() << "sizes of 64-bit machines";
  EXPECT_EQ(sizeof(pinion_stack_address), 24U);
  EXPECT_EQ(sizeof(pinion_stack_options), 136U);
  EXPECT_EQ(sizeof(pinion_stack_stats), 152U);
  EXPECT_EQ(offsetof(pinion_stack_options, message_size), 48U);
  EXPECT_EQ(offsetof(pinion_stack_options, mtu), 56U);
  EXPECT_EQ(offsetof(pinion_stack_options, last_port), 134U);
  EXPECT_EQ(offsetof(pinion_stack_stats, packets_free), 144U);
}

TEST_F(AbiStack, TellsItsVersion) {
  EXPECT_STREQ(pinion_stack_version(), PINION_PROJECT_VERSION);
}

TEST_F(AbiStack, OptionsOfAnotherSizeAreUnderstoodOrRefused) {
  struct Newer {
    pinion_stack_options options{.size = sizeof(Newer)};
    std::uint64_t unknown = 0;
  } newer;
  pinion_stack* stack = nullptr;
  EXPECT_EQ(pinion_stack_create(&newer.options, &stack), 0);
  EXPECT_EQ(pinion_stack_destroy(stack), 0);
  newer.unknown = 1;
  EXPECT_EQ(pinion_stack_create(&newer.options, &stack), -E2BIG);
  EXPECT_EQ(stack, nullptr);
  EXPECT_EQ(create_with([](auto& o) { o.size = 0; }), -EINVAL);
  EXPECT_EQ(create_with([](auto& o) { o.size = 64; }), -EINVAL);
  EXPECT_EQ(create_with([](auto& o) { o.size = SIZE_MAX; }), -EINVAL);
}

TEST_F(AbiStack, OptionsOutOfRangeAreRefusedWithARemedy) {
  std::array<char, 200> message{};
  pinion_stack_options options{.size = sizeof(options),
                               .message = message.data(),
                               .message_size = message.size(),
                               .max_sockets = 2'000'000};
  EXPECT_EQ(create(options), -EINVAL);
  EXPECT_STREQ(message.data(),
               "error: max_sockets = 2000000\n"
               "fix: max_sockets from 1 to 1048576, or 0 for the default");
  options.message_size = 6;
  EXPECT_EQ(create(options), -EINVAL);
  EXPECT_STREQ(message.data(), "error");
  EXPECT_EQ(create_with([](auto& o) { o.mtu = 575; }), -EINVAL);
  EXPECT_EQ(create_with([](auto& o) { o.mtu = 65'536; }), -EINVAL);
  EXPECT_EQ(create_with([](auto& o) { o.packets = 63; }), -EINVAL);
  EXPECT_EQ(create_with([](auto& o) { o.flags = 16; }), -EINVAL);
  EXPECT_EQ(create_with([](auto& o) { o.receive_buffer = 4'095; }), -EINVAL);
  EXPECT_EQ(create_with([](auto& o) { o.rto_min_ms = 9; }), -EINVAL);
  EXPECT_EQ(create_with([](auto& o) { o.delayed_ack_ms = 401; }), -EINVAL);
  EXPECT_EQ(create_with([](auto& o) { o.start_ns = UINT64_MAX; }), -EINVAL);
  EXPECT_EQ(create_with([](auto& o) { o.address_count = 16; }), -EINVAL);
  EXPECT_EQ(create_with([](auto& o) { o.address_count = 1; }), -EFAULT);
  EXPECT_EQ(create_with([](auto& o) { o.first_port = 65'535; }), 0);
  EXPECT_EQ(create_with([](auto& o) { o.last_port = 1'000; }), -EINVAL);
  EXPECT_EQ(create_with([](auto&) {}), 0);
}

TEST_F(AbiStack, AddressesThatAreNoneAreRefused) {
  const auto with = [](const char* text, unsigned length, std::size_t size) {
    const Address own(text, 0);
    const pinion_stack_address address{
        .size = size, .address = own.get(), .address_size = own.size, .prefix_length = length};
    return create_with([&](auto& o) {
      o.addresses = &address;
      o.address_count = 1;
    });
  };
  constexpr std::size_t kSize = sizeof(pinion_stack_address);
  EXPECT_EQ(with("192.0.2.1", 24, kSize), 0);
  EXPECT_EQ(with("192.0.2.1", 33, kSize), -EINVAL);
  EXPECT_EQ(with("192.0.2.1", 4'000'000'000U, kSize), -EINVAL);
  EXPECT_EQ(with("192.0.2.255", 24, kSize), -EINVAL);
  EXPECT_EQ(with("224.0.0.1", 24, kSize), -EINVAL);
  EXPECT_EQ(with("192.0.2.1", 24, kSize - 1), -EINVAL);
  const Address own("192.0.2.1", 0);
  const pinion_stack_address address{
      .size = kSize, .address = own.get(), .address_size = own.size, .prefix_length = 24};
  const pinion_stack_address twice[] = {address, address};
  EXPECT_EQ(create_with([&](auto& o) {
              o.addresses = twice;
              o.address_count = 2;
            }),
            -EEXIST);
}

TEST_F(AbiStack, MemoryThatTheSystemRefusesIsAnError) {
  if (!malloc_is_counted()) GTEST_SKIP() << "a sanitizer's malloc";
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_AS, &before), 0);
  rlimit small = before;
  small.rlim_cur = 1UL << 30;
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &small), 0);
  const int error = create_with([](auto& o) { o.packets = 1U << 20; });
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &before), 0);
  EXPECT_EQ(error, -ENOMEM);
}

TEST_F(AbiStack, TenThousandStacksLeaveNothingBehind) {
  const auto live_and_die = [](int number) {
    const StackPtr stack = make_stack(1, {.seed = static_cast<std::uint64_t>(number) + 1,
                                          .max_sockets = 8,
                                          .max_connections = 8,
                                          .max_half_open = 8,
                                          .max_time_waits = 8,
                                          .packets = 64});
    // With something in each queue.
    const int tcp = stream(stack.get());
    const Address peer("192.0.2.9", 7);
    EXPECT_EQ(pinion_stack_connect(stack.get(), tcp, peer.get(), peer.size), -EINPROGRESS);
    const int udp = datagram(stack.get());
    EXPECT_EQ(pinion_stack_sendto(stack.get(), udp, "x", 1, 0, peer.get(), peer.size), 1);
    EXPECT_EQ(pinion_stack_connect(stack.get(), udp, peer.get(), peer.size), 0);
    EXPECT_GT(pinion_stack_next_size(stack.get()), 0);
  };
  live_and_die(0);
  const std::size_t before = ::mallinfo2().uordblks;
  for (int i = 1; i <= 10'000; ++i) live_and_die(i);
  const std::size_t after = ::mallinfo2().uordblks;
  EXPECT_LE(after, before + 4'096);
}

TEST_F(AbiStack, NothingIsAllocatedOnceSocketsAreThere) {
  if (!malloc_is_counted()) GTEST_SKIP() << "a sanitizer's malloc";
  const std::uint64_t none = mallocs();
  static_cast<void>(make_stack(3));
  ASSERT_GT(mallocs(), none) << "the library's calls count";
  connect_pair();
  EXPECT_EQ(set(client.get(), near, IPPROTO_TCP, TCP_NODELAY, 1), 0);
  const auto turn = [this] {
    std::array<char, 1'000> bytes{};
    EXPECT_EQ(pinion_stack_write(client.get(), near, bytes.data(), bytes.size()), 1'000);
    std::array<unsigned char, 1'500> packet{};
    pinion_stack* const ends[] = {client.get(), server.get(), client.get()};
    for (int i = 0; i < 2; ++i) {
      ssize_t size = 0;
      while ((size = pinion_stack_take(ends[i], packet.data(), packet.size())) > 0) {
        EXPECT_EQ(pinion_stack_give(ends[i + 1], packet.data(), static_cast<std::size_t>(size)), 0);
      }
    }
    EXPECT_EQ(pinion_stack_read(server.get(), far, bytes.data(), bytes.size()), 1'000);
  };
  for (int i = 0; i < 100; ++i) turn();
  const std::uint64_t before = mallocs();
  for (int i = 0; i < 1'000; ++i) turn();
  EXPECT_EQ(mallocs(), before);
}

TEST_F(AbiStack, OneStackDoesNotKnowTheOther) {
  const int a = stream(client.get());
  const int b = datagram(client.get());
  const int c = datagram(server.get());
  EXPECT_EQ(a, 3);
  EXPECT_EQ(b, 4);
  EXPECT_EQ(c, 3);
  EXPECT_EQ(get(client.get(), 3, SOL_SOCKET, SO_TYPE), SOCK_STREAM);
  EXPECT_EQ(get(server.get(), 3, SOL_SOCKET, SO_TYPE), SOCK_DGRAM);
  EXPECT_EQ(pinion_stack_close(server.get(), b), -EBADF);
  EXPECT_EQ(pinion_stack_set_time(client.get(), 1'000), 0);
  std::uint64_t time = 1;
  EXPECT_EQ(pinion_stack_time(server.get(), &time), 0);
  EXPECT_EQ(time, 0U);
}

TEST_F(AbiStack, TimeGoesForwardOnly) {
  const StackPtr stack = make_stack(1, {.start_ns = 5'000'000'000});
  std::uint64_t time = 0;
  EXPECT_EQ(pinion_stack_time(stack.get(), &time), 0);
  EXPECT_EQ(time, 5'000'000'000U);
  EXPECT_EQ(pinion_stack_set_time(stack.get(), 4'999'999'999), -EINVAL);
  EXPECT_EQ(pinion_stack_set_time(stack.get(), 5'000'000'000), 0);
  EXPECT_EQ(pinion_stack_set_time(stack.get(), std::uint64_t{1} << 62), -EINVAL);
  EXPECT_EQ(pinion_stack_set_time(stack.get(), UINT64_MAX), -EINVAL);
  EXPECT_EQ(pinion_stack_time(stack.get(), &time), 0);
  EXPECT_EQ(time, 5'000'000'000U);
  std::uint64_t deadline = 0;
  EXPECT_EQ(pinion_stack_next_deadline(stack.get(), &deadline), 0);
  EXPECT_EQ(deadline, UINT64_MAX);
  EXPECT_EQ(pinion_stack_set_time(stack.get(), (std::uint64_t{1} << 62) - 1), 0);
}

TEST_F(AbiStack, TimersFireAtTheirTimesAlsoInOneStep) {
  // A SYN into nowhere: once step by step, once by hours at a time.
  std::vector<int> counts;
  for (const bool in_one_step : {false, true}) {
    const StackPtr stack = make_stack(1);
    const int fd = stream(stack.get());
    const Address peer("192.0.2.9", 7);
    EXPECT_EQ(pinion_stack_connect(stack.get(), fd, peer.get(), peer.size), -EINPROGRESS);
    const auto end = static_cast<std::uint64_t>(std::chrono::nanoseconds(hours{1}).count());
    std::uint64_t deadline = 0;
    while (!in_one_step) {
      EXPECT_EQ(pinion_stack_next_deadline(stack.get(), &deadline), 0);
      if (deadline == UINT64_MAX) break;
      EXPECT_EQ(pinion_stack_set_time(stack.get(), deadline), 0);
    }
    EXPECT_EQ(pinion_stack_set_time(stack.get(), end), 0);
    EXPECT_EQ(error_of(stack.get(), fd), ETIMEDOUT);
    int count = 0;
    std::array<std::uint8_t, 100> packet{};
    while (pinion_stack_take(stack.get(), packet.data(), packet.size()) > 0) ++count;
    counts.push_back(count);
  }
  EXPECT_GT(counts[0], 5);
  EXPECT_EQ(counts[0], counts[1]);
}

TEST_F(AbiStack, PacketsAreTakenWholeOrNotAtAll) {
  std::array<std::uint8_t, 1'500> packet{};
  EXPECT_EQ(pinion_stack_take(client.get(), packet.data(), packet.size()), 0);
  EXPECT_EQ(pinion_stack_next_size(client.get()), 0);
  const int fd = datagram(client.get());
  const Address peer = server_at(9);
  EXPECT_EQ(pinion_stack_sendto(client.get(), fd, "hello", 5, 0, peer.get(), peer.size), 5);
  EXPECT_EQ(pinion_stack_next_size(client.get()), 33);
  EXPECT_EQ(pinion_stack_take(client.get(), packet.data(), 32), -EMSGSIZE);
  EXPECT_EQ(pinion_stack_take(client.get(), packet.data(), 33), 33);
  EXPECT_EQ(packet[0], 0x45);
  EXPECT_EQ(std::memcmp(&packet[28], "hello", 5), 0);
  EXPECT_EQ(pinion_stack_next_size(client.get()), 0);
}

TEST_F(AbiStack, PacketsOfAnySizeAreTakenIn) {
  const Packet junk(65'536, 0x45);
  EXPECT_EQ(pinion_stack_give(client.get(), junk.data(), 0), -EINVAL);
  EXPECT_EQ(pinion_stack_give(client.get(), junk.data(), junk.size()), -EMSGSIZE);
  for (std::size_t size = 1; size < junk.size(); size += 97) {
    EXPECT_EQ(pinion_stack_give(client.get(), junk.data(), size), 0);
  }
  pinion_stack_stats stats{.size = sizeof(stats)};
  EXPECT_EQ(pinion_stack_get_stats(client.get(), &stats), 0);
  EXPECT_EQ(stats.packets_free, 4'096U);
  const StackPtr small = make_stack(1, {.packets = 64});
  EXPECT_EQ(pinion_stack_give(small.get(), junk.data(), 65'535), 0);
  std::vector<iovec> many(65, {.iov_base = const_cast<std::uint8_t*>(junk.data()), .iov_len = 20});
  EXPECT_EQ(pinion_stack_give_burst(small.get(), many.data(), 65), 65);
  many[3].iov_len = 0;
  EXPECT_EQ(pinion_stack_give_burst(small.get(), many.data(), 65), 3);
  EXPECT_EQ(pinion_stack_give_burst(small.get(), &many[3], 1), -EINVAL);
  many[3] = {.iov_base = nullptr, .iov_len = 20};
  EXPECT_EQ(pinion_stack_give_burst(small.get(), &many[3], 1), -EFAULT);
  EXPECT_EQ(pinion_stack_give_burst(small.get(), many.data(), 1'025), -EINVAL);
  EXPECT_EQ(pinion_stack_give_burst(small.get(), many.data(), -1), -EINVAL);
  EXPECT_EQ(pinion_stack_give_burst(small.get(), nullptr, 0), 0);
}

TEST_F(AbiStack, WhatIsGivenTogetherIsOneBurst) {
  connect_pair();
  const auto send = [this](std::vector<Packet>& segments) {
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(set(client.get(), near, IPPROTO_TCP, TCP_NODELAY, 1), 0);
      EXPECT_EQ(pinion_stack_write(client.get(), near, "1234", 4), 4);
      Packet packet(1'500);
      const ssize_t size = pinion_stack_take(client.get(), packet.data(), packet.size());
      ASSERT_GT(size, 0);
      packet.resize(static_cast<std::size_t>(size));
      segments.push_back(packet);
    }
  };
  const auto answers = [this] {
    int count = 0;
    Packet packet(1'500);
    for (;;) {
      const ssize_t size = pinion_stack_take(server.get(), packet.data(), packet.size());
      if (size == 0) return count;
      EXPECT_EQ(pinion_stack_give(client.get(), packet.data(), static_cast<std::size_t>(size)), 0);
      ++count;
    }
  };
  std::vector<Packet> segments;
  send(segments);
  std::vector<iovec> burst;
  for (Packet& segment : segments) {
    burst.push_back({.iov_base = segment.data(), .iov_len = segment.size()});
  }
  EXPECT_EQ(pinion_stack_give_burst(server.get(), burst.data(), 4), 4);
  EXPECT_EQ(answers(), 1);
  segments.clear();
  send(segments);
  for (const Packet& segment : segments) {
    EXPECT_EQ(pinion_stack_give(server.get(), segment.data(), segment.size()), 0);
  }
  EXPECT_GE(answers(), 2);
  std::array<char, 100> bytes{};
  EXPECT_EQ(pinion_stack_read(server.get(), far, bytes.data(), bytes.size()), 32);
}

TEST_F(AbiStack, StatsFillWhatTheCallerHasRoomFor) {
  connect_pair();
  struct Newer {
    pinion_stack_stats stats{.size = sizeof(Newer)};
    std::uint64_t unknown = 77;
  } newer;
  EXPECT_EQ(pinion_stack_get_stats(client.get(), &newer.stats), 0);
  EXPECT_EQ(newer.unknown, 0U);
  EXPECT_EQ(newer.stats.size, sizeof(newer));
  EXPECT_EQ(newer.stats.tcp_segments_out, 2U);
  EXPECT_EQ(newer.stats.tcp_connections, 1U);
  EXPECT_EQ(newer.stats.sockets, 1U);
  pinion_stack_stats older{.size = offsetof(pinion_stack_stats, packets_out), .packets_out = 99};
  EXPECT_EQ(pinion_stack_get_stats(client.get(), &older), 0);
  EXPECT_EQ(older.packets_in, 1U);
  EXPECT_EQ(older.packets_out, 99U);
  older.size = 3;
  EXPECT_EQ(pinion_stack_get_stats(client.get(), &older), -EINVAL);
}

}  // namespace
}  // namespace pinion::test
