#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

/// The command line that every bench shares.

namespace pinion::bench {

struct Options {
  bool quick = false;
  bool check = false;  ///< exit 1 when a target is missed
  bool help = false;
  std::string json_path;
  std::vector<std::size_t> sizes;     ///< empty: the bench's own
  std::vector<std::string> cases;     ///< empty: all
  std::vector<std::string> metrics;   ///< empty: all
  std::vector<std::string> subjects;  ///< empty: all
  int rounds = 0;                     ///< 0: the bench's own
  int cpu = -1;                       ///< -1: the last one allowed
  std::uint64_t seed = 1;
  std::map<std::string, int> extras;  ///< by name: what was given, or the default

  [[nodiscard]] int extra(const std::string& name) const { return extras.at(name); }
};

/// An option of one bench alone, a number: `--name N`.
struct ExtraOption {
  std::string name;
  int standard;
  int least;
  int most;
  std::string help;
};

/// What a bench offers, so that a misspelt name is an error and not an empty table.
struct Choices {
  std::string program;
  std::vector<std::string> cases;
  std::vector<std::string> metrics;
  std::vector<std::string> subjects;
  std::string sizes = "live timers";  ///< what --n counts
  std::vector<ExtraOption> extras = {};
};

struct ParseOutcome {
  Options options;
  std::string error;  ///< empty: good. Otherwise "error: …\nfix: …"; the program exits with 2.
};

ParseOutcome parse_options(int argc, const char* const* argv, const Choices& choices);

std::string usage(const Choices& choices);

/// What a bench's main() does: reads the options, says what is wrong with them or explains them, or
/// runs. Returns the exit code.
int bench_main(int argc, const char* const* argv, const Choices& choices,
               int (*run)(const Options&));

/// Whether a filter lets a name through.
bool selects(const std::vector<std::string>& filter, const std::string& name);

}  // namespace pinion::bench
