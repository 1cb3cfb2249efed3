#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace pinion::test {

/// A blocking TCP socket; an operation that takes longer than 10 s fails.
class PlainSocket {
 public:
  PlainSocket() noexcept = default;
  explicit PlainSocket(int fd) noexcept : fd_(fd) {}
  PlainSocket(PlainSocket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  PlainSocket& operator=(PlainSocket&& other) noexcept;
  ~PlainSocket() { close(); }

  [[nodiscard]] static PlainSocket connect_to(std::uint16_t port);

  [[nodiscard]] int fd() const noexcept { return fd_; }
  [[nodiscard]] bool open() const noexcept { return fd_ >= 0; }

  bool send(std::string_view text);

  /// Up to `size` bytes; fewer when the peer ended before or time is up.
  std::string receive(std::size_t size);

  /// Whether bytes come within the time.
  [[nodiscard]] bool readable_within(std::chrono::milliseconds time) const;

  /// What the peer's end looks like: "eof", "reset", "data" or "timeout".
  std::string ending();

  void half_close();
  void reset();
  void close();

 private:
  int fd_ = -1;
};

}  // namespace pinion::test
