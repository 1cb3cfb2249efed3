#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "script_tcp.h"

/// Two hosts of the same kind, of which one takes packets of known flows as such, and the other
/// takes all packets the long way. Both are given the same, and everything that can be seen of them
/// must be the same.

namespace pinion::test {

class TwoWays {
 public:
  /// `verified`: the device has verified all checksums.
  TwoWays(const ScriptTcpOptions& options, bool verified);

  [[nodiscard]] Endpoint host() const { return long_.host(); }
  [[nodiscard]] Endpoint peer() const { return long_.peer(); }
  [[nodiscard]] Instant now() const { return long_.now(); }

  /// `note` says what they are, for who reads of a failure.
  void inject(std::span<const PacketBytes> packets, const std::string& note);
  /// Lets time pass, up to the next deadline, of which the hosts hear by what comes next.
  void drift(Delay time);
  /// What the long way's host answers.
  std::string call(const std::string& name, std::vector<std::string> arguments = {});
  /// Lets time pass, and fires what is due on the way.
  void pass(Delay time);
  /// Next packet that both have sent.
  [[nodiscard]] std::optional<PacketBytes> take();

  /// Packets that the pool has left: what is lent out as views counts too.
  [[nodiscard]] std::size_t packets_left();
  [[nodiscard]] std::size_t taken_as_known() const { return known_.taken_as_known(); }

  /// What differs, and what led there; empty as long as nothing does.
  [[nodiscard]] const std::string& failure() const { return failure_; }

 private:
  void compare();
  void compare_sent();
  void expect_same(std::string_view what, const std::string& of_known, const std::string& of_long);

  const std::size_t packets_;
  ScriptTcp known_;
  ScriptTcp long_;
  std::deque<PacketBytes> sent_;
  std::deque<std::string> history_;
  std::string failure_;
};

}  // namespace pinion::test
