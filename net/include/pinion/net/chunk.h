#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include <pinion/lib/assert.h>
#include <pinion/lib/export.h>

/// A piece of a received byte stream, where it was received: nothing is copied.
///
/// Ownership:  the holder of a Chunk owns its buffer and the bytes in it, and may change them. The
///             buffer goes back to the transport when the chunk dies, or when the write that it was
///             moved into is done. It may outlive its stream, listener and transport.
/// Threading:  the lcore that received it.
/// Cost:       a move copies four words; giving back is O(1). A chunk pins a receive buffer: copy
///             what must be kept for long.
/// Order:      a chunk's boundaries mean nothing.

namespace pinion {

/// Whoever lends buffers out as chunks.
class BufferOwner {
 public:
  /// Takes back the buffer that was lent as `token`. May be called at any time, also while the
  /// owner dispatches.
  virtual void release_buffer(std::uintptr_t token) noexcept = 0;

 protected:
  ~BufferOwner() = default;
};

class Chunk {
 public:
  /// A chunk of no bytes.
  Chunk() noexcept = default;

  /// For transports: `bytes` stay valid until `owner` gets `token` back.
  Chunk(std::span<std::byte> bytes, BufferOwner& owner, std::uintptr_t token) noexcept
      : data_(bytes.data()), size_(bytes.size()), owner_(&owner), token_(token) {}

  Chunk(Chunk&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        owner_(std::exchange(other.owner_, nullptr)),
        token_(other.token_) {}

  Chunk& operator=(Chunk&& other) noexcept {
    if (this == &other) return *this;
    reset();
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
    owner_ = std::exchange(other.owner_, nullptr);
    token_ = other.token_;
    return *this;
  }

  ~Chunk() { reset(); }

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] std::span<std::byte> span() const noexcept { return {data_, size_}; }

  /// The bytes as characters.
  [[nodiscard]] std::string_view text() const noexcept {
    return {reinterpret_cast<const char*>(data_), size_};
  }

  /// Consumes the first `count` bytes.
  void remove_prefix(std::size_t count) noexcept {
    PINION_ASSERT(count <= size_);
    data_ += count;
    size_ -= count;
  }

  /// Drops the last `count` bytes.
  void remove_suffix(std::size_t count) noexcept {
    PINION_ASSERT(count <= size_);
    size_ -= count;
  }

  /// For transports: who gets the buffer back, nobody for a chunk of no buffer; and its token
  /// there.
  [[nodiscard]] const BufferOwner* owner() const noexcept { return owner_; }
  [[nodiscard]] std::uintptr_t token() const noexcept { return token_; }

  /// For transports, of a chunk with an owner: hands the buffer over, whose token this is. The
  /// owner doesn't hear of it, and the chunk is empty afterwards.
  [[nodiscard]] std::uintptr_t take_buffer() noexcept {
    PINION_DCHECK(owner_ != nullptr);
    owner_ = nullptr;
    reset();
    return token_;
  }

  /// Gives the buffer back at once; the chunk is empty afterwards.
  void reset() noexcept {
    if (owner_ != nullptr) give_back();
    data_ = nullptr;
    size_ = 0;
  }

 private:
  PINION_EXPORT void give_back() noexcept;

  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  BufferOwner* owner_ = nullptr;
  std::uintptr_t token_ = 0;
};

}  // namespace pinion
