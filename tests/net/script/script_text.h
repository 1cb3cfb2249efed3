#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <pinion/net/address.h>

#include "segment.h"

/// A script's lines, read: see script.h for what they mean.

namespace pinion::test {

using Nanoseconds = std::chrono::nanoseconds;

/// What a number may be.
struct NumberPattern {
  std::int64_t low = 0;
  std::int64_t high = 0;

  [[nodiscard]] bool matches(std::int64_t number) const { return low <= number && number <= high; }
};

/// Nothing stands for any number.
using MaybeNumber = std::optional<NumberPattern>;

/// One option of a segment. Numbers are as the script counts them: mss and wscale have one, sack
/// two for each block, ts val and ecr.
struct OptionPattern {
  std::uint8_t kind = 0;
  std::vector<MaybeNumber> numbers;
  std::string text;
};

struct SegmentPattern {
  std::string flow;
  std::uint8_t flags = 0;
  std::uint8_t open_flags = 0;  ///< Those that may be either way.
  std::optional<std::int64_t> begin;
  std::int64_t size = 0;  ///< Of the payload, if there is a begin.
  MaybeNumber ack;
  MaybeNumber window;
  MaybeNumber urgent;
  bool options_given = false;
  bool more_options = false;
  std::vector<OptionPattern> options;
  bool garbled = false;
  SegmentDamage damage;
};

struct ArrivalStep {
  std::vector<SegmentPattern> burst;
};
struct ExpectStep {
  SegmentPattern segment;
};
struct NothingStep {};
struct CallStep {
  std::string name;
  std::vector<std::string> arguments;
  std::optional<std::string> result;  ///< None: any.
};
struct ToleranceStep {
  Nanoseconds tolerance{};
};
struct FlowStep {
  std::string flow;
  std::optional<IpAddress> peer_address;
  std::optional<std::uint16_t> peer_port;
  std::optional<std::uint16_t> host_port;
  std::optional<std::uint32_t> isn;
};

struct StepTime {
  bool absolute = false;
  bool bare = true;  ///< Neither a range nor a tolerance: the usual one applies.
  Nanoseconds from{};
  Nanoseconds until{};
};

struct Step {
  int line = 0;
  std::string text;
  std::optional<StepTime> time;
  std::variant<ArrivalStep, ExpectStep, NothingStep, CallStep, ToleranceStep, FlowStep> what;
};

/// A line that can't be read.
struct SyntaxError {
  int line = 0;
  std::string text;
};

/// Throws a SyntaxError.
[[nodiscard]] std::vector<Step> read_script(std::string_view script);

}  // namespace pinion::test
