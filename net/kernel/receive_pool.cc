#include "receive_pool.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <pinion/lib/bits.h>

namespace pinion::detail {
namespace {

/// Zeroed pages, touched now and not when the first packet comes; nullptr when there are none. The
/// kernel fills its own tables at once, a hypervisor waits for the first byte that is written.
std::byte* map_pages(std::size_t bytes) noexcept {
  constexpr std::size_t kPage = 4096;
  void* const mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  auto* const pages = static_cast<std::byte*>(mapped);
  for (std::size_t at = 0; at < bytes; at += kPage) {
    static_cast<volatile std::byte*>(pages)[at] = std::byte{};
  }
  return pages;
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
  if (options.spare > 32768) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("{} spare buffers: more than 32768", options.spare),
                "spare_count=1024");
  }
  std::unique_ptr<ReceivePool> pool(new ReceivePool(options, observer));
  if (const Result<> mapped = pool->map_memory(); !mapped) return tl::unexpected(mapped.error());
  return pool;
}

Result<> ReceivePool::map_memory() {
  ring_bytes_ = options_.count * sizeof(io_uring_buf);
  memory_bytes_ = std::size_t{options_.count} * (options_.size + kSmallSize) +
                  std::size_t{options_.spare} * options_.size;
  std::byte* ring = map_pages(ring_bytes_);
  memory_ = map_pages(memory_bytes_);
  if (ring == nullptr || memory_ == nullptr) {
    if (ring != nullptr) munmap(ring, ring_bytes_);
    return fail(ErrorCode::resource_exhausted,
                fmt::format("no memory for {} receive buffers of {} bytes",
                            options_.count + options_.spare, options_.size),
                "lower buffer_count, spare_count or buffer_size");
  }
  ring_ = reinterpret_cast<io_uring_buf_ring*>(ring);
  received_ = std::make_unique<Received[]>(std::size_t{options_.count} * 2 + options_.spare);
  for (std::uint32_t i = 0; i < options_.count; ++i) received_[i].data = ring_buffer(i);
  std::byte* const small = memory_ + std::size_t{options_.count} * options_.size;
  std::byte* const large = small + std::size_t{options_.count} * kSmallSize;
  add_spares(small_, options_.count, options_.count, small, kSmallSize);
  add_spares(large_, 2 * options_.count, options_.spare, large, options_.size);
  return {};
}

void ReceivePool::add_spares(Spares& spares, std::uint32_t token, std::uint32_t number,
                             std::byte* memory, std::uint32_t size) noexcept {
  spares.size = size;
  for (std::uint32_t i = 0; i < number; ++i) {
    received_[token + i].data = memory + std::size_t{i} * size;
    received_[token + i].next_token = std::exchange(spares.first, token + i);
  }
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

std::uint32_t ReceivePool::take(std::uint32_t buffer, std::uint32_t size, bool wait) noexcept {
  PINION_ASSERT(buffer < options_.count);
  PINION_ASSERT(size <= options_.size);
  ++out_;
  received_[buffer].size = size;
  if (!attached_) return buffer;
  --free_;
  std::uint32_t token = kNone;
  if (low() && (wait || size <= kSmallSize)) token = copy_out({received_[buffer].data, size});
  if (token != kNone) offer(buffer);
  if (free_ < lowest_free_) lowest_free_ = free_;
  return token != kNone ? token : buffer;
}

/// The token of a spare buffer with these bytes, or kNone.
std::uint32_t ReceivePool::copy_out(std::span<const std::byte> bytes) noexcept {
  const bool fits = bytes.size() <= small_.size && small_.first != kNone;
  Spares& spares = fits ? small_ : large_;
  if (spares.first == kNone) return kNone;
  const std::uint32_t token = spares.first;
  Received& spare = received_[token];
  spares.first = spare.next_token;
  spare.size = static_cast<std::uint32_t>(bytes.size());
  std::memcpy(spare.data, bytes.data(), bytes.size());
  ++copied_;
  return token;
}

void ReceivePool::move_out(Chunk& chunk) noexcept {
  if (!attached_ || !in_ring(chunk)) return;
  const std::uint32_t token = copy_out(chunk.span());
  if (token == kNone) return;
  ++out_;
  chunk = this->chunk(token);
}

void ReceivePool::release_buffer(std::uintptr_t token) noexcept {
  const auto index = static_cast<std::uint32_t>(token);
  PINION_DCHECK(token < std::uintptr_t{options_.count} * 2 + options_.spare);
  PINION_DCHECK(out_ != 0);
  --out_;
  let_go(token);
  if (!in_ring(token)) {
    Spares& spares = index < 2 * options_.count ? small_ : large_;
    received_[index].next_token = std::exchange(spares.first, index);
  } else if (attached_) {
    offer(index);
    observer_.on_buffer_free();
  }
  if (out_ == 0) observer_.on_last_chunk_gone();
}

}  // namespace pinion::detail
