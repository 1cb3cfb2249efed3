#include "printer.h"

#include <poll.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <string_view>
#include <system_error>
#include <utility>

namespace pinion::apps {
namespace {

/// How long a reader without room may take nothing before it counts as standing still.
constexpr std::chrono::seconds kPatience{1};

/// False when a write would wait.
bool has_room(int fd) {
  pollfd wait{.fd = fd, .events = POLLOUT, .revents = 0};
  return poll(&wait, 1, 0) != 0;
}

/// What a terminal, a socket or a pipe holds for its reader.
int held_for_reader(int fd) {
  int bytes = 0;
  return ioctl(fd, TIOCOUTQ, &bytes) == 0 || ioctl(fd, FIONREAD, &bytes) == 0 ? bytes : 0;
}

}  // namespace

ssize_t write_waiting(int fd, std::string_view text) {
  for (;;) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written >= 0) return written;
    if (errno == EAGAIN) {
      pollfd wait{.fd = fd, .events = POLLOUT, .revents = 0};
      if (poll(&wait, 1, -1) < 0 && errno != EINTR) return -1;
    } else if (errno != EINTR) {
      return -1;
    }
  }
}

Printer::Printer(int fd) : fd_(fd) {
  // Signals are for the thread that waits for them.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error&) {
    // No thread is left for this user: print() writes by itself.
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Printer::print(std::string text) {
  if (!thread_.joinable()) return write_lines(text);
  const std::lock_guard lock(mutex_);
  if (waiting_.size() == kMostWaiting) waiting_.pop_front();
  waiting_.push_back(std::move(text));
  changed_.notify_all();
}

bool Printer::flush() {
  std::unique_lock lock(mutex_);
  if (stuck_at_ == place() && !has_room(fd_)) return false;
  for (;;) {
    const Place before = place();
    const auto all_written = [this] { return waiting_.empty() && !writing_; };
    if (changed_.wait_for(lock, kPatience, all_written)) return true;
    // A machine that is too busy to run the thread is no reader that stands still.
    if (place() == before && !has_room(fd_)) {
      stuck_at_ = before;
      return false;
    }
  }
}

Printer::Place Printer::place() const {
  return {.lines_written = lines_written_, .held_for_reader = held_for_reader(fd_)};
}

bool Printer::finish() {
  if (!thread_.joinable()) return true;
  if (!flush()) return false;
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  thread_.join();
  return true;
}

void Printer::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ending_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    const std::string text = std::move(waiting_.front());
    waiting_.pop_front();
    writing_ = true;
    lock.unlock();
    write_lines(text);
    lock.lock();
    writing_ = false;
    changed_.notify_all();
  }
}

/// A line at a time: so that what a reader takes shows, and lines of several processes on one pipe
/// don't mix.
void Printer::write_lines(const std::string& text) {
  std::string_view rest = text;
  while (!rest.empty()) {
    std::string_view line = rest.substr(0, rest.find('\n') + 1);
    if (line.empty()) line = rest;
    const ssize_t written = write_waiting(fd_, line);
    if (written <= 0) return;
    ++lines_written_;
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace pinion::apps
