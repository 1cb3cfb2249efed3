#include "echo_subjects.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace pinion::bench {
namespace {

std::string program_path(const std::string& program) {
  return std::filesystem::read_symlink("/proc/self/exe").replace_filename(program).string();
}

/// Both kinds of one server: with timers, and without.
void add_both(std::vector<EchoSubject>& subjects, const std::string& name,
              const std::string& package = {}) {
  const std::string program = "echo_server_" + name;
  subjects.push_back({name, program, "park", true, package});
  subjects.push_back({name + "_bare", program, "park", false, package});
}

EchoSubject with_policy(const std::string& library, const std::string& wait, bool timers) {
  const std::string name = library + (wait == "park" ? "" : "_" + wait) + (timers ? "" : "_bare");
  return {name, "echo_server_" + library, wait, timers, {}};
}

/// The first line that comes out of a pipe.
std::string read_line(int fd) {
  std::string line;
  for (char c = 0; read(fd, &c, 1) == 1 && c != '\n';) line += c;
  return line;
}

}  // namespace

std::vector<EchoSubject> closed_subjects() {
  std::vector<EchoSubject> subjects;
  add_both(subjects, "pinion");
  add_both(subjects, "raw_uring");
  add_both(subjects, "raw_epoll");
  add_both(subjects, "libuv", "libuv1-dev");
  add_both(subjects, "libevent", "libevent-dev");
  add_both(subjects, "asio_epoll", "libasio-dev");
  add_both(subjects, "asio_uring", "libasio-dev");
  return subjects;
}

std::vector<EchoSubject> open_subjects() {
  std::vector<EchoSubject> subjects = {
      with_policy("pinion", "park", true), with_policy("pinion", "adaptive", true),
      with_policy("pinion", "spin", true), with_policy("raw_uring", "park", false),
      with_policy("raw_uring", "spin", false)};
  for (const EchoSubject& subject : closed_subjects()) {
    const bool ours = subject.name.starts_with("pinion") || subject.name.starts_with("raw_uring");
    if (subject.timers && !ours) subjects.push_back(subject);
  }
  return subjects;
}

std::vector<EchoSubject> idle_subjects() {
  return {with_policy("pinion", "park", true), with_policy("pinion", "adaptive", true),
          with_policy("raw_uring", "park", false)};
}

std::vector<std::string> echo_subject_names() {
  std::vector<std::string> names;
  for (const EchoSubject& subject : closed_subjects()) names.push_back(subject.name);
  for (const EchoSubject& subject : open_subjects()) {
    if (std::find(names.begin(), names.end(), subject.name) == names.end()) {
      names.push_back(subject.name);
    }
  }
  return names;
}

bool was_built(const EchoSubject& subject) {
  return access(program_path(subject.program).c_str(), X_OK) == 0;
}

double bytes_in(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(key)) return std::strtod(line.c_str() + key.size(), nullptr) * 1'024;
  }
  return 0;
}

EchoServer::EchoServer(const EchoSubject& subject, int cpu, const std::vector<std::string>& more) {
  start(subject, cpu, more);
  if (pid_ < 0) error_ = fmt::format("{}: {}", subject.program, std::strerror(errno));
  if (error_.empty() && port_ == 0) error_ = subject.program + " did not start";
}

EchoServer::~EchoServer() {
  if (pid_ < 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void EchoServer::start(const EchoSubject& subject, int cpu, const std::vector<std::string>& more) {
  const std::string path = program_path(subject.program);
  const std::string cpu_text = std::to_string(cpu);
  std::vector<const char*> words = {path.c_str(), "--cpu", cpu_text.c_str(), "--wait",
                                    subject.wait.c_str()};
  if (subject.timers) words.push_back("--timers");
  for (const std::string& word : more) words.push_back(word.c_str());
  words.push_back(nullptr);
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return;
  pid_ = fork();
  if (pid_ == 0) {
    dup2(ends[1], STDOUT_FILENO);
    if (!subject.submission.empty()) setenv("PINION_SUBMIT_MODE", subject.submission.c_str(), 1);
    execv(path.c_str(), const_cast<char* const*>(words.data()));
    _exit(127);
  }
  close(ends[1]);
  if (pid_ > 0) {
    const std::string line = read_line(ends[0]);
    port_ = static_cast<std::uint16_t>(std::strtoul(line.c_str(), nullptr, 10));
    if (clock_getcpuclockid(pid_, &clock_) != 0) error_ = subject.program + ": no cpu clock";
  }
  close(ends[0]);
}

std::int64_t EchoServer::cpu_ns() const {
  timespec used{};
  clock_gettime(clock_, &used);
  return used.tv_sec * 1'000'000'000 + used.tv_nsec;
}

double EchoServer::resident_bytes() const {
  return bytes_in(fmt::format("/proc/{}/status", pid_), "VmRSS:");
}

}  // namespace pinion::bench
