#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <pinion/net/dpdk_eal.h>

#include "device/dpdk_arguments.h"
#include "device/dpdk_checks.h"
#include "device/dpdk_port_plan.h"

// What is decided before DPDK is touched.

namespace pinion {
namespace {

using Pages = DpdkMemory::Pages;
constexpr std::size_t kMiB = std::size_t{1} << 20;

TEST(DpdkMemory, HasNamesAndSizes) {
  EXPECT_EQ(*DpdkMemory::parse("small"), (DpdkMemory{64 * kMiB, Pages::ordinary}));
  EXPECT_EQ(*DpdkMemory::parse("medium"), (DpdkMemory{512 * kMiB, Pages::huge}));
  EXPECT_EQ(*DpdkMemory::parse("large"), (DpdkMemory{2048 * kMiB, Pages::huge}));
  EXPECT_EQ(*DpdkMemory::parse("256M"), (DpdkMemory{256 * kMiB, Pages::either}));
  EXPECT_EQ(*DpdkMemory::parse("4G"), (DpdkMemory{4096 * kMiB, Pages::either}));
}

TEST(DpdkMemory, RefusesWhatIsNoAmountOrTooMuchOrTooLittle) {
  for (const char* text : {"", "tiny", "256", "M", "256MB", "256m", "-1G", "1.5G", "31M", "0G",
                           "1025G", "18446744073709551615G", "99999999999999999999G"}) {
    const Result<DpdkMemory> memory = DpdkMemory::parse(text);
    ASSERT_FALSE(memory) << text;
    EXPECT_EQ(memory.error().code, ErrorCode::invalid_argument);
    EXPECT_NE(memory.error().hint.find("small, medium, large"), std::string::npos);
  }
}

TEST(DpdkMemory, TakesHugepagesWhereTheyAreWantedAndFree) {
  EXPECT_FALSE(*detail::choose_hugepages({64 * kMiB, Pages::ordinary}, 64 * kMiB));
  EXPECT_TRUE(*detail::choose_hugepages({64 * kMiB, Pages::either}, 64 * kMiB));
  EXPECT_FALSE(*detail::choose_hugepages({64 * kMiB, Pages::either}, 64 * kMiB - 1));
  EXPECT_TRUE(*detail::choose_hugepages({64 * kMiB, Pages::huge}, 64 * kMiB));
}

TEST(DpdkMemory, SaysHowManyHugepagesAreMissingAndHowToGetThem) {
  const Result<bool> chosen = detail::choose_hugepages({512 * kMiB, Pages::huge}, 128 * kMiB);
  ASSERT_FALSE(chosen);
  EXPECT_EQ(to_string(chosen.error()),
            "error: need 512 MiB of hugepages, 128 MiB free\n"
            "fix: sysctl -w vm.nr_hugepages=256, or --memory=small");
}

TEST(DpdkMemory, CountsFreeHugepagesOfEverySize) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("pinion-huge-" + std::to_string(getpid()));
  for (const auto& [size, free] : {std::pair{"2048kB", 3}, {"1048576kB", 1}, {"none", 7}}) {
    const std::filesystem::path pages = folder / (std::string("hugepages-") + size);
    std::filesystem::create_directories(pages);
    std::ofstream(pages / "free_hugepages") << free << '\n';
  }
  EXPECT_EQ(detail::free_hugepage_bytes(folder.c_str()), (3 * 2 + 1024) * kMiB);
  std::filesystem::remove_all(folder);
  EXPECT_EQ(detail::free_hugepage_bytes(folder.c_str()), 0U);
}

bool has(const std::vector<std::string>& arguments, const std::string& argument) {
  return std::ranges::find(arguments, argument) != arguments.end();
}

TEST(EalArguments, TakeOrdinaryPagesWithoutFiles) {
  const std::vector<unsigned> cpus = {1, 3};
  const auto arguments = detail::eal_arguments({}, false, cpus, "pinion-7");
  const std::vector<std::string> expected = {
      "pinion", "--lcores=0@(1,3)", "--no-pci",    "--iova-mode=va", "--file-prefix=pinion-7", "-m",
      "64",     "--no-huge",        "--no-shconf", "--no-telemetry"};
  EXPECT_EQ(arguments, expected);
}

TEST(EalArguments, TakeHugepagesWithoutFiles) {
  const std::vector<unsigned> cpus = {0};
  const DpdkOptions options{.memory = {65 * kMiB + 1, Pages::huge},
                            .telemetry = true,
                            .arguments = {"--log-level=pmd.net.tap:8"}};
  const auto arguments = detail::eal_arguments(options, true, cpus, "pinion-7");
  EXPECT_TRUE(has(arguments, "--in-memory"));
  EXPECT_TRUE(has(arguments, "--single-file-segments"));
  EXPECT_TRUE(has(arguments, "66")) << "rounded up to MiB";
  EXPECT_FALSE(has(arguments, "--no-huge"));
  EXPECT_FALSE(has(arguments, "--no-shconf")) << "22.11 refuses it beside --in-memory";
  EXPECT_FALSE(has(arguments, "--no-telemetry"));
  EXPECT_EQ(arguments.back(), "--log-level=pmd.net.tap:8") << "the user's come last";
}

TEST(EalArguments, RefuseWhatPinionDecides) {
  for (const char* argument : {"-m",
                               "-m64",
                               "--no-huge",
                               "--in-memory",
                               "--in-mem",
                               "-l0",
                               "-c3",
                               "--lcores=0@1",
                               "--lcor=0",
                               "--lc=0@0",
                               "--te",
                               "--in",
                               "-vm64",
                               "-vvl0",
                               "-hc1",
                               "--file-prefix=x",
                               "--file",
                               "-l",
                               "--proc-type=secondary",
                               "--no-telemetry"}) {
    const std::vector<std::string> given = {"--log-level=8", argument};
    const Result<> checked = detail::check_eal_arguments(given);
    ASSERT_FALSE(checked) << argument;
    EXPECT_NE(checked.error().what.find('\'' + std::string(argument) + '\''), std::string::npos);
    EXPECT_FALSE(checked.error().hint.empty());
  }
  const std::vector<std::string> others = {
      "--log-level=8", "--vdev=net_null0",       "-d", "x.so", "-dm.so", "-v", "-h",
      "-n4",           "--vdev=net_null1,copy=1"};
  EXPECT_TRUE(detail::check_eal_arguments(others));
}

Result<DpdkPortPlan> plan_of(std::string_view text, std::size_t interface_mtu = 1500) {
  return DpdkPortPlan::make(*PortName::parse(text), interface_mtu);
}

TEST(DpdkPortPlan, TellsTheDriverWhatThePortIs) {
  const auto tap = plan_of("tap:ptap0,mtu=1504,mac=02:00:00:00:00:2a", 0);
  ASSERT_TRUE(tap);
  EXPECT_EQ(tap->vdev, "net_tap_ptap0");
  EXPECT_EQ(tap->arguments, "iface=ptap0");
  EXPECT_EQ(tap->mtu, 1504U);
  EXPECT_EQ(tap->mac, (MacAddress{2, 0, 0, 0, 0, 42}));

  const auto packet = plan_of("af_packet:veth0,mtu=1400");
  ASSERT_TRUE(packet);
  EXPECT_EQ(packet->vdev, "net_af_packet_veth0");
  EXPECT_EQ(packet->arguments, "iface=veth0,blocksz=4096,framesz=2048,framecnt=512");
  EXPECT_EQ(packet->mtu, 1400U);
  EXPECT_EQ(plan_of("af_packet:veth0", 1300)->mtu, 1300U) << "the interface's";
  EXPECT_EQ(plan_of("af_packet:veth0,mtu=1500", 9000)->mtu, 1500U);
  EXPECT_EQ(plan_of("tap:ptap0", 0)->mtu, 1500U);
}

TEST(DpdkPortPlan, RefusesSettingsThatAreWrongOrOfAnotherKind) {
  for (const char* text :
       {"tap:a,mtu=67", "tap:a,mtu=1505", "af_packet:a,mtu=1501", "tap:a,mtu=99999999999999999999",
        "tap:a,mtu=x", "tap:a,mtu=1500x", "tap:a,mac=03:00:00:00:00:01",
        "tap:a,mac=00:00:00:00:00:00", "tap:a,mac=02:00:00:00:00", "tap:a,mac=02-00-00-00-00-01",
        "tap:a,mac=2:00:00:00:00:0001", "tap:a,role=server", "af_packet:a,mac=02:00:00:00:00:01"}) {
    const auto plan = plan_of(text);
    ASSERT_FALSE(plan) << text;
    EXPECT_EQ(plan.error().code, ErrorCode::invalid_argument);
    EXPECT_NE(plan.error().what.find(text), std::string::npos) << plan.error().what;
    EXPECT_FALSE(plan.error().hint.empty());
  }
}

TEST(DpdkPortPlan, TakesNoMoreThanTheInterfacesMtuAndTheDrivers) {
  const auto above = plan_of("af_packet:veth0,mtu=1400", 1300);
  ASSERT_FALSE(above);
  EXPECT_EQ(above.error().hint, "ip link set veth0 mtu 1400");
  const auto jumbo = plan_of("af_packet:veth0", 9000);
  ASSERT_FALSE(jumbo);
  EXPECT_EQ(jumbo.error().code, ErrorCode::invalid_argument);
  EXPECT_NE(jumbo.error().what.find("MTU of 9000"), std::string::npos);
  EXPECT_EQ(jumbo.error().hint, "af_packet:veth0,mtu=1500, or: ip link set veth0 mtu 1500");
}

TEST(DpdkPortCheck, NamesWhatIsMissing) {
  const auto absent = detail::check_port(*PortName::parse("af_packet:no_such_if"));
  ASSERT_FALSE(absent);
  EXPECT_NE(absent.error().what.find("cannot open af_packet:no_such_if"), std::string::npos);
  EXPECT_EQ(detail::interface_mtu("no_such_if"), 0U);
  EXPECT_GT(detail::interface_mtu("lo"), 0U);
}

TEST(DpdkPortCheck, RefusesKindsThatCannotBeOpened) {
  for (const char* text : {"af_xdp:lo", "memif:/run/m.sock", "pci:0000:03:00.0"}) {
    const auto checked = detail::check_port(*PortName::parse(text));
    ASSERT_FALSE(checked) << text;
    EXPECT_EQ(checked.error().code, ErrorCode::unsupported);
    EXPECT_NE(checked.error().what.find(text), std::string::npos);
    EXPECT_EQ(checked.error().hint, "a port of kind tap or af_packet");
  }
}

}  // namespace
}  // namespace pinion
