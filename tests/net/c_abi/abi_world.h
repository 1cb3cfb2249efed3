#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pinion_stack.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

/// Two stacks of the C ABI on a wire without delay, and what tests ask of them.

namespace pinion::test {

using Packet = std::vector<std::uint8_t>;

/// An address of the system's, of either family.
struct Address {
  Address(std::string_view text, std::uint16_t port);
  Address() = default;

  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  [[nodiscard]] sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  /// `192.0.2.1 7`.
  [[nodiscard]] std::string text() const;

  sockaddr_storage storage{};
  socklen_t size = sizeof(storage);
};

struct Destroy {
  void operator()(pinion_stack* stack) const { EXPECT_EQ(pinion_stack_destroy(stack), 0); }
};
using StackPtr = std::unique_ptr<pinion_stack, Destroy>;

/// A stack at 192.0.2.`last`/24 and 2001:db8::`last`/64, with what `options` has besides.
[[nodiscard]] StackPtr make_stack(int last, pinion_stack_options options = {});

class TwoStacks : public testing::Test {
 protected:
  TwoStacks();

  /// The addresses of the client's and the server's stack.
  [[nodiscard]] static Address client_at(std::uint16_t port, bool v6 = false);
  [[nodiscard]] static Address server_at(std::uint16_t port, bool v6 = false);

  /// Carries packets until none waits; how many there were.
  int carry();
  /// Lets time pass on both sides, timer by timer.
  void run_for(std::chrono::nanoseconds time);
  [[nodiscard]] std::uint64_t now() const { return now_; }

  /// A listener at port 7 of the server, a client's socket connected to it, and the other end.
  void connect_pair(bool v6 = false);

  [[nodiscard]] static int stream(pinion_stack* stack, bool v6 = false);
  [[nodiscard]] static int datagram(pinion_stack* stack, bool v6 = false);
  [[nodiscard]] static short ready(pinion_stack* stack, int fd, int events = 0x3fff);
  [[nodiscard]] static int error_of(pinion_stack* stack, int fd);
  [[nodiscard]] static int get(pinion_stack* stack, int fd, int level, int name);
  [[nodiscard]] static int set(pinion_stack* stack, int fd, int level, int name, int value);
  [[nodiscard]] static std::string read_text(pinion_stack* stack, int fd);

  StackPtr client;
  StackPtr server;
  std::function<bool(const Packet&)> passes = [](const Packet&) { return true; };
  std::vector<Packet> carried;  ///< While `recording`.
  bool recording = false;
  int listener = -1;
  int near = -1;  ///< The client's socket,
  int far = -1;   ///< and the server's.

 private:
  int carry(pinion_stack* from, pinion_stack* to);

  std::uint64_t now_ = 0;
};

}  // namespace pinion::test
