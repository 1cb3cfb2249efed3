#include "receive_pool.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include <fmt/format.h>
#include <pinion/lib/bits.h>

namespace pinion::detail {
namespace {

/// Zeroed pages, touched now and not when the first packet comes; nullptr when there are none.
std::byte* map_pages(std::size_t bytes) noexcept {
  void* pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  return pages == MAP_FAILED ? nullptr : static_cast<std::byte*>(pages);
}

}  // namespace

Result<std::unique_ptr<ReceivePool>> ReceivePool::create(ReceivePoolOptions options,
                                                         Observer& observer) {
  if (options.count == 0 || options.count > 32768 || !is_power_of_two(options.count)) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("{} receive buffers: not a power of two up to 32768", options.count),
                "buffer_count=4096");
  }
  if (options.size < 64 || options.size > (1U << 20)) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("receive buffers of {} bytes: not from 64 to 1048576", options.size),
                "buffer_size=4096");
  }
  std::unique_ptr<ReceivePool> pool(new ReceivePool(options, observer));
  if (const Result<> mapped = pool->map_memory(); !mapped) return tl::unexpected(mapped.error());
  return pool;
}

Result<> ReceivePool::map_memory() {
  ring_bytes_ = options_.count * sizeof(io_uring_buf);
  memory_bytes_ = std::size_t{options_.count} * (options_.size + kSpareSize);
  std::byte* ring = map_pages(ring_bytes_);
  memory_ = map_pages(memory_bytes_);
  if (ring == nullptr || memory_ == nullptr) {
    if (ring != nullptr) munmap(ring, ring_bytes_);
    return fail(
        ErrorCode::resource_exhausted,
        fmt::format("no memory for {} receive buffers of {} bytes", options_.count, options_.size),
        "lower buffer_count or buffer_size");
  }
  ring_ = reinterpret_cast<io_uring_buf_ring*>(ring);
  received_ = std::make_unique<Received[]>(std::size_t{options_.count} * 2);
  std::byte* spare = memory_ + std::size_t{options_.count} * options_.size;
  for (std::uint32_t i = 0; i < options_.count; ++i) {
    received_[i].data = ring_buffer(i);
    const std::uint32_t token = options_.count + i;
    received_[token].data = spare + std::size_t{i} * kSpareSize;
    received_[token].next = free_spare_;
    free_spare_ = token;
  }
  return {};
}

ReceivePool::~ReceivePool() {
  PINION_ASSERT(!attached_);
  PINION_ASSERT(out_ == 0);
  if (ring_ != nullptr) munmap(ring_, ring_bytes_);
  if (memory_ != nullptr) munmap(memory_, memory_bytes_);
}

Result<> ReceivePool::attach(io_uring& ring) {
  io_uring_buf_reg registration{};
  registration.ring_addr = reinterpret_cast<std::uintptr_t>(ring_);
  registration.ring_entries = options_.count;
  registration.bgid = kGroup;
  if (const int error = io_uring_register_buf_ring(&ring, &registration, 0); error != 0) {
    if (error == -EEXIST) {
      return fail(ErrorCode::already_exists, "this loop has a kernel transport already",
                  "use one KernelTransport per Loop");
    }
    return tl::unexpected(errno_error(-error, "cannot register receive buffers with io_uring"));
  }
  attached_ = true;
  for (std::uint32_t i = 0; i < options_.count; ++i) offer(i);
  lowest_free_ = free_;
  return {};
}

void ReceivePool::detach(io_uring& ring) noexcept {
  if (!attached_) return;
  attached_ = false;
  free_ = 0;
  io_uring_unregister_buf_ring(&ring, kGroup);
}

void ReceivePool::offer(std::uint32_t index) noexcept {
  const int mask = static_cast<int>(options_.count) - 1;
  io_uring_buf_ring_add(ring_, ring_buffer(index), options_.size,
                        static_cast<unsigned short>(index), mask, 0);
  io_uring_buf_ring_advance(ring_, 1);
  ++free_;
}

std::uint32_t ReceivePool::take(std::uint32_t buffer, std::uint32_t size) noexcept {
  PINION_ASSERT(buffer < options_.count);
  PINION_ASSERT(size <= options_.size);
  ++out_;
  if (!attached_) {
    received_[buffer].size = size;
    return buffer;
  }
  --free_;
  std::uint32_t token = buffer;
  if (free_ < options_.count / 4 && size <= kSpareSize && free_spare_ != kNone) {
    token = free_spare_;
    free_spare_ = received_[token].next;
    std::memcpy(received_[token].data, ring_buffer(buffer), size);
    ++copied_;
    offer(buffer);
  }
  if (free_ < lowest_free_) lowest_free_ = free_;
  received_[token].size = size;
  return token;
}

void ReceivePool::release_buffer(std::uintptr_t token) noexcept {
  const auto index = static_cast<std::uint32_t>(token);
  PINION_DCHECK(token < std::uintptr_t{options_.count} * 2);
  PINION_DCHECK(out_ != 0);
  --out_;
  if (index >= options_.count) {
    received_[index].next = free_spare_;
    free_spare_ = index;
  } else if (attached_) {
    offer(index);
    observer_.on_buffer_free();
  }
  if (out_ == 0) observer_.on_last_chunk_gone();
}

}  // namespace pinion::detail
