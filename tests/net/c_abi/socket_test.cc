#include <netinet/tcp.h>
#include <poll.h>

#include <algorithm>
#include <array>

#include "abi_world.h"

/// Sockets begin, are named, listen, connect, are ready, and end.

namespace pinion::test {
namespace {

using std::chrono::seconds;

class AbiSocket : public TwoStacks {
 protected:
  static int bind(pinion_stack* stack, int fd, const Address& address) {
    return pinion_stack_bind(stack, fd, address.get(), address.size);
  }
  static int connect(pinion_stack* stack, int fd, const Address& address) {
    return pinion_stack_connect(stack, fd, address.get(), address.size);
  }
  static std::string name(pinion_stack* stack, int fd) {
    Address address;
    const int error = pinion_stack_getsockname(stack, fd, address.get(), &address.size);
    return error != 0 ? std::to_string(error) : address.text();
  }
  static std::string peer(pinion_stack* stack, int fd) {
    Address address;
    const int error = pinion_stack_getpeername(stack, fd, address.get(), &address.size);
    return error != 0 ? std::to_string(error) : address.text();
  }
};

TEST_F(AbiSocket, KindsThatDoNotExistAreRefused) {
  pinion_stack* const s = client.get();
  EXPECT_EQ(pinion_stack_socket(s, AF_UNIX, SOCK_STREAM, 0), -EAFNOSUPPORT);
  EXPECT_EQ(pinion_stack_socket(s, AF_INET, SOCK_RAW, 0), -ESOCKTNOSUPPORT);
  EXPECT_EQ(pinion_stack_socket(s, AF_INET, SOCK_STREAM, IPPROTO_UDP), -EPROTONOSUPPORT);
  EXPECT_EQ(pinion_stack_socket(s, AF_INET6, SOCK_DGRAM, IPPROTO_TCP), -EPROTONOSUPPORT);
  EXPECT_EQ(pinion_stack_socket(s, AF_INET, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP), 3);
  EXPECT_EQ(pinion_stack_socket(s, AF_INET6, SOCK_DGRAM | SOCK_NONBLOCK, IPPROTO_UDP), 4);
}

TEST_F(AbiSocket, TheLowestDescriptorThatIsFreeIsGiven) {
  const StackPtr stack = make_stack(1, {.max_sockets = 4});
  for (int fd = 3; fd < 7; ++fd) EXPECT_EQ(stream(stack.get()), fd);
  EXPECT_EQ(pinion_stack_socket(stack.get(), AF_INET, SOCK_STREAM, 0), -EMFILE);
  EXPECT_EQ(pinion_stack_close(stack.get(), 5), 0);
  EXPECT_EQ(pinion_stack_close(stack.get(), 5), -EBADF);
  EXPECT_EQ(pinion_stack_close(stack.get(), 4), 0);
  EXPECT_EQ(datagram(stack.get()), 4);
  EXPECT_EQ(datagram(stack.get()), 5);
  EXPECT_EQ(pinion_stack_socket(stack.get(), AF_INET, SOCK_STREAM, 0), -EMFILE);
}

TEST_F(AbiSocket, BindAnswersWhatIsWrong) {
  pinion_stack* const s = client.get();
  for (const bool is_stream : {true, false}) {
    const auto fresh = [&] { return is_stream ? stream(s) : datagram(s); };
    const int a = fresh();
    EXPECT_EQ(bind(s, a, Address("192.0.2.77", 80)), -EADDRNOTAVAIL);
    EXPECT_EQ(bind(s, a, Address("2001:db8::1", 80)), -EAFNOSUPPORT);
    EXPECT_EQ(pinion_stack_bind(s, a, client_at(80).get(), sizeof(sockaddr_in) - 1), -EINVAL);
    EXPECT_EQ(pinion_stack_bind(s, a, client_at(80).get(), 1), -EINVAL);
    EXPECT_EQ(pinion_stack_bind(s, a, client_at(80).get(), 4'000), -EINVAL);
    EXPECT_EQ(pinion_stack_bind(s, a, nullptr, sizeof(sockaddr_in)), -EFAULT);
    EXPECT_EQ(name(s, a), "0.0.0.0 0");
    EXPECT_EQ(bind(s, a, client_at(80)), 0);
    EXPECT_EQ(bind(s, a, client_at(81)), -EINVAL);
    EXPECT_EQ(name(s, a), "192.0.2.1 80");
    const int b = fresh();
    EXPECT_EQ(bind(s, b, client_at(80)), -EADDRINUSE);
    EXPECT_EQ(bind(s, b, Address("0.0.0.0", 80)), -EADDRINUSE);
    EXPECT_EQ(bind(s, b, Address("0.0.0.0", 0)), 0);
    EXPECT_NE(name(s, b), "0.0.0.0 0");
    EXPECT_EQ(pinion_stack_close(s, a), 0);
    const int c = fresh();
    EXPECT_EQ(bind(s, c, client_at(80)), 0);
    EXPECT_EQ(pinion_stack_close(s, b), 0);
    EXPECT_EQ(pinion_stack_close(s, c), 0);
  }
}

TEST_F(AbiSocket, PortsOfZeroAreDrawnWithinTheRange) {
  const StackPtr stack = make_stack(1, {.first_port = 40'000, .last_port = 40'002});
  std::vector<std::string> names;
  for (int i = 0; i < 3; ++i) {
    const int fd = stream(stack.get());
    EXPECT_EQ(bind(stack.get(), fd, client_at(0)), 0);
    names.push_back(name(stack.get(), fd));
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names,
            (std::vector<std::string>{"192.0.2.1 40000", "192.0.2.1 40001", "192.0.2.1 40002"}));
  EXPECT_EQ(bind(stack.get(), stream(stack.get()), client_at(0)), -EADDRINUSE);
}

TEST_F(AbiSocket, ReuseAddressSharesAPortThatNobodyListensAt) {
  pinion_stack* const s = client.get();
  const int a = stream(s);
  const int b = stream(s);
  const int c = stream(s);
  EXPECT_EQ(set(s, a, SOL_SOCKET, SO_REUSEADDR, 1), 0);
  EXPECT_EQ(bind(s, a, client_at(80)), 0);
  EXPECT_EQ(bind(s, b, client_at(80)), -EADDRINUSE);
  EXPECT_EQ(set(s, b, SOL_SOCKET, SO_REUSEADDR, 1), 0);
  EXPECT_EQ(bind(s, b, client_at(80)), 0);
  EXPECT_EQ(pinion_stack_listen(s, a, 1), 0);
  EXPECT_EQ(pinion_stack_listen(s, b, 1), -EADDRINUSE);
  EXPECT_EQ(set(s, c, SOL_SOCKET, SO_REUSEADDR, 1), 0);
  EXPECT_EQ(bind(s, c, client_at(80)), -EADDRINUSE);
}

TEST_F(AbiSocket, ListenAndAcceptAnswerWhatIsWrong) {
  pinion_stack* const s = server.get();
  const int udp = datagram(s);
  EXPECT_EQ(pinion_stack_listen(s, udp, 1), -EOPNOTSUPP);
  EXPECT_EQ(pinion_stack_accept(s, udp, nullptr, nullptr), -EOPNOTSUPP);
  const int fd = stream(s);
  EXPECT_EQ(pinion_stack_accept(s, fd, nullptr, nullptr), -EINVAL);
  EXPECT_EQ(pinion_stack_listen(s, fd, -1), 0);
  EXPECT_EQ(get(s, fd, SOL_SOCKET, SO_ACCEPTCONN), 1);
  EXPECT_TRUE(name(s, fd).starts_with("0.0.0.0 ")) << name(s, fd);
  EXPECT_NE(name(s, fd), "0.0.0.0 0");
  EXPECT_EQ(pinion_stack_accept(s, fd, nullptr, nullptr), -EAGAIN);
  EXPECT_EQ(pinion_stack_accept4(s, fd, nullptr, nullptr, 1), -EINVAL);
  EXPECT_EQ(pinion_stack_accept(s, fd, client_at(1).get(), nullptr), -EFAULT);
  EXPECT_EQ(connect(s, fd, client_at(7)), -EISCONN);
  EXPECT_EQ(pinion_stack_shutdown(s, fd, SHUT_WR), -ENOTCONN);
  EXPECT_EQ(read_text(s, fd), std::to_string(-ENOTCONN));
  EXPECT_EQ(pinion_stack_write(s, fd, "x", 1), -EPIPE);
  const StackPtr few = make_stack(1, {.max_listeners = 1});
  EXPECT_EQ(pinion_stack_listen(few.get(), stream(few.get()), 1), 0);
  EXPECT_EQ(pinion_stack_listen(few.get(), stream(few.get()), 1), -ENOBUFS);
}

TEST_F(AbiSocket, AcceptTellsWhoHasCome) {
  for (const bool v6 : {false, true}) {
    listener = -1;
    connect_pair(v6);
    const std::string text = v6 ? "2001:db8::" : "192.0.2.";
    EXPECT_EQ(name(server.get(), far), text + "2 7");
    EXPECT_EQ(peer(server.get(), far), name(client.get(), near));
    EXPECT_EQ(peer(client.get(), near), text + "2 7");
    // Once more, with the address, also where there is little room for it.
    const int again = stream(client.get(), v6);
    EXPECT_EQ(connect(client.get(), again, server_at(7, v6)), -EINPROGRESS);
    carry();
    Address who;
    EXPECT_EQ(ready(server.get(), listener), POLLIN | POLLRDNORM);
    const int accepted =
        pinion_stack_accept4(server.get(), listener, who.get(), &who.size, SOCK_NONBLOCK);
    EXPECT_GE(accepted, 3);
    EXPECT_EQ(who.size, v6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
    EXPECT_EQ(who.text(), name(client.get(), again));
    sockaddr_storage storage{};
    std::memset(&storage, 0x77, sizeof(storage));
    socklen_t size = 4;
    auto* const out = reinterpret_cast<sockaddr*>(&storage);
    EXPECT_EQ(pinion_stack_getpeername(server.get(), accepted, out, &size), 0);
    EXPECT_EQ(size, who.size);
    EXPECT_EQ(std::memcmp(&storage, &who.storage, 4), 0);
    EXPECT_EQ(reinterpret_cast<const unsigned char*>(&storage)[4], 0x77);
    EXPECT_EQ(pinion_stack_close(server.get(), listener), 0);
  }
}

TEST_F(AbiSocket, NoDescriptorLeavesTheConnectionWaiting) {
  server = make_stack(2, {.max_sockets = 2});
  connect_pair();
  const int again = stream(client.get());
  EXPECT_EQ(connect(client.get(), again, server_at(7)), -EINPROGRESS);
  carry();
  EXPECT_EQ(pinion_stack_accept(server.get(), listener, nullptr, nullptr), -EMFILE);
  EXPECT_EQ(pinion_stack_close(server.get(), far), 0);
  EXPECT_EQ(pinion_stack_accept(server.get(), listener, nullptr, nullptr), far);
}

TEST_F(AbiSocket, TheBacklogIsWhatListenSays) {
  listener = stream(server.get());
  EXPECT_EQ(bind(server.get(), listener, server_at(7)), 0);
  EXPECT_EQ(pinion_stack_listen(server.get(), listener, 0), 0);
  std::vector<int> fds;
  const auto come = [&] {
    fds.push_back(stream(client.get()));
    EXPECT_EQ(connect(client.get(), fds.back(), server_at(7)), -EINPROGRESS);
    carry();
    pinion_stack_stats stats{.size = sizeof(stats)};
    EXPECT_EQ(pinion_stack_get_stats(server.get(), &stats), 0);
    return stats.tcp_connections;
  };
  EXPECT_EQ(come(), 1U);
  EXPECT_EQ(come(), 1U);
  EXPECT_EQ(pinion_stack_listen(server.get(), listener, 3), 0);
  EXPECT_EQ(come(), 2U);
  EXPECT_EQ(come(), 3U);
  EXPECT_EQ(come(), 3U);
}

TEST_F(AbiSocket, ConnectTellsHowFarItIs) {
  pinion_stack* const s = client.get();
  connect_pair();
  EXPECT_EQ(connect(s, near, server_at(7)), -EISCONN);
  EXPECT_EQ(pinion_stack_listen(s, near, 1), -EINVAL);
  EXPECT_EQ(bind(s, near, client_at(80)), -EINVAL);
  const int fd = stream(s);
  EXPECT_EQ(connect(s, fd, server_at(0)), -EINVAL);
  EXPECT_EQ(connect(s, fd, Address("2001:db8::2", 7)), -EAFNOSUPPORT);
  EXPECT_EQ(connect(s, fd, Address("224.0.0.1", 7)), -ENETUNREACH);
  EXPECT_EQ(ready(s, fd), POLLOUT | POLLWRNORM | POLLHUP);
  EXPECT_EQ(connect(s, fd, server_at(7)), -EINPROGRESS);
  EXPECT_EQ(connect(s, fd, server_at(7)), -EALREADY);
  EXPECT_EQ(ready(s, fd), 0);
  EXPECT_EQ(peer(s, fd), std::to_string(-ENOTCONN));
  EXPECT_EQ(pinion_stack_shutdown(s, fd, SHUT_WR), -ENOTCONN);
  EXPECT_EQ(pinion_stack_write(s, fd, "x", 1), -EAGAIN);
  EXPECT_EQ(read_text(s, fd), std::to_string(-EAGAIN));
  carry();
  EXPECT_EQ(ready(s, fd), POLLOUT | POLLWRNORM);
  EXPECT_EQ(connect(s, fd, server_at(7)), 0);
  EXPECT_EQ(connect(s, fd, server_at(7)), -EISCONN);
}

TEST_F(AbiSocket, ARefusedSocketMayConnectAgain) {
  pinion_stack* const s = client.get();
  const int fd = stream(s);
  EXPECT_EQ(bind(s, fd, client_at(5'000)), 0);
  EXPECT_EQ(connect(s, fd, server_at(9)), -EINPROGRESS);
  carry();
  EXPECT_EQ(ready(s, fd),
            POLLIN | POLLRDNORM | POLLOUT | POLLWRNORM | POLLERR | POLLHUP | POLLRDHUP);
  EXPECT_EQ(connect(s, fd, server_at(9)), -ECONNREFUSED);
  EXPECT_EQ(name(s, fd), "192.0.2.1 5000");
  EXPECT_EQ(connect(s, fd, server_at(9)), -EINPROGRESS);
  carry();
  EXPECT_EQ(error_of(s, fd), ECONNREFUSED);
  EXPECT_EQ(error_of(s, fd), 0);
  listener = stream(server.get());
  EXPECT_EQ(bind(server.get(), listener, server_at(9)), 0);
  EXPECT_EQ(pinion_stack_listen(server.get(), listener, 1), 0);
  EXPECT_EQ(connect(s, fd, server_at(9)), -EINPROGRESS);
  carry();
  EXPECT_EQ(connect(s, fd, server_at(9)), 0);
  EXPECT_EQ(name(s, fd), "192.0.2.1 5000");
  // These four numbers are in use.
  const int other = stream(s);
  EXPECT_EQ(set(s, fd, SOL_SOCKET, SO_REUSEADDR, 1), 0);
  EXPECT_EQ(set(s, other, SOL_SOCKET, SO_REUSEADDR, 1), 0);
  EXPECT_EQ(bind(s, other, client_at(5'000)), 0);
  EXPECT_EQ(connect(s, other, server_at(9)), -EADDRNOTAVAIL);
}

TEST_F(AbiSocket, ConnectFailsAsTheWireHasIt) {
  pinion_stack* const s = client.get();
  passes = [](const Packet&) { return false; };
  const int fd = stream(s);
  EXPECT_EQ(connect(s, fd, server_at(7)), -EINPROGRESS);
  run_for(seconds{1'000});
  EXPECT_EQ(connect(s, fd, server_at(7)), -ETIMEDOUT);
  const StackPtr few = make_stack(1, {.max_connections = 1});
  EXPECT_EQ(connect(few.get(), stream(few.get()), server_at(7)), -EINPROGRESS);
  EXPECT_EQ(connect(few.get(), stream(few.get()), server_at(7)), -ENOBUFS);
  // Of a family that the stack has no address of.
  const Address own("192.0.2.1", 0);
  const pinion_stack_address address{
      .size = sizeof(address), .address = own.get(), .address_size = own.size, .prefix_length = 24};
  const pinion_stack_options options{
      .size = sizeof(options), .addresses = &address, .address_count = 1};
  pinion_stack* made = nullptr;
  ASSERT_EQ(pinion_stack_create(&options, &made), 0);
  const StackPtr v4_only(made);
  EXPECT_EQ(connect(made, stream(made, true), server_at(7, true)), -ENETUNREACH);
  EXPECT_EQ(connect(made, datagram(made, true), server_at(7, true)), -ENETUNREACH);
}

TEST_F(AbiSocket, TheLoopbackAddressIsInside) {
  pinion_stack* const s = client.get();
  listener = stream(s);
  EXPECT_EQ(bind(s, listener, Address("127.0.0.1", 7)), 0);
  EXPECT_EQ(pinion_stack_listen(s, listener, 1), 0);
  const int fd = stream(s);
  const int started = connect(s, fd, Address("127.0.0.1", 7));
  EXPECT_TRUE(started == 0 || started == -EINPROGRESS) << started;
  far = pinion_stack_accept(s, listener, nullptr, nullptr);
  ASSERT_GE(far, 3);
  EXPECT_EQ(pinion_stack_write(s, fd, "inside", 6), 6);
  EXPECT_EQ(read_text(s, far), "inside");
  EXPECT_EQ(pinion_stack_next_size(s), 0);
}

// As Linux has it: no address is this host.
TEST_F(AbiSocket, ConnectingToNoAddressReachesOneself) {
  pinion_stack* const s = client.get();
  for (const bool v6 : {false, true}) {
    const auto any = [v6](std::uint16_t port) { return Address(v6 ? "::" : "0.0.0.0", port); };
    const std::string loopback = v6 ? "::1" : "127.0.0.1";
    listener = stream(s, v6);
    EXPECT_EQ(bind(s, listener, any(7)), 0);
    EXPECT_EQ(pinion_stack_listen(s, listener, 2), 0);
    const int fd = stream(s, v6);
    const int started = connect(s, fd, any(7));
    EXPECT_TRUE(started == 0 || started == -EINPROGRESS) << started;
    far = pinion_stack_accept(s, listener, nullptr, nullptr);
    ASSERT_GE(far, 3);
    EXPECT_EQ(peer(s, fd), loopback + " 7");
    EXPECT_EQ(pinion_stack_write(s, fd, "inside", 6), 6);
    EXPECT_EQ(read_text(s, far), "inside");
    // From an address of its own to that.
    const int bound = stream(s, v6);
    EXPECT_EQ(bind(s, bound, client_at(0, v6)), 0);
    const int again = connect(s, bound, any(7));
    EXPECT_TRUE(again == 0 || again == -EINPROGRESS) << again;
    EXPECT_EQ(peer(s, bound), client_at(7, v6).text());
    const int receiver = datagram(s, v6);
    EXPECT_EQ(bind(s, receiver, any(9)), 0);
    const int sender = datagram(s, v6);
    EXPECT_EQ(pinion_stack_sendto(s, sender, "one", 3, 0, any(9).get(), any(9).size), 3);
    EXPECT_EQ(read_text(s, receiver), "one");
    EXPECT_EQ(connect(s, sender, any(9)), 0);
    EXPECT_EQ(peer(s, sender), loopback + " 9");
    EXPECT_EQ(pinion_stack_write(s, sender, "two", 3), 3);
    EXPECT_EQ(read_text(s, receiver), "two");
    EXPECT_EQ(pinion_stack_next_size(s), 0);
  }
}

// Closes that wait for their peer give up their place to who needs it.
TEST_F(AbiSocket, ConnectAtTheLimitCutsACloseShort) {
  client = make_stack(1, {.max_connections = 1});
  pinion_stack* const s = client.get();
  connect_pair();
  EXPECT_EQ(connect(s, stream(s), server_at(7)), -ENOBUFS);
  EXPECT_EQ(pinion_stack_close(s, near), 0);
  carry();
  EXPECT_EQ(connect(s, stream(s), server_at(7)), -EINPROGRESS);
  carry();
  EXPECT_EQ(error_of(server.get(), far), ECONNRESET);
}

TEST_F(AbiSocket, ReadinessFollowsTheConnection) {
  connect_pair();
  constexpr int kOut = POLLOUT | POLLWRNORM;
  constexpr int kIn = POLLIN | POLLRDNORM;
  EXPECT_EQ(ready(server.get(), listener), 0);
  EXPECT_EQ(ready(client.get(), near), kOut);
  EXPECT_EQ(ready(client.get(), near, POLLIN), 0);
  EXPECT_EQ(pinion_stack_write(client.get(), near, "x", 1), 1);
  carry();
  EXPECT_EQ(ready(server.get(), far), kOut | kIn);
  EXPECT_EQ(read_text(server.get(), far), "x");
  EXPECT_EQ(ready(server.get(), far), kOut);
  EXPECT_EQ(pinion_stack_shutdown(client.get(), near, SHUT_WR), 0);
  carry();
  EXPECT_EQ(ready(server.get(), far), kOut | kIn | POLLRDHUP);
  EXPECT_EQ(ready(client.get(), near), kOut);
  EXPECT_EQ(pinion_stack_shutdown(server.get(), far, SHUT_WR), 0);
  EXPECT_EQ(ready(server.get(), far), kOut | kIn | POLLRDHUP | POLLHUP);
  carry();
  EXPECT_EQ(ready(client.get(), near), kOut | kIn | POLLRDHUP | POLLHUP);
  EXPECT_EQ(pinion_stack_shutdown(client.get(), near, SHUT_RD), -ENOTCONN);
}

TEST_F(AbiSocket, PollCountsThoseThatAreReady) {
  connect_pair();
  std::array<pollfd, 4> polled{{{.fd = near, .events = POLLOUT, .revents = 77},
                                {.fd = -1, .events = POLLOUT, .revents = 77},
                                {.fd = 99, .events = 0, .revents = 77},
                                {.fd = near, .events = POLLIN, .revents = 77}}};
  EXPECT_EQ(pinion_stack_poll(client.get(), polled.data(), polled.size()), 2);
  EXPECT_EQ(polled[0].revents, POLLOUT);
  EXPECT_EQ(polled[1].revents, 0);
  EXPECT_EQ(polled[2].revents, POLLNVAL);
  EXPECT_EQ(polled[3].revents, 0);
  EXPECT_EQ(pinion_stack_poll(client.get(), nullptr, 0), 0);
  EXPECT_EQ(pinion_stack_poll(client.get(), nullptr, 1), -EFAULT);
}

TEST_F(AbiSocket, CloseIsOrderlyUnlessLingerSaysOtherwise) {
  connect_pair();
  EXPECT_EQ(pinion_stack_write(client.get(), near, "last", 4), 4);
  EXPECT_EQ(pinion_stack_close(client.get(), near), 0);
  carry();
  EXPECT_EQ(read_text(server.get(), far), "last");
  EXPECT_EQ(read_text(server.get(), far), "");
  EXPECT_EQ(error_of(server.get(), far), 0);
  EXPECT_EQ(pinion_stack_close(server.get(), far), 0);
  carry();
  pinion_stack_stats stats{.size = sizeof(stats)};
  EXPECT_EQ(pinion_stack_get_stats(client.get(), &stats), 0);
  EXPECT_EQ(stats.tcp_time_waits, 1U);
  EXPECT_EQ(stats.tcp_connections, 0U);
  EXPECT_EQ(stats.tcp_resets_out, 0U);

  connect_pair();
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  EXPECT_EQ(
      pinion_stack_setsockopt(client.get(), near, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)),
      0);
  EXPECT_EQ(pinion_stack_write(client.get(), near, "lost", 4), 4);
  carry();
  EXPECT_EQ(pinion_stack_close(client.get(), near), 0);
  carry();
  EXPECT_EQ(ready(server.get(), far) & (POLLERR | POLLHUP | POLLRDHUP),
            POLLERR | POLLHUP | POLLRDHUP);
  // What had come is read first.
  EXPECT_EQ(read_text(server.get(), far), "lost");
  EXPECT_EQ(read_text(server.get(), far), std::to_string(-ECONNRESET));
  EXPECT_EQ(read_text(server.get(), far), "");
  EXPECT_EQ(pinion_stack_write(server.get(), far, "x", 1), -EPIPE);
  EXPECT_EQ(peer(server.get(), far), std::to_string(-ENOTCONN));
}

TEST_F(AbiSocket, AClosedListenerResetsThoseWhoWait) {
  connect_pair();
  const int fd = stream(client.get());
  EXPECT_EQ(connect(client.get(), fd, server_at(7)), -EINPROGRESS);
  carry();
  EXPECT_EQ(pinion_stack_close(server.get(), listener), 0);
  carry();
  EXPECT_EQ(pinion_stack_write(client.get(), fd, "x", 1), -ECONNRESET);
  EXPECT_EQ(pinion_stack_write(client.get(), near, "x", 1), 1);
}

TEST_F(AbiSocket, KeepaliveEndsASilentConnection) {
  connect_pair();
  pinion_stack* const s = client.get();
  EXPECT_EQ(set(s, near, SOL_SOCKET, SO_KEEPALIVE, 1), 0);
  EXPECT_EQ(set(s, near, IPPROTO_TCP, TCP_KEEPIDLE, 10), 0);
  EXPECT_EQ(set(s, near, IPPROTO_TCP, TCP_KEEPINTVL, 2), 0);
  EXPECT_EQ(set(s, near, IPPROTO_TCP, TCP_KEEPCNT, 3), 0);
  run_for(seconds{100});
  EXPECT_EQ(error_of(s, near), 0) << "the peer answers";
  passes = [](const Packet&) { return false; };
  run_for(seconds{20});
  EXPECT_EQ(read_text(s, near), std::to_string(-ETIMEDOUT));
}

}  // namespace
}  // namespace pinion::test
