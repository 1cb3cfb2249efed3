#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <pinion/lib/time.h>
#include <pinion/net/address.h>

#include "segment.h"

/// What a TCP script runs against: one host with a TCP stack, on virtual time. Everything around it
/// is the script.

namespace pinion::test {

/// An IP packet that the host has sent, and when.
struct SentPacket {
  Instant at;
  PacketBytes bytes;
};

class ScriptWorld {
 public:
  ScriptWorld() = default;
  ScriptWorld(const ScriptWorld&) = delete;
  ScriptWorld& operator=(const ScriptWorld&) = delete;
  virtual ~ScriptWorld() = default;

  /// The host's address, and the port at which scripts find its listener.
  [[nodiscard]] virtual Endpoint host() const = 0;

  /// Where the script's own end is, unless the script says otherwise.
  [[nodiscard]] virtual Endpoint peer() const = 0;

  [[nodiscard]] virtual Instant now() const = 0;

  /// IP packets arrive now, all in one burst. When this returns, the burst is over and what the
  /// host sends in answer is ready to be taken.
  virtual void inject(std::span<const PacketBytes> packets) = 0;

  /// The next packet that the host has sent.
  virtual std::optional<SentPacket> take() = 0;

  /// No timer of the host's fires before this instant; kNever when none is armed.
  [[nodiscard]] virtual Instant next_deadline() const = 0;

  /// Lets time pass up to `to`, which is not beyond next_deadline(), and fires what is due.
  virtual void advance(Instant to) = 0;

  /// Does what `name` means with `arguments` and says what came of it, in the world's own words;
  /// "" for a call that has nothing to say. What the host sends because of it is ready to be taken.
  virtual std::string call(std::string_view name, std::span<const std::string> arguments) = 0;
};

}  // namespace pinion::test
