#include "load/report.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>
#include <pinion/net/stream_error.h>

#include "common/text.h"
#include "common/version.h"

namespace pinion::apps {
namespace {

struct Percentile {
  std::string_view name;
  double percent;
};
constexpr std::array<Percentile, 4> kPercentiles = {
    {{"p50", 50}, {"p90", 90}, {"p99", 99}, {"p99.9", 99.9}}};

double seconds(Delay delay) {
  return std::chrono::duration<double>(delay.to_nanoseconds()).count();
}

std::uint64_t nanoseconds(Delay delay) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(delay.count(), 0));
}

double measured_rate(const LoadPlan& plan, const LoadResults& results) {
  return static_cast<double>(results.measured) / std::max(seconds(plan.measured()), 1e-9);
}

std::string in_words(StreamError error) {
  std::string text(to_string(error));
  std::ranges::replace(text, '_', ' ');
  return text;
}

std::string_view plural(std::uint64_t count) {
  return count == 1 ? "" : "s";
}

/// "3 reset, 1 read timeout", or "" when there are none.
std::string counted(const ErrorCounts& counts, std::string_view prefix) {
  std::string text;
  for (std::size_t kind = 0; kind < ErrorCounts::kKinds; ++kind) {
    if (counts.of(kind) == 0) continue;
    text += fmt::format("{}{} {}{}", text.empty() ? "" : ", ", grouped(counts.of(kind)), prefix,
                        in_words(static_cast<StreamError>(kind)));
  }
  return text;
}

/// "no connection was left 1.2s after the start".
std::string early_end(const LoadPlan& plan, const LoadResults& results) {
  if (results.opened == 0) return "no connection could be opened";
  const Delay lasted = std::max(saturating_sub(results.spoke_until, plan.start), Delay{});
  return fmt::format("no connection was left {} after the start",
                     rounded_duration(nanoseconds(lasted)));
}

std::string requests_line(const LoadPlan& plan, const LoadResults& results) {
  const Delay measured = plan.measured();
  if (measured == Delay{}) return "requests     none measured: it ended before that began\n";
  const double rate = measured_rate(plan, results);
  const double mebibytes = rate * static_cast<double>(plan.options.size.value) / (1 << 20);
  return fmt::format("requests     {} answered in {}: {}/s, {:.1f} MiB/s each way\n",
                     grouped(results.measured),
                     measured == plan.options.duration ? format_duration(measured)
                                                       : rounded_duration(nanoseconds(measured)),
                     grouped(static_cast<std::uint64_t>(rate)), mebibytes);
}

std::string latency_line(const LoadPlan& plan, const LoadResults& results) {
  if (results.latency.count() == 0) return "latency      none measured\n";
  std::string text = "latency     ";
  for (const Percentile& percentile : kPercentiles) {
    text += fmt::format(" {} {} ", percentile.name,
                        rounded_duration(results.latency.percentile(percentile.percent)));
  }
  text += fmt::format(" max {}", rounded_duration(results.latency.max()));
  return text + (plan.open_loop() ? " (from when each was due)\n" : "\n");
}

std::string silent_line(const LoadResults& results) {
  std::string text =
      fmt::format("silent       {} opened, {} closed by the server", grouped(results.silent_opened),
                  grouped(results.silent_closed_by_peer));
  if (results.silent_closed_by_peer > 0) {
    text +=
        fmt::format(" after {} (p50)", rounded_duration(results.silent_lifetime.percentile(50)));
  }
  return text + "\n";
}

std::string verified_line(const LoadResults& results) {
  if (results.mismatches == 0) {
    if (results.answered == 0) return "verified     nothing, since nothing was answered\n";
    return fmt::format("verified     every byte of {} answer{}\n", grouped(results.answered),
                       plural(results.answered));
  }
  std::string text = fmt::format("WRONG BYTES  on {} connection{}", grouped(results.mismatches),
                                 plural(results.mismatches));
  if (const auto& first = results.first_mismatch) {
    const std::string place = fmt::format("connection {}, request {}, byte {}", first->connection,
                                          first->request, first->offset);
    text += first->surplus ? fmt::format("; first: {}: more than was sent", place)
                           : fmt::format("; first: {}: {:#04x} instead of {:#04x}", place,
                                         first->received, first->expected);
  }
  return text + "\n";
}

std::string json_errors(const ErrorCounts& counts) {
  std::string text;
  for (std::size_t kind = 0; kind < ErrorCounts::kKinds; ++kind) {
    if (counts.of(kind) == 0) continue;
    text += fmt::format("{}\"{}\": {}", text.empty() ? "" : ", ",
                        to_string(static_cast<StreamError>(kind)), counts.of(kind));
  }
  return "{" + text + "}";
}

std::string json_latency(const Histogram& latency) {
  std::string text = fmt::format("{{\"min\": {}, \"mean\": {:.0f}", latency.min(), latency.mean());
  for (const Percentile& percentile : kPercentiles) {
    text += fmt::format(", \"{}\": {}", percentile.name, latency.percentile(percentile.percent));
  }
  return text + fmt::format(", \"max\": {}}}", latency.max());
}

/// One address has some 28,000 ports for one server, more often the limit than descriptors are.
const char* const kForNoResources =
    "at most 28000 connections from here to one server, or more ports: "
    "sysctl -w net.ipv4.ip_local_port_range='1024 65535'";

/// What helps when nothing was answered, or no connection lasted.
std::string remedy(const LoadPlan& plan, const LoadResults& results) {
  const std::string where = to_string(plan.options.connect);
  if (results.opened == 0 && results.connect_errors.total() > 0) {
    if (results.connect_errors.of(StreamError::refused) > 0) {
      return fmt::format("start a server there: pinion-echo --listen {}", where);
    }
    if (results.connect_errors.of(StreamError::no_resources) > 0) return kForNoResources;
    return fmt::format("check the address, the way there (ip route get {}) and firewalls",
                       to_string(plan.options.connect.address));
  }
  if (results.connect_errors.of(StreamError::no_resources) > 0) return kForNoResources;
  if (results.closed_by_peer > 0 || results.request_errors.of(StreamError::reset) > 0) {
    return fmt::format("see why the server at {} ends its connections{}", where,
                       plan.options.reconnect ? "" : ", or open them again: --reconnect");
  }
  if (results.opened > 0 && results.request_errors.total() > 0) {
    return "a server that sends back what it gets, or a longer --timeout";
  }
  return "let it run longer: --duration 10s";
}

}  // namespace

std::string first_line(const LoadOptions& options) {
  const std::string how =
      options.rate == 0 ? "closed loop" : fmt::format("{} requests/s", grouped(options.rate));
  const std::string think =
      options.think > Delay{} ? fmt::format(", {} between", format_duration(options.think)) : "";
  const std::string silent =
      options.silent > 0 ? fmt::format(" and {} silent", grouped(options.silent)) : "";
  return fmt::format(
      "pinion-load {}: {} connection{}{} to {}, requests of {} bytes, {}{}, {} after {} of "
      "warm-up, {} lcore{}, seed {}",
      kVersion, grouped(options.connections), plural(options.connections), silent,
      to_string(options.connect), grouped(options.size.value), how, think,
      format_duration(options.duration), format_duration(options.warmup), options.lcores,
      plural(options.lcores), options.seed);
}

std::string progress_line(const LoadPlan& plan, Instant now, const LoadResults& results,
                          double requests_per_second, bool bar, std::size_t width) {
  const double whole = std::max(seconds(saturating_sub(plan.end, plan.start)), 1e-9);
  const double gone = std::clamp(seconds(saturating_sub(now, plan.start)), 0.0, whole);
  const std::string text =
      fmt::format("{:5.1f}s of {:.1f}s  {:>9} requests/s  {} open{}", gone, whole,
                  grouped(static_cast<std::uint64_t>(requests_per_second)), grouped(results.open),
                  now < plan.start          ? "  (connecting)"
                  : now < plan.measure_from ? "  (warm-up)"
                                            : "");
  constexpr std::size_t kFrame = 3;
  if (!bar || width < text.size() + kFrame + 10) return text;
  const std::size_t room = std::min<std::size_t>(width - text.size() - kFrame, 40);
  const auto filled = static_cast<std::size_t>(gone / whole * static_cast<double>(room));
  return fmt::format("[{:=<{}}{:{}}] {}", "", filled, "", room - filled, text);
}

std::string summary(const LoadPlan& plan, const LoadResults& results, const Breakoff& broken) {
  std::string text;
  if (broken.interrupted) text += "interrupted: the figures are of a part of the run\n";
  if (broken.early) text += fmt::format("ended early: {}\n", early_end(plan, results));
  if (plan.options.connections > 0) {
    text += requests_line(plan, results);
    text += latency_line(plan, results);
    text += fmt::format("connections  {} opened, {} closed by the server\n",
                        grouped(results.opened), grouped(results.closed_by_peer));
  }
  if (plan.options.silent > 0) text += silent_line(results);
  std::string errors = counted(results.connect_errors, "connect: ");
  const auto add = [&errors](const std::string& more) {
    if (!more.empty()) errors += (errors.empty() ? "" : ", ") + more;
  };
  add(counted(results.request_errors, ""));
  if (results.unanswered > 0) add(grouped(results.unanswered) + " unanswered");
  if (results.missed > 0) add(grouped(results.missed) + " never sent");
  text += fmt::format("errors       {}\n", errors.empty() ? "none" : errors);
  if (plan.options.connections > 0 || results.mismatches > 0) text += verified_line(results);
  return text;
}

std::string json(const LoadPlan& plan, const LoadResults& results, const Breakoff& broken) {
  const LoadOptions& options = plan.options;
  std::string text = "{\n";
  const auto member = [&text](std::string_view name, const std::string& value) {
    text += fmt::format("{}  \"{}\": {}", text.size() > 2 ? ",\n" : "", name, value);
  };
  const auto number = [&member](std::string_view name, std::uint64_t value) {
    member(name, fmt::format("{}", value));
  };
  member("program", "\"pinion-load\"");
  member("version", fmt::format("\"{}\"", kVersion));
  member("connect", fmt::format("\"{}\"", to_string(options.connect)));
  member("mode", plan.open_loop() ? "\"open\"" : "\"closed\"");
  number("connections", options.connections);
  number("silent", options.silent);
  number("size_bytes", options.size.value);
  number("rate", options.rate);
  member("duration_seconds", fmt::format("{}", seconds(options.duration)));
  member("warmup_seconds", fmt::format("{}", seconds(options.warmup)));
  member("think_seconds", fmt::format("{}", seconds(options.think)));
  number("lcores", options.lcores);
  number("seed", options.seed);
  member("interrupted", broken.interrupted ? "true" : "false");
  member("ended_early", broken.early ? "true" : "false");
  member("measured_seconds", fmt::format("{}", seconds(plan.measured())));
  member("requests_per_second", fmt::format("{:.1f}", measured_rate(plan, results)));
  member("latency_ns", json_latency(results.latency));
  number("requests_measured", results.measured);
  number("requests_sent", results.sent);
  number("requests_answered", results.answered);
  number("requests_unanswered", results.unanswered);
  number("requests_never_sent", results.missed);
  number("connections_opened", results.opened);
  number("connections_closed_by_server", results.closed_by_peer);
  number("silent_opened", results.silent_opened);
  number("silent_closed_by_server", results.silent_closed_by_peer);
  number("mismatches", results.mismatches);
  member("connect_errors", json_errors(results.connect_errors));
  member("request_errors", json_errors(results.request_errors));
  return text + "\n}\n";
}

Result<> verdict(const LoadPlan& plan, const LoadResults& results, const Breakoff& broken) {
  if (results.mismatches > 0) {
    return fail(
        ErrorCode::io_error,
        fmt::format("wrong bytes came back on {} connection{}", grouped(results.mismatches),
                    plural(results.mismatches)),
        fmt::format("let a server answer at {} that sends back what it gets, and nothing else",
                    to_string(plan.options.connect)));
  }
  const bool speaking = plan.options.connections > 0;
  const bool answered = speaking ? results.answered > 0 : results.silent_opened > 0;
  if (answered && !broken.early) return {};
  std::string why = counted(results.connect_errors, "connect: ");
  if (why.empty()) why = counted(results.request_errors, "");
  if (why.empty() && results.closed_by_peer > 0) {
    why = fmt::format("{} closed by the server", grouped(results.closed_by_peer));
  }
  if (why.empty() && broken.interrupted) why = "interrupted";
  const std::string ending = why.empty() ? "" : ": " + why;
  if (answered) {
    return fail(ErrorCode::unavailable,
                fmt::format("the run ended early, {}{}", early_end(plan, results), ending),
                remedy(plan, results));
  }
  return fail(
      ErrorCode::unavailable,
      fmt::format("no {} by {}{}", speaking ? "request was answered" : "connection was accepted",
                  to_string(plan.options.connect), ending),
      remedy(plan, results));
}

}  // namespace pinion::apps
