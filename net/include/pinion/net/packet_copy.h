#pragma once

#include <cstddef>
#include <span>

#include <pinion/lib/export.h>
#include <pinion/net/packet.h>

/// Work on the bytes of whole chains.
///
/// Ownership:  the arguments stay the caller's; copies are the caller's too.
/// Threading:  the packet's lcore.
/// Cost:       O(bytes + segments).
/// Errors:     no packet left for a copy: an empty PacketPtr.

namespace pinion {

/// Copies what the chain has from its byte `offset` on, at most as much as fits `into`; returns how
/// much that was.
PINION_EXPORT std::size_t copy_out(const Packet& packet, std::size_t offset,
                                   std::span<std::byte> into) noexcept;

/// The same bytes and marks in unshared packets of `pool`, in as few segments as its buffers allow;
/// an empty pointer when the pool has not enough.
[[nodiscard]] PINION_EXPORT PacketPtr copy_packet(const Packet& packet, PacketPool& pool) noexcept;

/// The bytes in packets of `pool`, in as few segments as its buffers allow; an empty pointer when
/// the pool has not enough.
[[nodiscard]] PINION_EXPORT PacketPtr packet_of(std::span<const std::byte> bytes,
                                                PacketPool& pool) noexcept;

/// Whether any segment of the chain is shared.
[[nodiscard]] PINION_EXPORT bool chain_shared(const Packet& packet) noexcept;

/// The segments of the chain.
[[nodiscard]] PINION_EXPORT std::size_t chain_length(const Packet& packet) noexcept;

/// What the chain keeps from its pools: the sum of its segments' Packet::true_size().
[[nodiscard]] PINION_EXPORT std::size_t chain_true_size(const Packet& packet) noexcept;

/// Cuts the chain to its first `size` bytes, which it has, and releases the segments behind them.
/// The segment that is cut is held by the caller alone.
PINION_EXPORT void truncate_chain(Packet& packet, std::size_t size) noexcept;

}  // namespace pinion
