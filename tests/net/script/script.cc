#include "script.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "script_flow.h"
#include "script_text.h"

namespace pinion::test {
namespace {

using std::chrono::nanoseconds;

/// How long a segment that is late is waited for, to say when it came.
constexpr nanoseconds kPatience = std::chrono::seconds{120};
/// How often the host may be asked to go on without time passing.
constexpr int kMostIdleAdvances = 1000;
constexpr std::size_t kRemembered = 12;

class Runner {
 public:
  Runner(ScriptWorld& world, std::string_view script) : world_(world), steps_(read_script(script)) {
    flow("");
    start_ = last_ = world.now();
    end_line_ = 1 + static_cast<int>(std::count(script.begin(), script.end(), '\n'));
  }

  /// Throws a ScriptFailure.
  void run() {
    for (const Step& step : steps_) {
      step_ = &step;
      run_step(step);
    }
    step_ = nullptr;
    refuse_what_came();
  }

 private:
  void run_step(const Step& step) {
    if (const auto* expect = std::get_if<ExpectStep>(&step.what)) return run_expect(*expect);
    wait_quietly();
    if (const auto* arrival = std::get_if<ArrivalStep>(&step.what)) run_arrival(*arrival);
    if (const auto* call = std::get_if<CallStep>(&step.what)) run_call(*call);
    if (const auto* tolerance = std::get_if<ToleranceStep>(&step.what)) {
      tolerance_ = tolerance->tolerance;
    }
    if (const auto* change = std::get_if<FlowStep>(&step.what)) {
      flow(change->flow).begin_anew(*change, world_.host());
    }
    last_ = world_.now();
  }

  void run_arrival(const ArrivalStep& arrival) {
    std::vector<PacketBytes> packets;
    for (const SegmentPattern& pattern : arrival.burst) {
      ScriptFlow& of = flow(pattern.flow);
      const Segment segment = of.arrival(pattern);
      packets.push_back(of.packet_of(segment, pattern.damage));
      const bool whole = !pattern.garbled && !pattern.damage.any();
      remember(world_.now(), fmt::format("<{} {}{}", label(of), of.arrival_text(segment),
                                         whole ? "" : " (damaged)"));
    }
    world_.inject(packets);
  }

  void run_call(const CallStep& call) {
    const std::string result = world_.call(call.name, call.arguments);
    std::vector<std::string> words{call.name};
    words.insert(words.end(), call.arguments.begin(), call.arguments.end());
    remember(world_.now(), fmt::format("{} -> {}", fmt::join(words, " "), result));
    if (!call.result || result == *call.result) return;
    fail(ScriptFault::wrong_result, fmt::format("it answered '{}'", result));
  }

  void run_expect(const ExpectStep& expect) {
    const Window window = window_of(*step_);
    while (!something_came() && step_towards(window.until)) {
    }
    if (!something_came()) report_missing(expect, window.until);
    const SentPacket packet = *std::exchange(sent_, {});
    const auto read = read_packet(packet.bytes);
    if (!read) report_broken(packet, read.error());
    ScriptFlow& of = flow(expect.segment.flow);
    const std::string came = came_text(packet, *read);
    if (!of.owns(*read)) fail(ScriptFault::wrong, came + "\n  of another connection");
    of.learn(read->segment, expect.segment);
    const auto differences = of.differences(read->segment, expect.segment);
    const std::string text = fmt::format(">{} {}", label(of), of.sent_text(read->segment));
    if (!differences.empty()) {
      fail(ScriptFault::wrong, fmt::format("came at {}: {}\n  {}", clock_text(packet.at), text,
                                           fmt::join(differences, "\n  ")));
    }
    if (packet.at < window.from) {
      fail(ScriptFault::early,
           fmt::format("{}\n  {} early", came, text_of(window.from - packet.at)));
    }
    last_ = packet.at;
    remember(packet.at, text);
  }

  struct Window {
    Instant from;
    Instant until;
  };

  Window window_of(const Step& step) const {
    if (!step.time) return {last_, last_};
    const StepTime& time = *step.time;
    const Instant base = time.absolute ? start_ : last_;
    const bool late = time.bare && time.until.count() > 0;
    return {base + time.from, base + time.until + (late ? tolerance_ : nanoseconds{})};
  }

  /// Lets time pass up to the step's, during which nothing may come.
  void wait_quietly() {
    const Instant until = step_->time ? window_of(*step_).from : world_.now();
    if (until < world_.now()) fail(ScriptFault::syntax, "that time has passed");
    refuse_what_came();
    while (step_towards(until)) refuse_what_came();
  }

  /// Goes on to the host's next deadline, or `until` if that is before it; false once there.
  bool step_towards(Instant until) {
    const Instant now = world_.now();
    if (now >= until) return false;
    world_.advance(std::clamp(world_.next_deadline(), now, until));
    idle_advances_ = world_.now() == now ? idle_advances_ + 1 : 0;
    if (idle_advances_ == kMostIdleAdvances) {
      fail(ScriptFault::stuck, fmt::format("time stands at {}", clock_text(now)));
    }
    return true;
  }

  bool something_came() {
    if (!sent_) sent_ = world_.take();
    return sent_.has_value();
  }

  void refuse_what_came() {
    if (!something_came()) return;
    const auto read = read_packet(sent_->bytes);
    if (!read) report_broken(*sent_, read.error());
    fail(ScriptFault::superfluous, came_text(*sent_, *read) + "\n  and nothing was expected");
  }

  [[noreturn]] void report_missing(const ExpectStep& expect, Instant until) {
    const Instant patience = until + kPatience;
    while (!something_came() && step_towards(patience)) {
    }
    if (!something_came()) {
      fail(ScriptFault::missing,
           fmt::format("nothing came, in {} more either", text_of(kPatience)));
    }
    const auto read = read_packet(sent_->bytes);
    if (!read) report_broken(*sent_, read.error());
    ScriptFlow& of = flow(expect.segment.flow);
    const bool is_it = of.owns(*read) && learned(of, read->segment, expect.segment)
                                             .differences(read->segment, expect.segment)
                                             .empty();
    const std::string came = came_text(*sent_, *read);
    if (!is_it) fail(ScriptFault::missing, "it didn't come; the next one " + came);
    fail(ScriptFault::late, fmt::format("{}\n  {} late", came, text_of(sent_->at - until)));
  }

  static ScriptFlow& learned(ScriptFlow& of, const Segment& sent, const SegmentPattern& pattern) {
    of.learn(sent, pattern);
    return of;
  }

  [[noreturn]] void report_broken(const SentPacket& packet, std::string_view what) {
    std::string bytes;
    for (const std::byte byte : packet.bytes) {
      bytes += fmt::format(" {:02x}", std::to_integer<unsigned>(byte));
      if (bytes.size() >= 240) break;
    }
    fail(ScriptFault::broken,
         fmt::format("came at {}: {}\n {}", clock_text(packet.at), what, bytes));
  }

  /// A packet of the host's, by the numbers of the flow it belongs to.
  std::string came_text(const SentPacket& packet, const ReadPacket& read) {
    const std::string when = clock_text(packet.at);
    for (const ScriptFlow& of : flows_) {
      if (!of.owns(read)) continue;
      return fmt::format("came at {}: >{} {}", when, label(of), of.sent_text(read.segment));
    }
    return fmt::format("came at {}: {} to {}: {}", when,
                       to_string(Endpoint{read.source, read.segment.source_port}),
                       to_string(Endpoint{read.destination, read.segment.destination_port}),
                       segment_text(read.segment, {}));
  }

  ScriptFlow& flow(const std::string& name) {
    for (ScriptFlow& known : flows_) {
      if (known.name() == name) return known;
    }
    Endpoint peer = world_.peer();
    peer.port = static_cast<std::uint16_t>(peer.port + flows_.size());
    return flows_.emplace_back(name, world_.host(), peer);
  }

  static std::string label(const ScriptFlow& of) {
    return of.name().empty() ? "" : fmt::format("[{}]", of.name());
  }

  static std::string text_of(Delay delay) {
    return fmt::format("{:.6f} s", static_cast<double>(delay.count()) / 1e9);
  }
  std::string clock_text(Instant at) const {
    return fmt::format("{:.6f}", static_cast<double>((at - start_).count()) / 1e9);
  }

  void remember(Instant at, const std::string& text) {
    log_.push_back(fmt::format("{} {}", clock_text(at), text));
    if (log_.size() > kRemembered) log_.pop_front();
  }

  [[noreturn]] void fail(ScriptFault fault, const std::string& what) const {
    const int line = step_ == nullptr ? end_line_ : step_->line;
    const std::string text = step_ == nullptr ? "the script's end" : step_->text;
    std::string report = fmt::format("line {}: {}\n  {}\n", line, text, what);
    if (!log_.empty()) report += fmt::format("before it:\n  {}\n", fmt::join(log_, "\n  "));
    throw ScriptFailure{fault, line, std::move(report)};
  }

  ScriptWorld& world_;
  std::vector<Step> steps_;
  std::deque<ScriptFlow> flows_;
  std::optional<SentPacket> sent_;
  const Step* step_ = nullptr;
  int end_line_ = 0;
  Instant start_;
  Instant last_;  ///< When the last event was.
  nanoseconds tolerance_ = std::chrono::milliseconds{1};
  int idle_advances_ = 0;
  std::deque<std::string> log_;
};

}  // namespace

std::optional<ScriptFailure> find_failure(ScriptWorld& world, std::string_view script) {
  try {
    Runner(world, script).run();
  } catch (const SyntaxError& error) {
    return ScriptFailure{ScriptFault::syntax, error.line,
                         fmt::format("line {}: {}\n", error.line, error.text)};
  } catch (const ScriptFailure& failure) {
    return failure;
  }
  return {};
}

testing::AssertionResult run_script(ScriptWorld& world, std::string_view script) {
  const auto failure = find_failure(world, script);
  if (!failure) return testing::AssertionSuccess();
  return testing::AssertionFailure() << failure->text;
}

}  // namespace pinion::test
