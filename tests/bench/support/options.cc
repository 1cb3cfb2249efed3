#include "support/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

namespace pinion::bench {
namespace {

std::vector<std::string> split(std::string_view list) {
  std::vector<std::string> parts;
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    parts.emplace_back(list.substr(0, comma));
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return parts;
}

template <class T>
std::optional<T> number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// "1000", "1k", "10M".
std::optional<std::size_t> parse_count(std::string_view text) {
  std::size_t scale = 1;
  if (text.ends_with('k') || text.ends_with('K')) scale = 1'000;
  if (text.ends_with('m') || text.ends_with('M')) scale = 1'000'000;
  if (scale > 1) text.remove_suffix(1);
  const std::optional<std::size_t> value = number<std::size_t>(text);
  if (!value || *value == 0 || *value > 20'000'000 / scale) return std::nullopt;
  return *value * scale;
}

std::string error_text(const std::string& what, const std::string& fix) {
  return fmt::format("error: {}\nfix: {}", what, fix);
}

/// Fills `into` with the names of a list; an unknown one is an error.
std::string take_names(const std::string& flag, const std::string& value,
                       const std::vector<std::string>& known, std::vector<std::string>& into) {
  into = split(value);
  for (const std::string& name : into) {
    if (!selects(known, name)) {
      return error_text(fmt::format("{} has no '{}'", flag, name),
                        fmt::format("{} one or more of {}", flag, fmt::join(known, ",")));
    }
  }
  return into.empty() ? error_text(flag + " needs a name", flag + " " + known.front()) : "";
}

std::string take_value(const std::string& flag, const std::string& value, const Choices& choices,
                       Options& options) {
  if (flag == "--json") {
    if (value.empty()) return error_text("--json needs a path", "--json FILE");
    options.json_path = value;
  }
  if (flag == "--case") return take_names(flag, value, choices.cases, options.cases);
  if (flag == "--metric") return take_names(flag, value, choices.metrics, options.metrics);
  if (flag == "--subject") return take_names(flag, value, choices.subjects, options.subjects);
  if (flag == "--n") {
    for (const std::string& part : split(value)) {
      const std::optional<std::size_t> n = parse_count(part);
      if (!n) return error_text(fmt::format("bad size '{}'", part), "--n 1k,100k,1M,10M (to 20M)");
      options.sizes.push_back(*n);
    }
    if (options.sizes.empty()) return error_text("--n needs a size", "--n 1M");
  }
  if (flag == "--rounds") {
    options.rounds = number<int>(value).value_or(0);
    if (options.rounds < 1 || options.rounds > 101) {
      return error_text(fmt::format("bad count '{}'", value), "--rounds 1 to 101");
    }
  }
  if (flag == "--cpu") {
    options.cpu = number<int>(value).value_or(-1);
    if (options.cpu < 0 || options.cpu > 1023) {
      return error_text(fmt::format("bad cpu '{}'", value), "--cpu 0 to 1023");
    }
  }
  if (flag == "--seed") {
    const auto seed = number<std::uint64_t>(value);
    if (!seed) return error_text(fmt::format("bad seed '{}'", value), "--seed 1");
    options.seed = *seed;
  }
  for (const ExtraOption& extra : choices.extras) {
    if (flag != "--" + extra.name) continue;
    const std::optional<int> value_given = number<int>(value);
    if (!value_given || *value_given < extra.least || *value_given > extra.most) {
      return error_text(fmt::format("bad number '{}'", value),
                        fmt::format("{} {} to {}", flag, extra.least, extra.most));
    }
    options.extras[extra.name] = *value_given;
  }
  return {};
}

bool takes_value(const std::string& flag, const Choices& choices) {
  static const std::vector<std::string> kWithValue = {"--json", "--case",   "--metric", "--subject",
                                                      "--n",    "--rounds", "--cpu",    "--seed"};
  return selects(kWithValue, flag) ||
         std::ranges::any_of(choices.extras, [&flag](const ExtraOption& extra) {
           return flag == "--" + extra.name;
         });
}

std::string extras_usage(const Choices& choices) {
  std::string lines;
  for (const ExtraOption& extra : choices.extras) {
    lines += fmt::format("  {:<18} {} (default {})\n", fmt::format("--{} N", extra.name),
                         extra.help, extra.standard);
  }
  return lines;
}

}  // namespace

bool selects(const std::vector<std::string>& filter, const std::string& name) {
  return filter.empty() || std::find(filter.begin(), filter.end(), name) != filter.end();
}

ParseOutcome parse_options(int argc, const char* const* argv, const Choices& choices) {
  ParseOutcome outcome;
  for (const ExtraOption& extra : choices.extras) {
    outcome.options.extras[extra.name] = extra.standard;
  }
  for (int i = 1; i < argc && outcome.error.empty(); ++i) {
    std::string flag = argv[i];
    if (flag == "--help" || flag == "-h") {
      outcome.options.help = true;
    } else if (flag == "--quick") {
      outcome.options.quick = true;
    } else if (flag == "--check") {
      outcome.options.check = true;
    } else {
      std::optional<std::string> value;
      if (const std::size_t equals = flag.find('='); equals != std::string::npos) {
        value = flag.substr(equals + 1);
        flag.resize(equals);
      }
      if (!takes_value(flag, choices)) {
        outcome.error = error_text(fmt::format("unknown option '{}'", flag),
                                   fmt::format("{} --help", choices.program));
      } else if (!value && i + 1 == argc) {
        outcome.error = error_text(flag + " needs a value", choices.program + " --help");
      } else {
        outcome.error = take_value(flag, value ? *value : argv[++i], choices, outcome.options);
      }
    }
  }
  return outcome;
}

std::string usage(const Choices& choices) {
  return fmt::format(
      "usage: {} [option...]\n"
      "  --quick            small sizes and few rounds: does it work, not how fast is it\n"
      "  --json FILE        write the rows as JSON too\n"
      "  --n LIST           {}, as 1k,100k,1M,10M\n"
      "  --case LIST        of {}\n"
      "  --metric LIST      of {}\n"
      "  --subject LIST     of {}\n"
      "  --rounds N         runs of each measurement\n"
      "  --cpu N            the cpu to run on (default: the last one)\n"
      "  --seed N           of the workload (default 1)\n"
      "{}"
      "  --check            exit 1 when a target is missed\n"
      "ratio is the subject's figure over pinion's of the same round: median, least, greatest (of\n"
      "rates the inverse, so that above 1 pinion is better); = marks a tie (medians within 15 %, "
      "unless 11\n"
      "alternating pairs agree).\n",
      choices.program, choices.sizes, fmt::join(choices.cases, ","),
      fmt::join(choices.metrics, ","), fmt::join(choices.subjects, ","), extras_usage(choices));
}

int bench_main(int argc, const char* const* argv, const Choices& choices,
               int (*run)(const Options&)) {
  const ParseOutcome parsed = parse_options(argc, argv, choices);
  if (!parsed.error.empty()) {
    fmt::print(stderr, "{}\n", parsed.error);
    return 2;
  }
  if (parsed.options.help) {
    fmt::print("{}", usage(choices));
    return 0;
  }
  return run(parsed.options);
}

}  // namespace pinion::bench
