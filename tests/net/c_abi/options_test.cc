#include <netinet/tcp.h>
#include <sys/time.h>

#include <algorithm>
#include <array>
#include <set>

#include "abi_world.h"

/// Socket options: their values, when they can be set, and that they act.

namespace pinion::test {
namespace {

using std::chrono::seconds;

void store_checksum(Packet& packet, std::size_t begin, std::size_t end, std::size_t at) {
  std::uint32_t sum = 0;
  for (std::size_t i = begin; i < end; i += 2) sum += packet[i] * 256U + packet[i + 1];
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  packet[at] = static_cast<std::uint8_t>(~sum >> 8);
  packet[at + 1] = static_cast<std::uint8_t>(~sum);
}

/// What a router sends back for `packet`, of IPv4.
Packet host_unreachable(const Packet& packet) {
  constexpr std::size_t kQuoted = 28;  // The header and eight bytes behind it.
  Packet made(28 + kQuoted);
  made[0] = 0x45;
  made[3] = static_cast<std::uint8_t>(made.size());
  made[8] = 64;
  made[9] = 1;
  const std::array<std::uint8_t, 4> router{192, 0, 2, 254};
  std::copy(router.begin(), router.end(), made.begin() + 12);
  std::copy_n(packet.begin() + 12, 4, made.begin() + 16);
  made[20] = 3;
  made[21] = 1;
  std::copy_n(packet.begin(), kQuoted, made.begin() + 28);
  store_checksum(made, 0, 20, 10);
  store_checksum(made, 20, made.size(), 22);
  return made;
}

/// The sum of the pseudo header, in the place of the checksum: what is left to a NIC.
void leave_checksum_to_a_nic(Packet& packet) {
  const bool v4 = packet[0] >> 4 == 4;
  const std::size_t header = v4 ? 20 : 40;
  const std::uint8_t protocol = packet[v4 ? 9 : 6];
  std::uint32_t sum = protocol + static_cast<std::uint32_t>(packet.size() - header);
  for (std::size_t i = v4 ? 12 : 8; i < header; i += 2) sum += packet[i] * 256U + packet[i + 1];
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  const std::size_t at = header + (protocol == IPPROTO_TCP ? 16 : 6);
  packet[at] = static_cast<std::uint8_t>(sum >> 8);
  packet[at + 1] = static_cast<std::uint8_t>(sum);
}

class AbiOptions : public TwoStacks {
 protected:
  /// The traffic classes of what was carried.
  [[nodiscard]] std::set<int> classes() const {
    std::set<int> found;
    for (const Packet& packet : carried) {
      const bool v4 = packet[0] >> 4 == 4;
      found.insert(v4 ? packet[1] : (packet[0] & 0xf) << 4 | packet[1] >> 4);
    }
    return found;
  }
  tcp_info info(pinion_stack* stack, int fd) {
    tcp_info out{};
    socklen_t size = sizeof(out);
    EXPECT_EQ(pinion_stack_getsockopt(stack, fd, IPPROTO_TCP, TCP_INFO, &out, &size), 0);
    EXPECT_EQ(size, sizeof(out));
    return out;
  }
};

struct IntOption {
  int level;
  int name;
  int preset;
  int least;
  int most;
};

TEST_F(AbiOptions, IntegersHaveTheirRanges) {
  const IntOption options[] = {
      {IPPROTO_TCP, TCP_KEEPIDLE, 7'200, 1, 32'767},
      {IPPROTO_TCP, TCP_KEEPINTVL, 75, 1, 6'553},
      {IPPROTO_TCP, TCP_KEEPCNT, 9, 1, 127},
      {IPPROTO_TCP, TCP_USER_TIMEOUT, 0, 0, INT32_MAX},
      {IPPROTO_IP, IP_TOS, 0, 0, 252},
  };
  pinion_stack* const s = client.get();
  const int fd = stream(s);
  for (const IntOption& o : options) {
    EXPECT_EQ(get(s, fd, o.level, o.name), o.preset) << o.name;
    EXPECT_EQ(set(s, fd, o.level, o.name, o.least - 1), -EINVAL) << o.name;
    if (o.most != INT32_MAX && o.name != IP_TOS) {
      EXPECT_EQ(set(s, fd, o.level, o.name, o.most + 1), -EINVAL) << o.name;
    }
    for (const int value : {o.least, o.most}) {
      EXPECT_EQ(set(s, fd, o.level, o.name, value), 0) << o.name;
      EXPECT_EQ(get(s, fd, o.level, o.name), value) << o.name;
    }
    EXPECT_EQ(pinion_stack_setsockopt(s, fd, o.level, o.name, &o.least, 3), -EINVAL);
    EXPECT_EQ(pinion_stack_setsockopt(s, fd, o.level, o.name, nullptr, 4), -EFAULT);
  }
  EXPECT_EQ(set(s, fd, IPPROTO_IP, IP_TOS, 256), -EINVAL);
  EXPECT_EQ(set(s, fd, IPPROTO_TCP, TCP_MAXSEG, 87), -EINVAL);
  EXPECT_EQ(set(s, fd, IPPROTO_TCP, TCP_MAXSEG, 32'768), -EINVAL);
  EXPECT_EQ(get(s, fd, IPPROTO_TCP, TCP_MAXSEG), 536);
  EXPECT_EQ(set(s, fd, IPPROTO_TCP, TCP_MAXSEG, 1'000), 0);
  EXPECT_EQ(get(s, fd, IPPROTO_TCP, TCP_MAXSEG), 1'000);
}

TEST_F(AbiOptions, SwitchesAreOffUntilSet) {
  pinion_stack* const s = client.get();
  const int fd = stream(s);
  for (const auto& [level, name] : {std::pair<int, int>{SOL_SOCKET, SO_REUSEADDR},
                                    std::pair<int, int>{SOL_SOCKET, SO_KEEPALIVE},
                                    std::pair<int, int>{IPPROTO_TCP, TCP_NODELAY}}) {
    EXPECT_EQ(get(s, fd, level, name), 0);
    EXPECT_EQ(set(s, fd, level, name, 17), 0);
    EXPECT_EQ(get(s, fd, level, name), 1);
    EXPECT_EQ(set(s, fd, level, name, 0), 0);
    EXPECT_EQ(get(s, fd, level, name), 0);
  }
}

TEST_F(AbiOptions, WhatASocketIsCanOnlyBeGot) {
  pinion_stack* const s = client.get();
  const int tcp = stream(s, true);
  const int udp = datagram(s);
  EXPECT_EQ(get(s, tcp, SOL_SOCKET, SO_TYPE), SOCK_STREAM);
  EXPECT_EQ(get(s, tcp, SOL_SOCKET, SO_DOMAIN), AF_INET6);
  EXPECT_EQ(get(s, tcp, SOL_SOCKET, SO_PROTOCOL), IPPROTO_TCP);
  EXPECT_EQ(get(s, tcp, SOL_SOCKET, SO_ACCEPTCONN), 0);
  EXPECT_EQ(get(s, udp, SOL_SOCKET, SO_TYPE), SOCK_DGRAM);
  EXPECT_EQ(get(s, udp, SOL_SOCKET, SO_DOMAIN), AF_INET);
  EXPECT_EQ(get(s, udp, SOL_SOCKET, SO_PROTOCOL), IPPROTO_UDP);
  for (const int name : {SO_TYPE, SO_DOMAIN, SO_PROTOCOL, SO_ACCEPTCONN, SO_ERROR}) {
    EXPECT_EQ(set(s, tcp, SOL_SOCKET, name, 1), -ENOPROTOOPT);
  }
  EXPECT_EQ(get(s, tcp, IPPROTO_IPV6, IPV6_V6ONLY), 1);
  EXPECT_EQ(set(s, tcp, IPPROTO_IPV6, IPV6_V6ONLY, 1), 0);
  EXPECT_EQ(set(s, tcp, IPPROTO_IPV6, IPV6_V6ONLY, 0), -EINVAL);
}

TEST_F(AbiOptions, OthersAreUnknown) {
  pinion_stack* const s = client.get();
  const int tcp = stream(s);
  const int udp = datagram(s);
  for (const auto& [level, name] :
       {std::pair<int, int>{SOL_SOCKET, SO_BROADCAST}, std::pair<int, int>{IPPROTO_TCP, TCP_CORK},
        std::pair<int, int>{IPPROTO_IP, IP_TTL}, std::pair<int, int>{IPPROTO_IPV6, IPV6_TCLASS},
        std::pair<int, int>{12'345, 1}}) {
    EXPECT_EQ(set(s, tcp, level, name, 1), -ENOPROTOOPT);
    EXPECT_EQ(get(s, tcp, level, name), -ENOPROTOOPT);
  }
  EXPECT_EQ(set(s, udp, IPPROTO_TCP, TCP_NODELAY, 1), -ENOPROTOOPT);
  EXPECT_EQ(get(s, udp, IPPROTO_TCP, TCP_NODELAY), -ENOPROTOOPT);
  EXPECT_EQ(set(s, tcp, IPPROTO_TCP, TCP_INFO, 1), -ENOPROTOOPT);
}

TEST_F(AbiOptions, AValueIsCutToItsRoom) {
  pinion_stack* const s = client.get();
  const int fd = stream(s);
  std::array<unsigned char, 8> value{};
  value.fill(0x77);
  socklen_t size = 2;
  EXPECT_EQ(pinion_stack_getsockopt(s, fd, IPPROTO_TCP, TCP_KEEPIDLE, value.data(), &size), 0);
  EXPECT_EQ(size, 2U);
  EXPECT_EQ(value[2], 0x77);
  size = 8;
  EXPECT_EQ(pinion_stack_getsockopt(s, fd, IPPROTO_TCP, TCP_KEEPIDLE, value.data(), &size), 0);
  EXPECT_EQ(size, 4U);
  EXPECT_EQ(value[4], 0x77);
  size = UINT32_MAX;
  EXPECT_EQ(pinion_stack_getsockopt(s, fd, IPPROTO_TCP, TCP_KEEPIDLE, value.data(), &size),
            -EINVAL);
}

TEST_F(AbiOptions, BuffersAreFixedWhenThePeerHasHeardOfThem) {
  pinion_stack* const s = client.get();
  const int fd = stream(s);
  EXPECT_EQ(get(s, fd, SOL_SOCKET, SO_RCVBUF), 262'144);
  for (const int name : {SO_RCVBUF, SO_SNDBUF}) {
    EXPECT_EQ(set(s, fd, SOL_SOCKET, name, 1), 0);
    EXPECT_EQ(get(s, fd, SOL_SOCKET, name), 4'096);
    EXPECT_EQ(set(s, fd, SOL_SOCKET, name, INT32_MAX), 0);
    EXPECT_EQ(get(s, fd, SOL_SOCKET, name), 536'870'912);
  }
  EXPECT_EQ(pinion_stack_listen(s, fd, 1), 0);
  EXPECT_EQ(set(s, fd, SOL_SOCKET, SO_RCVBUF, 50'000), -EINVAL);
  EXPECT_EQ(set(s, fd, SOL_SOCKET, SO_SNDBUF, 50'000), 0);
  EXPECT_EQ(set(s, fd, IPPROTO_TCP, TCP_MAXSEG, 500), -EINVAL);
  connect_pair();
  EXPECT_EQ(set(s, near, SOL_SOCKET, SO_RCVBUF, 50'000), -EISCONN);
  EXPECT_EQ(set(s, near, SOL_SOCKET, SO_SNDBUF, 50'000), -EISCONN);
  EXPECT_EQ(set(s, near, IPPROTO_TCP, TCP_MAXSEG, 500), -EISCONN);
  const int udp = datagram(s);
  EXPECT_EQ(set(s, udp, SOL_SOCKET, SO_RCVBUF, 50'000), 0);
  const Address here = client_at(9);
  EXPECT_EQ(pinion_stack_bind(s, udp, here.get(), here.size), 0);
  EXPECT_EQ(set(s, udp, SOL_SOCKET, SO_RCVBUF, 60'000), -EINVAL);
  EXPECT_EQ(set(s, udp, SOL_SOCKET, SO_SNDBUF, 60'000), 0);
}

TEST_F(AbiOptions, WhatIsSetBeforeConnectAndListenActs) {
  listener = stream(server.get());
  const Address there = server_at(7);
  EXPECT_EQ(set(server.get(), listener, IPPROTO_TCP, TCP_MAXSEG, 700), 0);
  EXPECT_EQ(set(server.get(), listener, SOL_SOCKET, SO_RCVBUF, 5'000), 0);
  EXPECT_EQ(set(server.get(), listener, IPPROTO_IP, IP_TOS, 0x20), 0);
  EXPECT_EQ(pinion_stack_bind(server.get(), listener, there.get(), there.size), 0);
  EXPECT_EQ(pinion_stack_listen(server.get(), listener, 1), 0);
  near = stream(client.get());
  EXPECT_EQ(set(client.get(), near, IPPROTO_TCP, TCP_MAXSEG, 900), 0);
  EXPECT_EQ(set(client.get(), near, IPPROTO_IP, IP_TOS, 0x20), 0);
  EXPECT_EQ(pinion_stack_connect(client.get(), near, there.get(), there.size), -EINPROGRESS);
  recording = true;
  carry();
  EXPECT_EQ(classes(), std::set{0x20});
  far = pinion_stack_accept(server.get(), listener, nullptr, nullptr);
  ASSERT_GE(far, 3);
  EXPECT_EQ(get(server.get(), far, IPPROTO_IP, IP_TOS), 0x20);
  EXPECT_EQ(get(client.get(), near, IPPROTO_TCP, TCP_MAXSEG), 700 - 12);
  const std::vector<char> bytes(20'000);
  carried.clear();
  EXPECT_EQ(pinion_stack_write(client.get(), near, bytes.data(), bytes.size()), 20'000);
  carry();
  std::size_t sent = 0;
  for (const Packet& packet : carried) {
    EXPECT_LE(packet.size(), 40U + 700);
    if (packet[15] == 1) sent += packet.size() - 52;
  }
  EXPECT_LE(sent, 5'000U) << "the window that SO_RCVBUF gives";
  EXPECT_GE(sent, 2'000U);
}

TEST_F(AbiOptions, TheTrafficClassCanChange) {
  for (const bool v6 : {false, true}) {
    const int level = v6 ? IPPROTO_IPV6 : IPPROTO_IP;
    const int name = v6 ? IPV6_TCLASS : IP_TOS;
    listener = -1;
    connect_pair(v6);
    EXPECT_EQ(set(client.get(), near, level, name, 0x4b), 0);
    EXPECT_EQ(get(client.get(), near, level, name), 0x48) << "without ECN";
    recording = true;
    carried.clear();
    EXPECT_EQ(pinion_stack_write(client.get(), near, "x", 1), 1);
    carry();
    EXPECT_TRUE(classes().contains(0x48));
    const int udp = datagram(client.get(), v6);
    const Address there = server_at(9, v6);
    EXPECT_EQ(set(client.get(), udp, level, name, 0x03), 0);
    carried.clear();
    EXPECT_EQ(pinion_stack_sendto(client.get(), udp, "x", 1, 0, there.get(), there.size), 1);
    carry();
    EXPECT_TRUE(classes().contains(0x03));
    EXPECT_EQ(set(client.get(), udp, level, name, 0x20), 0);
    carried.clear();
    EXPECT_EQ(pinion_stack_sendto(client.get(), udp, "x", 1, 0, there.get(), there.size), 1);
    carry();
    EXPECT_TRUE(classes().contains(0x20));
  }
  const int six = stream(client.get(), true);
  EXPECT_EQ(set(client.get(), six, IPPROTO_IPV6, IPV6_TCLASS, -1), 0);
  EXPECT_EQ(set(client.get(), six, IPPROTO_IPV6, IPV6_TCLASS, -2), -EINVAL);
}

TEST_F(AbiOptions, NoDelaySendsSmallSegmentsAtOnce) {
  connect_pair();
  passes = [](const Packet&) { return false; };
  EXPECT_EQ(pinion_stack_write(client.get(), near, "a", 1), 1);
  EXPECT_EQ(carry(), 1);
  EXPECT_EQ(pinion_stack_write(client.get(), near, "b", 1), 1);
  EXPECT_EQ(carry(), 0) << "Nagle";
  EXPECT_EQ(set(client.get(), near, IPPROTO_TCP, TCP_NODELAY, 1), 0);
  EXPECT_EQ(carry(), 1);
}

TEST_F(AbiOptions, TheUserTimeoutEndsWhatIsNotAcknowledged) {
  connect_pair();
  EXPECT_EQ(set(client.get(), near, IPPROTO_TCP, TCP_USER_TIMEOUT, 2'500), 0);
  passes = [](const Packet&) { return false; };
  EXPECT_EQ(pinion_stack_write(client.get(), near, "a", 1), 1);
  run_for(seconds{10});
  EXPECT_EQ(error_of(client.get(), near), ETIMEDOUT);
}

TEST_F(AbiOptions, AListenersOptionsAreThoseOfWhomItAccepts) {
  connect_pair();
  EXPECT_EQ(set(server.get(), listener, SOL_SOCKET, SO_KEEPALIVE, 1), 0);
  EXPECT_EQ(set(server.get(), listener, IPPROTO_TCP, TCP_KEEPIDLE, 5), 0);
  EXPECT_EQ(set(server.get(), listener, IPPROTO_TCP, TCP_KEEPINTVL, 1), 0);
  EXPECT_EQ(set(server.get(), listener, IPPROTO_TCP, TCP_KEEPCNT, 1), 0);
  const int before = far;
  connect_pair();
  EXPECT_EQ(get(server.get(), far, SOL_SOCKET, SO_KEEPALIVE), 1);
  EXPECT_EQ(get(server.get(), far, IPPROTO_TCP, TCP_KEEPIDLE), 5);
  passes = [](const Packet&) { return false; };
  run_for(seconds{30});
  EXPECT_EQ(error_of(server.get(), far), ETIMEDOUT);
  EXPECT_EQ(error_of(server.get(), before), 0);
}

// What accept()'s descriptor says of itself is so, whenever the handshake was.
TEST_F(AbiOptions, WhatIsSetOfAListenerIsOfThoseWhoWaitToo) {
  pinion_stack* const s = server.get();
  connect_pair();
  near = stream(client.get());
  const Address there = server_at(7);
  ASSERT_EQ(pinion_stack_connect(client.get(), near, there.get(), there.size), -EINPROGRESS);
  carry();
  EXPECT_EQ(set(s, listener, IPPROTO_TCP, TCP_NODELAY, 1), 0);
  EXPECT_EQ(set(s, listener, SOL_SOCKET, SO_SNDBUF, 4'096), 0);
  EXPECT_EQ(set(s, listener, IPPROTO_TCP, TCP_KEEPIDLE, 5), 0);
  EXPECT_EQ(set(s, listener, IPPROTO_TCP, TCP_KEEPINTVL, 1), 0);
  EXPECT_EQ(set(s, listener, IPPROTO_TCP, TCP_KEEPCNT, 1), 0);
  EXPECT_EQ(set(s, listener, SOL_SOCKET, SO_KEEPALIVE, 1), 0);
  EXPECT_EQ(set(s, listener, IPPROTO_IP, IP_TOS, 0x20), 0);
  far = pinion_stack_accept(s, listener, nullptr, nullptr);
  ASSERT_GE(far, 3);
  recording = true;
  passes = [](const Packet&) { return false; };
  EXPECT_EQ(get(s, far, IPPROTO_TCP, TCP_NODELAY), 1);
  EXPECT_EQ(pinion_stack_write(s, far, "a", 1), 1);
  EXPECT_EQ(carry(), 1);
  EXPECT_EQ(pinion_stack_write(s, far, "b", 1), 1);
  EXPECT_EQ(carry(), 1) << "no Nagle";
  EXPECT_EQ(classes(), std::set{0x20});
  EXPECT_EQ(get(s, far, SOL_SOCKET, SO_SNDBUF), 4'096);
  const std::vector<char> bytes(50'000);
  EXPECT_LE(pinion_stack_write(s, far, bytes.data(), bytes.size()), 4'096);
  EXPECT_EQ(get(s, far, SOL_SOCKET, SO_KEEPALIVE), 1);
  run_for(seconds{30});
  EXPECT_EQ(error_of(s, far), ETIMEDOUT);
}

TEST_F(AbiOptions, TheErrorIsWhatARouterHasSaid) {
  connect_pair();
  EXPECT_EQ(set(client.get(), near, IPPROTO_TCP, TCP_USER_TIMEOUT, 5'000), 0);
  recording = true;
  passes = [](const Packet&) { return false; };
  EXPECT_EQ(pinion_stack_write(client.get(), near, "abc", 3), 3);
  carry();
  ASSERT_EQ(carried.size(), 1U);
  const Packet complaint = host_unreachable(carried[0]);
  EXPECT_EQ(pinion_stack_give(client.get(), complaint.data(), complaint.size()), 0);
  EXPECT_EQ(error_of(client.get(), near), 0);
  run_for(seconds{4});
  EXPECT_EQ(error_of(client.get(), near), 0);
  run_for(seconds{4});
  EXPECT_EQ(error_of(client.get(), near), EHOSTUNREACH);
}

TEST_F(AbiOptions, LingerAndTimeoutsAreKept) {
  pinion_stack* const s = client.get();
  const int fd = stream(s);
  linger lasting{.l_onoff = 1, .l_linger = 5};
  socklen_t size = sizeof(lasting);
  EXPECT_EQ(pinion_stack_setsockopt(s, fd, SOL_SOCKET, SO_LINGER, &lasting, size - 1), -EINVAL);
  EXPECT_EQ(pinion_stack_setsockopt(s, fd, SOL_SOCKET, SO_LINGER, &lasting, size), 0);
  lasting = {};
  EXPECT_EQ(pinion_stack_getsockopt(s, fd, SOL_SOCKET, SO_LINGER, &lasting, &size), 0);
  EXPECT_EQ(lasting.l_onoff, 1);
  EXPECT_EQ(lasting.l_linger, 5);
  for (const int name : {SO_RCVTIMEO, SO_SNDTIMEO}) {
    timeval time{.tv_sec = 3, .tv_usec = 250'000};
    size = sizeof(time);
    EXPECT_EQ(pinion_stack_setsockopt(s, fd, SOL_SOCKET, name, &time, size), 0);
    time = {};
    EXPECT_EQ(pinion_stack_getsockopt(s, fd, SOL_SOCKET, name, &time, &size), 0);
    EXPECT_EQ(time.tv_sec, 3);
    EXPECT_EQ(time.tv_usec, 250'000);
    time.tv_usec = 1'000'000;
    EXPECT_EQ(pinion_stack_setsockopt(s, fd, SOL_SOCKET, name, &time, size), -EDOM);
    time = {.tv_sec = INT64_MAX, .tv_usec = 999'999};
    EXPECT_EQ(pinion_stack_setsockopt(s, fd, SOL_SOCKET, name, &time, size), 0);
    time = {};
    EXPECT_EQ(pinion_stack_setsockopt(s, fd, SOL_SOCKET, name, &time, size), 0);
  }
}

TEST_F(AbiOptions, TcpInfoIsTheSystemsStruct) {
  connect_pair();
  EXPECT_EQ(info(server.get(), listener).tcpi_state, TCP_LISTEN);
  EXPECT_EQ(info(client.get(), stream(client.get())).tcpi_state, TCP_CLOSE);
  passes = [](const Packet&) { return false; };
  EXPECT_EQ(pinion_stack_write(client.get(), near, "abc", 3), 3);
  run_for(seconds{2});
  const tcp_info now = info(client.get(), near);
  EXPECT_EQ(now.tcpi_state, TCP_ESTABLISHED);
  EXPECT_EQ(now.tcpi_options, TCPI_OPT_TIMESTAMPS | TCPI_OPT_SACK | TCPI_OPT_WSCALE);
  EXPECT_EQ(now.tcpi_snd_wscale, 3);
  EXPECT_EQ(now.tcpi_rcv_wscale, 3);
  EXPECT_EQ(now.tcpi_snd_mss, 1'448U);
  EXPECT_EQ(now.tcpi_advmss, 1'460U);
  EXPECT_EQ(now.tcpi_pmtu, 1'500U);
  EXPECT_EQ(now.tcpi_unacked, 1U);
  EXPECT_GE(now.tcpi_retransmits, 2);
  EXPECT_GE(now.tcpi_rto, 800'000U);
  EXPECT_EQ(now.tcpi_snd_cwnd, 1U);
  passes = [](const Packet&) { return true; };
  run_for(seconds{10});
  EXPECT_EQ(pinion_stack_shutdown(client.get(), near, SHUT_WR), 0);
  EXPECT_EQ(info(client.get(), near).tcpi_state, TCP_FIN_WAIT1);
  carry();
  EXPECT_EQ(info(client.get(), near).tcpi_state, TCP_FIN_WAIT2);
  EXPECT_EQ(info(server.get(), far).tcpi_state, TCP_CLOSE_WAIT);
}

TEST_F(AbiOptions, FlagsOfTheStackTurnTcpsOptionsOff) {
  client = make_stack(1, {.flags = PINION_STACK_NO_TIMESTAMPS | PINION_STACK_NO_WINDOW_SCALE |
                                   PINION_STACK_NO_SACK});
  connect_pair();
  EXPECT_EQ(info(client.get(), near).tcpi_options, 0);
  EXPECT_EQ(info(client.get(), near).tcpi_snd_mss, 1'460U);
}

TEST_F(AbiOptions, PartialChecksumsAreTakenWhereTheyAreTrusted) {
  for (const bool trusts : {false, true}) {
    for (const bool v6 : {false, true}) {
      pinion_stack_options options{};
      if (trusts) options.flags = PINION_STACK_TRUST_PARTIAL_CHECKSUMS;
      server = make_stack(2, options);
      const int here = datagram(server.get(), v6);
      const Address mine = server_at(9, v6);
      ASSERT_EQ(pinion_stack_bind(server.get(), here, mine.get(), mine.size), 0);
      const int waits = stream(server.get(), v6);
      const Address port = server_at(7, v6);
      ASSERT_EQ(pinion_stack_bind(server.get(), waits, port.get(), port.size), 0);
      ASSERT_EQ(pinion_stack_listen(server.get(), waits, 1), 0);
      client = make_stack(1);
      const int there = datagram(client.get(), v6);
      ASSERT_EQ(pinion_stack_sendto(client.get(), there, "hello", 5, 0, mine.get(), mine.size), 5);
      const int connects = stream(client.get(), v6);
      EXPECT_EQ(pinion_stack_connect(client.get(), connects, port.get(), port.size), -EINPROGRESS);
      int packets = 0;
      for (Packet packet(2'000);; ++packets) {
        packet.resize(2'000);
        const ssize_t size = pinion_stack_take(client.get(), packet.data(), packet.size());
        if (size <= 0) break;
        packet.resize(static_cast<std::size_t>(size));
        leave_checksum_to_a_nic(packet);
        EXPECT_EQ(pinion_stack_give(server.get(), packet.data(), packet.size()), 0);
      }
      EXPECT_GE(packets, 2);
      EXPECT_EQ(read_text(server.get(), here), trusts ? "hello" : "-11") << "EAGAIN";
      Packet answer(2'000);
      EXPECT_EQ(pinion_stack_take(server.get(), answer.data(), answer.size()) > 0, trusts)
          << "the SYN-ACK";
    }
  }
}

}  // namespace
}  // namespace pinion::test
