#include "common/text.h"

#include <chrono>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <pinion/lib/time.h>

namespace pinion::apps {
namespace {

using namespace std::chrono_literals;

TEST(Duration, ReadsEveryUnitAndTheirSums) {
  EXPECT_EQ(parse_duration("30s"), Delay(30s));
  EXPECT_EQ(parse_duration("250ms"), Delay(250ms));
  EXPECT_EQ(parse_duration("1m30s"), Delay(90s));
  EXPECT_EQ(parse_duration("7us"), Delay(7us));
  EXPECT_EQ(parse_duration("7ns"), Delay(7ns));
  EXPECT_EQ(parse_duration("2d1h"), Delay(49h));
  EXPECT_EQ(parse_duration("0s"), Delay(0s));
  EXPECT_EQ(parse_duration("none"), kNoTimeout);
}

TEST(Duration, RoundsFractionsUp) {
  EXPECT_EQ(parse_duration("1.5s"), Delay(1500ms));
  EXPECT_EQ(parse_duration("0.000000001s"), Delay(1ns));
  EXPECT_EQ(parse_duration("0.0000000001s"), Delay(1ns));
  EXPECT_EQ(parse_duration("1.00000000000000000000000000000000000001s"), Delay(1'000'000'001ns));
  EXPECT_EQ(parse_duration("0.1d"), Delay(8640s));
  EXPECT_EQ(parse_duration("1.1ns"), Delay(2ns));
}

TEST(Duration, SaysWhatIsWrong) {
  EXPECT_EQ(parse_duration("30").error(), "a duration needs a unit");
  for (const char* text : {"", "s", "30x", "-1s", " 30s", "30 s", "1.s", "1.5.5s", "30s!", "None",
                           ".5s", "30S", "1m30"}) {
    EXPECT_FALSE(parse_duration(text)) << text;
  }
  EXPECT_EQ(parse_duration("106752d").error(), "longer than 292 years");
  EXPECT_EQ(parse_duration("99999999999999999999s").error(), "longer than 292 years");
  EXPECT_EQ(parse_duration("106751d106751d").error(), "longer than 292 years");
}

TEST(Duration, WritesWhatItReads) {
  for (const char* text :
       {"30s", "250ms", "90s", "2m30s", "2d1h", "none", "0s", "1s1ns", "1ms500us", "1h1m"}) {
    ASSERT_TRUE(parse_duration(text)) << text;
    EXPECT_EQ(format_duration(*parse_duration(text)), text);
  }
}

TEST(Duration, RoundsToThreeDigitsForReports) {
  EXPECT_EQ(rounded_duration(0), "0ns");
  EXPECT_EQ(rounded_duration(999), "999ns");
  EXPECT_EQ(rounded_duration(1000), "1.00us");
  EXPECT_EQ(rounded_duration(1234), "1.23us");
  EXPECT_EQ(rounded_duration(12345), "12.3us");
  EXPECT_EQ(rounded_duration(123456), "123us");
  EXPECT_EQ(rounded_duration(999499), "999us");
  EXPECT_EQ(rounded_duration(999500), "1.00ms");
  EXPECT_EQ(rounded_duration(99'960'000), "100ms");
  EXPECT_EQ(rounded_duration(61'000'000'000), "61.0s");
}

TEST(Size, ReadsAndWritesPowersOf1024) {
  EXPECT_EQ(parse_size("64"), 64U);
  EXPECT_EQ(parse_size("64B"), 64U);
  EXPECT_EQ(parse_size("4KiB"), 4096U);
  EXPECT_EQ(parse_size("4K"), 4096U);
  EXPECT_EQ(parse_size("1MiB"), 1048576U);
  EXPECT_EQ(format_size(4096), "4KiB");
  EXPECT_EQ(format_size(100), "100");
  EXPECT_EQ(format_size(0), "0");
  for (const char* text :
       {"", "KiB", "4kb", "4 KiB", "-4", "1.5K", "99999999999999999999", "99999999999G"}) {
    EXPECT_FALSE(parse_size(text)) << text;
  }
}

TEST(Number, ReadsDigitsAndSeparators) {
  EXPECT_EQ(parse_number("0"), 0U);
  EXPECT_EQ(parse_number("1_000_000"), 1'000'000U);
  EXPECT_EQ(parse_number("18446744073709551615"), ~std::uint64_t{0});
  for (const char* text :
       {"", "-1", "+1", "1.0", "0x10", "_1", "1_", "1__0", "18446744073709551616", "1e3"}) {
    EXPECT_FALSE(parse_number(text)) << text;
  }
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1000), "1,000");
  EXPECT_EQ(grouped(12'345'678), "12,345,678");
}

TEST(Number, KnowsWhatAFileCanHold) {
  for (const char* text : {"0", "-1", "9223372036854775807", "-9223372036854775808"}) {
    EXPECT_TRUE(is_toml_integer(text)) << text;
  }
  for (const char* text : {"", "9223372036854775808", "18446744073709551615", "1K", " 1", "+1"}) {
    EXPECT_FALSE(is_toml_integer(text)) << text;
  }
}

TEST(Shown, QuotesForAShell) {
  EXPECT_EQ(quoted_for_shell("plain-1.0:/"), "plain-1.0:/");
  EXPECT_EQ(quoted_for_shell(""), "''");
  EXPECT_EQ(quoted_for_shell("a b"), "'a b'");
  EXPECT_EQ(quoted_for_shell("[::1]:7007"), "'[::1]:7007'");
  EXPECT_EQ(quoted_for_shell("a'b"), "'a'\\''b'");
}

TEST(Shown, HasNoControlCharacters) {
  EXPECT_EQ(printable("plain … text"), "plain … text");
  EXPECT_EQ(printable("a\nb\x1b[31m\x7f\t"), "a?b?[31m??");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m \xc2\xa0"),
            "??31m \xc2\xa0");
  EXPECT_EQ(printable("\xc2"), "\xc2");
}

TEST(CpuList, ReadsRangesAndRefusesRepeats) {
  EXPECT_EQ(parse_cpu_list("0-1,3"), (std::vector<unsigned>{0, 1, 3}));
  EXPECT_EQ(parse_cpu_list("3,0-1"), (std::vector<unsigned>{0, 1, 3}));
  EXPECT_EQ(parse_cpu_list("7"), (std::vector<unsigned>{7}));
  EXPECT_EQ(parse_cpu_list("0-2,1").error(), "CPU 1 is named twice");
  for (const char* text : {"", ",", "1,", "1-", "-1", "3-1", "a", "1,,2", "4096", "0 1"}) {
    EXPECT_FALSE(parse_cpu_list(text)) << text;
  }
  EXPECT_EQ(format_cpu_list(*parse_cpu_list("0,1,2,5,7-8")), "0-2,5,7-8");
  EXPECT_EQ(format_cpu_list({}), "");
}

TEST(NearestName, FindsTheTypoAndNothingElse) {
  const std::vector<std::string> names = {"listen",        "lcores", "read-timeout",
                                          "write-timeout", "stats",  "idle"};
  EXPECT_EQ(nearest_name("read-timout", names), "read-timeout");
  EXPECT_EQ(nearest_name("read_timeout", names), "read-timeout");
  EXPECT_EQ(nearest_name("lisetn", names), "listen");
  EXPECT_EQ(nearest_name("lcore", names), "lcores");
  EXPECT_EQ(nearest_name("stat", names), "stats");
  EXPECT_EQ(nearest_name("verbose", names), "");
  EXPECT_EQ(nearest_name("", names), "");
}

}  // namespace
}  // namespace pinion::apps
