#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <pinion/eventloop/runtime.h>

namespace pinion {
namespace {

using namespace std::chrono_literals;

std::size_t usable_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof(set), &set);
  return static_cast<std::size_t>(CPU_COUNT(&set));
}

std::unique_ptr<Runtime> make_runtime(std::size_t lcores, RuntimeOptions options = {}) {
  options.cpus = *first_cpus(lcores);
  auto runtime = Runtime::create(std::move(options));
  if (!runtime) {
    ADD_FAILURE() << to_string(runtime.error());
    std::abort();
  }
  return std::move(*runtime);
}

RunReport run(Runtime& runtime, const Runtime::Setup& setup) {
  const Result<RunReport> report = runtime.run(setup);
  if (!report) {
    ADD_FAILURE() << to_string(report.error());
    return {};
  }
  return *report;
}

/// A connection-like thing that takes its time, or never ends.
struct Lingering : Drainable {
  void on_drain() override { ++drains; }
  void on_drain_expired() override { expired = true; }
  [[nodiscard]] bool drained() const override { return expired; }
  int drains = 0;
  bool expired = false;
};

TEST(Runtime, RunsEachLcorePinnedToItsCpuWithItsLoopCurrent) {
  const std::size_t count = std::min<std::size_t>(usable_cpus(), 4);
  const auto runtime = make_runtime(count);
  std::vector<std::atomic<int>> seen(count);
  const RunReport report = run(*runtime, [&](Lcore& lcore) -> Result<> {
    EXPECT_EQ(&Loop::current(), &lcore.loop());
    EXPECT_EQ(sched_getcpu(), static_cast<int>(lcore.cpu()));
    ++seen[lcore.index()];
    lcore.loop().stop();
    return {};
  });
  EXPECT_EQ(report.ending, Ending::stopped);
  EXPECT_EQ(report.exit_code(), 0);
  for (const auto& times : seen) EXPECT_EQ(times, 1);
}

TEST(Runtime, NothingServesWhenOneSetUpFailsAndItsErrorComesBack) {
  const std::size_t count = std::min<std::size_t>(usable_cpus(), 2);
  const auto runtime = make_runtime(count);
  std::atomic<int> kept_alive{0};
  std::atomic<bool> served{false};
  struct Kept {
    explicit Kept(std::atomic<int>& count) : alive(count) { ++alive; }
    ~Kept() { --alive; }
    std::atomic<int>& alive;
  };
  const auto serve = [](std::atomic<bool>& out) -> Task<> {
    out = true;
    co_return;
  };
  const auto result = runtime->run([&](Lcore& lcore) -> Result<> {
    lcore.keep(std::make_unique<Kept>(kept_alive));
    lcore.loop().spawn(serve(served));
    if (lcore.index() + 1 == count) {
      return fail(ErrorCode::already_exists, "port 7007 is in use", "--listen :7008");
    }
    return {};
  });
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().what, "port 7007 is in use");
  EXPECT_EQ(result.error().hint, "--listen :7008");
  EXPECT_FALSE(served);
  EXPECT_EQ(kept_alive, 0);
}

TEST(Runtime, WhatIsKeptDiesOnItsThreadNewestFirstBeforeTheLoop) {
  struct Kept {
    Kept(std::vector<int>& list, int name) : out(list), id(name), thread(pthread_self()) {}
    ~Kept() {
      EXPECT_TRUE(pthread_equal(thread, pthread_self()));
      EXPECT_NE(Loop::current_or_null(), nullptr);
      out.push_back(id);
    }
    std::vector<int>& out;
    int id;
    pthread_t thread;
  };
  const auto runtime = make_runtime(1);
  std::vector<int> deaths;
  run(*runtime, [&](Lcore& lcore) -> Result<> {
    lcore.keep(std::make_unique<Kept>(deaths, 1));
    lcore.keep(std::make_unique<Kept>(deaths, 2));
    lcore.loop().stop();
    return {};
  });
  EXPECT_EQ(deaths, (std::vector{2, 1}));
}

TEST(Runtime, TheFirstSignalDrainsAndTheMaskIsRestored) {
  const auto runtime = make_runtime(1);
  Lingering lingering;
  const RunReport report = run(*runtime, [&](Lcore& lcore) -> Result<> {
    lcore.loop().add_drainable(lingering);
    lingering.expired = true;  // It has finished as soon as it is asked.
    kill(getpid(), SIGTERM);
    return {};
  });
  EXPECT_EQ(report.ending, Ending::drained);
  EXPECT_EQ(report.signal, SIGTERM);
  EXPECT_EQ(report.exit_code(), 0);
  EXPECT_EQ(lingering.drains, 1);
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  EXPECT_EQ(sigismember(&mask, SIGTERM), 0);
  EXPECT_EQ(sigismember(&mask, SIGINT), 0);
}

TEST(Runtime, WhatDoesNotFinishIsResetAtTheDrainTimeoutWithExitCodeZero) {
  RuntimeOptions options;
  options.loop.drain_timeout = 20ms;
  const auto runtime = make_runtime(1, options);
  Lingering lingering;
  runtime->request_drain();
  const RunReport report = run(*runtime, [&](Lcore& lcore) -> Result<> {
    lcore.loop().add_drainable(lingering);
    return {};
  });
  EXPECT_TRUE(lingering.expired);
  EXPECT_EQ(report.ending, Ending::drain_expired);
  EXPECT_EQ(report.exit_code(), 0);
}

TEST(Runtime, ASecondSignalStopsADrainThatWouldLastForEver) {
  RuntimeOptions options;
  options.loop.drain_timeout = kNoTimeout;
  const auto runtime = make_runtime(1, options);
  struct Resignalling : Lingering {
    void on_drain() override { kill(getpid(), SIGINT); }
  } lingering;
  const RunReport report = run(*runtime, [&](Lcore& lcore) -> Result<> {
    lcore.loop().add_drainable(lingering);
    kill(getpid(), SIGTERM);
    return {};
  });
  EXPECT_EQ(report.ending, Ending::stopped);
  EXPECT_EQ(report.exit_code(), 128 + SIGINT);
  EXPECT_FALSE(lingering.expired);
}

TEST(Runtime, ALoopThatWasStoppedOutweighsOneWhoseDrainExpired) {
  if (!first_cpus(2)) GTEST_SKIP() << "one CPU only";
  struct Lasting : Drainable {
    void on_drain() override {}
    void on_drain_expired() override {}
    [[nodiscard]] bool drained() const override { return false; }
  } lasting;
  RuntimeOptions options;
  options.cpus = *first_cpus(2);
  options.handle_signals = false;
  options.loop.drain_timeout = 10ms;
  options.loop.wind_down = 10ms;
  const auto runtime = Runtime::create(options);
  ASSERT_TRUE(runtime);
  const auto report = (*runtime)->run([&](Lcore& lcore) -> Result<> {
    if (lcore.index() == 0) {
      lcore.loop().stop();
    } else {
      lcore.loop().add_drainable(lasting);
      lcore.loop().request_drain();
    }
    return {};
  });
  ASSERT_TRUE(report);
  EXPECT_EQ(report->ending, Ending::stopped);
}

TEST(Runtime, MayBeStoppedFromAnotherThreadAndRunAgain) {
  RuntimeOptions options;
  options.handle_signals = false;
  options.loop.idle = IdlePolicy::park;
  const auto runtime = make_runtime(1, options);
  for (int i = 0; i < 3; ++i) {
    std::thread stopper([&] { runtime->request_stop(); });
    EXPECT_EQ(run(*runtime, [](Lcore&) -> Result<> { return {}; }).ending, Ending::stopped);
    stopper.join();
  }
}

TEST(Runtime, LcoresPostToEachOtherToTheEnd) {
  if (usable_cpus() < 2) GTEST_SKIP() << "one CPU only";
  constexpr int kRounds = 5000;
  struct Ball : Message {
    Ball() : Message(&on_message) {}
    static void on_message(Message& message) noexcept {
      Ball& self = static_cast<Ball&>(message);
      if (++self.rounds >= kRounds) {
        self.loops[0].load()->stop();
        self.loops[1].load()->stop();
        return;
      }
      self.loops[static_cast<unsigned>(self.rounds) % 2].load()->post(self);
    }
    std::array<std::atomic<Loop*>, 2> loops{};
    int rounds = 0;
  } ball;
  std::atomic<int> ready{0};
  const auto runtime = make_runtime(2);
  run(*runtime, [&](Lcore& lcore) -> Result<> {
    ball.loops[lcore.index()] = &lcore.loop();
    if (++ready == 2) lcore.loop().post(ball);
    return {};
  });
  EXPECT_EQ(ball.rounds, kRounds);
}

TEST(Runtime, CpusThatCannotBeUsedAreRefusedWithThoseThatCan) {
  const auto none = Runtime::create({});
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().hint.find("choose from"), std::string::npos);
  const auto unknown = Runtime::create({.cpus = {1023}});
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().what, "this process may not use CPU 1023");
  const unsigned cpu = first_cpus(1)->front();
  const auto twice = Runtime::create({.cpus = {cpu, cpu}});
  ASSERT_FALSE(twice);
  EXPECT_EQ(twice.error().what, "two lcores on CPU " + std::to_string(cpu));
  RuntimeOptions sharing{.cpus = {cpu, cpu}, .loop = {.idle = IdlePolicy::spin}};
  sharing.allow_shared_cpus = true;
  const auto spinning = Runtime::create(sharing);
  ASSERT_FALSE(spinning);
  EXPECT_EQ(spinning.error().hint, "idle policy park or adaptive, or a CPU for each lcore");
  const auto too_many = first_cpus(usable_cpus() + 1);
  ASSERT_FALSE(too_many);
  EXPECT_EQ(too_many.error().hint, "choose 1 to " + std::to_string(usable_cpus()) + " lcores");
}

/// What the process writes to stderr while this lives.
class Errors {
 public:
  Errors() : before_(dup(STDERR_FILENO)), file_(std::tmpfile()) {
    std::fflush(stderr);
    dup2(fileno(file_), STDERR_FILENO);
  }
  ~Errors() {
    dup2(before_, STDERR_FILENO);
    close(before_);
    std::fclose(file_);
  }
  [[nodiscard]] std::string text() const {
    std::string read(1 << 16, '\0');
    const ssize_t length = pread(fileno(file_), read.data(), read.size(), 0);
    read.resize(length < 0 ? 0 : static_cast<std::size_t>(length));
    return read;
  }
  [[nodiscard]] bool hold(const std::string& what) const {
    return text().find(what) != std::string::npos;
  }

 private:
  int before_;
  std::FILE* file_;
};

RuntimeOptions sharing_a_cpu(std::size_t lcores) {
  RuntimeOptions options;
  options.cpus.assign(lcores, first_cpus(1)->front());
  options.allow_shared_cpus = true;
  options.loop.idle = IdlePolicy::park;
  return options;
}

TEST(Runtime, OneLineTellsOfAllLcoresThatShareCpus) {
  const Errors errors;
  const std::string cpu = std::to_string(first_cpus(1)->front());
  RuntimeOptions options = sharing_a_cpu(60);
  ASSERT_TRUE(Runtime::create(options));
  const std::string text = errors.text();
  EXPECT_TRUE(errors.hold(" 60 lcores share CPU " + cpu + ": ")) << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
  // What is refused in the end isn't warned of.
  options.cpus.push_back(1023);
  EXPECT_FALSE(Runtime::create(options));
  EXPECT_EQ(errors.text(), text);
}

/// Ends once stderr holds all that, at the latest after a minute.
Task<> stop_when_said(Runtime& runtime, const Errors& errors, std::vector<std::string> words) {
  for (int i = 0; i < 60'000; ++i) {
    co_await sleep_for(1ms);
    const std::string text = errors.text();
    const bool said = std::all_of(words.begin(), words.end(), [&](const std::string& word) {
      return text.find(word) != std::string::npos;
    });
    if (said) break;
  }
  runtime.request_stop();
}

TEST(Runtime, ASignalReportsOnEachLcoreWithWhatTheProgramAddsAndEndsNothing) {
  const auto runtime = Runtime::create(sharing_a_cpu(2));
  ASSERT_TRUE(runtime);
  const Errors errors;
  const std::vector<std::string> words = {"the program\n  seven of 0", "the program\n  seven of 1"};
  const RunReport report = run(**runtime, [&](Lcore& lcore) -> Result<> {
    lcore.add_report([&lcore](ReportText& text) { text.add("seven of {}", lcore.index()); });
    if (lcore.index() == 0) {
      lcore.loop().spawn(stop_when_said(**runtime, errors, words), "watching");
      kill(getpid(), SIGUSR1);
    }
    return {};
  });
  EXPECT_EQ(report.ending, Ending::stopped);
  EXPECT_EQ(report.signal, 0);
  const std::string text = errors.text();
  for (const std::string& word : words) EXPECT_TRUE(errors.hold(word)) << text;
  for (const char* const word :
       {"lcore 0 on CPU ", "lcore 1 on CPU ", "\n  turns ", "\n  overlong ", "\n  parks ",
        "\n  spins ", "\n  messages ", "\n  tasks     1 live, 1 spawned", "\n  timers ",
        "\n  wheel ", "\n  ring "}) {
    EXPECT_TRUE(errors.hold(word)) << word << "\n" << text;
  }
  EXPECT_FALSE(errors.hold("drain")) << text;
}

TEST(Runtime, AReportNamesAnLcoreThatHangsAndWaitsForNone) {
  const auto runtime = Runtime::create(sharing_a_cpu(2));
  ASSERT_TRUE(runtime);
  const Errors errors;
  std::atomic<bool> seen{false};
  const auto hang = [](Runtime& asked, const Errors& said, std::atomic<bool>& out) -> Task<> {
    asked.request_report();
    // Until both have been reported on, or for a minute.
    for (int i = 0; i < 60'000 && !out; ++i) {
      std::this_thread::sleep_for(1ms);
      out = said.hold("lcore 0 on CPU") && said.hold("task the one that hangs (0x");
    }
    co_return;
  };
  run(**runtime, [&](Lcore& lcore) -> Result<> {
    if (lcore.index() == 1) lcore.loop().spawn(hang(**runtime, errors, seen), "the one that hangs");
    if (lcore.index() == 0) {
      lcore.loop().spawn(stop_when_said(**runtime, errors, {"lcore 1 on CPU", "turns"}));
    }
    return {};
  });
  EXPECT_TRUE(seen) << errors.text();
}

TEST(Runtime, AnLcoreThatAnswersLateIsReportedOnThen) {
  const auto runtime = Runtime::create(sharing_a_cpu(1));
  ASSERT_TRUE(runtime);
  const Errors errors;
  const auto hang = [](Runtime& asked, const Errors& said) -> Task<> {
    asked.request_report();
    for (int i = 0; i < 60'000 && !said.hold("hasn't answered"); ++i) {
      std::this_thread::sleep_for(1ms);
    }
    co_await sleep_for(1ms);
    for (int i = 0; i < 60'000 && !said.hold("\n  turns "); ++i) co_await sleep_for(1ms);
    asked.request_stop();
  };
  run(**runtime, [&](Lcore& lcore) -> Result<> {
    lcore.loop().spawn(hang(**runtime, errors));
    return {};
  });
  EXPECT_TRUE(errors.hold("hasn't answered")) << errors.text();
  EXPECT_TRUE(errors.hold("\n  turns ")) << errors.text();
}

TEST(Runtime, AnLcoreThatHangsIsNamedHoweverOftenReportsAreAskedFor) {
  const auto runtime = Runtime::create(sharing_a_cpu(1));
  ASSERT_TRUE(runtime);
  const Errors errors;
  bool named = false;
  const auto hang = [](Runtime& asked, const Errors& said, bool& out) -> Task<> {
    for (int i = 0; i < 60'000 && !out; ++i) {
      asked.request_report();
      std::this_thread::sleep_for(1ms);
      out = said.hold("hasn't answered");
    }
    asked.request_stop();
    co_return;
  };
  run(**runtime, [&](Lcore& lcore) -> Result<> {
    lcore.loop().spawn(hang(**runtime, errors, named));
    return {};
  });
  EXPECT_TRUE(named) << errors.text();
}

TEST(Runtime, AnLcoreThatHasEndedIsSaidToHaveEndedNotToHang) {
  const auto runtime = Runtime::create(sharing_a_cpu(2));
  ASSERT_TRUE(runtime);
  const Errors errors;
  std::atomic<bool> stopping{false};
  const auto stop = [](std::atomic<bool>& out) -> Task<> {
    Loop::current().stop();
    out = true;
    co_return;
  };
  const std::vector<std::string> both = {"lcore 0 on CPU", "lcore 1 on CPU"};
  const auto ask = [](Runtime& asked, const Errors& said, std::atomic<bool>& begin,
                      const std::vector<std::string>& words) -> Task<> {
    while (!begin) co_await sleep_for(1ms);
    asked.request_report();
    Loop::current().spawn(stop_when_said(asked, said, words));
  };
  run(**runtime, [&](Lcore& lcore) -> Result<> {
    if (lcore.index() == 1) lcore.loop().spawn(stop(stopping));
    if (lcore.index() == 0) lcore.loop().spawn(ask(**runtime, errors, stopping, both));
    return {};
  });
  const std::string cpu = std::to_string(first_cpus(1)->front());
  EXPECT_TRUE(errors.hold("lcore 1 on CPU " + cpu + " has ended")) << errors.text();
  EXPECT_FALSE(errors.hold("hasn't answered")) << errors.text();
}

/// What is kept to the end, when nobody waits for signals any more.
struct AskingAtTheEnd {
  ~AskingAtTheEnd() { kill(getpid(), SIGUSR1); }
};

TEST(Runtime, AReportAskedForAtTheEndDoesNotEndTheProcess) {
  const auto runtime = make_runtime(1);
  const RunReport report = run(*runtime, [](Lcore& lcore) -> Result<> {
    lcore.keep(std::make_unique<AskingAtTheEnd>());
    lcore.loop().stop();
    return {};
  });
  EXPECT_EQ(report.ending, Ending::stopped);
  EXPECT_EQ(report.signal, 0);
}

TEST(Runtime, ASignalThatTheCallerHeldStaysPendingAtTheEnd) {
  const auto runtime = make_runtime(1);
  sigset_t held;
  sigset_t before;
  sigemptyset(&held);
  sigaddset(&held, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &held, &before);
  run(*runtime, [](Lcore& lcore) -> Result<> {
    lcore.keep(std::make_unique<AskingAtTheEnd>());
    lcore.loop().stop();
    return {};
  });
  const timespec none{};
  EXPECT_EQ(sigtimedwait(&held, nullptr, &none), SIGUSR1);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

TEST(ReportText, KeepsWithinItsBound) {
  ReportText text;
  for (int i = 0; i < 1000; ++i) text.add("{} ", "0123456789");
  EXPECT_EQ(text.text().size(), ReportText::kMost);
  text.clear();
  EXPECT_EQ(text.text(), "");
}

}  // namespace
}  // namespace pinion
