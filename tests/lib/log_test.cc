#include <pinion/lib/log.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstdio>
#include <future>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace pinion {
namespace {

constexpr std::string_view kTime = "0000-00-00T00:00:00.000000Z ";

/// Whether `line` starts like kTime, with any digits.
bool starts_with_time(std::string_view line) {
  std::string start(line.substr(0, kTime.size()));
  const auto is_digit = [](char character) { return character >= '0' && character <= '9'; };
  std::replace_if(start.begin(), start.end(), is_digit, '0');
  return start == kTime;
}

std::string after_time(const std::string& line) {
  return line.substr(kTime.size());
}

class Log : public testing::Test {
 protected:
  void TearDown() override { set_log_level(LogLevel::info); }

  template <class Body>
  std::string captured(const Body& body) {
    testing::internal::CaptureStderr();
    body();
    return testing::internal::GetCapturedStderr();
  }
};

TEST_F(Log, WritesTimeLevelAndText) {
  const std::string line = captured([] { log_warn("{} of {} in use", 950, 1000); });
  EXPECT_TRUE(starts_with_time(line)) << line;
  EXPECT_EQ(after_time(line), "warn  950 of 1000 in use\n");
}

TEST_F(Log, DropsWhatIsBelowTheLevel) {
  EXPECT_EQ(log_level(), LogLevel::info);
  EXPECT_EQ(captured([] { log_debug("no"); }), "");
  EXPECT_NE(captured([] { log_info("yes"); }), "");
  set_log_level(LogLevel::debug);
  EXPECT_NE(captured([] { log_debug("yes"); }), "");
  set_log_level(LogLevel::error);
  EXPECT_EQ(captured([] { log_warn("no"); }), "");
  EXPECT_NE(captured([] { log_error("yes"); }), "");
  set_log_level(LogLevel::off);
  EXPECT_EQ(captured([] { log_error("no"); }), "");
}

TEST_F(Log, LetsNobodyForgeALine) {
  const std::string text = captured([] { log_info("{}", "a\nb\r\x1b[31m\x7f\tc"); });
  EXPECT_NE(text.find("info  a\n  b??[31m?\tc\n"), std::string::npos) << text;
}

TEST_F(Log, NeverWaitsForAReader) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe2(pipe.data(), O_CLOEXEC | O_NONBLOCK), 0);
  const std::string page(4096, 'x');
  while (::write(pipe[1], page.data(), page.size()) > 0) {
  }
  ASSERT_EQ(::fcntl(pipe[1], F_SETFL, 0), 0);
  const int before = ::dup(STDERR_FILENO);
  ASSERT_EQ(::dup2(pipe[1], STDERR_FILENO), STDERR_FILENO);
  auto logged = std::async(std::launch::async, [] { log_info("{}", std::string(10'000, 'y')); });
  const bool waits = logged.wait_for(std::chrono::seconds(10)) != std::future_status::ready;
  // What waits ends when the reader is gone.
  std::signal(SIGPIPE, SIG_IGN);
  ::close(pipe[0]);
  logged.wait();
  ::dup2(before, STDERR_FILENO);
  ::close(before);
  ::close(pipe[1]);
  EXPECT_FALSE(waits);
}

TEST_F(Log, CutsWhatAPipeWouldNotTakeInOnePiece) {
  const std::size_t most = PIPE_BUF - kTime.size() - std::string_view("info  \n").size();
  const std::string fits(most, 'x');
  EXPECT_EQ(after_time(captured([&] { log_info("{}", fits); })), "info  " + fits + "\n");
  for (const std::size_t size : {most + 1, std::size_t{10'000}}) {
    const std::string text = captured([&] { log_info("{}", std::string(size, 'x')); });
    EXPECT_EQ(text.size(), static_cast<std::size_t>(PIPE_BUF));
    EXPECT_TRUE(text.ends_with("xx [cut]\n"));
  }
}

/// A pipe, as journals and containers have for stderr.
TEST_F(Log, KeepsLongLinesOfTwoThreadsApartInAPipe) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe2(pipe.data(), O_CLOEXEC), 0);
  const int before = ::dup(STDERR_FILENO);
  ASSERT_EQ(::dup2(pipe[1], STDERR_FILENO), STDERR_FILENO);
  ::close(pipe[1]);
  auto text = std::async(std::launch::async, [from = pipe[0]] {
    std::string all;
    std::array<char, 1500> some{};
    for (ssize_t got = 0; (got = ::read(from, some.data(), some.size())) > 0;) {
      all.append(some.data(), static_cast<std::size_t>(got));
    }
    return all;
  });
  const auto log_many = [](char letter) {
    for (int line = 0; line < 200; ++line) log_info("{}", std::string(10'000, letter));
  };
  std::thread other(log_many, 'a');
  log_many('b');
  other.join();
  ::dup2(before, STDERR_FILENO);
  ::close(before);
  std::istringstream lines(text.get());
  ::close(pipe[0]);
  for (std::string line; std::getline(lines, line);) {
    ASSERT_TRUE(starts_with_time(line)) << line;
    const std::string body = after_time(line).substr(6);
    ASSERT_EQ(body.find(body.front() == 'a' ? 'b' : 'a'), std::string::npos);
    ASSERT_TRUE(body.ends_with(" [cut]"));
  }
}

TEST_F(Log, LeavesErrnoAlone) {
  const int before = ::dup(STDERR_FILENO);
  ::close(STDERR_FILENO);
  errno = ENOENT;
  log_info("a line that can't be written");
  const int after = errno;
  ::dup2(before, STDERR_FILENO);
  ::close(before);
  EXPECT_EQ(after, ENOENT);
}

TEST_F(Log, KeepsLinesOfManyThreadsApart) {
  constexpr int kThreads = 4;
  constexpr int kLines = 200;
  const std::string text = captured([] {
    std::vector<std::thread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([thread] {
        for (int line = 0; line < kLines; ++line) log_info("thread {} line {} end", thread, line);
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
  std::istringstream lines(text);
  int count = 0;
  std::vector<int> next(kThreads);
  for (std::string line; std::getline(lines, line); ++count) {
    ASSERT_TRUE(starts_with_time(line)) << line;
    int thread = -1;
    ASSERT_EQ(std::sscanf(line.c_str() + kTime.size(), "info  thread %d", &thread), 1) << line;
    const int number = next.at(static_cast<std::size_t>(thread))++;
    ASSERT_EQ(after_time(line), fmt::format("info  thread {} line {} end", thread, number));
  }
  EXPECT_EQ(count, kThreads * kLines);
}

}  // namespace
}  // namespace pinion
