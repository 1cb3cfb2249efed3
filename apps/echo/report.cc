#include "echo/report.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string_view>

#include <fmt/format.h>

#include "common/program.h"
#include "common/text.h"

namespace pinion::apps {
namespace {

double seconds(Delay delay) {
  return std::chrono::duration<double>(delay.to_nanoseconds()).count();
}

std::uint64_t nanoseconds(Delay delay) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(delay.count(), 0));
}

/// "busy 1.0% idle 2.0% parked 97.0%" of the time between two figures.
std::string shares(const LoopStats& before, const LoopStats& now) {
  const std::array<std::uint64_t, 3> parts = {
      now.busy_ns - before.busy_ns, now.idle_ns - before.idle_ns, now.parked_ns - before.parked_ns};
  const double whole = std::max(
      static_cast<double>(parts[0]) + static_cast<double>(parts[1]) + static_cast<double>(parts[2]),
      1.0);
  const auto percent = [&](std::size_t i) { return 100 * static_cast<double>(parts[i]) / whole; };
  return fmt::format("busy {:.1f}% idle {:.1f}% parked {:.1f}%", percent(0), percent(1),
                     percent(2));
}

/// "-" before the first timer has fired.
std::string lateness(const LoopStats& loop, double percent) {
  return loop.timers_fired == 0 ? "-" : rounded_duration(loop.timer_lateness.percentile(percent));
}

/// "3 accept_pauses, 2 gave_way", or "none".
std::string troubles(const EchoFigures& total) {
  std::string text;
  const auto add = [&text](std::uint64_t count, std::string_view name) {
    if (count == 0) return;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, name);
  };
  for (const TransportCounter& counter : transport_counters()) {
    if (counter.trouble) add(total.transport.*counter.member, counter.name);
  }
  add(total.loop.tasks_refused, "tasks_refused");
  return text.empty() ? "none" : text;
}

/// "  full 3  gave way 2": how often it happened since `before`; what didn't isn't named.
std::string pressure(const TransportStats& before, const TransportStats& now) {
  std::string text;
  const auto add = [&](std::string_view name, std::uint64_t TransportStats::* member) {
    if (now.*member == before.*member) return;
    text += fmt::format("  {} {}", name, now.*member - before.*member);
  };
  add("full", &TransportStats::accept_pauses);
  add("gave way", &TransportStats::gave_way);
  add("starved", &TransportStats::receive_starved);
  return text;
}

}  // namespace

void EchoFigures::merge(const EchoFigures& other) {
  requests += other.requests;
  for (const TransportCounter& counter : transport_counters()) {
    transport.*counter.member += other.transport.*counter.member;
  }
  for (const auto member :
       {&LoopStats::busy_ns, &LoopStats::idle_ns, &LoopStats::parked_ns, &LoopStats::parks,
        &LoopStats::failed_parks, &LoopStats::preempted_spins, &LoopStats::overlong_turns,
        &LoopStats::timers_fired, &LoopStats::tasks_refused}) {
    loop.*member += other.loop.*member;
  }
  loop.worst_turn = std::max(loop.worst_turn, other.loop.worst_turn);
  loop.timer_lateness.merge(other.loop.timer_lateness);
}

EchoFigures EchoFigures::sum(const std::vector<EchoFigures>& lcores) {
  EchoFigures total;
  for (const EchoFigures& lcore : lcores) total.merge(lcore);
  return total;
}

std::string stats_line(const EchoFigures& before, const EchoFigures& now, Delay interval,
                       Delay since_start) {
  const double requests = static_cast<double>(now.requests - before.requests);
  const TransportStats& net = now.transport;
  return fmt::format(
      "{:4.0f}s  {} connection{}  {:.0f} requests/s  timeouts read {} write {} keepalive {}  {}  "
      "timers late p50 {} p99 {}{}",
      seconds(since_start), net.open, net.open == 1 ? "" : "s", requests / seconds(interval),
      net.read_timeouts, net.write_timeouts, net.keepalive_timeouts, shares(before.loop, now.loop),
      lateness(now.loop, 50), lateness(now.loop, 99), pressure(before.transport, net));
}

std::string summary(const EchoFigures& total, Delay since_start) {
  const TransportStats& net = total.transport;
  const LoopStats& loop = total.loop;
  std::string text = fmt::format("served for {:.1f}s\n", seconds(since_start));
  text += fmt::format("connections  {} accepted, {} open, {} closing\n", net.accepted, net.open,
                      net.closing);
  text += fmt::format("requests     {}, {} bytes in, {} bytes out\n", total.requests, net.bytes_in,
                      net.bytes_out);
  text += fmt::format("timeouts     {} read, {} write, {} keepalive\n", net.read_timeouts,
                      net.write_timeouts, net.keepalive_timeouts);
  text += fmt::format("resets       {} received, {} sent\n", net.resets_received, net.resets_sent);
  text += fmt::format("troubles     {}\n", troubles(total));
  text +=
      fmt::format("buffers      {} free, {} at the least\n", net.buffers_free, net.buffers_lowest);
  text +=
      fmt::format("lcores       {}, {} parks ({} failed), {} preempted spins, {} turn{} over 1ms",
                  shares(LoopStats{}, loop), loop.parks, loop.failed_parks, loop.preempted_spins,
                  loop.overlong_turns, loop.overlong_turns == 1 ? "" : "s");
  if (loop.overlong_turns > 0) {
    text += fmt::format(", the longest {}", rounded_duration(nanoseconds(loop.worst_turn)));
  }
  text += "\n";
  if (loop.timers_fired == 0) return text;
  text += fmt::format("timers       {} fired, late p50 {} p99 {} max {}\n", loop.timers_fired,
                      lateness(loop, 50), lateness(loop, 99),
                      rounded_duration(loop.timer_lateness.max()));
  return text;
}

EchoReport::EchoReport(std::size_t lcores, std::chrono::seconds period) : desk_(lcores) {
  if (period.count() > 0) ticker_.emplace(period, [this] { print_line(); });
}

void EchoReport::begin(const std::string& first_line) {
  say(stdout, fmt::format("{}\n", first_line));
  start_ = Clock::now();
  begun_ = true;
}

void EchoReport::print_line() {
  if (!begun_) return;
  EchoFigures now = EchoFigures::sum(desk_.collect());
  const Delay elapsed = since_start();
  const Delay since_last = elapsed.to_nanoseconds() - last_line_.to_nanoseconds();
  say(stdout, fmt::format("{}\n", stats_line(before_, now, since_last, elapsed)));
  before_ = std::move(now);
  last_line_ = elapsed;
}

void EchoReport::finish() {
  ticker_.reset();
  say(stdout, summary(EchoFigures::sum(desk_.collect()), since_start()));
}

}  // namespace pinion::apps
