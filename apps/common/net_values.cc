#include "net_values.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <span>
#include <utility>

#include <fmt/format.h>

namespace pinion::apps {
namespace {

using namespace std::chrono_literals;
using tl::unexpected;

constexpr Delay kIdleLeast = 1s;
constexpr Delay kIntervalLeast = 100ms;
constexpr std::uint64_t kProbesMost = 127;

/// Sets one "name=value" of a keepalive; what is wrong otherwise.
Parsed<void> set_part(Keepalive& keepalive, std::string_view name, std::string_view value) {
  const auto out_of_range = [&] { return unexpected(fmt::format("{} is out of range", name)); };
  if (name == "probes") {
    const Parsed<std::uint64_t> probes = parse_number(value);
    if (!probes) return unexpected(fmt::format("probes is {}", probes.error()));
    if (*probes < 1 || *probes > kProbesMost) return out_of_range();
    keepalive.probes = static_cast<int>(*probes);
    return {};
  }
  const bool idle = name == "idle";
  if (!idle && name != "interval") {
    const std::array<std::string, 3> names = {"idle", "interval", "probes"};
    const std::string nearest = nearest_name(name, names);
    return unexpected(
        fmt::format("unknown part {}{}", name,
                    nearest.empty() ? "" : fmt::format(", did you mean {}", nearest)));
  }
  const Parsed<Delay> delay = parse_duration(value);
  if (!delay) return unexpected(fmt::format("{}: {}", name, delay.error()));
  if (*delay < (idle ? kIdleLeast : kIntervalLeast) || *delay == kNoTimeout) return out_of_range();
  (idle ? keepalive.idle : keepalive.interval) = *delay;
  return {};
}

/// Why no TCP socket takes an address; empty when one may.
std::string_view unfit_for_tcp(const IpAddress& address) {
  const auto& bytes = address.bytes();
  if (address.is_v4()) {
    return bytes[0] >= 224 ? "TCP has no multicast and no broadcast" : "";
  }
  constexpr std::array<std::uint8_t, 12> kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  if (bytes[0] == 0xff) return "TCP has no multicast";
  if (bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80) {
    return "a link-local address needs an interface, which can't be named here";
  }
  if (std::ranges::equal(std::span(bytes).first(kMapped.size()), kMapped)) {
    return "an IPv4 address in IPv6 form, to be written as IPv4";
  }
  return "";
}

constexpr std::array<std::pair<ClockChoice, std::string_view>, 4> kClocks = {{
    {ClockChoice::automatic, "automatic"},
    {ClockChoice::tsc, "tsc"},
    {ClockChoice::monotonic, "monotonic"},
    {ClockChoice::metronome, "metronome"},
}};

}  // namespace

Parsed<Endpoint> Codec<Endpoint>::parse(std::string_view text) {
  Result<Endpoint> endpoint = Endpoint::parse(text);
  if (!endpoint) return unexpected(std::move(endpoint.error().what));
  if (const std::string_view wrong = unfit_for_tcp(endpoint->address); !wrong.empty()) {
    return unexpected(std::string(wrong));
  }
  return *endpoint;
}

Parsed<IdlePolicy> Codec<IdlePolicy>::parse(std::string_view text) {
  const std::optional<IdlePolicy> policy = parse_idle_policy(text);
  if (!policy) return unexpected(std::string("no idle policy"));
  return *policy;
}

Parsed<SubmissionMode> Codec<SubmissionMode>::parse(std::string_view text) {
  const std::optional<SubmissionMode> mode = parse_submission_mode(text);
  if (!mode) return unexpected(std::string("no such mode"));
  return *mode;
}

std::string_view meaning(IdlePolicy policy) {
  switch (policy) {
    case IdlePolicy::spin:
      return "never sleeps";
    case IdlePolicy::adaptive:
      return "spins while work is likely to come, then sleeps";
    case IdlePolicy::park:
      return "sleeps at once";
  }
  return "";
}

Parsed<ClockChoice> Codec<ClockChoice>::parse(std::string_view text) {
  for (const auto& [clock, name] : kClocks) {
    if (name == text) return clock;
  }
  return unexpected(std::string("no such clock"));
}

std::string Codec<ClockChoice>::format(ClockChoice choice) {
  for (const auto& [clock, name] : kClocks) {
    if (clock == choice) return std::string(name);
  }
  return "";
}

Parsed<Keepalive> Codec<Keepalive>::parse(std::string_view text) {
  if (text == "none") return Keepalive{.idle = kNoTimeout};
  Keepalive keepalive{.idle = 60s, .interval = 10s, .probes = 3};
  for (;;) {
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    const std::string_view part = text.substr(0, text.find(','));
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos) return unexpected(std::string("not name=value"));
    const Parsed<void> set = set_part(keepalive, part.substr(0, equals), part.substr(equals + 1));
    if (!set) return unexpected(set.error());
    if (part.size() == text.size()) return keepalive;
    text.remove_prefix(part.size() + 1);
  }
}

std::string Codec<Keepalive>::format(const Keepalive& keepalive) {
  if (keepalive.idle == kNoTimeout) return "none";
  return fmt::format("idle={},interval={},probes={}", format_duration(keepalive.idle),
                     format_duration(keepalive.interval), keepalive.probes);
}

}  // namespace pinion::apps
