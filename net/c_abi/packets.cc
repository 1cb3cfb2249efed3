#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include <pinion/net/packet_copy.h>

#include "stack.h"

/// Packets in and out, and time.

namespace pinion::c_abi {
namespace {

constexpr std::size_t kLargestPacket = 65'535;
constexpr int kLargestBurst = 1'024;
/// What a host says to itself and comes to no end within so many turns goes on in the next call.
constexpr int kMostRounds = 64;

int check_packet(const iovec& packet) noexcept {
  if (packet.iov_base == nullptr) return -EFAULT;
  if (packet.iov_len == 0) return -EINVAL;
  return packet.iov_len > kLargestPacket ? -EMSGSIZE : 0;
}

}  // namespace

int Stack::give(std::span<const iovec> packets) noexcept {
  constexpr std::size_t kAtOnce = 32;
  std::array<Packet*, kAtOnce> burst{};
  std::size_t in_burst = 0;
  int taken = 0;
  int error = 0;
  const auto pass_on = [&] {
    host_->receive(interface_, std::span(burst).first(in_burst), now_);
    in_burst = 0;
  };
  for (const iovec& packet : packets) {
    error = check_packet(packet);
    if (error != 0) break;
    PacketPtr copy =
        packet_of({static_cast<const std::byte*>(packet.iov_base), packet.iov_len}, *pool_);
    if (!copy) {
      error = -ENOBUFS;
      break;
    }
    burst[in_burst++] = copy.take();
    ++taken;
    if (in_burst == kAtOnce) pass_on();
  }
  if (in_burst != 0) pass_on();
  if (taken != 0) host_->end_of_burst(now_);
  return taken != 0 ? taken : error;
}

Packet* Stack::next() noexcept {
  if (!next_) {
    Packet* packet = nullptr;
    if (host_->take(interface_, {&packet, 1}) == 1) next_.reset(packet);
  }
  return next_.get();
}

void Stack::settle() noexcept {
  for (int round = 0; round < kMostRounds && !host_->is_settled(); ++round) {
    host_->end_of_burst(now_);
  }
}

void Stack::set_time(Instant now) noexcept {
  for (;;) {
    const Instant due = wheel_.next_expiry();
    if (due > now) break;
    now_ = std::max(now_, due);
    wheel_.advance(now_);
    settle();
  }
  now_ = now;
  wheel_.advance(now_);
  settle();
}

Instant Stack::next_deadline() const noexcept {
  if (!host_->is_settled()) return now_;
  return std::max(wheel_.next_expiry(), now_);
}

}  // namespace pinion::c_abi

using pinion::Instant;
using pinion::c_abi::Call;

int pinion_stack_give(pinion_stack* stack, const void* packet, size_t size) noexcept {
  if (stack == nullptr) return -EFAULT;
  const Call call(*stack);
  const iovec whole{.iov_base = const_cast<void*>(packet), .iov_len = size};
  return std::min(stack->give({&whole, 1}), 0);
}

int pinion_stack_give_burst(pinion_stack* stack, const iovec* packets, int count) noexcept {
  if (stack == nullptr || (packets == nullptr && count != 0)) return -EFAULT;
  if (count < 0 || count > pinion::c_abi::kLargestBurst) return -EINVAL;
  const Call call(*stack);
  return stack->give({packets, static_cast<std::size_t>(count)});
}

ssize_t pinion_stack_take(pinion_stack* stack, void* buffer, size_t size) noexcept {
  if (stack == nullptr || buffer == nullptr) return -EFAULT;
  const pinion::Packet* const packet = stack->next();
  if (packet == nullptr) return 0;
  const std::size_t whole = packet->chain_size();
  if (size < whole) return -EMSGSIZE;
  pinion::copy_out(*packet, 0, {static_cast<std::byte*>(buffer), whole});
  stack->drop_next();
  return static_cast<ssize_t>(whole);
}

ssize_t pinion_stack_next_size(pinion_stack* stack) noexcept {
  if (stack == nullptr) return -EFAULT;
  const pinion::Packet* const packet = stack->next();
  return packet == nullptr ? 0 : static_cast<ssize_t>(packet->chain_size());
}

int pinion_stack_set_time(pinion_stack* stack, uint64_t now_ns) noexcept {
  if (stack == nullptr) return -EFAULT;
  if (now_ns >= pinion::c_abi::kTimeLimit) return -EINVAL;
  const Instant now{std::chrono::nanoseconds{static_cast<std::int64_t>(now_ns)}};
  if (now < stack->now()) return -EINVAL;
  stack->set_time(now);
  return 0;
}

int pinion_stack_time(const pinion_stack* stack, uint64_t* now_ns) noexcept {
  if (stack == nullptr || now_ns == nullptr) return -EFAULT;
  *now_ns = static_cast<uint64_t>(stack->now().time_since_epoch().count());
  return 0;
}

int pinion_stack_next_deadline(const pinion_stack* stack, uint64_t* deadline_ns) noexcept {
  if (stack == nullptr || deadline_ns == nullptr) return -EFAULT;
  const Instant due = stack->next_deadline();
  *deadline_ns =
      due == pinion::kNever ? UINT64_MAX : static_cast<uint64_t>(due.time_since_epoch().count());
  return 0;
}
