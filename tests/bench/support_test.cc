#include <gtest/gtest.h>

#include <array>

#include "support/options.h"
#include "support/report.h"
#include "support/summary.h"

namespace pinion::bench {
namespace {

ParseOutcome parse(const std::vector<const char*>& arguments) {
  std::vector<const char*> words = {"bench"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return parse_options(static_cast<int>(words.size()), words.data(),
                       {.program = "bench",
                        .cases = {"one", "two"},
                        .metrics = {"insert"},
                        .subjects = {"pinion", "floor"},
                        .extras = {{"window", 5, 1, 9, "how long"}}});
}

TEST(SummaryTest, TakesTheMiddleAndTheEnds) {
  const Summary odd = summarise({5, 1, 3});
  EXPECT_EQ(odd.median, 3);
  EXPECT_EQ(odd.min, 1);
  EXPECT_EQ(odd.max, 5);
  EXPECT_EQ(odd.runs, 3);
  EXPECT_EQ(summarise({4, 1, 2, 3}).median, 2.5);
  EXPECT_EQ(summarise({}).runs, 0);
}

TEST(SummaryTest, CallsItATieWithinFifteenPercent) {
  const std::array<double, 1> base = {100};
  const std::array<double, 1> close = {114};
  const std::array<double, 1> far = {116};
  EXPECT_EQ(compare(base, close), Verdict::tie);
  EXPECT_EQ(compare(base, far), Verdict::first_less);
  EXPECT_EQ(compare(far, base), Verdict::second_less);
}

TEST(SummaryTest, ElevenPairsThatAgreeDecideACloseOne) {
  std::vector<double> less(11, 100);
  std::vector<double> more(11, 105);
  EXPECT_EQ(compare(less, more), Verdict::first_less);
  EXPECT_EQ(compare(more, less), Verdict::second_less);
  more[4] = 99;
  EXPECT_EQ(compare(less, more), Verdict::tie);
  less.resize(10);
  more.assign(10, 105);
  EXPECT_EQ(compare(less, more), Verdict::tie);
}

TEST(OptionsTest, ReadsSizesAndLists) {
  const ParseOutcome outcome = parse({"--n", "1k,2M,7", "--subject=floor", "--quick"});
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.options.sizes, (std::vector<std::size_t>{1'000, 2'000'000, 7}));
  EXPECT_EQ(outcome.options.subjects, std::vector<std::string>{"floor"});
  EXPECT_TRUE(outcome.options.quick);
}

TEST(OptionsTest, KnowsTheNumbersOfOneBench) {
  EXPECT_EQ(parse({}).options.extra("window"), 5);
  EXPECT_EQ(parse({"--window", "7"}).options.extra("window"), 7);
  EXPECT_NE(parse({"--window", "10"}).error.find("--window 1 to 9"), std::string::npos);
  EXPECT_NE(parse({"--window", "7x"}).error, "");
}

TEST(OptionsTest, RefusesWhatItDoesNotKnowAndSaysWhatItDoes) {
  EXPECT_NE(parse({"--fast"}).error.find("fix: bench --help"), std::string::npos);
  EXPECT_NE(parse({"--subject", "ceiling"}).error.find("pinion,floor"), std::string::npos);
  EXPECT_NE(parse({"--n", "0"}).error, "");
  EXPECT_NE(parse({"--n", "999M"}).error, "");
  EXPECT_NE(parse({"--rounds", "x"}).error, "");
  EXPECT_NE(parse({"--json"}).error, "");
  EXPECT_NE(parse({"--json", ""}).error, "");
  EXPECT_NE(parse({"quick"}).error, "");
}

TEST(ReportTest, RatioIsTheirsOverOurs) {
  Report report("test", Machine{});
  report.add_sample({"one", 10, "insert", "pinion"}, "ns", 4);
  report.add_sample({"one", 10, "insert", "heap"}, "ns", 6);
  report.add_sample({"one", 10, "insert", "heap"}, "ns", 10);
  const Row* row = report.find({"one", 10, "insert", "heap"});
  ASSERT_NE(row, nullptr);
  EXPECT_EQ(report.ratio(*row).median, 1.5);  // the round that both took part in
  report.add_sample({"one", 10, "insert", "pinion"}, "ns", 2);
  EXPECT_EQ(report.ratio(*row).median, 3.25);
  EXPECT_EQ(report.ratio(*row).min, 1.5);
  EXPECT_EQ(report.ratio(*row).max, 5);
  EXPECT_EQ(report.find({"two", 10, "insert", "heap"}), nullptr);
}

TEST(ReportTest, OfARateMoreIsBetter) {
  Report report("test", Machine{});
  report.add_sample({"one", 10, "requests", "pinion"}, "1/s", 40);
  report.add_sample({"one", 10, "requests", "heap"}, "1/s", 20);
  EXPECT_EQ(report.ratio(*report.find({"one", 10, "requests", "heap"})).median, 2);
}

TEST(ReportTest, RatioToAnyBase) {
  Report report("test", Machine{});
  report.add_sample({"one", 10, "insert", "floor"}, "ns", 4);
  report.add_sample({"one", 10, "insert", "heap"}, "ns", 6);
  const Row* heap = report.find({"one", 10, "insert", "heap"});
  EXPECT_EQ(Report::ratio(heap, report.find({"one", 10, "insert", "floor"})).median, 1.5);
  EXPECT_EQ(Report::ratio(heap, nullptr).runs, 0);
}

TEST(ReportTest, JsonCarriesEveryFieldOfARow) {
  Report report("test", Machine{});
  report.add_sample({"a \"b\"", 10, "insert", "pinion"}, "ns", 4);
  const std::string json = report.json();
  EXPECT_TRUE(json.starts_with("{\"bench\": \"test\", \"machine\": {"));
  EXPECT_NE(json.find("{\"case\": \"a \\\"b\\\"\", \"n\": 10, \"subject\": \"pinion\", "
                      "\"metric\": \"insert\", \"unit\": \"ns\", \"median\": 4.0000, "
                      "\"min\": 4.0000, \"max\": 4.0000, \"runs\": 1, \"ratio\": 1.0000, "
                      "\"ratio_min\": 1.0000, \"ratio_max\": 1.0000}"),
            std::string::npos)
      << json;
}

}  // namespace
}  // namespace pinion::bench
