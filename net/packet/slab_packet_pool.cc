#include <pinion/net/slab_packet_pool.h>

#include <new>
#include <span>
#include <string>

#include <pinion/lib/bits.h>

namespace pinion {
namespace {

constexpr std::size_t kLine = alignof(Packet);
constexpr std::size_t kLeastBuffer = 256;
constexpr std::size_t kLargestBuffer = 1'048'576;

}  // namespace

Result<std::unique_ptr<SlabPacketPool>> SlabPacketPool::create(
    const SlabPacketPoolOptions& options) {
  if (options.packets == 0) {
    return fail(ErrorCode::invalid_argument, "a packet pool without packets", "packets = 4096");
  }
  if (options.buffer_size < kLeastBuffer || options.buffer_size > kLargestBuffer) {
    return fail(ErrorCode::invalid_argument,
                "packet buffers of " + std::to_string(options.buffer_size) + " bytes",
                "buffer_size from 256 to 1048576");
  }
  std::unique_ptr<SlabPacketPool> pool(new SlabPacketPool(options));
  if (!pool->packets_.reserve(options.packets) || !pool->views_.reserve(options.views)) {
    return fail(ErrorCode::resource_exhausted,
                "no memory for " + std::to_string(options.packets) + " packet buffers of " +
                    std::to_string(options.buffer_size) + " bytes",
                "fewer packets, or a smaller buffer_size");
  }
  return pool;
}

SlabPacketPool::SlabPacketPool(const SlabPacketPoolOptions& options) noexcept
    : buffer_size_(round_up_to_multiple(options.buffer_size, kLine)),
      packets_({.object_size = sizeof(Packet) + buffer_size_,
                .alignment = kLine,
                .limit = options.packets}),
      views_({.object_size = sizeof(Packet), .alignment = kLine, .limit = options.views}) {}

SlabPacketPool::~SlabPacketPool() = default;

Packet* SlabPacketPool::allocate() noexcept {
  auto* const memory = static_cast<std::byte*>(packets_.allocate());
  if (memory == nullptr) return nullptr;
  const std::span buffer(memory + sizeof(Packet), buffer_size_);
  return ::new (memory) Packet(*this, buffer, kPacketHeadroom);
}

Packet* SlabPacketPool::view(Packet& of, std::size_t offset, std::size_t size) noexcept {
  void* const memory = views_.allocate();
  if (memory == nullptr) return nullptr;
  if (!of.owner().add_view()) {
    views_.release(memory);
    return nullptr;
  }
  return ::new (memory) Packet(*this, of, offset, size);
}

void SlabPacketPool::give_back(Packet& segment) noexcept {
  Packet* const viewed = segment.is_view() ? &segment.owner() : nullptr;
  segment.mark_free();
  if (viewed == nullptr) {
    packets_.release(&segment);
  } else {
    views_.release(&segment);
    viewed->release_segment();
  }
}

}  // namespace pinion
