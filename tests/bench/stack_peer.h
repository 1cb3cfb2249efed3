#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "stack_subjects.h"

/// The other side of a stack that is measured: no stack itself, but what keeps the numbers of many
/// connections to the server and makes valid packets of them.
///
/// Ownership:  a packet that is made is valid until the next one is.
/// Threading:  one thread.
/// Cost:       8 bytes for a connection; a sum over a packet's bytes, made or taken.
/// Errors:     what the server must not send (a wrong checksum, another number than the one that is
///             due, a reset, bytes that nobody wrote) is kept in fault(), the first of it.

namespace pinion::bench {

class StackPeer {
 public:
  explicit StackPeer(std::size_t connections) : connections_(connections) {}

  [[nodiscard]] std::size_t connections() const { return connections_.size(); }

  std::span<const std::byte> syn(std::uint32_t connection);
  /// Of all that has come.
  std::span<const std::byte> acknowledgment(std::uint32_t connection);
  /// Of a segment, which is due() until then.
  std::span<const std::byte> acknowledgment();
  /// `size` bytes of data, eight and more, the first of which are number_of() them.
  std::span<const std::byte> data(std::uint32_t connection, std::size_t size);

  /// Takes what the server has sent.
  void take(std::span<const std::byte> packet);
  /// How many segments with data have come and were not acknowledged by acknowledgment().
  [[nodiscard]] std::size_t due() const { return due_.size(); }

  [[nodiscard]] std::uint64_t segments() const { return segments_; }  ///< With data, taken.
  [[nodiscard]] std::uint64_t empty_segments() const { return empty_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  /// The sum of the numbers that segments began with, those taken and those made.
  [[nodiscard]] std::uint64_t numbers_taken() const { return numbers_taken_; }
  [[nodiscard]] std::uint64_t numbers_made() const { return numbers_made_; }
  [[nodiscard]] std::uint64_t bytes_made() const { return bytes_made_; }

  /// Empty: all was as it should be.
  [[nodiscard]] const std::string& fault() const { return fault_; }

 private:
  struct Connection {
    std::uint32_t next = 0;      ///< Of ours, to be sent.
    std::uint32_t expected = 0;  ///< Of the server's, to come.
  };

  struct Due {
    std::uint32_t connection;
    std::uint32_t number;
  };

  std::span<const std::byte> finish(std::uint32_t connection, std::uint8_t flags,
                                    std::uint32_t acknowledgment, std::size_t size);
  void complain(std::uint32_t connection, const char* what);

  std::vector<Connection> connections_;
  std::deque<Due> due_;
  std::array<std::byte, 20 + 20 + kStackSegment> out_{};
  std::uint16_t identification_ = 0;
  std::uint64_t segments_ = 0;
  std::uint64_t empty_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint64_t numbers_taken_ = 0;
  std::uint64_t numbers_made_ = 0;
  std::uint64_t bytes_made_ = 0;
  std::string fault_;
};

}  // namespace pinion::bench
