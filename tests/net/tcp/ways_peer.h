#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <pinion/lib/random.h>

#include "../script/segment.h"
#include "two_ways.h"

/// A peer of two hosts, that knows their numbers from what they send, and sends what fits as a
/// rule and something odd now and then; and their user, who calls anything at any time.

namespace pinion::test {

class WaysPeer {
 public:
  WaysPeer(TwoWays& hosts, Random& random, const ScriptTcpOptions& options);

  void step();

 private:
  /// One connection, as far as this end knows of it.
  struct Flow {
    std::uint16_t port = 0;       ///< Of this end,
    std::uint16_t host_port = 0;  ///< and of the host.
    std::uint32_t first = 0;      ///< Our SYN's number.
    std::uint32_t next = 0;       ///< Of our next byte.
    std::uint32_t acked = 0;      ///< What we acknowledged last.
    std::uint32_t host_next = 0;  ///< Behind all that the host has sent.
    std::uint32_t host_acked = 0;
    std::uint32_t host_timestamp = 0;
    std::uint32_t timestamp_offset = 0;
    std::uint16_t window = 65'535;
    bool timestamps = false;
    bool host_syn = false;  ///< It has come.
  };
  /// A segment on its way to become bytes.
  struct Draft {
    Segment segment{};
    SegmentDamage damage{};
    std::optional<std::uint32_t> timestamp{};
    std::uint32_t echo = 0;
    std::uint8_t reserved = 0;
    IpAddress source;
    IpAddress destination;
  };

  void learn();
  void learn(const Segment& segment);
  [[nodiscard]] Flow& any_flow();
  [[nodiscard]] Flow& make_flow(std::uint16_t port, std::uint16_t host_port);

  void open();
  void connect();
  void send_burst();
  void use();
  void use_seldom();

  [[nodiscard]] Draft draft(Flow& flow);
  [[nodiscard]] Draft plausible(Flow& flow);
  void spoil_numbers(Flow& flow, Draft& draft);
  void spoil_header(Draft& draft);
  void spoil_timestamps(const Flow& flow, Draft& draft);
  void spoil_options(Flow& flow, Draft& draft);
  void fill(const Flow& flow, Draft& draft, std::size_t size);
  void send(const std::vector<Draft>& drafts);
  [[nodiscard]] PacketBytes bytes_of(Draft draft) const;
  [[nodiscard]] std::uint32_t timestamp_now(const Flow& flow) const;
  [[nodiscard]] Draft syn_of(const Flow& flow, bool with_ack);

  TwoWays& hosts_;
  Random& random_;
  const ScriptTcpOptions& options_;
  std::vector<Flow> flows_;
};

}  // namespace pinion::test
