#include "connection_pool.h"

#include <memory>
#include <new>

#include <pinion/lib/assert.h>

namespace pinion {

ConnectionPool::ConnectionPool(std::size_t limit) noexcept : limit_(limit), generations_(limit) {
  PINION_ASSERT(limit >= 1);
  PINION_ASSERT(limit <= std::size_t{1} << 30);
  constexpr auto kAlignment = std::align_val_t{alignof(TcpConnection)};
  memory_.reset(static_cast<std::byte*>(::operator new(limit * kStride, kAlignment, std::nothrow)));
  if (memory_ == nullptr) limit_ = 0;
}

ConnectionPool::~ConnectionPool() {
  PINION_ASSERT(size_ == 0);
}

void ConnectionPool::Release::operator()(std::byte* memory) const noexcept {
  ::operator delete(memory, std::align_val_t{alignof(TcpConnection)});
}

TcpConnection* ConnectionPool::allocate(Tcp& tcp, const FourTuple& tuple, wire::SequenceNumber iss,
                                        wire::SequenceNumber rcv_nxt,
                                        std::uint32_t receive_buffer) noexcept {
  std::uint32_t index = free_;
  if (index != kNone) {
    free_ = std::launder(reinterpret_cast<Free*>(place(index)))->next;
  } else {
    if (fresh_ == limit_) return nullptr;
    index = fresh_++;
  }
  ++size_;
  ++generations_[index];
  return ::new (place(index)) TcpConnection(tcp, tuple, iss, rcv_nxt, receive_buffer);
}

void ConnectionPool::release(TcpConnection& connection) noexcept {
  const std::uint32_t index = index_of(connection);
  PINION_ASSERT(is_live(index));
  std::destroy_at(&connection);
  ++generations_[index];
  ::new (place(index)) Free{.next = free_};
  free_ = index;
  --size_;
}

}  // namespace pinion
