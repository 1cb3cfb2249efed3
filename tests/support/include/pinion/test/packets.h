#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <pinion/lib/random.h>
#include <pinion/lib/result.h>
#include <pinion/net/packet.h>
#include <pinion/net/packet_copy.h>
#include <pinion/net/slab_packet_pool.h>

/// Packets from bytes and bytes from packets.

namespace pinion::test {

using Bytes = std::vector<std::uint8_t>;

/// A pool whose test fails when a packet was not returned.
class TestPool {
 public:
  explicit TestPool(const SlabPacketPoolOptions& options = {}) {
    auto created = SlabPacketPool::create(options);
    if (!created) {
      std::fprintf(stderr, "%s\n", to_string(created.error()).c_str());
      std::abort();
    }
    pool_ = std::move(*created);
  }
  ~TestPool() { EXPECT_EQ(pool_->live(), 0U) << "packets that were not returned"; }
  TestPool(const TestPool&) = delete;
  TestPool& operator=(const TestPool&) = delete;

  SlabPacketPool& operator*() const { return *pool_; }
  SlabPacketPool* operator->() const { return pool_.get(); }

 private:
  std::unique_ptr<SlabPacketPool> pool_;
};

/// A packet of one segment with these bytes; empty when the pool has none left or they don't fit.
inline PacketPtr make_packet(PacketPool& pool, std::span<const std::uint8_t> bytes) {
  PacketPtr packet(pool.allocate());
  if (!packet) return {};
  std::byte* const place = packet->append(bytes.size());
  if (place == nullptr) return {};
  if (!bytes.empty()) std::memcpy(place, bytes.data(), bytes.size());
  return packet;
}

/// A packet with a segment for each of the parts; empty when the pool has not enough left.
inline PacketPtr make_chain(PacketPool& pool, const std::vector<Bytes>& parts) {
  PacketPtr head;
  Packet* last = nullptr;
  for (const Bytes& part : parts) {
    PacketPtr segment = make_packet(pool, part);
    if (!segment) return {};
    if (last == nullptr) {
      last = segment.get();
      head = std::move(segment);
    } else {
      last->set_next_segment(segment.get());
      last = segment.take();
    }
  }
  return head;
}

/// The bytes of the whole chain.
inline Bytes bytes_of(const Packet& packet) {
  Bytes bytes;
  for (const Packet* at = &packet; at != nullptr; at = at->next_segment()) {
    const auto* const data = reinterpret_cast<const std::uint8_t*>(at->data());
    bytes.insert(bytes.end(), data, data + at->size());
  }
  return bytes;
}

inline Bytes random_bytes(Random& random, std::size_t size) {
  Bytes bytes(size);
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random.below(256));
  return bytes;
}

}  // namespace pinion::test
