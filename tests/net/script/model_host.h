#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "script_world.h"

/// A host with a toy of a TCP, to try scripts on: one connection, no windows, a fixed timeout. It
/// does what the tests of the script engine need, and spoils what it sends when it is told to.

namespace pinion::test {

class ModelHost final : public ScriptWorld {
 public:
  explicit ModelHost(bool v6 = false);

  std::function<void(Segment&)> spoil;             ///< Changes what goes out.
  std::function<void(PacketBytes&)> spoil_packet;  ///< Changes the bytes that go out.
  std::function<bool(const Segment&)> loses;       ///< Whether it doesn't go out.
  Delay ack_delay;                                 ///< Between data and its ACK.
  bool stuck = false;                              ///< No timer ever fires.

  [[nodiscard]] Endpoint host() const override { return host_; }
  [[nodiscard]] Endpoint peer() const override { return peer_; }
  [[nodiscard]] Instant now() const override { return now_; }
  void inject(std::span<const PacketBytes> packets) override;
  std::optional<SentPacket> take() override;
  [[nodiscard]] Instant next_deadline() const override;
  void advance(Instant to) override;

  /// connect, write N, read (how much has come, and whether it is garbled), state, faults (what was
  /// wrong with the last packet that it couldn't read).
  std::string call(std::string_view name, std::span<const std::string> arguments) override;

  static constexpr std::uint32_t kIsn = 0x7ffffff0;
  static constexpr std::uint16_t kEphemeralPort = 40000;
  static constexpr std::size_t kSegmentSize = 1000;

 private:
  enum class State { closed, syn_sent, syn_received, established };

  void receive(const ReadPacket& packet);
  void receive_syn(const ReadPacket& packet);
  void receive_data(const Segment& segment);
  void refuse(const ReadPacket& packet);
  void send_syn(std::uint8_t flags);
  void send_data(std::uint32_t begin, std::uint32_t end);
  void send_ack();
  void send(Segment segment);
  void emit(const Segment& segment);

  const Endpoint host_;
  const Endpoint peer_;
  Instant now_;
  State state_ = State::closed;
  std::uint16_t port_ = 0;
  Endpoint other_;
  std::uint32_t sent_ = kIsn;  ///< What comes next.
  std::uint32_t acknowledged_ = kIsn;
  std::uint32_t peer_isn_ = 0;
  std::uint32_t received_ = 0;  ///< What comes next.
  std::uint32_t peer_clock_ = 0;
  bool timestamps_ = false;
  std::vector<SegmentOption> blocks_;
  bool ack_due_ = false;
  Instant ack_at_ = kNever;
  Instant retransmit_at_ = kNever;
  std::size_t unread_ = 0;
  bool garbled_ = false;
  std::string fault_;
  std::deque<SentPacket> out_;
};

}  // namespace pinion::test
