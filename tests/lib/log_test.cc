#include <pinion/lib/log.h>

#include <algorithm>
#include <array>
#include <chrono>
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

TEST_F(Log, WritesLongLinesWhole) {
  const std::string body(10'000, 'x');
  const std::string text = captured([&] { log_info("{}", body); });
  EXPECT_NE(text.find("info  " + body + "\n"), std::string::npos);
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
