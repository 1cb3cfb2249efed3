#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <pinion/net/address.h>

#include "../../net/script/segment.h"
#include "watch.h"

/// The other end of a watched connection: it builds what a peer sends, and knows what one would
/// that does everything right. `milliseconds` are the clock's, for its timestamps.

namespace pinion::test {

struct TcpPeerOptions {
  std::uint32_t isn = 1;
  bool timestamps = true;
  bool sack = true;
  std::optional<std::uint8_t> scale{};
  std::optional<std::uint16_t> mss{};
};

/// What an ICMP error says of a segment of the host.
struct IcmpSpeech {
  std::uint8_t type = 3;
  std::uint8_t code = 0;
  std::uint32_t detail = 0;    ///< The MTU, for the most part.
  std::uint32_t sequence = 0;  ///< Of the segment.
  std::size_t quoted = 8;      ///< Bytes of it.
};

/// The bytes of a number, the most significant one first.
[[nodiscard]] PacketBytes bytes_of(std::uint32_t number);

[[nodiscard]] SegmentOption timestamps_option(std::uint32_t value, std::uint32_t echo);

class TcpPeer {
 public:
  TcpPeer(const TcpWatch& watch, const Endpoint& host, const Endpoint& peer,
          const TcpPeerOptions& options)
      : watch_(watch), host_(host), peer_(peer), options_(options) {}

  /// Its next connection is another one.
  void begins_again();
  void set_window(std::uint32_t window) { window_ = static_cast<std::uint16_t>(window); }

  [[nodiscard]] std::uint32_t isn() const { return options_.isn; }
  /// The number that the host expects.
  [[nodiscard]] std::uint32_t next() const;
  /// Up to where the peer has everything.
  [[nodiscard]] std::uint32_t received() const { return watch_.peer_view().received; }
  /// What fills a segment.
  [[nodiscard]] std::uint32_t segment() const;

  /// An empty ACK, as it should be now.
  [[nodiscard]] Segment bare(std::uint32_t milliseconds) const;
  /// The options of a SYN.
  [[nodiscard]] std::vector<SegmentOption> offers(std::uint32_t milliseconds) const;

  /// What is to be said next: a SYN, the answer to one, or an ACK.
  [[nodiscard]] PacketBytes reply(std::uint32_t milliseconds);
  /// The next bytes.
  [[nodiscard]] PacketBytes data(std::size_t size, bool fin, std::uint32_t milliseconds) const;

  [[nodiscard]] PacketBytes packet(const Segment& segment) const;
  /// The bytes of a segment, whatever they are, with the right checksum.
  [[nodiscard]] PacketBytes repaired(PacketBytes segment) const;
  [[nodiscard]] PacketBytes complaint(const IcmpSpeech& speech) const;

 private:
  [[nodiscard]] std::uint32_t timestamp(std::uint32_t milliseconds) const;

  const TcpWatch& watch_;
  Endpoint host_;
  Endpoint peer_;
  TcpPeerOptions options_;
  std::uint16_t window_ = 0xffff;
  bool again_ = false;
};

}  // namespace pinion::test
