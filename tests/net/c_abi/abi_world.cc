#include "abi_world.h"

#include <poll.h>

#include <algorithm>
#include <array>

namespace pinion::test {

Address::Address(std::string_view text, std::uint16_t port) {
  const std::string whole(text);
  sockaddr_in in{};
  sockaddr_in6 in6{};
  if (inet_pton(AF_INET, whole.c_str(), &in.sin_addr) == 1) {
    in.sin_family = AF_INET;
    in.sin_port = htons(port);
    std::memcpy(&storage, &in, sizeof(in));
    size = sizeof(in);
    return;
  }
  EXPECT_EQ(inet_pton(AF_INET6, whole.c_str(), &in6.sin6_addr), 1) << whole;
  in6.sin6_family = AF_INET6;
  in6.sin6_port = htons(port);
  std::memcpy(&storage, &in6, sizeof(in6));
  size = sizeof(in6);
}

std::string Address::text() const {
  std::array<char, INET6_ADDRSTRLEN> name{};
  sockaddr_in in{};
  sockaddr_in6 in6{};
  std::memcpy(&in, &storage, sizeof(in));
  std::memcpy(&in6, &storage, sizeof(in6));
  const bool v4 = storage.ss_family == AF_INET;
  const void* const from = v4 ? static_cast<const void*>(&in.sin_addr) : &in6.sin6_addr;
  inet_ntop(storage.ss_family, from, name.data(), name.size());
  return std::string(name.data()) + " " + std::to_string(ntohs(v4 ? in.sin_port : in6.sin6_port));
}

StackPtr make_stack(int last, pinion_stack_options options) {
  const Address v4("192.0.2." + std::to_string(last), 0);
  const Address v6("2001:db8::" + std::to_string(last), 0);
  const pinion_stack_address addresses[] = {
      {.size = sizeof(pinion_stack_address),
       .address = v4.get(),
       .address_size = v4.size,
       .prefix_length = 24},
      {.size = sizeof(pinion_stack_address),
       .address = v6.get(),
       .address_size = v6.size,
       .prefix_length = 64},
  };
  std::array<char, 200> message{};
  options.size = sizeof(options);
  options.addresses = addresses;
  options.address_count = 2;
  options.message = message.data();
  options.message_size = message.size();
  if (options.seed == 0) options.seed = static_cast<std::uint64_t>(last) + 1;
  pinion_stack* stack = nullptr;
  EXPECT_EQ(pinion_stack_create(&options, &stack), 0) << message.data();
  return StackPtr(stack);
}

TwoStacks::TwoStacks() : client(make_stack(1)), server(make_stack(2)) {}

Address TwoStacks::client_at(std::uint16_t port, bool v6) {
  return {v6 ? "2001:db8::1" : "192.0.2.1", port};
}

Address TwoStacks::server_at(std::uint16_t port, bool v6) {
  return {v6 ? "2001:db8::2" : "192.0.2.2", port};
}

int TwoStacks::carry(pinion_stack* from, pinion_stack* to) {
  int count = 0;
  Packet packet(65'535);
  for (;;) {
    const ssize_t size = pinion_stack_take(from, packet.data(), packet.size());
    EXPECT_GE(size, 0);
    if (size <= 0) return count;
    ++count;
    const Packet exact(packet.begin(), packet.begin() + size);
    if (recording) carried.push_back(exact);
    if (!passes(exact)) continue;
    EXPECT_EQ(pinion_stack_give(to, exact.data(), exact.size()), 0);
  }
}

int TwoStacks::carry() {
  int sum = 0;
  for (int count = 1; count != 0; sum += count) {
    count = carry(client.get(), server.get()) + carry(server.get(), client.get());
  }
  return sum;
}

void TwoStacks::run_for(std::chrono::nanoseconds time) {
  const std::uint64_t end = now_ + static_cast<std::uint64_t>(time.count());
  carry();
  for (;;) {
    std::uint64_t a = 0;
    std::uint64_t b = 0;
    EXPECT_EQ(pinion_stack_next_deadline(client.get(), &a), 0);
    EXPECT_EQ(pinion_stack_next_deadline(server.get(), &b), 0);
    now_ = std::min({std::max(std::min(a, b), now_), end});
    EXPECT_EQ(pinion_stack_set_time(client.get(), now_), 0);
    EXPECT_EQ(pinion_stack_set_time(server.get(), now_), 0);
    carry();
    if (now_ == end) return;
  }
}

void TwoStacks::connect_pair(bool v6) {
  if (listener < 0) {
    listener = stream(server.get(), v6);
    const Address here = server_at(7, v6);
    ASSERT_EQ(pinion_stack_bind(server.get(), listener, here.get(), here.size), 0);
    ASSERT_EQ(pinion_stack_listen(server.get(), listener, 8), 0);
  }
  near = stream(client.get(), v6);
  const Address there = server_at(7, v6);
  ASSERT_EQ(pinion_stack_connect(client.get(), near, there.get(), there.size), -EINPROGRESS);
  carry();
  ASSERT_EQ(pinion_stack_connect(client.get(), near, there.get(), there.size), 0);
  far = pinion_stack_accept(server.get(), listener, nullptr, nullptr);
  ASSERT_GE(far, 3);
}

int TwoStacks::stream(pinion_stack* stack, bool v6) {
  const int fd = pinion_stack_socket(stack, v6 ? AF_INET6 : AF_INET, SOCK_STREAM, 0);
  EXPECT_GE(fd, 3);
  return fd;
}

int TwoStacks::datagram(pinion_stack* stack, bool v6) {
  const int fd = pinion_stack_socket(stack, v6 ? AF_INET6 : AF_INET, SOCK_DGRAM, 0);
  EXPECT_GE(fd, 3);
  return fd;
}

short TwoStacks::ready(pinion_stack* stack, int fd, int events) {
  pollfd polled{.fd = fd, .events = static_cast<short>(events), .revents = 0};
  const int count = pinion_stack_poll(stack, &polled, 1);
  EXPECT_EQ(count, polled.revents != 0 ? 1 : 0);
  return polled.revents;
}

int TwoStacks::error_of(pinion_stack* stack, int fd) {
  return get(stack, fd, SOL_SOCKET, SO_ERROR);
}

int TwoStacks::get(pinion_stack* stack, int fd, int level, int name) {
  int value = -1;
  socklen_t size = sizeof(value);
  const int error = pinion_stack_getsockopt(stack, fd, level, name, &value, &size);
  EXPECT_EQ(size, sizeof(value));
  return error != 0 ? error : value;
}

int TwoStacks::set(pinion_stack* stack, int fd, int level, int name, int value) {
  return pinion_stack_setsockopt(stack, fd, level, name, &value, sizeof(value));
}

std::string TwoStacks::read_text(pinion_stack* stack, int fd) {
  std::array<char, 100> text{};
  const ssize_t size = pinion_stack_read(stack, fd, text.data(), text.size());
  return size < 0 ? std::to_string(size) : std::string(text.data(), static_cast<std::size_t>(size));
}

}  // namespace pinion::test
