#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <pinion/net/slab_packet_pool.h>

#include "tcp/out_of_order.h"
#include "tcp/receive_queue.h"
#include "tcp/send_queue.h"

/// What the queues of one lcore share, and packets made to order.

namespace pinion::test {

using Bytes = std::vector<std::byte>;

inline std::unique_ptr<SlabPacketPool> make_pool(const SlabPacketPoolOptions& options) {
  auto pool = SlabPacketPool::create(options);
  if (!pool) std::abort();
  return std::move(*pool);
}

/// How a payload lies in its packets.
enum class Shape : std::uint8_t {
  roomy,  ///< In one packet, with tailroom.
  tight,  ///< In one packet, without.
  split,  ///< Half of it each in two packets, without.
};
inline constexpr std::size_t kShapes = 3;

struct ByteWorldOptions {
  std::size_t packets = 4096;
  std::size_t max_segments = 8;
  OutOfOrderLimits out_of_order = {.connections = 64,
                                   .blocks = 1024,
                                   .true_size = std::uint64_t{1} << 30,
                                   .connection_true_size = 1U << 29};
};

/// Packets and records for many queues. Everything must be back in the end.
struct ByteWorld {
  explicit ByteWorld(const ByteWorldOptions& options = {})
      : packets(make_pool({.packets = options.packets, .views = 4096, .buffer_size = 2048})),
        compact(make_pool({.packets = 4096, .views = 0, .buffer_size = 512})),
        receive{.unread = Slab<PacketChain>(1024), .compact = *compact},
        send{.packets = *packets,
             .max_segments = options.max_segments,
             .records = Slab<SendRecord>(1024),
             .nodes = Slab<SendNode>(4096)},
        beyond(options.out_of_order) {}

  /// A packet with these bytes, which fit into one.
  [[nodiscard]] PacketPtr packet(std::span<const std::byte> bytes, Shape shape = Shape::roomy) {
    if (shape == Shape::split && bytes.size() > 1) {
      PacketPtr front = packet(bytes.first(bytes.size() / 2), Shape::tight);
      front->set_next_segment(packet(bytes.subspan(bytes.size() / 2), Shape::tight).take());
      return front;
    }
    PacketPtr made(packets->allocate());
    if (!made) std::abort();
    if (shape != Shape::roomy) {
      const std::size_t unused = made->tailroom() - bytes.size();
      static_cast<void>(made->append(unused));
      made->remove_prefix(unused);
    }
    std::byte* const place = made->append(bytes.size());
    if (place == nullptr) std::abort();
    if (!bytes.empty()) std::memcpy(place, bytes.data(), bytes.size());
    return made;
  }

  /// Packets, views, records, nodes and blocks that are lent out.
  [[nodiscard]] std::size_t live() const {
    return packets->live() + compact->live() + receive.unread.live() + send.records.live() +
           send.nodes.live() + beyond.connections() + beyond.blocks();
  }

  std::unique_ptr<SlabPacketPool> packets;
  std::unique_ptr<SlabPacketPool> compact;
  ReceiveMemory receive;
  SendMemory send;
  OutOfOrderMemory beyond;
};

/// The bytes of the whole chain.
inline Bytes bytes_of(const Packet& packet) {
  Bytes all;
  for (const Packet* at = &packet; at != nullptr; at = at->next_segment()) {
    all.insert(all.end(), at->bytes().begin(), at->bytes().end());
  }
  return all;
}

/// Bytes that differ by `salt` and by place.
inline std::byte byte_at(std::uint32_t salt, std::uint32_t place) {
  const std::uint32_t mixed = (place + 1) * 0x9e3779b1U + salt * 0x85ebca6bU;
  return static_cast<std::byte>(mixed >> 24);
}

inline Bytes some_bytes(std::size_t count, std::uint32_t salt = 0) {
  Bytes bytes(count);
  for (std::uint32_t i = 0; i < count; ++i) bytes[i] = byte_at(salt, i);
  return bytes;
}

}  // namespace pinion::test
