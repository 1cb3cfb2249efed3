#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

/// The servers that the echo bench compares, and one of them at work.
///
/// A subject's name says what it is: the library, then `_spin` or `_adaptive` when it does not
/// sleep at once, then `_bare` when its connections have no timers. Each is a program of its own
/// beside the bench's, built of peers/echo_*.cc.

namespace pinion::bench {

struct EchoSubject {
  std::string name;
  std::string program;  ///< without the folder
  std::string wait;     ///< park, adaptive, spin
  bool timers = true;
  std::string package;          ///< what is missing when the program was not built
  std::string submission = {};  ///< PINION_SUBMIT_MODE of its process; empty: as it is here
};

/// Those that sleep, for closed loops; those of the open loop; those that are asked after a second
/// without work.
std::vector<EchoSubject> closed_subjects();
std::vector<EchoSubject> open_subjects();
std::vector<EchoSubject> idle_subjects();

std::vector<std::string> echo_subject_names();

/// Whether the subject's program was built.
bool was_built(const EchoSubject& subject);

/// The number of kibibytes in the line of a file like /proc/meminfo that begins with `key`, in
/// bytes; 0 when there is none.
double bytes_in(const std::string& path, const std::string& key);

/// A server's process, tied to a cpu; it ends with this object.
class EchoServer {
 public:
  /// `more` goes to the program's command line.
  EchoServer(const EchoSubject& subject, int cpu, const std::vector<std::string>& more = {});
  ~EchoServer();
  EchoServer(const EchoServer&) = delete;
  EchoServer& operator=(const EchoServer&) = delete;

  /// Empty when it listens.
  [[nodiscard]] const std::string& error() const { return error_; }
  [[nodiscard]] std::uint16_t port() const { return port_; }

  /// What the process has used so far, user and system, in nanoseconds.
  [[nodiscard]] std::int64_t cpu_ns() const;

  /// The memory that it has touched (VmRSS), in bytes.
  [[nodiscard]] double resident_bytes() const;

 private:
  void start(const EchoSubject& subject, int cpu, const std::vector<std::string>& more);

  pid_t pid_ = -1;
  clockid_t clock_ = 0;
  std::uint16_t port_ = 0;
  std::string error_;
};

}  // namespace pinion::bench
