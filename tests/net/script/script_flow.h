#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <pinion/net/address.h>

#include "script_text.h"
#include "segment.h"
#include "segment_text.h"

/// One connection of a script: its ends, and what its numbers count from.

namespace pinion::test {

class ScriptFlow {
 public:
  /// The peer's ISN unless the script says otherwise: streams of a few kilobytes cross the wrap.
  static constexpr std::uint32_t kPeerIsn = 0xfffff000;

  ScriptFlow(std::string name, Endpoint host, Endpoint peer)
      : name_(std::move(name)), host_(host), peer_(peer) {}

  /// Forgets what was learned, and takes the ends that `step` gives; `host` is the world's.
  void begin_anew(const FlowStep& step, Endpoint host);

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const Endpoint& peer() const { return peer_; }

  /// Whether a packet of the host's belongs here. The host's port is the one that it first used.
  [[nodiscard]] bool owns(const ReadPacket& packet) const;

  /// What arrives, as an IP packet.
  [[nodiscard]] Segment arrival(const SegmentPattern& pattern);
  [[nodiscard]] PacketBytes packet_of(const Segment& segment, const SegmentDamage& damage) const;

  /// Takes ports, ISN and the clock of timestamps from what the host has sent, unless they are
  /// known; `pattern` says what they stand for in the script.
  void learn(const Segment& sent, const SegmentPattern& pattern);

  /// Every way in which `sent` isn't what `pattern` says.
  [[nodiscard]] std::vector<std::string> differences(const Segment& sent,
                                                     const SegmentPattern& pattern) const;

  [[nodiscard]] std::string sent_text(const Segment& segment) const;
  [[nodiscard]] std::string arrival_text(const Segment& segment) const;

 private:
  [[nodiscard]] SegmentOrigin host_origin() const;
  [[nodiscard]] SegmentOrigin peer_origin() const;
  [[nodiscard]] std::string option_difference(const Segment& sent,
                                              const SegmentPattern& pattern) const;
  [[nodiscard]] std::string payload_difference(const Segment& sent,
                                               const SegmentPattern& pattern) const;

  std::string name_;
  Endpoint host_;
  Endpoint peer_;
  bool host_port_known_ = false;
  std::uint32_t peer_isn_ = kPeerIsn;
  std::optional<std::uint32_t> host_isn_;
  std::optional<std::uint32_t> host_clock_;
};

}  // namespace pinion::test
