#pragma once

#include <pinion/eventloop/idle.h>
#include <pinion/eventloop/runtime.h>
#include <pinion/eventloop/submission.h>
#include <pinion/net/address.h>
#include <pinion/net/stream.h>

#include "settings.h"

/// How the library's own types are read and written as settings.

namespace pinion::apps {

template <>
struct Codec<Endpoint> {
  static constexpr FileKind kKind = FileKind::text;
  static constexpr std::string_view kValueName = "ADDR:PORT";
  static constexpr std::string_view kExamples = "such as 127.0.0.1:7007 or [::1]:7007";
  static constexpr std::string_view kChoices = "";
  static Parsed<Endpoint> parse(std::string_view text);
  static std::string format(const Endpoint& endpoint) { return to_string(endpoint); }
};

template <>
struct Codec<IdlePolicy> {
  static constexpr FileKind kKind = FileKind::text;
  static constexpr std::string_view kValueName = "POLICY";
  static constexpr std::string_view kExamples = "";
  static constexpr std::string_view kChoices = "spin, adaptive or park";
  static Parsed<IdlePolicy> parse(std::string_view text);
  static std::string format(IdlePolicy policy) { return std::string(to_string(policy)); }
};

/// What a policy does, for a program's first line.
[[nodiscard]] std::string_view meaning(IdlePolicy policy);

template <>
struct Codec<SubmissionMode> {
  static constexpr FileKind kKind = FileKind::text;
  static constexpr std::string_view kValueName = "MODE";
  static constexpr std::string_view kExamples = "";
  static constexpr std::string_view kChoices = "low-latency, throughput or adaptive";
  static Parsed<SubmissionMode> parse(std::string_view text);
  static std::string format(SubmissionMode mode) { return std::string(to_string(mode)); }
};

template <>
struct Codec<ClockChoice> {
  static constexpr FileKind kKind = FileKind::text;
  static constexpr std::string_view kValueName = "CLOCK";
  static constexpr std::string_view kExamples = "";
  static constexpr std::string_view kChoices = "automatic, tsc, monotonic or metronome";
  static Parsed<ClockChoice> parse(std::string_view text);
  static std::string format(ClockChoice clock);
};

/// "idle=60s,interval=10s,probes=3", each part optional, or "none".
template <>
struct Codec<Keepalive> {
  static constexpr FileKind kKind = FileKind::text;
  static constexpr std::string_view kValueName = "SPEC";
  static constexpr std::string_view kExamples = "";
  static constexpr std::string_view kChoices =
      "idle=TIME (1s and up), interval=TIME (100ms and up), probes=N (1 to 127), or none";
  static Parsed<Keepalive> parse(std::string_view text);
  static std::string format(const Keepalive& keepalive);
};

}  // namespace pinion::apps
