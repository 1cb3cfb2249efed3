#include <pinion/eventloop/submission.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <utility>

namespace pinion {
namespace {

constexpr std::array<std::pair<SubmissionMode, std::string_view>, 3> kNames = {{
    {SubmissionMode::low_latency, "low-latency"},
    {SubmissionMode::throughput, "throughput"},
    {SubmissionMode::adaptive, "adaptive"},
}};

constexpr const char* kModeVariable = "PINION_SUBMIT_MODE";
constexpr const char* kBatchVariable = "PINION_SUBMIT_BATCH";
constexpr const char* kMaxWaitVariable = "PINION_SUBMIT_MAX_WAIT_US";

constexpr std::uint64_t kMostWaitUs =
    static_cast<std::uint64_t>(SubmissionRules::kLongestWait.count()) / 1000;

constexpr std::int64_t kWorkWeight = 16;

constexpr double kCallWeight = 16;
/// A call that somebody interrupted says nothing of what calls cost.
constexpr double kOutlier = 4;
/// Calls of the same size, nearly, don't tell what is due to their size.
constexpr double kLeastVariance = 0.25;

/// The text of a variable that is set to something.
std::optional<std::string_view> read_variable(const char* name) {
  const char* const text = std::getenv(name);
  if (text == nullptr || *text == '\0') return std::nullopt;
  return text;
}

/// A whole number within the range; nothing when the variable isn't set.
Result<std::optional<std::uint64_t>> read_number(const char* name, std::uint64_t least,
                                                 std::uint64_t most) {
  const std::optional<std::string_view> text = read_variable(name);
  if (!text) return std::nullopt;
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  const bool whole = error == std::errc{} && end == text->data() + text->size();
  if (whole && number >= least && number <= most) return number;
  const bool too_large = error == std::errc::result_out_of_range;
  return fail(ErrorCode::invalid_argument,
              fmt::format("{}={}: {}", name, *text,
                          whole || too_large ? "out of range" : "not a whole number"),
              fmt::format("{}=N, a whole number from {} to {}", name, least, most));
}

Result<std::optional<SubmissionMode>> read_mode() {
  const std::optional<std::string_view> text = read_variable(kModeVariable);
  if (!text) return std::nullopt;
  if (const auto mode = parse_submission_mode(*text)) return mode;
  return fail(ErrorCode::invalid_argument, fmt::format("{}={}: no such mode", kModeVariable, *text),
              fmt::format("{}=low-latency, throughput or adaptive", kModeVariable));
}

Result<> check(const SubmissionOptions& options) {
  if (options.batch && (*options.batch < 1 || *options.batch > SubmissionRules::kMostBatch)) {
    return fail(
        ErrorCode::invalid_argument, fmt::format("submission.batch is {}", *options.batch),
        fmt::format("set LoopOptions::submission.batch to 1 to {}", SubmissionRules::kMostBatch));
  }
  if (options.max_wait &&
      (*options.max_wait < Delay{} || *options.max_wait > SubmissionRules::kLongestWait)) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("submission.max_wait is {} ns", options.max_wait->count()),
                fmt::format("set LoopOptions::submission.max_wait to 0 to {} us", kMostWaitUs));
  }
  return {};
}

}  // namespace

std::string_view to_string(SubmissionMode mode) noexcept {
  for (const auto& [value, name] : kNames) {
    if (value == mode) return name;
  }
  return "unknown";
}

std::optional<SubmissionMode> parse_submission_mode(std::string_view text) noexcept {
  for (const auto& [value, name] : kNames) {
    if (name == text) return value;
  }
  return std::nullopt;
}

Result<SubmissionRules> SubmissionOptions::resolve() const {
  if (Result<> checked = check(*this); !checked) {
    return tl::unexpected(std::move(checked.error()));
  }
  SubmissionRules rules;
  const auto mode_read = mode ? Result<std::optional<SubmissionMode>>(mode) : read_mode();
  if (!mode_read) return tl::unexpected(mode_read.error());
  rules.mode = mode_read->value_or(rules.mode);
  if (batch) {
    rules.batch = *batch;
  } else {
    const auto read = read_number(kBatchVariable, 1, SubmissionRules::kMostBatch);
    if (!read) return tl::unexpected(read.error());
    rules.batch = static_cast<std::uint32_t>(read->value_or(rules.batch));
  }
  if (max_wait) {
    rules.max_wait = *max_wait;
  } else {
    const auto read = read_number(kMaxWaitVariable, 0, kMostWaitUs);
    if (!read) return tl::unexpected(read.error());
    if (*read) rules.max_wait = std::chrono::microseconds{static_cast<std::int64_t>(**read)};
  }
  return rules;
}

bool SubmissionController::begins(const Turn& turn) noexcept {
  if (rules_.max_wait <= Delay{}) return false;
  // Turns that are as long as the last one would let it wait for longer than that.
  const bool by_wait = rules_.mode == SubmissionMode::throughput;
  if (by_wait && saturating_sub(turn.now, last_) > rules_.max_wait) return false;
  holding_ = true;
  turns_held_ = 1;
  oldest_ = turn.now;
  handed_over_ = turn.handed_over;
  ++stats_.holds;
  return true;
}

/// Something was held when this turn began. A call that entered the kernel meanwhile has taken it
/// along.
bool SubmissionController::goes_on(const Turn& turn) noexcept {
  // The turn before this one submitted nothing after its work, so that it took just that.
  learn_work(work_, saturating_sub(turn.now, last_));
  const bool gone = turn.handed_over != handed_over_;
  const Delay waited = saturating_sub(turn.now, oldest_);
  const bool early = waited < longest_wait() && turns_held_ < kMostTurns;
  if (!gone && early && may_hold(turn)) {
    ++turns_held_;
    ++stats_.holds;
    return true;
  }
  stats_.waits.record(static_cast<std::uint64_t>(waited.count()));
  holding_ = false;
  return gone && may_hold(turn) && begins(turn);
}

/// How long the turn worked that follows what held isn't known: others had the thread, perhaps.
void SubmissionController::end(Instant now) noexcept {
  if (!std::exchange(holding_, false)) return;
  stats_.waits.record(static_cast<std::uint64_t>(saturating_sub(now, oldest_).count()));
}

Delay SubmissionController::longest_wait() const noexcept {
  if (rules_.mode == SubmissionMode::throughput) return rules_.max_wait;
  return std::min(rules_.max_wait, Delay{std::chrono::nanoseconds{kCallsHeld * call_}});
}

void SubmissionController::learn(Delay work, unsigned count, Delay took) noexcept {
  learn_work(timed_work_, work);
  if (count == 0 || took <= Delay{}) return;
  learn_call(count, static_cast<double>(took.count()));
}

void SubmissionController::learn_work(std::int64_t& average, Delay work) noexcept {
  if (work <= Delay{}) return;  // A clock that stands says nothing.
  const std::int64_t sample = std::min<std::int64_t>(work.count(), kLongestWork);
  if (average == kLongestWork) {
    average = sample;
    return;
  }
  // A turn that somebody interrupted says little.
  average += (std::min(sample, 4 * average + 1000) - average) / kWorkWeight;
}

void SubmissionController::learn_call(double count, double took) noexcept {
  if (!knows_calls_) {
    knows_calls_ = true;
    mean_count_ = count;
    mean_took_ = took;
  }
  took = std::min(took, kOutlier * mean_took_);
  const double more_operations = count - mean_count_;
  const double more_time = took - mean_took_;
  mean_count_ += more_operations / kCallWeight;
  mean_took_ += more_time / kCallWeight;
  count_variance_ += (more_operations * more_operations - count_variance_) / kCallWeight;
  covariance_ += (more_operations * more_time - covariance_) / kCallWeight;
  const double most = std::min(mean_took_, static_cast<double>(kDearestCall.count()));
  double cost = std::min(most, static_cast<double>(kUsualCall.count()));
  if (count_variance_ >= kLeastVariance) {
    const double each = std::max(covariance_ / count_variance_, 0.0);
    cost = std::clamp(mean_took_ - each * mean_count_, 0.0, most);
  }
  call_ = static_cast<std::int64_t>(cost);
}

void SubmissionController::set_mode(SubmissionMode mode) noexcept {
  if (mode == rules_.mode) return;
  rules_.mode = stats_.mode = mode;
  ++stats_.mode_changes;
}

Delay SubmissionController::call_cost() const noexcept {
  return std::chrono::nanoseconds{call_};
}

}  // namespace pinion
