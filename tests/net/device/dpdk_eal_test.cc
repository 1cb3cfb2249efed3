#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <initializer_list>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "device/dpdk_log.h"
#include "device/dpdk_setup.h"
#include "dpdk_world.h"

namespace pinion::test {
namespace {

TEST(DpdkEal, ChecksBeforeItTouchesDpdk) {
  const auto little = DpdkEal::create({.memory = {.bytes = 1}});
  ASSERT_FALSE(little);
  EXPECT_EQ(little.error().code, ErrorCode::invalid_argument);
  const auto argument = DpdkEal::create({.arguments = {"--no-huge"}});
  ASSERT_FALSE(argument);
  EXPECT_NE(argument.error().what.find("'--no-huge'"), std::string::npos);
  // More than any machine that runs this has: an error, and DPDK can still be started.
  const auto huge = DpdkEal::create(
      {.memory = {.bytes = std::size_t{1} << 40, .pages = DpdkMemory::Pages::huge}});
  ASSERT_FALSE(huge);
  EXPECT_EQ(huge.error().code, ErrorCode::resource_exhausted);
  EXPECT_NE(huge.error().what.find("need 1048576 MiB of hugepages"), std::string::npos);
  static_cast<void>(the_eal());
}

TEST(DpdkEal, SaysThatAProcessHasItOnce) {
  static_cast<void>(the_eal());
  const auto second = DpdkEal::create({});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::already_exists);
  EXPECT_FALSE(second.error().hint.empty());
}

/// Starts an EAL in a process of its own, whose exit code says whether `judge` liked it.
template <class Judge>
void in_another_process(const DpdkOptions& options, Judge judge) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        auto eal = DpdkEal::create(options);
        std::_Exit(judge(eal) ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST(DpdkEalDeathTest, SaysWhatDpdkRefusesInItsWords) {
  in_another_process({.arguments = {"--vdev=net_tap0,no_such_argument=1", "--vdev", "nonsense"}},
                     [](const auto& eal) {
                       if (eal) return false;
                       std::fprintf(stderr, "%s\n", to_string(eal.error()).c_str());
                       return eal.error().what.starts_with("DPDK does not start: ") &&
                              eal.error().what.find("nonsense") != std::string::npos;
                     });
}

/// The folder that EAL makes for its files, wherever it does.
bool has_runtime_folder() {
  const char* const own = std::getenv("XDG_RUNTIME_DIR");
  for (const std::string place : {"/var/run", "/tmp", own == nullptr ? "/nowhere" : own}) {
    const std::string folder = place + "/dpdk/pinion-" + std::to_string(getpid());
    if (access(folder.c_str(), F_OK) == 0) return true;
  }
  return false;
}

TEST(DpdkEalDeathTest, LeavesNoFilesBehind) {
  in_another_process({}, [](auto& eal) {
    if (!eal) return false;
    eal->reset();
    return !has_runtime_folder();
  });
  in_another_process({.telemetry = true}, [](auto& eal) {
    if (!eal || !has_runtime_folder()) return false;
    eal->reset();
    return !has_runtime_folder();
  });
  in_another_process({.arguments = {"--vdev", "nonsense"}},
                     [](const auto& eal) { return !eal && !has_runtime_folder(); });
}

TEST(DpdkEalDeathTest, CannotBeStartedAgainAfterItsEnd) {
  in_another_process({}, [](auto& eal) {
    if (!eal) return false;
    eal->reset();
    const auto again = DpdkEal::create({});
    return !again && again.error().code == ErrorCode::already_exists;
  });
}

std::vector<unsigned> cpus_of_this_thread() {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
  std::vector<unsigned> cpus;
  for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

TEST(DpdkEalDeathTest, LeavesTheThreadAndItsSignalsAsTheyWere) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        sigset_t blocked;
        sigemptyset(&blocked);
        sigaddset(&blocked, SIGUSR2);
        pthread_sigmask(SIG_SETMASK, &blocked, nullptr);
        const std::vector<unsigned> before = cpus_of_this_thread();
        auto eal = DpdkEal::create({});
        sigset_t after;
        pthread_sigmask(SIG_SETMASK, nullptr, &after);
        const bool same_mask = sigismember(&after, SIGUSR2) == 1 &&
                               sigismember(&after, SIGTERM) == 0 &&
                               sigismember(&after, SIGRTMIN + 1) == 0;
        struct sigaction action{};
        sigaction(SIGRTMIN + 1, nullptr, &action);
        const bool all_well =
            eal && cpus_of_this_thread() == before && same_mask && action.sa_handler == SIG_DFL;
        eal = {};
        std::_Exit(all_well ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST(RealTimeSignalsInUse, LeavesWhatAnotherThreadSetsMeanwhile) {
  const int signal = SIGRTMIN + 2;
  struct sigaction action{};
  {
    const detail::RealTimeSignalsInUse in_use;
    sigaction(signal, nullptr, &action);
    EXPECT_NE(action.sa_handler, SIG_DFL) << "the driver would take it";
    EXPECT_NE(action.sa_handler, SIG_IGN) << "programs that are started would ignore it for ever";
    action = {};
    action.sa_handler = [](int) {};
    sigaction(signal, &action, nullptr);
  }
  struct sigaction after{};
  sigaction(signal, nullptr, &after);
  EXPECT_EQ(after.sa_handler, action.sa_handler);
  after.sa_handler = SIG_DFL;
  sigaction(signal, &after, nullptr);
}

TEST(RealTimeSignalsInUse, LosesNoSignalThatWaits) {
  sigset_t waiting;
  sigemptyset(&waiting);
  sigaddset(&waiting, SIGRTMIN + 3);
  sigset_t before;
  pthread_sigmask(SIG_BLOCK, &waiting, &before);
  ASSERT_EQ(raise(SIGRTMIN + 3), 0);
  {
    const detail::RealTimeSignalsInUse in_use;
  }
  const timespec at_once{};
  EXPECT_EQ(sigtimedwait(&waiting, nullptr, &at_once), SIGRTMIN + 3);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

/// What stands on the log when DPDK has said this and `ask` has asked for it or not.
template <class Ask>
std::string log_after(std::initializer_list<const char*> lines, Ask ask) {
  ::testing::internal::CaptureStderr();
  {
    detail::DpdkWords words;
    for (const char* const line : lines) EXPECT_TRUE(words.keep(line));
    ask(words);
  }
  return ::testing::internal::GetCapturedStderr();
}

TEST(DpdkWords, AreOnTheLogUnlessSomebodyAskedForThem) {
  const auto no_one = [](const detail::DpdkWords&) {};
  EXPECT_NE(log_after({"one", "two"}, no_one).find("warn  one; two"), std::string::npos);
  EXPECT_EQ(log_after({}, no_one), "");
  const auto asks = [](const detail::DpdkWords& words) { EXPECT_EQ(words.text(), "one; two"); };
  EXPECT_EQ(log_after({"one", "two"}, asks), "");
  const auto asks_early = [](detail::DpdkWords& words) {
    EXPECT_EQ(words.text(), "one");
    EXPECT_TRUE(words.keep("two"));
  };
  EXPECT_NE(log_after({"one"}, asks_early).find("warn  two\n"), std::string::npos);
  const auto forgives = [](const detail::DpdkWords& words) { words.forgive(); };
  EXPECT_EQ(log_after({"one"}, forgives), "");
  const auto nested = [](detail::DpdkWords& words) {
    {
      const detail::DpdkWords inner;
    }
    EXPECT_EQ(words.or_else("nothing"), "outer");
  };
  EXPECT_EQ(log_after({"outer"}, nested), "");
}

/// The signals that a thread has blocked, as the kernel prints them.
std::string blocked_of(const std::string& thread) {
  std::ifstream status("/proc/self/task/" + thread + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("SigBlk:")) return line.substr(line.find_last_of('\t') + 1);
  }
  return {};
}

TEST(DpdkEal, HasThreadsThatTakeNoSignalOfTheProgram) {
  static_cast<void>(the_eal());
  DIR* const folder = opendir("/proc/self/task");
  ASSERT_NE(folder, nullptr);
  int others = 0;
  while (const dirent* const entry = readdir(folder)) {
    const std::string thread = entry->d_name;
    std::string name;
    std::ifstream("/proc/self/task/" + thread + "/comm") >> name;
    if (!name.starts_with("eal-")) continue;
    ++others;
    const unsigned long long mask = std::stoull(blocked_of(thread), nullptr, 16);
    for (const int signal : {SIGTERM, SIGINT, SIGUSR1, SIGRTMIN + 1, SIGRTMAX}) {
      EXPECT_NE(mask & (1ULL << (signal - 1)), 0U) << name << " takes signal " << signal;
    }
  }
  closedir(folder);
  EXPECT_GE(others, 1);
}

TEST(DpdkThread, GivesBackWhatItsCachesHold) {
  const auto pool = make_pool();
  const std::size_t before = pool->available();
  std::thread other([&] {
    auto thread = DpdkThread::create(the_eal());
    ASSERT_TRUE(thread) << to_string(thread.error());
    EXPECT_EQ(DpdkThread::create(the_eal()).error().code, ErrorCode::already_exists);
    std::vector<PacketPtr> packets;
    for (int i = 0; i < 100; ++i) packets.emplace_back(pool->allocate());
    EXPECT_EQ(pool->lent(), 100U);
  });
  other.join();
  EXPECT_EQ(pool->lent(), 0U);
  EXPECT_EQ(pool->available(), before) << "packets are stuck in a cache of a thread that is gone";
}

TEST(DpdkPacketPool, LendsAllItHasAndTakesThemBack) {
  const auto pool = make_pool({.packets = 127, .packet_size = 2048});
  EXPECT_EQ(pool->capacity(), 127U);
  EXPECT_EQ(pool->available(), 127U);
  EXPECT_EQ(pool->buffer_size(), kPacketHeadroom + 2048);
  std::vector<PacketPtr> packets;
  for (std::size_t i = 0; i < 127; ++i) {
    packets.emplace_back(pool->allocate());
    ASSERT_TRUE(packets.back());
    EXPECT_EQ(pool->available(), 126 - i);
  }
  EXPECT_EQ(pool->allocate(), nullptr);
  EXPECT_EQ(pool->lent(), 127U);
  packets.clear();
  EXPECT_EQ(pool->available(), 127U);
  EXPECT_EQ(pool->lent(), 0U);
}

TEST(DpdkPacketPool, MakesPacketsThatAreWhatEveryPacketIs) {
  const auto pool = make_pool();
  PacketPtr packet(pool->allocate());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(packet.get()) % alignof(Packet), 0U);
  EXPECT_EQ(packet->size(), 0U);
  EXPECT_EQ(packet->headroom(), kPacketHeadroom);
  EXPECT_EQ(packet->tailroom(), 2048U);
  EXPECT_EQ(packet->true_size(), pool->buffer_size());
  EXPECT_FALSE(packet->shared());
  EXPECT_NE(packet->append(100), nullptr);
  packet->add_reference();
  EXPECT_TRUE(packet->shared());
  packet->release();
  EXPECT_FALSE(packet->shared());
  EXPECT_EQ(pool->lent(), 1U);
  packet->set_next_segment(pool->allocate());
  EXPECT_EQ(pool->lent(), 2U);
  packet.reset();
  EXPECT_EQ(pool->lent(), 0U);
}

TEST(DpdkPacketPool, RefusesWhatDoesNotFit) {
  EXPECT_EQ(DpdkPacketPool::create(the_eal(), {.packets = 63}).error().code,
            ErrorCode::invalid_argument);
  EXPECT_EQ(DpdkPacketPool::create(the_eal(), {.packet_size = 20'000}).error().code,
            ErrorCode::invalid_argument);
  const auto large = DpdkPacketPool::create(the_eal(), {.packets = 1'000'000});
  ASSERT_FALSE(large);
  EXPECT_EQ(large.error().code, ErrorCode::resource_exhausted);
  EXPECT_NE(large.error().hint.find("--memory=medium"), std::string::npos);
}

}  // namespace
}  // namespace pinion::test
