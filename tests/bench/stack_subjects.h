#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <pinion/lib/time.h>

/// Whose TCP/IP the bench of stacks measures: pinion's and lwIP's, as a server with one address,
/// one port and one application.
///
/// Ownership:  a subject owns its stack; what leaves is the subject's until collect() is over.
/// Threading:  one thread; lwIP, which is one in a process, has one world at a time.
/// Cost:       turn() is what is measured. load() and collect() stand for the device, and the
///             caller takes no time for them.
/// Errors:     set-up that fails ends the program, and says why.
///
/// Both work on bare IPv4 packets, verify every checksum and fill in every one, in software. Both
/// offer a window scale, and neither timestamps nor SACK, which Debian's lwIP was built without.
/// Both pass on what has arrived in the buffer that it came in, and copy what the application
/// writes.
///
/// lwIP is what Debian built, for any x86-64, with a mutex around its buffers and a checksum that
/// takes two bytes a step: much of what a full segment costs it. A request of 64 bytes compares the
/// protocols.

namespace pinion::bench {

inline constexpr std::size_t kStackSegment = 1460;  ///< A full one: an MTU of 1500, no options.
inline constexpr std::size_t kStackRequest = 64;
inline constexpr std::uint16_t kStackPort = 7;

/// The server's address and the peers' first one: 10.0.0.1 and 10.1.0.0.
inline constexpr std::uint32_t kStackServer = 0x0a000001;
inline constexpr std::uint32_t kStackPeers = 0x0a010000;

/// A peer has so many connections, from the first port on.
inline constexpr std::uint32_t kStackPeerPorts = 32'768;
inline constexpr std::uint16_t kStackPeerFirstPort = 16'384;

/// The number of a connection by its peer's address and port.
[[nodiscard]] constexpr std::uint32_t stack_connection(std::uint32_t address,
                                                       std::uint16_t port) noexcept {
  return (address - kStackPeers) * kStackPeerPorts + (port - kStackPeerFirstPort);
}

/// The application on top, the same for every stack: it looks at the first bytes of each piece that
/// comes, and answers requests if it is told to.
class StackApplication {
 public:
  bool answers = false;

  /// Adds up what comes; the numbers that the pieces begin with, too.
  void take(std::span<const std::byte> piece) noexcept {
    bytes_in_ += piece.size();
    number_ = 0;
    std::memcpy(&number_, piece.data(), std::min(piece.size(), sizeof(number_)));
    numbers_in_ += number_;
  }

  /// The answer to what was taken last: its number, and what stands behind it.
  [[nodiscard]] std::span<const std::byte> answer() noexcept { return number(kStackRequest); }

  /// A segment full of bytes, with the next number.
  [[nodiscard]] std::span<const std::byte> segment() noexcept {
    number_ = ++segments_out_;
    return number(kStackSegment);
  }

  [[nodiscard]] std::uint64_t bytes_in() const noexcept { return bytes_in_; }
  [[nodiscard]] std::uint64_t numbers_in() const noexcept { return numbers_in_; }
  [[nodiscard]] std::uint64_t numbers_out() const noexcept { return numbers_out_; }

 private:
  [[nodiscard]] std::span<const std::byte> number(std::size_t size) noexcept {
    std::memcpy(out_, &number_, sizeof(number_));
    numbers_out_ += number_;
    return {out_, size};
  }

  std::uint64_t bytes_in_ = 0;
  std::uint64_t numbers_in_ = 0;
  std::uint64_t numbers_out_ = 0;
  std::uint64_t segments_out_ = 0;
  std::uint64_t number_ = 0;
  alignas(64) std::byte out_[kStackSegment] = {};
};

class StackServer {
 public:
  virtual ~StackServer() = default;

  /// Puts a packet that has arrived into a buffer, for the next turn().
  virtual void load(std::span<const std::byte> packet) = 0;

  /// A turn of the server: takes in what was loaded, as one burst; lets time pass; writes a segment
  /// on each of the connections `writers`; and has what leaves ready for collect().
  virtual void turn(Instant now, std::span<const std::uint32_t> writers) = 0;

  /// Shows what has left, packet by packet, and gives it back.
  virtual void collect(const std::function<void(std::span<const std::byte>)>& packet) = 0;

  [[nodiscard]] StackApplication& application() { return application_; }
  [[nodiscard]] const StackApplication& application() const { return application_; }

  /// Connections that were accepted and are not over.
  [[nodiscard]] virtual std::size_t connections() const = 0;

 protected:
  StackApplication application_;
};

struct StackSubject {
  std::string name;
  std::function<std::unique_ptr<StackServer>(std::size_t connections, Instant now)> make;
  std::size_t most_connections = 0;  ///< Beyond them there is no measuring it.
};

/// Those that were built.
std::vector<StackSubject> stack_subjects();

/// Those that were not, and how to have them: a line each.
std::vector<std::string> stack_subjects_left_out();

std::unique_ptr<StackServer> make_pinion_stack(std::size_t connections, Instant now);
std::unique_ptr<StackServer> make_lwip_stack(std::size_t connections, Instant now);

}  // namespace pinion::bench
