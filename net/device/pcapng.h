#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include <pinion/net/device.h>
#include <pinion/net/packet.h>

/// Blocks of a pcapng file (draft-ietf-opsawg-pcapng) of one Ethernet interface, in a buffer.
///
/// Ownership:  owns its buffer.
/// Threading:  one lcore.
/// Cost:       one copy; the buffer is taken at construction.
/// Errors:     a block that has no room is not added: false. A statistics block always has room
///             when the last one was taken off.
/// Byte order: the machine's own; the section header tells readers which.

namespace pinion::detail {

/// As in epb_flags, bits 0 and 1 (section 4.3.1).
enum class PcapngDirection : std::uint8_t { inbound = 1, outbound = 2 };

class PcapngBuffer {
 public:
  explicit PcapngBuffer(std::size_t bytes);

  /// The section header and the interface, whose times are in nanoseconds.
  void add_header(std::string_view interface_name, const MacAddress& mac,
                  std::uint32_t snap_length) noexcept;

  [[nodiscard]] bool add_packet(const Packet& packet, PcapngDirection direction,
                                std::uint32_t snap_length, std::uint64_t unix_ns) noexcept;

  /// How many packets the interface had, and how many of them are not in the file.
  [[nodiscard]] bool add_statistics(std::uint64_t packets, std::uint64_t dropped,
                                    std::uint64_t unix_ns) noexcept;

  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return {begin_.get(), size_}; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  /// Takes off what was added since the buffer had `size` bytes.
  void cut_to(std::size_t size) noexcept { size_ = size; }

  /// Takes off the first `count` bytes.
  void remove_front(std::size_t count) noexcept;

 private:
  template <class T>
  void put(T value) noexcept;
  void put_bytes(const void* bytes, std::size_t count) noexcept;
  void put_padding(std::size_t length) noexcept;
  void put_option(std::uint16_t code, const void* value, std::size_t length) noexcept;
  void put_time(std::uint64_t unix_ns) noexcept;
  std::size_t begin_block(std::uint32_t type) noexcept;
  void end_block(std::size_t start) noexcept;

  const std::size_t capacity_;
  const std::unique_ptr<std::byte[]> begin_;
  std::size_t size_ = 0;
};

}  // namespace pinion::detail
