#pragma once

#include <cstdint>
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
};

/// What a bench offers, so that a misspelt name is an error and not an empty table.
struct Choices {
  std::string program;
  std::vector<std::string> cases;
  std::vector<std::string> metrics;
  std::vector<std::string> subjects;
};

struct ParseOutcome {
  Options options;
  std::string error;  ///< empty: good. Otherwise "error: …\nfix: …"; the program exits with 2.
};

ParseOutcome parse_options(int argc, const char* const* argv, const Choices& choices);

std::string usage(const Choices& choices);

/// Whether a filter lets a name through.
bool selects(const std::vector<std::string>& filter, const std::string& name);

}  // namespace pinion::bench
