#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <ostream>
#include <span>
#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

#include <pinion/lib/random.h>
#include <pinion/net/packet.h>

#include "wire/wire_fault.h"
#include "wire_bytes.h"

/// For the tests of wire formats: random values, what slow parsers are made of, packets in memory
/// of their own.

namespace pinion::wire {

/// GoogleTest shows a fault by its name.
inline void PrintTo(WireFault fault, std::ostream* out) {
  *out << to_string(fault);
}

}  // namespace pinion::wire

namespace pinion::test {

inline Bytes random_bytes(Random& random, std::size_t size) {
  Bytes bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next());
  return bytes;
}

template <class Address>
Address random_address(Random& random) {
  Address address{};
  for (std::uint8_t& byte : address) byte = static_cast<std::uint8_t>(random.next());
  return address;
}

template <class T>
T random_number(Random& random) {
  return static_cast<T>(random.next());
}

inline bool random_bool(Random& random) {
  return random.below(2) != 0;
}

/// Whatever prefix of `bytes` shorter than `needed` a parser is given, it answers `fault`.
template <class Parse>
void expect_fault_when_cut(const Bytes& bytes, std::size_t needed, wire::WireFault fault,
                           Parse parse) {
  for (std::size_t size = 0; size < needed; ++size) {
    const Bytes front = cut(bytes, size);
    const auto parsed = parse(std::span<const std::byte>(front));
    ASSERT_FALSE(parsed) << "of " << size << " bytes";
    ASSERT_EQ(parsed.error(), fault) << "of " << size << " bytes";
  }
  EXPECT_TRUE(parse(std::span<const std::byte>(bytes))) << "whole";
}

/// What BitReader throws, as a slow parser's answer.
struct Refused : std::runtime_error {
  explicit Refused(wire::WireFault why) : runtime_error("refused"), fault(why) {}
  wire::WireFault fault;
};

/// Reads a header bit by bit, as RFCs draw them; `short_fault` is thrown at the end.
class BitReader {
 public:
  BitReader(std::span<const std::byte> bytes, wire::WireFault short_fault)
      : bytes_(bytes), short_fault_(short_fault) {}

  std::uint64_t bits(unsigned count) {
    std::uint64_t value = 0;
    for (; count != 0; --count, ++at_) {
      if (at_ / 8 >= bytes_.size()) throw Refused(short_fault_);
      const auto byte = std::to_integer<unsigned>(bytes_[at_ / 8]);
      value = value << 1 | (byte >> (7 - at_ % 8) & 1U);
    }
    return value;
  }

  template <class Address>
  Address address() {
    Address address{};
    for (std::uint8_t& byte : address) byte = static_cast<std::uint8_t>(bits(8));
    return address;
  }

 private:
  std::span<const std::byte> bytes_;
  wire::WireFault short_fault_;
  std::size_t at_ = 0;
};

/// A chain of packets in memory of its own, each segment with its own place in the alignment.
class Chain {
 public:
  /// One segment of each size, filled from `bytes`, which has as many.
  Chain(std::span<const std::byte> bytes, std::span<const std::size_t> sizes) {
    Packet* last = nullptr;
    for (const std::size_t size : sizes) {
      const std::size_t headroom = segments_.size() * 3 % 8;
      Segment& segment = segments_.emplace_back(pool_, headroom, bytes.first(size));
      bytes = bytes.subspan(size);
      if (last != nullptr) last->set_next_segment(&segment.packet);
      last = &segment.packet;
    }
  }

  [[nodiscard]] Packet& first() { return segments_.front().packet; }

 private:
  /// Lends nothing out: the segments belong to their chain.
  class NoPool final : public PacketPool {
   public:
    Packet* allocate() noexcept override { return nullptr; }
    Packet* view(Packet&, std::size_t, std::size_t) noexcept override { return nullptr; }
    void give_back(Packet&) noexcept override { std::abort(); }
    [[nodiscard]] std::size_t available() const noexcept override { return 0; }
    [[nodiscard]] std::size_t capacity() const noexcept override { return 0; }
    [[nodiscard]] std::size_t buffer_size() const noexcept override { return 0; }
  };

  struct Segment {
    Segment(PacketPool& pool, std::size_t headroom, std::span<const std::byte> bytes)
        : buffer(headroom + bytes.size()), packet(pool, references, buffer, headroom) {
      std::byte* const at = packet.append(bytes.size());
      std::copy(bytes.begin(), bytes.end(), at);
    }
    Bytes buffer;
    std::uint16_t references = 1;
    Packet packet;
  };

  NoPool pool_;
  std::deque<Segment> segments_;
};

/// `total` in random parts, some of them empty.
inline std::vector<std::size_t> random_parts(Random& random, std::size_t total) {
  std::vector<std::size_t> parts;
  while (total != 0) {
    const std::size_t part = random.below(std::min<std::size_t>(total, 40) + 1);
    parts.push_back(part);
    total -= part;
  }
  if (parts.empty()) parts.push_back(0);
  return parts;
}

}  // namespace pinion::test
