#include <netinet/tcp.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <set>

#include <pinion/lib/random.h>
#include <pinion/test/seed.h>

#include "abi_world.h"

/// Arguments that make no sense, and packets that make none.

namespace pinion::test {
namespace {

class AbiHostile : public TwoStacks {};

/// Every function, with one argument wrong.
TEST_F(AbiHostile, NoStackIsAFault) {
  char byte = 0;
  iovec part{.iov_base = &byte, .iov_len = 1};
  Address address = client_at(1);
  std::uint64_t time = 0;
  pollfd polled{};
  pinion_stack_stats stats{.size = sizeof(stats)};
  pinion_stack_options options{.size = sizeof(options)};
  pinion_stack* made = nullptr;
  EXPECT_EQ(pinion_stack_create(nullptr, &made), -EFAULT);
  EXPECT_EQ(pinion_stack_create(&options, nullptr), -EFAULT);
  EXPECT_EQ(pinion_stack_destroy(nullptr), -EFAULT);
  EXPECT_EQ(pinion_stack_give(nullptr, &byte, 1), -EFAULT);
  EXPECT_EQ(pinion_stack_give_burst(nullptr, &part, 1), -EFAULT);
  EXPECT_EQ(pinion_stack_take(nullptr, &byte, 1), -EFAULT);
  EXPECT_EQ(pinion_stack_next_size(nullptr), -EFAULT);
  EXPECT_EQ(pinion_stack_set_time(nullptr, 1), -EFAULT);
  EXPECT_EQ(pinion_stack_time(nullptr, &time), -EFAULT);
  EXPECT_EQ(pinion_stack_next_deadline(nullptr, &time), -EFAULT);
  EXPECT_EQ(pinion_stack_set_wait(nullptr, nullptr, nullptr), -EFAULT);
  EXPECT_EQ(pinion_stack_set_nonblocking(nullptr, 3, 1), -EFAULT);
  EXPECT_EQ(pinion_stack_poll(nullptr, &polled, 1), -EFAULT);
  EXPECT_EQ(pinion_stack_socket(nullptr, AF_INET, SOCK_STREAM, 0), -EFAULT);
  EXPECT_EQ(pinion_stack_bind(nullptr, 3, address.get(), address.size), -EFAULT);
  EXPECT_EQ(pinion_stack_listen(nullptr, 3, 1), -EFAULT);
  EXPECT_EQ(pinion_stack_accept(nullptr, 3, nullptr, nullptr), -EFAULT);
  EXPECT_EQ(pinion_stack_accept4(nullptr, 3, nullptr, nullptr, 0), -EFAULT);
  EXPECT_EQ(pinion_stack_connect(nullptr, 3, address.get(), address.size), -EFAULT);
  EXPECT_EQ(pinion_stack_read(nullptr, 3, &byte, 1), -EFAULT);
  EXPECT_EQ(pinion_stack_readv(nullptr, 3, &part, 1), -EFAULT);
  EXPECT_EQ(pinion_stack_recvfrom(nullptr, 3, &byte, 1, 0, nullptr, nullptr), -EFAULT);
  EXPECT_EQ(pinion_stack_write(nullptr, 3, &byte, 1), -EFAULT);
  EXPECT_EQ(pinion_stack_writev(nullptr, 3, &part, 1), -EFAULT);
  EXPECT_EQ(pinion_stack_sendto(nullptr, 3, &byte, 1, 0, nullptr, 0), -EFAULT);
  EXPECT_EQ(pinion_stack_shutdown(nullptr, 3, SHUT_WR), -EFAULT);
  EXPECT_EQ(pinion_stack_close(nullptr, 3), -EFAULT);
  EXPECT_EQ(pinion_stack_getsockname(nullptr, 3, address.get(), &address.size), -EFAULT);
  EXPECT_EQ(pinion_stack_getpeername(nullptr, 3, address.get(), &address.size), -EFAULT);
  EXPECT_EQ(pinion_stack_getsockopt(nullptr, 3, SOL_SOCKET, SO_ERROR, &byte, &address.size),
            -EFAULT);
  EXPECT_EQ(pinion_stack_setsockopt(nullptr, 3, SOL_SOCKET, SO_KEEPALIVE, &byte, 1), -EFAULT);
  EXPECT_EQ(pinion_stack_get_stats(nullptr, &stats), -EFAULT);
}

TEST_F(AbiHostile, WhatPointsNowhereIsAFault) {
  pinion_stack* const s = client.get();
  connect_pair();
  socklen_t size = 4;
  char byte = 0;
  Address address;
  EXPECT_EQ(pinion_stack_give(s, nullptr, 1), -EFAULT);
  EXPECT_EQ(pinion_stack_give_burst(s, nullptr, 1), -EFAULT);
  EXPECT_EQ(pinion_stack_take(s, nullptr, 1), -EFAULT);
  EXPECT_EQ(pinion_stack_time(s, nullptr), -EFAULT);
  EXPECT_EQ(pinion_stack_next_deadline(s, nullptr), -EFAULT);
  EXPECT_EQ(pinion_stack_connect(s, near, nullptr, 16), -EFAULT);
  EXPECT_EQ(pinion_stack_read(s, near, nullptr, 1), -EFAULT);
  EXPECT_EQ(pinion_stack_write(s, near, nullptr, 1), -EFAULT);
  EXPECT_EQ(pinion_stack_getsockname(s, near, nullptr, &size), -EFAULT);
  EXPECT_EQ(pinion_stack_getsockname(s, near, address.get(), nullptr), -EFAULT);
  EXPECT_EQ(pinion_stack_getpeername(s, near, nullptr, &size), -EFAULT);
  EXPECT_EQ(pinion_stack_getpeername(s, near, address.get(), nullptr), -EFAULT);
  EXPECT_EQ(pinion_stack_getsockopt(s, near, SOL_SOCKET, SO_TYPE, nullptr, &size), -EFAULT);
  EXPECT_EQ(pinion_stack_getsockopt(s, near, SOL_SOCKET, SO_TYPE, &byte, nullptr), -EFAULT);
  EXPECT_EQ(pinion_stack_get_stats(s, nullptr), -EFAULT);
}

TEST_F(AbiHostile, WhatIsNoDescriptorIsBad) {
  pinion_stack* const s = client.get();
  const int closed = stream(s);
  EXPECT_EQ(pinion_stack_close(s, closed), 0);
  static_cast<void>(stream(server.get()));
  char byte = 0;
  iovec part{.iov_base = &byte, .iov_len = 1};
  Address address = client_at(1);
  int value = 1;
  socklen_t size = sizeof(value);
  for (const int fd : {closed, -1, 0, 1, 2, 1'027, INT32_MAX, INT32_MIN}) {
    EXPECT_EQ(pinion_stack_set_nonblocking(s, fd, 1), -EBADF);
    EXPECT_EQ(pinion_stack_bind(s, fd, address.get(), address.size), -EBADF);
    EXPECT_EQ(pinion_stack_listen(s, fd, 1), -EBADF);
    EXPECT_EQ(pinion_stack_accept(s, fd, nullptr, nullptr), -EBADF);
    EXPECT_EQ(pinion_stack_accept4(s, fd, nullptr, nullptr, 0), -EBADF);
    EXPECT_EQ(pinion_stack_connect(s, fd, address.get(), address.size), -EBADF);
    EXPECT_EQ(pinion_stack_read(s, fd, &byte, 1), -EBADF);
    EXPECT_EQ(pinion_stack_readv(s, fd, &part, 1), -EBADF);
    EXPECT_EQ(pinion_stack_recvfrom(s, fd, &byte, 1, 0, nullptr, nullptr), -EBADF);
    EXPECT_EQ(pinion_stack_write(s, fd, &byte, 1), -EBADF);
    EXPECT_EQ(pinion_stack_writev(s, fd, &part, 1), -EBADF);
    EXPECT_EQ(pinion_stack_sendto(s, fd, &byte, 1, 0, nullptr, 0), -EBADF);
    EXPECT_EQ(pinion_stack_shutdown(s, fd, SHUT_WR), -EBADF);
    EXPECT_EQ(pinion_stack_close(s, fd), -EBADF);
    EXPECT_EQ(pinion_stack_getsockname(s, fd, address.get(), &address.size), -EBADF);
    EXPECT_EQ(pinion_stack_getpeername(s, fd, address.get(), &address.size), -EBADF);
    EXPECT_EQ(pinion_stack_getsockopt(s, fd, SOL_SOCKET, SO_TYPE, &value, &size), -EBADF);
    EXPECT_EQ(pinion_stack_setsockopt(s, fd, SOL_SOCKET, SO_KEEPALIVE, &value, size), -EBADF);
  }
}

/// Calls with values from a few that matter.
class AnyCalls {
  template <class... Values>
  auto one_of(Values... values) {
    const std::array all{values...};
    return all[random_.below(all.size())];
  }

 public:
  explicit AnyCalls(Random& random) : random_(random) {}

  /// One call on `stack`: 0 or its error.
  long call(pinion_stack* stack) {
    const int fd = static_cast<int>(random_.between(2, 12));
    const std::size_t size = random_.below(bytes_.size());
    Address address = any_address();
    switch (random_.below(13)) {
      case 0:
      case 1:
        return least(pinion_stack_socket(stack, one_of(AF_INET, AF_INET6),
                                         one_of(SOCK_STREAM, SOCK_DGRAM), 0));
      case 2:
        return pinion_stack_bind(stack, fd, address.get(), address.size);
      case 3:
        return pinion_stack_listen(stack, fd, one_of(-1, 0, 1, 5));
      case 4:
        return least(pinion_stack_accept(stack, fd, address.get(), &address.size));
      case 5:
      case 6:
        return pinion_stack_connect(stack, fd, address.get(), address.size);
      case 7:
        return least(pinion_stack_read(stack, fd, bytes_.data(), size));
      case 8:
      case 9:
        return least(pinion_stack_write(stack, fd, bytes_.data(), size));
      case 10:
        return least(
            pinion_stack_sendto(stack, fd, bytes_.data(), size, 0, address.get(), address.size));
      case 11:
        return pinion_stack_shutdown(stack, fd, static_cast<int>(random_.between(-1, 3)));
      default:
        return option(stack, fd);
    }
  }

 private:
  static long least(long answer) { return std::min(answer, 0L); }

  Address any_address() {
    const bool v6 = random_.chance(0.3);
    const auto port = one_of(std::uint16_t{0}, std::uint16_t{7}, std::uint16_t{9});
    return v6 ? Address(one_of("2001:db8::1", "2001:db8::2", "::", "::1"), port)
              : Address(one_of("192.0.2.1", "192.0.2.2", "0.0.0.0", "127.0.0.1"), port);
  }

  long option(pinion_stack* stack, int fd) {
    const int level = one_of(SOL_SOCKET, int{IPPROTO_TCP}, int{IPPROTO_IP}, int{IPPROTO_IPV6});
    const int name = static_cast<int>(random_.between(0, 70));
    int value = static_cast<int>(random_.between(-1, 100'000));
    socklen_t size = sizeof(value);
    if (random_.chance(0.5)) return pinion_stack_getsockopt(stack, fd, level, name, &value, &size);
    return pinion_stack_setsockopt(stack, fd, level, name, &value, size);
  }

  Random& random_;
  std::vector<char> bytes_ = std::vector<char>(30'000);
};

/// While packets are lost and time passes.
TEST_F(AbiHostile, AnyCallsInAnyOrderEndInAnErrorOrWork) {
  Random random(seed());
  client = make_stack(1, {.seed = seed() | 1, .max_sockets = 12, .max_connections = 8});
  server = make_stack(2, {.seed = seed() | 2, .max_sockets = 12, .max_connections = 8});
  passes = [&random](const Packet&) { return !random.chance(0.1); };
  AnyCalls calls(random);
  std::set<long> answers;
  for (int i = 0; i < 30'000; ++i) {
    pinion_stack* const stack = random.chance(0.5) ? client.get() : server.get();
    const long answer = calls.call(stack);
    EXPECT_GE(answer, -4'095);
    answers.insert(answer);
    const int fd = static_cast<int>(random.between(2, 12));
    static_cast<void>(ready(stack, fd));
    if (random.chance(0.05)) static_cast<void>(pinion_stack_close(stack, fd));
    if (random.chance(0.1)) run_for(std::chrono::milliseconds{random.between(0, 2'000)});
  }
  // Otherwise the test has seen too little.
  for (const int error : {0, EBADF, EAGAIN, EINPROGRESS, EADDRINUSE, EINVAL, EPIPE, ENOTCONN,
                          EMFILE, EISCONN, EAFNOSUPPORT, ENOPROTOOPT}) {
    EXPECT_TRUE(answers.contains(-error)) << error;
  }
}

TEST_F(AbiHostile, DamagedPacketsDoNoHarm) {
  Random random(seed());
  connect_pair();
  recording = true;
  EXPECT_EQ(pinion_stack_write(client.get(), near, "some bytes", 10), 10);
  EXPECT_EQ(pinion_stack_shutdown(client.get(), near, SHUT_WR), 0);
  carry();
  const std::vector<Packet> good = carried;
  recording = false;
  for (int i = 0; i < 20'000; ++i) {
    Packet packet = good[random.below(good.size())];
    for (int flips = static_cast<int>(random.between(1, 4)); flips > 0; --flips) {
      packet[random.below(packet.size())] ^= static_cast<std::uint8_t>(1U << random.below(8));
    }
    if (random.chance(0.3)) packet.resize(random.below(packet.size()) + 1);
    EXPECT_EQ(pinion_stack_give(server.get(), packet.data(), packet.size()), 0);
  }
  carry();
  EXPECT_EQ(read_text(server.get(), far), "some bytes");
  EXPECT_EQ(read_text(server.get(), far), "");
}

}  // namespace
}  // namespace pinion::test
