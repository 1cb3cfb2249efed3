#include "stack_callgrind.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <vector>

namespace pinion::bench {
namespace {

/// A file that is there while this lives, empty at first.
class TemporaryFile {
 public:
  TemporaryFile() : path_((std::filesystem::temp_directory_path() / "callgrind-XXXXXX").string()) {
    descriptor_ = mkstemp(path_.data());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    if (descriptor_ < 0) return;
    close(descriptor_);
    unlink(path_.c_str());
  }

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string read() const {
    std::ostringstream text;
    text << std::ifstream(path_).rdbuf();
    return text.str();
  }

 private:
  std::string path_;
  int descriptor_ = -1;
};

/// Runs a program to its end, with its output in a file. Empty, or what is wrong.
std::string run_program(const std::vector<std::string>& words, const std::string& output) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output.c_str(), O_WRONLY | O_TRUNC, 0);
  pid_t pid = -1;
  const int error =
      posix_spawnp(&pid, words[0].c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return std::strerror(error);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  return fmt::format("stack_count failed, with status {}", status);
}

}  // namespace

std::optional<StackCounts> count_stack(const StackCountRequest& request) {
  const TemporaryFile counts;
  const TemporaryFile output;
  std::vector<std::string> words = {"valgrind",
                                    "--tool=callgrind",
                                    "--quiet",
                                    "--callgrind-out-file=" + counts.path(),
                                    "--collect-atstart=no",
                                    "--toggle-collect=counted_turn"};
  if (request.lines) {
    for (const char* const word :
         {"--cache-sim=yes", "--I1=32768,8,64", "--D1=32768,8,64", "--LL=524288,16,64"}) {
      words.emplace_back(word);
    }
  }
  const auto self = std::filesystem::read_symlink("/proc/self/exe");
  words.push_back(std::filesystem::path(self).replace_filename("stack_count").string());
  words.push_back(request.subject);
  words.emplace_back(to_string(request.what));
  for (const std::size_t number :
       {request.connections, request.burst, request.operations, request.seed}) {
    words.push_back(std::to_string(number));
  }
  const std::string error = run_program(words, output.path());
  if (error.empty()) {
    const std::size_t done = std::strtoull(output.read().c_str(), nullptr, 10);
    if (const auto read = read_callgrind(counts.read(), done)) return read;
  }
  fmt::print(
      stderr,
      "warning: instructions are not counted: {}\nfix: apt-get install valgrind; or see what "
      "is wrong: tools/dev bench gate\n",
      error.empty() ? "callgrind wrote no totals" : error);
  return std::nullopt;
}

std::optional<StackCounts> read_callgrind(const std::string& text, std::size_t operations) {
  std::istringstream lines(text);
  std::vector<std::string> events;
  std::map<std::string, double> totals;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string word;
    words >> word;
    if (word == "events:") {
      while (words >> word) events.push_back(word);
    } else if (word == "totals:") {
      double value = 0;
      for (const std::string& event : events) {
        if (words >> value) totals[event] = value;
      }
    }
  }
  if (operations == 0 || totals["Ir"] == 0) return std::nullopt;
  const auto of_one = static_cast<double>(operations);
  return StackCounts{.instructions = totals["Ir"] / of_one,
                     .lines = (totals["DLmr"] + totals["DLmw"]) / of_one};
}

}  // namespace pinion::bench
