#include "two_ways.h"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstdint>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace pinion::test {
namespace {

constexpr std::size_t kHistory = 25;

std::string text_of(const std::optional<TcpInfo>& info) {
  if (!info) return "gone";
  const TcpInfo& i = *info;
  return fmt::format(
      "{}:{} {}:{} state {} una {} unread {} unacknowledged {} {}{}{}{} segment {} flight {} "
      "window {} receive {} congestion {} {} rtt {} {} {} retransmissions {} scales {} {}",
      to_string(i.local.address), i.local.port, to_string(i.remote.address), i.remote.port,
      static_cast<int>(i.state), i.first_unacknowledged.value(), i.unread, i.unacknowledged,
      i.end_of_stream ? "end " : "", i.write_room ? "room " : "", i.timestamps ? "ts " : "",
      i.sack ? "sack" : "", i.segment, i.flight, i.window, i.receive_window, i.congestion_window,
      i.congestion_threshold, i.srtt_us, i.rttvar_us, i.timeout_us, i.retransmissions, i.send_scale,
      i.receive_scale);
}

/// Each field, as its place and value.
std::string text_of(const TcpStats& stats) {
  static_assert(sizeof(TcpStats) % sizeof(std::uint64_t) == 0);
  const auto fields =
      std::bit_cast<std::array<std::uint64_t, sizeof(TcpStats) / sizeof(std::uint64_t)>>(stats);
  std::string text;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (fields[i] != 0) text += fmt::format("{}:{} ", i, fields[i]);
  }
  return text;
}

std::string text_of(const std::optional<SentPacket>& packet) {
  if (!packet) return "nothing";
  std::string text = fmt::format("at {} ns:", packet->at.time_since_epoch().count());
  for (const std::byte byte : packet->bytes) text += fmt::format(" {:02x}", byte);
  return text;
}

bool same(const std::optional<SentPacket>& a, const std::optional<SentPacket>& b) {
  if (!a || !b) return !a && !b;
  return a->at == b->at && a->bytes == b->bytes;
}

}  // namespace

TwoWays::TwoWays(const ScriptTcpOptions& options, bool verified)
    : packets_(options.pool.packets), known_(options), long_(options) {
  known_.set_long_way(false);
  long_.set_long_way(true);
  known_.set_verified(verified);
  long_.set_verified(verified);
}

void TwoWays::inject(std::span<const PacketBytes> packets, const std::string& note) {
  history_.push_back(note);
  known_.inject(packets);
  long_.inject(packets);
  compare();
}

void TwoWays::drift(Delay time) {
  if (now() + time >= long_.next_deadline()) return;
  history_.push_back(fmt::format("+{} ns unheard", time.count()));
  known_.drift(time);
  long_.drift(time);
}

std::string TwoWays::call(const std::string& name, std::vector<std::string> arguments) {
  history_.push_back(fmt::format("{} {}", name, fmt::join(arguments, " ")));
  std::string answer = long_.call(name, arguments);
  expect_same(name, known_.call(name, arguments), answer);
  history_.back() += " -> " + answer;
  compare();
  return answer;
}

void TwoWays::pass(Delay time) {
  history_.push_back(fmt::format("+{} ns", time.count()));
  const Instant end = now() + time;
  while (now() < end && failure_.empty()) {
    // One that is due already has been rounded down to its tick.
    const Instant soonest = now() + std::chrono::microseconds{100};
    const Instant to = std::min(end, std::max(soonest, long_.next_deadline()));
    known_.advance(to);
    long_.advance(to);
    compare();
  }
}

std::optional<PacketBytes> TwoWays::take() {
  if (sent_.empty()) return {};
  PacketBytes bytes = std::move(sent_.front());
  sent_.pop_front();
  return bytes;
}

std::size_t TwoWays::packets_left() {
  const std::array name{std::string("packets")};
  return packets_ - std::min<std::size_t>(packets_, std::stoull(long_.call("count", name)));
}

void TwoWays::compare() {
  while (history_.size() > kHistory) history_.pop_front();
  compare_sent();
  expect_same("info", text_of(known_.info()), text_of(long_.info()));
  expect_same("statistics", text_of(known_.tcp().stats()), text_of(long_.tcp().stats()));
  expect_same("events", known_.call("events", {}), long_.call("events", {}));
  for (const char* const what :
       {"connections", "half_open", "time_waits", "packets", "suspicions", "confirmations"}) {
    const std::array name{std::string(what)};
    expect_same(what, known_.call("count", name), long_.call("count", name));
  }
  const auto deadline = [](const ScriptTcp& world) {
    return std::to_string(world.next_deadline().time_since_epoch().count());
  };
  expect_same("next deadline", deadline(known_), deadline(long_));
}

void TwoWays::compare_sent() {
  while (true) {
    const std::optional<SentPacket> by_known = known_.take();
    std::optional<SentPacket> by_long = long_.take();
    if (!same(by_known, by_long)) expect_same("sent", text_of(by_known), text_of(by_long));
    if (!by_known && !by_long) return;
    if (by_long) sent_.push_back(std::move(by_long->bytes));
  }
}

void TwoWays::expect_same(std::string_view what, const std::string& of_known,
                          const std::string& of_long) {
  if (of_known == of_long || !failure_.empty()) return;
  failure_ = fmt::format("{} differs\n known: {}\n long:  {}\n after:\n{}\n", what, of_known,
                         of_long, fmt::join(history_, "\n"));
}

}  // namespace pinion::test
