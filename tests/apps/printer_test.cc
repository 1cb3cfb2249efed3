#include "common/printer.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <future>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace pinion::apps {
namespace {

/// A pipe of one page.
class Pipe {
 public:
  Pipe() {
    EXPECT_EQ(pipe2(ends_.data(), O_CLOEXEC), 0);
    EXPECT_GE(fcntl(writer(), F_SETPIPE_SZ, 4096), 0);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    close(ends_[0]);
    close_writer();
  }

  [[nodiscard]] int writer() const { return ends_[1]; }
  void close_writer() {
    if (ends_[1] >= 0) close(ends_[1]);
    ends_[1] = -1;
  }
  void fill() const {
    const int flags = fcntl(writer(), F_GETFL);
    fcntl(writer(), F_SETFL, flags | O_NONBLOCK);
    while (write(writer(), "x", 1) == 1) {
    }
    fcntl(writer(), F_SETFL, flags);
  }
  /// Everything until the writing end is closed, but what fill() put in.
  [[nodiscard]] std::string read_all() const {
    std::string text;
    std::array<char, 512> part{};
    for (ssize_t got = 0; (got = read(ends_[0], part.data(), part.size())) > 0;) {
      text.append(part.data(), static_cast<std::size_t>(got));
    }
    return text.substr(text.find_first_not_of('x'));
  }

 private:
  std::array<int, 2> ends_{-1, -1};
};

TEST(Printer, PrintsInOrderAndWhole) {
  Pipe pipe;
  Printer printer(pipe.writer());
  std::string expected;
  for (int i = 0; i < 20; ++i) {
    const std::string text = "line " + std::to_string(i) + "\nand a part";
    printer.print(text);
    expected += text;
  }
  EXPECT_TRUE(printer.finish());
  pipe.close_writer();
  EXPECT_EQ(pipe.read_all(), expected);
}

TEST(Printer, NeverWaitsForAReaderThatStandsStillAndKeepsTheNewest) {
  Pipe pipe;
  pipe.fill();
  Printer printer(pipe.writer());
  for (int i = 0; i < 1000; ++i) printer.print(std::to_string(i) + "\n");
  EXPECT_FALSE(printer.flush());
  EXPECT_FALSE(printer.finish());

  auto text = std::async(std::launch::async, [&pipe] { return pipe.read_all(); });
  while (!printer.finish()) {  // It goes on when the reader does.
  }
  pipe.close_writer();
  const std::string printed = text.get();
  EXPECT_TRUE(printed.ends_with("\n998\n999\n")) << printed;
  EXPECT_LT(std::count(printed.begin(), printed.end(), '\n'), 300);
}

TEST(Printer, AReaderThatLeftOrADeviceThatIsFullIsNothingToWaitFor) {
  const int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(full, 0);
  Printer printer(full);
  for (int i = 0; i < 1000; ++i) printer.print("lost\n");
  EXPECT_TRUE(printer.finish());
  close(full);
}

}  // namespace
}  // namespace pinion::apps
