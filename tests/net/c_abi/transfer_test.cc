#include <netinet/tcp.h>
#include <poll.h>

#include <array>
#include <numeric>

#include <pinion/lib/random.h>
#include <pinion/test/seed.h>

#include "abi_world.h"

/// Bytes and datagrams.

namespace pinion::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class AbiTransfer : public TwoStacks {
 protected:
  /// Two UDP sockets at port 9 of each side.
  void open_datagrams(bool v6 = false) {
    near = datagram(client.get(), v6);
    far = datagram(server.get(), v6);
    const Address here = client_at(9, v6);
    const Address there = server_at(9, v6);
    ASSERT_EQ(pinion_stack_bind(client.get(), near, here.get(), here.size), 0);
    ASSERT_EQ(pinion_stack_bind(server.get(), far, there.get(), there.size), 0);
  }
};

TEST_F(AbiTransfer, CarriesAMegabyteBothWays) {
  for (const bool v6 : {false, true}) {
    listener = -1;
    connect_pair(v6);
    std::vector<std::uint8_t> bytes(1'000'000);
    Random random(seed());
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random.next());
    struct Way {
      pinion_stack* from;
      int out;
      pinion_stack* to;
      int in;
    };
    for (const Way& way :
         {Way{client.get(), near, server.get(), far}, Way{server.get(), far, client.get(), near}}) {
      std::vector<std::uint8_t> got;
      std::size_t sent = 0;
      for (int turns = 0; got.size() < bytes.size() && turns < 10'000; ++turns) {
        const ssize_t written =
            pinion_stack_write(way.from, way.out, bytes.data() + sent, bytes.size() - sent);
        if (written > 0) sent += static_cast<std::size_t>(written);
        carry();
        std::array<std::uint8_t, 7'000> part{};
        ssize_t size = 0;
        while ((size = pinion_stack_read(way.to, way.in, part.data(), part.size())) > 0) {
          got.insert(got.end(), part.begin(), part.begin() + size);
        }
        EXPECT_EQ(size, -EAGAIN);
        run_for(milliseconds{1});
      }
      EXPECT_TRUE(got == bytes);
    }
  }
}

TEST_F(AbiTransfer, PartsAreScatteredAndGathered) {
  connect_pair();
  char a[] = "abc";
  char b[] = "defg";
  const iovec out[] = {{.iov_base = a, .iov_len = 3},
                       {.iov_base = nullptr, .iov_len = 0},
                       {.iov_base = b, .iov_len = 4}};
  recording = true;
  EXPECT_EQ(pinion_stack_writev(client.get(), near, out, 3), 7);
  carry();
  EXPECT_EQ(carried[0].size(), 20U + 32 + 7) << "one segment";
  char c[3];
  char d[10];
  const iovec in[] = {{.iov_base = c, .iov_len = 2}, {.iov_base = d, .iov_len = sizeof(d)}};
  EXPECT_EQ(pinion_stack_readv(server.get(), far, in, 2), 7);
  EXPECT_EQ(std::string(c, 2) + std::string(d, 5), "abcdefg");
  EXPECT_EQ(pinion_stack_readv(server.get(), far, in, 2), -EAGAIN);
  EXPECT_EQ(pinion_stack_readv(server.get(), far, nullptr, 0), 0);
  EXPECT_EQ(pinion_stack_readv(server.get(), far, nullptr, 1), -EFAULT);
  EXPECT_EQ(pinion_stack_readv(server.get(), far, in, -1), -EINVAL);
  EXPECT_EQ(pinion_stack_writev(server.get(), far, in, 1'025), -EINVAL);
  const iovec none{.iov_base = nullptr, .iov_len = 1};
  EXPECT_EQ(pinion_stack_writev(server.get(), far, &none, 1), -EFAULT);
  const iovec huge[] = {{.iov_base = a, .iov_len = SIZE_MAX / 2},
                        {.iov_base = b, .iov_len = SIZE_MAX / 2}};
  EXPECT_EQ(pinion_stack_writev(server.get(), far, huge, 2), -EINVAL);
  EXPECT_EQ(pinion_stack_write(server.get(), far, a, SIZE_MAX), -EINVAL);
}

TEST_F(AbiTransfer, PartsOfMoreThanTheScratchComeWhole) {
  connect_pair();
  std::vector<std::uint8_t> bytes(200'000);
  std::iota(bytes.begin(), bytes.end(), std::uint8_t{0});
  std::vector<iovec> parts;
  for (std::size_t at = 0; at < bytes.size(); at += 1'000) {
    parts.push_back({.iov_base = &bytes[at], .iov_len = 1'000});
  }
  const ssize_t taken = pinion_stack_writev(client.get(), near, parts.data(), 200);
  EXPECT_GT(taken, 100'000);
  run_for(seconds{1});
  std::vector<std::uint8_t> got(bytes.size());
  std::size_t size = 0;
  ssize_t part = 0;
  while ((part = pinion_stack_read(server.get(), far, got.data() + size, got.size() - size)) > 0) {
    size += static_cast<std::size_t>(part);
    run_for(seconds{1});
  }
  EXPECT_EQ(static_cast<ssize_t>(size), taken);
  EXPECT_TRUE(std::equal(got.begin(), got.begin() + taken, bytes.begin()));
}

TEST_F(AbiTransfer, AFullBufferIsNotReady) {
  ASSERT_NO_FATAL_FAILURE(connect_pair());
  const std::vector<char> bytes(100'000);
  passes = [](const Packet&) { return false; };
  std::size_t taken = 0;
  ssize_t size = 0;
  while ((size = pinion_stack_write(client.get(), near, bytes.data(), bytes.size())) > 0) {
    taken += static_cast<std::size_t>(size);
    ASSERT_LT(taken, 2'000'000U);
  }
  EXPECT_EQ(size, -EAGAIN);
  EXPECT_EQ(ready(client.get(), near), 0);
  EXPECT_EQ(pinion_stack_write(client.get(), near, bytes.data(), 0), 0);
  passes = [](const Packet&) { return true; };
  std::vector<char> in(2'000'000);
  std::size_t got = 0;
  for (int i = 0; i < 100 && got < taken; ++i) {
    run_for(seconds{1});
    const ssize_t part = pinion_stack_read(server.get(), far, in.data(), in.size());
    if (part > 0) got += static_cast<std::size_t>(part);
  }
  EXPECT_EQ(got, taken);
  EXPECT_EQ(ready(client.get(), near), POLLOUT | POLLWRNORM);
}

TEST_F(AbiTransfer, ShutdownClosesOneWay) {
  connect_pair();
  EXPECT_EQ(pinion_stack_shutdown(client.get(), near, 3), -EINVAL);
  EXPECT_EQ(pinion_stack_shutdown(client.get(), near, SHUT_WR), 0);
  EXPECT_EQ(pinion_stack_shutdown(client.get(), near, SHUT_WR), 0);
  EXPECT_EQ(pinion_stack_write(client.get(), near, "x", 1), -EPIPE);
  carry();
  EXPECT_EQ(read_text(server.get(), far), "");
  EXPECT_EQ(pinion_stack_write(server.get(), far, "back", 4), 4);
  carry();
  EXPECT_EQ(pinion_stack_shutdown(client.get(), near, SHUT_RD), 0);
  EXPECT_EQ(read_text(client.get(), near), "back");
  EXPECT_EQ(read_text(client.get(), near), "");
}

TEST_F(AbiTransfer, FlagsOfStreams) {
  connect_pair();
  std::array<char, 10> bytes{};
  socklen_t size = 99;
  Address who;
  EXPECT_EQ(pinion_stack_sendto(client.get(), near, "abc", 3, MSG_NOSIGNAL, nullptr, 0), 3);
  EXPECT_EQ(pinion_stack_sendto(client.get(), near, "abc", 3, MSG_OOB, nullptr, 0), -EOPNOTSUPP);
  const Address there = server_at(7);
  EXPECT_EQ(pinion_stack_sendto(client.get(), near, "abc", 3, 0, there.get(), there.size),
            -EISCONN);
  carry();
  pinion_stack* const s = server.get();
  EXPECT_EQ(pinion_stack_recvfrom(s, far, bytes.data(), 10, MSG_PEEK, nullptr, nullptr),
            -EOPNOTSUPP);
  EXPECT_EQ(pinion_stack_recvfrom(s, far, bytes.data(), 10, MSG_TRUNC, nullptr, nullptr),
            -EOPNOTSUPP);
  EXPECT_EQ(pinion_stack_recvfrom(s, far, bytes.data(), 10, 0, who.get(), nullptr), -EFAULT);
  EXPECT_EQ(pinion_stack_recvfrom(s, far, bytes.data(), 10, MSG_DONTWAIT, who.get(), &size), 3);
  EXPECT_EQ(size, 0U);
}

TEST_F(AbiTransfer, DatagramsKeepTheirBounds) {
  for (const bool v6 : {false, true}) {
    open_datagrams(v6);
    const Address there = server_at(9, v6);
    const std::vector<char> large(20'000, 'l');
    EXPECT_EQ(pinion_stack_sendto(client.get(), near, "one", 3, 0, there.get(), there.size), 3);
    EXPECT_EQ(pinion_stack_sendto(client.get(), near, nullptr, 0, 0, there.get(), there.size), 0);
    EXPECT_EQ(pinion_stack_sendto(client.get(), near, large.data(), large.size(), 0, there.get(),
                                  there.size),
              20'000);
    EXPECT_EQ(ready(server.get(), far), POLLOUT | POLLWRNORM);
    carry();
    EXPECT_EQ(ready(server.get(), far), POLLOUT | POLLWRNORM | POLLIN | POLLRDNORM);
    std::vector<char> bytes(30'000);
    Address who;
    pinion_stack* const s = server.get();
    EXPECT_EQ(pinion_stack_recvfrom(s, far, bytes.data(), 2, MSG_TRUNC, who.get(), &who.size), 3);
    EXPECT_EQ(who.text(), client_at(9, v6).text());
    EXPECT_EQ(pinion_stack_read(s, far, bytes.data(), 10), 0);
    EXPECT_EQ(pinion_stack_read(s, far, bytes.data(), bytes.size()), 20'000);
    EXPECT_EQ(bytes[19'999], 'l');
    EXPECT_EQ(pinion_stack_read(s, far, bytes.data(), 10), -EAGAIN);
    EXPECT_EQ(pinion_stack_close(client.get(), near), 0);
    EXPECT_EQ(pinion_stack_close(s, far), 0);
  }
}

TEST_F(AbiTransfer, DatagramsThatCannotGoSayWhy) {
  near = datagram(client.get());
  EXPECT_EQ(pinion_stack_write(client.get(), near, "x", 1), -EDESTADDRREQ);
  const Address there = server_at(9);
  const Address six = server_at(9, true);
  const Address nowhere = server_at(0);
  const std::vector<char> large(65'508);
  pinion_stack* const s = client.get();
  EXPECT_EQ(pinion_stack_sendto(s, near, "x", 1, 0, six.get(), six.size), -EAFNOSUPPORT);
  EXPECT_EQ(pinion_stack_sendto(s, near, "x", 1, 0, nowhere.get(), nowhere.size), -EINVAL);
  EXPECT_EQ(pinion_stack_sendto(s, near, "x", 1, 0, there.get(), 3), -EINVAL);
  EXPECT_EQ(pinion_stack_sendto(s, near, large.data(), large.size(), 0, there.get(), there.size),
            -EMSGSIZE);
  const std::vector<char> huge(70'000);
  EXPECT_EQ(pinion_stack_sendto(s, near, huge.data(), huge.size(), 0, there.get(), there.size),
            -EMSGSIZE);
  EXPECT_EQ(pinion_stack_shutdown(s, near, SHUT_WR), -ENOTCONN);
  const StackPtr small = make_stack(1, {.packets = 64, .tx_queue = 1'000});
  const int fd = datagram(small.get());
  ssize_t sent = 0;
  for (int i = 0; i < 100 && sent >= 0; ++i) {
    sent = pinion_stack_sendto(small.get(), fd, "x", 1, 0, there.get(), there.size);
  }
  EXPECT_EQ(sent, -ENOBUFS);
}

TEST_F(AbiTransfer, AConnectedDatagramSocketHearsOfItsPeer) {
  near = datagram(client.get());
  const Address there = server_at(9);
  pinion_stack* const s = client.get();
  EXPECT_EQ(pinion_stack_connect(s, near, there.get(), there.size), 0);
  EXPECT_EQ(pinion_stack_write(s, near, "x", 1), 1);
  carry();
  EXPECT_EQ(ready(s, near), POLLOUT | POLLWRNORM | POLLERR);
  EXPECT_EQ(ready(s, near), POLLOUT | POLLWRNORM | POLLERR);
  EXPECT_EQ(read_text(s, near), std::to_string(-ECONNREFUSED));
  EXPECT_EQ(read_text(s, near), std::to_string(-EAGAIN));
  far = datagram(server.get());
  EXPECT_EQ(pinion_stack_bind(server.get(), far, there.get(), there.size), 0);
  EXPECT_EQ(pinion_stack_write(s, near, "again", 5), 5);
  carry();
  EXPECT_EQ(read_text(server.get(), far), "again");
  Address name;
  EXPECT_EQ(pinion_stack_getpeername(s, near, name.get(), &name.size), 0);
  EXPECT_EQ(name.text(), "192.0.2.2 9");
  EXPECT_EQ(pinion_stack_shutdown(s, near, SHUT_RDWR), 0);
  EXPECT_EQ(pinion_stack_write(s, near, "x", 1), -EPIPE);
  EXPECT_EQ(read_text(s, near), "");
  EXPECT_NE(ready(s, near) & POLLHUP, 0);
}

}  // namespace
}  // namespace pinion::test
