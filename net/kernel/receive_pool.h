#pragma once

#include <liburing.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <pinion/lib/list.h>
#include <pinion/lib/result.h>
#include <pinion/lib/time.h>
#include <pinion/net/chunk.h>

/// The receive buffers of one lcore: a provided-buffer ring that the kernel picks from, and spare
/// buffers, small and large, into which payloads are copied when the ring runs low.
///
/// Ownership:  a buffer belongs to the kernel, or to whoever received it, until release_buffer().
///             The pool dies with its last user (KernelCore counts them), so chunks may outlive
///             the transport.
/// Threading:  one lcore.
/// Cost:       take and give back are O(1): the buffer is offered to the kernel again by two stores
///             into shared memory, without a system call.
/// Full:       with no buffer left, receives end with ENOBUFS; Observer is told when one is back.

namespace pinion::detail {

class KernelConnection;

/// Where a received payload lies. It is linked while it is held: while its bytes wait for their
/// reader, or to be sent.
struct Received : ListNode {
  std::byte* data = nullptr;
  std::uint32_t size = 0;
  std::uint32_t next_token = 0;  ///< For ReceiveQueue.
  KernelConnection* holder = nullptr;
  Instant held_since{};
};

struct ReceivePoolOptions {
  std::uint32_t count = 4096;  ///< Power of two, 1 to 32768.
  std::uint32_t size = 4096;   ///< Bytes each.
  std::uint32_t spare = 1024;  ///< Spare buffers of that size, beside `count` of kSmallSize.
};

class ReceivePool final : public BufferOwner {
 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  static constexpr std::uint32_t kSmallSize = 256;
  static constexpr std::uint16_t kGroup = 1;

  /// Hears of every buffer that the kernel may use again.
  class Observer {
   public:
    virtual void on_buffer_free() noexcept = 0;
    virtual void on_last_chunk_gone() noexcept = 0;

   protected:
    ~Observer() = default;
  };

  [[nodiscard]] static Result<std::unique_ptr<ReceivePool>> create(ReceivePoolOptions options,
                                                                   Observer& observer);
  ~ReceivePool();
  ReceivePool(const ReceivePool&) = delete;
  ReceivePool& operator=(const ReceivePool&) = delete;

  /// Offers every buffer to `ring`.
  [[nodiscard]] Result<> attach(io_uring& ring);

  /// Takes the ring away from the kernel; buffers that are out stay valid.
  void detach(io_uring& ring) noexcept;

  /// Takes over the buffer that the kernel filled with `size` bytes and returns its token. Below
  /// low water a small payload moves to a spare buffer, and so does any that will `wait` for its
  /// reader.
  [[nodiscard]] std::uint32_t take(std::uint32_t buffer, std::uint32_t size, bool wait) noexcept;

  /// Moves a chunk that will wait to be sent out of the ring, if it is there and a spare buffer is
  /// left. Its bytes are elsewhere afterwards.
  void move_out(Chunk& chunk) noexcept;

  /// Whether a token or a chunk means one of the buffers that the kernel receives into.
  [[nodiscard]] bool in_ring(std::uintptr_t token) const noexcept { return token < options_.count; }
  [[nodiscard]] bool in_ring(const Chunk& chunk) const noexcept {
    return owns(chunk) && in_ring(chunk.token());
  }
  [[nodiscard]] bool owns(const Chunk& chunk) const noexcept { return chunk.owner() == this; }

  /// Whether less than a quarter is free: from then on nothing that a peer does may keep a buffer.
  [[nodiscard]] bool low() const noexcept { return free_ < low_water_; }

  /// Whether buffers are scarce and no large spare one is left: what comes now stays in the ring.
  [[nodiscard]] bool exhausted() const noexcept {
    return attached_ && low() && large_.first == kNone;
  }

  /// From now on the bytes of a buffer wait for somebody on the other side of `holder`.
  void hold(std::uintptr_t token, KernelConnection& holder, Instant now) noexcept {
    Received& held = received_[token];
    held.holder = &holder;
    held.held_since = now;
    held_.push_back(held);
  }
  void let_go(std::uintptr_t token) noexcept {
    if (received_[token].linked()) held_.erase(received_[token]);
  }

  /// The buffer that has been held for longest; nullptr when none is.
  [[nodiscard]] const Received* longest_held() const noexcept {
    return held_.empty() ? nullptr : &held_.front();
  }

  void release_buffer(std::uintptr_t token) noexcept override;

  [[nodiscard]] Received& at(std::uint32_t token) noexcept { return received_[token]; }
  [[nodiscard]] Chunk chunk(std::uint32_t token) noexcept {
    return Chunk({received_[token].data, received_[token].size}, *this, token);
  }

  /// How many unread buffers one connection may hold now: an eighth of what is free, so that many
  /// slow readers together leave room for the others; at least 1, at most `cap`.
  [[nodiscard]] std::uint32_t share(std::uint32_t cap) const noexcept {
    const std::uint32_t eighth = free_ / 8;
    if (eighth >= cap) return cap;
    return eighth == 0 ? 1 : eighth;
  }

  [[nodiscard]] std::uint32_t free() const noexcept { return free_; }
  [[nodiscard]] std::uint32_t lowest_free() const noexcept { return lowest_free_; }
  [[nodiscard]] std::uint32_t size() const noexcept { return options_.size; }
  [[nodiscard]] std::uint32_t out() const noexcept { return out_; }
  [[nodiscard]] std::uint64_t copied() const noexcept { return copied_; }

 private:
  ReceivePool(ReceivePoolOptions options, Observer& observer) noexcept
      : options_(options),
        low_water_(options.count < 4 ? 1 : options.count / 4),
        observer_(observer) {}

  [[nodiscard]] Result<> map_memory();
  [[nodiscard]] std::byte* ring_buffer(std::uint32_t index) const noexcept {
    return memory_ + std::size_t{index} * options_.size;
  }
  /// One size of spare buffers; a list through next_token of those that are free.
  struct Spares {
    std::uint32_t first = kNone;
    std::uint32_t size = 0;
  };

  void offer(std::uint32_t index) noexcept;
  void add_spares(Spares& spares, std::uint32_t token, std::uint32_t number, std::byte* memory,
                  std::uint32_t size) noexcept;
  [[nodiscard]] std::uint32_t copy_out(std::span<const std::byte> bytes) noexcept;

  ReceivePoolOptions options_;
  std::uint32_t low_water_;
  Observer& observer_;
  io_uring_buf_ring* ring_ = nullptr;
  std::byte* memory_ = nullptr;  ///< The ring's buffers, then the spare ones.
  std::size_t ring_bytes_ = 0;
  std::size_t memory_bytes_ = 0;
  std::unique_ptr<Received[]> received_;  ///< By token: ring buffers, small and large spare ones.
  Spares small_;
  Spares large_;
  List<Received> held_;  ///< In the order of held_since.
  std::uint32_t free_ = 0;
  std::uint32_t lowest_free_ = 0;
  std::uint32_t out_ = 0;  ///< Taken and not given back, spare ones included.
  bool attached_ = false;
  std::uint64_t copied_ = 0;
};

/// The received and unread buffers of one connection, oldest first.
class ReceiveQueue {
 public:
  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
  [[nodiscard]] std::uint32_t count() const noexcept { return count_; }

  void push(ReceivePool& pool, std::uint32_t token) noexcept {
    if (count_ == 0) {
      head_ = token;
    } else {
      pool.at(tail_).next_token = token;
    }
    tail_ = token;
    ++count_;
  }

  [[nodiscard]] std::uint32_t pop(ReceivePool& pool) noexcept {
    PINION_DCHECK(count_ != 0);
    const std::uint32_t token = head_;
    head_ = pool.at(token).next_token;
    --count_;
    return token;
  }

 private:
  std::uint32_t head_ = 0;
  std::uint32_t tail_ = 0;
  std::uint32_t count_ = 0;
};

}  // namespace pinion::detail
