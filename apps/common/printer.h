#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include <sys/types.h>

/// Prints to a standard stream on a thread of its own, so that nobody else waits for a terminal or
/// a pipe whose reader is slow or stands still.
///
/// Ownership:  one for each stream, made and finished by run_program (program.h).
/// Threading:  print() on any thread, lcores included; flush() and finish() on one.
/// Cost:       print() moves the text into a queue and wakes the thread.
/// Full:       kMostWaiting texts wait; of more, the oldest is lost.
/// Errors:     what can't be written is lost, and ends nothing.

namespace pinion::apps {

/// write(2) that waits for room, also where whoever shares the stream made it non-blocking.
ssize_t write_waiting(int fd, std::string_view text);

class Printer {
 public:
  explicit Printer(int fd);
  Printer(const Printer&) = delete;
  Printer& operator=(const Printer&) = delete;

  void print(std::string text);

  /// Waits until everything is written. False when the reader stands still: it took nothing for a
  /// second, and has no room.
  [[nodiscard]] bool flush();

  /// Flushes, and ends the thread. False when it is stuck in a write: then only _exit ends the
  /// process.
  [[nodiscard]] bool finish();

 private:
  /// How far printing has come: it doesn't change while the reader stands still.
  struct Place {
    std::uint64_t lines_written;
    int held_for_reader;
    friend bool operator==(const Place&, const Place&) = default;
  };

  [[nodiscard]] Place place() const;
  void run();
  void write_lines(const std::string& text);

  static constexpr std::size_t kMostWaiting = 256;

  int fd_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> waiting_;
  bool writing_ = false;
  bool ending_ = false;
  std::atomic<std::uint64_t> lines_written_ = 0;
  std::optional<Place> stuck_at_;  ///< Where the reader stood still.
  std::thread thread_;
};

}  // namespace pinion::apps
