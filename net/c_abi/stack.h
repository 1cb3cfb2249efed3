#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <span>

#include <pinion/net/slab_packet_pool.h>
#include <pinion/timers/timing_wheel.h>

#include "../host/host.h"
#include "../stack/secret_numbers.h"
#include "pinion_stack.h"
#include "socket.h"

/// What a pinion_stack is: a host with one bare-IP interface, on virtual time, and its sockets by
/// descriptor.
///
/// Ownership:  owns everything, the packets that wait to leave included.
/// Threading:  one thread at a time.
/// Cost:       a descriptor is found at once; a free one by a walk from the lowest that may be.
/// Errors:     a negative errno, as pinion_stack.h has it.

namespace pinion::c_abi {

/// What a stack is made of, checked.
struct StackOptions {
  HostOptions host{};
  SlabPacketPoolOptions pool{};
  InterfaceOptions interface{};
  SocketSettings sockets{};
  std::size_t max_sockets = 0;
  std::uint64_t seed = 0;
  Instant start{};
};

/// Far from where instants end, so that sums with delays don't.
inline constexpr std::uint64_t kTimeLimit = std::uint64_t{1} << 62;

class Stack {
 public:
  static constexpr int kFirstDescriptor = 3;

  /// The stack is nobody's to use before set_up() has succeeded.
  Stack(std::unique_ptr<SlabPacketPool> pool, const StackOptions& options);
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;
  ~Stack();

  [[nodiscard]] Result<> set_up(const StackOptions& options);

  [[nodiscard]] IpStack& ip() noexcept { return host_->ip(); }
  [[nodiscard]] Tcp& tcp() noexcept { return host_->tcp(); }
  [[nodiscard]] UdpLayer& udp() noexcept { return host_->udp(); }
  [[nodiscard]] SlabPacketPool& pool() noexcept { return *pool_; }
  [[nodiscard]] Instant now() const noexcept { return now_; }

  // packets.cc: packets and time.
  [[nodiscard]] int give(std::span<const iovec> packets) noexcept;
  /// The packet that leaves next; none when nothing does.
  [[nodiscard]] Packet* next() noexcept;
  void drop_next() noexcept { next_.reset(); }
  void set_time(Instant now) noexcept;
  [[nodiscard]] Instant next_deadline() const noexcept;
  /// What the calls so far have caused is done.
  void settle() noexcept;

  // stack.cc: descriptors.
  [[nodiscard]] Socket* find(int fd) noexcept;
  /// The lowest one that is free; -EMFILE when none is.
  [[nodiscard]] int reserve() noexcept;
  [[nodiscard]] Socket& at(int fd) noexcept { return sockets_[index_of(fd)]; }
  void release(int fd) noexcept;
  [[nodiscard]] std::span<Socket> sockets() noexcept { return {sockets_.get(), max_sockets_}; }
  [[nodiscard]] std::size_t open_sockets() const noexcept { return open_sockets_; }
  [[nodiscard]] const SocketSettings& default_settings() const noexcept { return settings_; }

  /// A random place from which to look for a port.
  [[nodiscard]] std::uint16_t draw_port() noexcept;
  [[nodiscard]] std::uint16_t first_port() const noexcept { return first_port_; }
  [[nodiscard]] std::uint16_t last_port() const noexcept { return last_port_; }

  // Blocking.
  void set_hook(pinion_stack_wait* hook, void* user) noexcept {
    hook_ = hook;
    hook_user_ = user;
  }
  [[nodiscard]] bool in_hook() const noexcept { return hook_depth_ != 0; }
  /// Waits for one of `events`. 0: try again; -EAGAIN when the socket doesn't block, or `deadline`
  /// has passed.
  [[nodiscard]] int wait(int fd, short events, Instant deadline, bool dont_wait) noexcept;

  /// Up to 64 KiB, to gather parts in.
  static constexpr std::size_t kScratch = 65'536;
  [[nodiscard]] std::span<std::byte> scratch() noexcept { return {scratch_.get(), kScratch}; }

 private:
  [[nodiscard]] static std::size_t index_of(int fd) noexcept {
    return static_cast<std::size_t>(fd - kFirstDescriptor);
  }

  std::unique_ptr<SlabPacketPool> pool_;
  TimingWheel wheel_;
  Instant now_;
  std::unique_ptr<Host> host_;
  SecretNumbers ports_;  ///< Strangers see them.
  SocketSettings settings_;
  std::uint16_t first_port_;
  std::uint16_t last_port_;
  std::size_t max_sockets_;
  std::size_t open_sockets_ = 0;
  std::size_t first_free_ = 0;  ///< None below is free.
  std::unique_ptr<Socket[]> sockets_;
  std::unique_ptr<std::byte[]> scratch_;
  PacketPtr next_;
  std::uint8_t interface_ = 0;
  pinion_stack_wait* hook_ = nullptr;
  void* hook_user_ = nullptr;
  int hook_depth_ = 0;
};

/// Settles the stack at the end of a call.
class Call {
 public:
  explicit Call(Stack& stack) noexcept : stack_(stack) {}
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call() { stack_.settle(); }

 private:
  Stack& stack_;
};

/// Set-up that may find no memory.
template <class Work>
[[nodiscard]] int with_memory(Work work) noexcept {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return -ENOMEM;
  }
}

/// Gives a UDP socket a name of its own, or with `peer` that of its peer.
[[nodiscard]] int bind_datagram(Stack& stack, Socket& socket, const Endpoint& local,
                                const Endpoint* peer) noexcept;

/// Tries until the answer isn't -EAGAIN, and waits in between. `attempt` is given a socket that is
/// still the one it was.
template <class Attempt>
[[nodiscard]] ssize_t retry(Stack& stack, int fd, short events, Delay timeout, bool dont_wait,
                            Attempt attempt) noexcept {
  const Instant deadline = saturating_add(stack.now(), timeout);
  for (;;) {
    const ssize_t result = attempt(stack.at(fd));
    if (result != -EAGAIN) return result;
    const int waited = stack.wait(fd, events, deadline, dont_wait);
    if (waited != 0) return waited;
  }
}

}  // namespace pinion::c_abi

// NOLINTNEXTLINE(readability-identifier-naming): C's name.
struct pinion_stack final : pinion::c_abi::Stack {
  using Stack::Stack;
};
