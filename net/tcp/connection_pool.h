#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "connection.h"
#include "tcp_events.h"

/// The records of a layer's connections, in an array, and who may still speak of which.
///
/// Ownership:  the pool owns the records. It dies empty.
/// Threading:  one lcore.
/// Cost:       every operation O(1). The array is taken at start; pages of records that were never
///             used stay unmapped.
/// Errors:     all in use: nullptr. A handle of a record that was released names nothing, also once
///             the record is another connection's.

namespace pinion {

class ConnectionPool {
 public:
  /// 1 to 2^30 records. Without memory for them, allocate() gives none.
  explicit ConnectionPool(std::size_t limit) noexcept;
  ConnectionPool(const ConnectionPool&) = delete;
  ConnectionPool& operator=(const ConnectionPool&) = delete;
  ~ConnectionPool();

  [[nodiscard]] TcpConnection* allocate(Tcp& tcp, const FourTuple& tuple, wire::SequenceNumber iss,
                                        wire::SequenceNumber rcv_nxt,
                                        std::uint32_t receive_buffer) noexcept;
  void release(TcpConnection& connection) noexcept;

  [[nodiscard]] TcpConnection* find(TcpHandle handle) noexcept {
    if (handle.index >= fresh_ || generations_[handle.index] != handle.generation) return nullptr;
    return &at(handle.index);
  }
  [[nodiscard]] TcpConnection& at(std::uint32_t index) noexcept {
    PINION_DCHECK(index < fresh_ && is_live(index));
    return *std::launder(reinterpret_cast<TcpConnection*>(place(index)));
  }
  /// Asks for the memory of a record that a segment will look at.
  void prefetch(std::uint32_t index) const noexcept {
    constexpr std::size_t kLine = 64;
    const std::byte* const record = place(index);
    for (std::size_t at = 0; at < sizeof(TcpTransfer) + kLine; at += kLine) {
      __builtin_prefetch(record + at, 1);
    }
  }
  [[nodiscard]] std::uint32_t index_of(const TcpConnection& connection) const noexcept {
    const auto* const bytes = reinterpret_cast<const std::byte*>(&connection);
    return static_cast<std::uint32_t>(static_cast<std::size_t>(bytes - memory_.get()) / kStride);
  }
  [[nodiscard]] TcpHandle handle_of(const TcpConnection& connection) const noexcept {
    const std::uint32_t index = index_of(connection);
    return {.index = index, .generation = generations_[index]};
  }

  /// Calls `visit(connection)` for each, which may release it.
  template <class Visit>
  void for_each(Visit&& visit) noexcept {
    for (std::uint32_t index = 0; index < fresh_; ++index) {
      if (is_live(index)) visit(at(index));
    }
  }

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::size_t limit() const noexcept { return limit_; }

 private:
  struct Release {
    void operator()(std::byte* memory) const noexcept;
  };
  /// What a free record's memory holds.
  struct Free {
    std::uint32_t next;
  };

  static constexpr std::size_t kStride = sizeof(TcpConnection);
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  /// Generations are odd while a connection lives.
  [[nodiscard]] bool is_live(std::uint32_t index) const noexcept {
    return generations_[index] % 2 != 0;
  }
  [[nodiscard]] std::byte* place(std::uint32_t index) const noexcept {
    return memory_.get() + index * kStride;
  }

  std::size_t limit_;
  std::size_t size_ = 0;
  std::uint32_t fresh_ = 0;  ///< No record from here on was ever used.
  std::uint32_t free_ = kNone;
  std::unique_ptr<std::byte[], Release> memory_;
  std::vector<std::uint32_t> generations_;
};

}  // namespace pinion
