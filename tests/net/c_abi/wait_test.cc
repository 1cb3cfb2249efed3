#include <poll.h>
#include <sys/time.h>

#include <array>

#include "abi_world.h"

/// Calls that block by a hook.

namespace pinion::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class AbiWait : public TwoStacks {
 protected:
  struct Asked {
    pinion_stack* stack;
    int fd;
    short events;
    std::uint64_t deadline;
  };

  AbiWait() {
    EXPECT_EQ(pinion_stack_set_wait(client.get(), &AbiWait::hook, this), 0);
    EXPECT_EQ(pinion_stack_set_wait(server.get(), &AbiWait::hook, this), 0);
  }

  static int hook(void* user, pinion_stack* stack, int fd, short events, std::uint64_t deadline) {
    auto& world = *static_cast<AbiWait*>(user);
    world.asked.push_back({stack, fd, events, deadline});
    return world.answer ? world.answer() : 0;
  }

  std::vector<Asked> asked;
  std::function<int()> answer;
};

TEST_F(AbiWait, ConnectAcceptAndReadWaitForWhatTheyNeed) {
  answer = [this] {
    run_for(milliseconds{10});
    return 0;
  };
  listener = stream(server.get());
  const Address there = server_at(7);
  EXPECT_EQ(pinion_stack_bind(server.get(), listener, there.get(), there.size), 0);
  EXPECT_EQ(pinion_stack_listen(server.get(), listener, 8), 0);
  near = stream(client.get());
  EXPECT_EQ(pinion_stack_connect(client.get(), near, there.get(), there.size), 0);
  ASSERT_EQ(asked.size(), 1U);
  EXPECT_EQ(asked[0].stack, client.get());
  EXPECT_EQ(asked[0].fd, near);
  EXPECT_EQ(asked[0].events, POLLOUT);
  EXPECT_EQ(asked[0].deadline, UINT64_MAX);
  EXPECT_EQ(pinion_stack_connect(client.get(), near, there.get(), there.size), -EISCONN);
  far = pinion_stack_accept(server.get(), listener, nullptr, nullptr);
  ASSERT_GE(far, 3);
  EXPECT_EQ(asked.size(), 1U);
  int turns = 0;
  answer = [&] {
    if (++turns == 3) {
      EXPECT_EQ(pinion_stack_write(client.get(), near, "late", 4), 4);
    }
    run_for(milliseconds{10});
    return 0;
  };
  EXPECT_EQ(read_text(server.get(), far), "late");
  EXPECT_EQ(turns, 3);
  EXPECT_EQ(asked.back().events, POLLIN);
}

TEST_F(AbiWait, AFailedConnectIsToldByTheCall) {
  answer = [this] {
    run_for(milliseconds{10});
    return 0;
  };
  const Address there = server_at(99);
  EXPECT_EQ(pinion_stack_connect(client.get(), stream(client.get()), there.get(), there.size),
            -ECONNREFUSED);
}

TEST_F(AbiWait, AConnectWhoseErrorTheHookHasTakenFailsAllTheSame) {
  near = stream(client.get());
  int taken = 0;
  answer = [&] {
    run_for(milliseconds{10});
    taken = error_of(client.get(), near);
    return 0;
  };
  const Address there = server_at(99);
  EXPECT_EQ(pinion_stack_connect(client.get(), near, there.get(), there.size), -ECONNABORTED);
  EXPECT_EQ(taken, ECONNREFUSED);
}

TEST_F(AbiWait, AWriteTakesAll) {
  answer = [this] {
    run_for(milliseconds{10});
    return 0;
  };
  listener = stream(server.get());
  const Address there = server_at(7);
  EXPECT_EQ(pinion_stack_bind(server.get(), listener, there.get(), there.size), 0);
  EXPECT_EQ(pinion_stack_listen(server.get(), listener, 8), 0);
  near = stream(client.get());
  EXPECT_EQ(pinion_stack_connect(client.get(), near, there.get(), there.size), 0);
  far = pinion_stack_accept(server.get(), listener, nullptr, nullptr);
  std::vector<char> in(3'000'000);
  std::size_t got = 0;
  answer = [&] {
    run_for(milliseconds{100});
    const ssize_t size = pinion_stack_recvfrom(server.get(), far, in.data() + got, in.size() - got,
                                               MSG_DONTWAIT, nullptr, nullptr);
    if (size > 0) got += static_cast<std::size_t>(size);
    return 0;
  };
  const std::vector<char> bytes(2'000'000, 'b');
  EXPECT_EQ(pinion_stack_write(client.get(), near, bytes.data(), bytes.size()), 2'000'000);
  // One that is ended after a part answers the part.
  int turns = 0;
  answer = [&] { return ++turns == 1 ? 0 : EINTR; };
  const ssize_t part = pinion_stack_write(client.get(), near, bytes.data(), bytes.size());
  EXPECT_GT(part, 0);
  EXPECT_LT(part, 2'000'000);
  EXPECT_EQ(pinion_stack_write(client.get(), near, bytes.data(), bytes.size()), -EINTR);
}

TEST_F(AbiWait, NonBlockingSocketsAndCallsDoNotWait) {
  const int fd = pinion_stack_socket(client.get(), AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
  EXPECT_EQ(read_text(client.get(), fd), std::to_string(-EAGAIN));
  EXPECT_EQ(pinion_stack_set_nonblocking(client.get(), fd, 0), 0);
  char byte = 0;
  EXPECT_EQ(pinion_stack_recvfrom(client.get(), fd, &byte, 1, MSG_DONTWAIT, nullptr, nullptr),
            -EAGAIN);
  EXPECT_TRUE(asked.empty());
  answer = [] { return EINTR; };
  EXPECT_EQ(read_text(client.get(), fd), std::to_string(-EINTR));
  EXPECT_EQ(asked.size(), 1U);
  EXPECT_EQ(pinion_stack_set_nonblocking(client.get(), fd, 1), 0);
  EXPECT_EQ(read_text(client.get(), fd), std::to_string(-EAGAIN));
  EXPECT_EQ(asked.size(), 1U);
  EXPECT_EQ(pinion_stack_set_nonblocking(client.get(), fd, 0), 0);
  EXPECT_EQ(pinion_stack_set_wait(client.get(), nullptr, nullptr), 0);
  EXPECT_EQ(read_text(client.get(), fd), std::to_string(-EAGAIN));
}

TEST_F(AbiWait, AnswersThatAreNoErrnoAreRefused) {
  const int fd = datagram(client.get());
  for (const int wrong : {-1, -EINTR, 4'096, INT32_MIN, INT32_MAX}) {
    answer = [wrong] { return wrong; };
    EXPECT_EQ(read_text(client.get(), fd), std::to_string(-EINVAL));
  }
}

TEST_F(AbiWait, TheTimeoutOfASocketEndsTheCall) {
  const int fd = datagram(client.get());
  const timeval time{.tv_sec = 2, .tv_usec = 500'000};
  EXPECT_EQ(pinion_stack_setsockopt(client.get(), fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time)),
            0);
  run_for(seconds{1});
  answer = [this] {
    run_for(seconds{1});
    return 0;
  };
  EXPECT_EQ(read_text(client.get(), fd), std::to_string(-EAGAIN));
  EXPECT_EQ(asked.size(), 3U);
  EXPECT_EQ(asked[0].deadline, 3'500'000'000U);
  const int tcp = stream(client.get());
  EXPECT_EQ(
      pinion_stack_setsockopt(client.get(), tcp, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof(time)), 0);
  passes = [](const Packet&) { return false; };
  const Address there = server_at(7);
  EXPECT_EQ(pinion_stack_connect(client.get(), tcp, there.get(), there.size), -EINPROGRESS);
  EXPECT_EQ(asked.size(), 6U);
}

TEST_F(AbiWait, ASocketThatTheHookClosesIsGone) {
  const int fd = datagram(client.get());
  answer = [this, fd] {
    if (asked.size() > 1) return EINTR;
    EXPECT_EQ(pinion_stack_close(client.get(), fd), 0);
    EXPECT_EQ(datagram(client.get()), fd) << "another one with the same number";
    return 0;
  };
  EXPECT_EQ(read_text(client.get(), fd), std::to_string(-EBADF));
  const int listening = stream(client.get());
  EXPECT_EQ(pinion_stack_listen(client.get(), listening, 1), 0);
  answer = [this, listening] {
    EXPECT_EQ(pinion_stack_close(client.get(), listening), 0);
    return 0;
  };
  EXPECT_EQ(pinion_stack_accept(client.get(), listening, nullptr, nullptr), -EBADF);
}

TEST_F(AbiWait, HooksNest) {
  const int outer = datagram(client.get());
  const int inner = datagram(client.get());
  int depth = 0;
  answer = [&] {
    EXPECT_EQ(pinion_stack_destroy(client.get()), -EBUSY);
    if (++depth == 2) return EINTR;
    EXPECT_EQ(read_text(client.get(), inner), std::to_string(-EINTR));
    return ECANCELED;
  };
  EXPECT_EQ(read_text(client.get(), outer), std::to_string(-ECANCELED));
  EXPECT_EQ(depth, 2);
}

}  // namespace
}  // namespace pinion::test
