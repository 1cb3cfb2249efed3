#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <string_view>

#include "model_host.h"
#include "script.h"

namespace pinion::test {
namespace {

using std::chrono::milliseconds;

/// An active open up to its third segment, whose times and numbers the model knows.
constexpr std::string_view kOpen = R"(
  connect -> in progress
  > S 0:0(0) win 65535 <mss 1460, sack, ts val 100 ecr 0, wscale 7>
  +20ms < S. 0:0(0) ack 1 win 65535 <mss 1460, sack, ts val 700 ecr 100, wscale 7>
  > . 1:1(0) ack 1 <ts val 120 ecr 700>
)";

std::string after_open(std::string_view script) {
  return std::string(kOpen) + std::string(script);
}

/// The failure of a script that must fail, in this way, at the line with this text.
std::string failure_of(ModelHost& host, const std::string& script, ScriptFault fault,
                       std::string_view line) {
  const auto failure = find_failure(host, script);
  if (!failure) {
    ADD_FAILURE() << "no failure of " << line;
    return {};
  }
  EXPECT_EQ(failure->fault, fault) << failure->text;
  EXPECT_NE(failure->text.find(line), std::string::npos) << failure->text;
  const auto before = script.substr(0, script.find(line));
  const auto number = 1 + std::count(before.begin(), before.end(), '\n');
  EXPECT_EQ(failure->line, number) << failure->text;
  return failure->text;
}

testing::AssertionResult says(const std::string& text, std::string_view what) {
  if (text.find(what) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "no '" << what << "' in\n" << text;
}

TEST(Script, FollowsAnActiveOpenAndAWrite) {
  ModelHost host;
  EXPECT_TRUE(run_script(host, after_open(R"(
    write 2500 -> 2500                   # a comment
    > . 1:1001(1000) ack 1 ...
    > . 1001:2001(1000) ack 1 win 65535
    > P. 2001:2501(500) ack 1 <ts val 120 ecr 700>
    +5ms < . 1:1(0) ack 2501
    +1h nothing
    state -> established
  )")));
}

TEST(Script, FollowsAPassiveOpenOverIpv6) {
  ModelHost host(true);
  EXPECT_TRUE(run_script(host, R"(
    < S 0:0(0) win 1000 <mss 1220>
    > S. 0:0(0) ack 1 <mss 1460, sack, wscale 7>
    < . 1:1(0) ack 1
    @1s < P. 1:501(500) ack 1
    > . 1:1(0) ack 501 <>
    read -> 500
    < F. 501:501(0) ack 1
    > . 1:1(0) ack 502
  )"));
}

TEST(Script, CrossesTheWrapOfThePeersNumbers) {
  ModelHost host;
  std::string script = after_open("");
  for (int begin = 1; begin < 10'000; begin += 1000) {
    script += "< . " + std::to_string(begin) + ":" + std::to_string(begin + 1000) +
              "(1000) ack 1\n> . 1:1(0) ack " + std::to_string(begin + 1000) + "\n";
  }
  EXPECT_TRUE(run_script(host, script + "read -> 10000\n"));
}

TEST(Script, CountsSackBlocksFromThePeersIsn) {
  ModelHost host;
  EXPECT_TRUE(run_script(host, after_open(R"(
    < . 1001:2001(1000) ack 1
    > . 1:1(0) ack 1 <sack 1001:2001, ts val * ecr 700>
    < . 5001:5002(1) ack 1
    > . 1:1(0) ack 1 <sack 5001:*, ...>
  )")));
}

TEST(Script, BringsABurstAtOnce) {
  ModelHost host;
  EXPECT_TRUE(run_script(host, after_open(R"(
    < . 1:501(500) ack 1
    & < . 501:1001(500) ack 1
    > . 1:1(0) ack 1001
    < . 1001:1501(500) ack 1
    > . 1:1(0) ack 1501
    < . 1501:2001(500) ack 1
    > . 1:1(0) ack 2001
  )")));
}

TEST(Script, ExpectsATimerWithinItsTolerance) {
  ModelHost host;
  host.ack_delay = milliseconds{40} + std::chrono::microseconds{300};
  const auto with_time = [](std::string_view time) {
    return after_open("\n    < . 1:501(500) ack 1\n    " + std::string(time) +
                      " > . 1:1(0) ack 501\n");
  };
  for (const char* time :
       {"+40ms", "+40.3ms", "+30ms..50ms", "+45ms~5ms", "+40300us", "@60ms", "@0..1s"}) {
    ModelHost another;
    another.ack_delay = host.ack_delay;
    EXPECT_TRUE(run_script(another, with_time(time))) << time;
  }
  const std::string early = failure_of(host, with_time("+41ms"), ScriptFault::early, "+41ms >");
  EXPECT_TRUE(says(early, "0.000700 s early"));
}

TEST(Script, FollowsRetransmissionsOfWhatIsLost) {
  ModelHost host;
  EXPECT_TRUE(run_script(host, R"(
    connect -> in progress
    > S 0:0(0)
    +200ms > S 0:0(0)
    +200ms~0 > S 0:0(0)
    +150ms nothing
    tolerance 0
    +50ms > S 0:0(0)
  )"));
}

TEST(Script, TellsConnectionsApart) {
  ModelHost host;
  EXPECT_TRUE(run_script(host, after_open(R"(
    < [other] . 5:5(0) ack 9
    > [other] R 9:9(0)
    flow [third] peer 192.0.2.2:9999 host 4242 isn 1
    < [third] . 5:5(0) ack 77
    > [third] R 77:77(0) win 0
    < . 1:1(0) ack 1
    state -> established
  )")));
  ModelHost another;
  const std::string text = failure_of(another, after_open(R"(
    < [other] . 5:5(0) ack 9
    > R 9:9(0)
  )"),
                                      ScriptFault::wrong, "> R 9:9(0)");
  EXPECT_TRUE(says(text, "of another connection"));
}

TEST(Script, BeginsAFlowAnew) {
  ModelHost host;
  EXPECT_TRUE(run_script(host, R"(
    < S 0:0(0)
    > S. 0:0(0) ack 1
    flow isn 77
    < S 0:0(0)
    > S. 0:0(0) ack 1
  )"));
}

TEST(Script, ReportsWhatDiffersInASegment) {
  struct Case {
    void (*spoil)(Segment&);
    const char* says;
  };
  const Case cases[] = {
      {[](Segment& segment) { ++segment.sequence; }, "begins at 2, not 1"},
      {[](Segment& segment) { --segment.acknowledgment; }, "ack 0, not 1"},
      {[](Segment& segment) { segment.flags = kAck | kFin; }, "flags F., not P."},
      {[](Segment& segment) { segment.flags = kPsh; }, "no ack"},
      {[](Segment& segment) { segment.window = 1; }, "win 1, not 65535"},
      {[](Segment& segment) { segment.urgent_pointer = 3; }, "urg 3, not 0"},
      {[](Segment& segment) { segment.payload.pop_back(); }, "size 499, not 500"},
      {[](Segment& segment) { segment.payload[7] ^= std::byte{1}; }, "byte 7 of the payload"},
      {[](Segment& segment) { segment.options.clear(); }, "no option 'ts val 120 ecr 700'"},
      {[](Segment& segment) { segment.options[0].data[3] ^= std::byte{1}; },
       "ecr 700', not 'ts val 120 ecr 700'"},
      {[](Segment& segment) { segment.options.push_back({kOptionSackPermitted, {}}); },
       "option 'sack' too"},
      {[](Segment& segment) { segment.options.push_back({30, {std::byte{5}}}); },
       "option 'raw 1e 03 05' too"},
  };
  for (const Case& wrong : cases) {
    ModelHost host;
    host.spoil = [&wrong](Segment& segment) {
      if (!segment.payload.empty()) wrong.spoil(segment);
    };
    const std::string script = after_open(
        "write 500 -> 500\n"
        "> P. 1:501(500) ack 1 win 65535 urg 0 <ts val 120 ecr 700>\n");
    EXPECT_TRUE(says(failure_of(host, script, ScriptFault::wrong, "> P. 1:501"), wrong.says));
  }
}

TEST(Script, ReportsBytesInTheWrongPlace) {
  ModelHost host;
  host.spoil = [](Segment& segment) {
    for (std::size_t i = 0; i < segment.payload.size(); ++i) {
      segment.payload[i] = pattern_byte(i + 1);
    }
  };
  const std::string script = after_open("write 500 -> 500\n> P. 1:501(500) ack 1\n");
  EXPECT_TRUE(says(failure_of(host, script, ScriptFault::wrong, "> P. 1:501"), "of the payload"));
}

TEST(Script, ReportsAMissingSegment) {
  ModelHost host;
  host.loses = [](const Segment& segment) { return segment.flags == kAck; };
  const std::string text = failure_of(host, std::string(kOpen), ScriptFault::missing, "> . 1:1(0)");
  EXPECT_TRUE(says(text, "nothing came"));
}

TEST(Script, ReportsWhatCameInsteadOfAMissingOne) {
  ModelHost host;
  host.loses = [](const Segment& segment) { return segment.flags == kAck; };
  const std::string script = after_open("write 10\n");
  EXPECT_TRUE(says(failure_of(host, script, ScriptFault::missing, "> . 1:1(0)"), "nothing came"));
}

TEST(Script, ReportsASuperfluousSegment) {
  // Ahead of an arrival, of a call, of time that passes, and behind the last line.
  for (const char* line : {"< . 1:1(0) ack 1", "state -> established", "+1ms nothing"}) {
    ModelHost host;
    const std::string script = after_open(std::string("write 10 -> 10\n") + line + "\n");
    EXPECT_TRUE(says(failure_of(host, script, ScriptFault::superfluous, line), "P. 1:11(10)"));
  }
  ModelHost host;
  const auto failure = find_failure(host, after_open("write 10 -> 10\n"));
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->fault, ScriptFault::superfluous);
  EXPECT_EQ(failure->line, 7);
}

TEST(Script, ReportsASegmentThatComesWhileTimePasses) {
  ModelHost host;
  const std::string script = after_open("write 10 -> 10\n> P. 1:11(10) ack 1\n+200ms nothing\n");
  const std::string text = failure_of(host, script, ScriptFault::superfluous, "+200ms nothing");
  EXPECT_TRUE(says(text, "came at 0.220000"));
}

TEST(Script, ReportsHowLateASegmentIs) {
  ModelHost host;
  host.ack_delay = milliseconds{50};
  const std::string script = after_open("< . 1:11(10) ack 1\n+40ms > . 1:1(0) ack 11\n");
  EXPECT_TRUE(says(failure_of(host, script, ScriptFault::late, "+40ms >"), "0.009000 s late"));
}

TEST(Script, ReportsAnotherResult) {
  ModelHost host;
  EXPECT_TRUE(says(failure_of(host, after_open("read -> 5\n"), ScriptFault::wrong_result, "read"),
                   "answered '0'"));
  EXPECT_TRUE(says(failure_of(host, "read\n", ScriptFault::wrong_result, "read"), "answered '0'"));
  EXPECT_TRUE(run_script(host, "read -> *\n"));
}

TEST(Script, ReportsPacketsThatAreBroken) {
  struct Case {
    std::size_t at;
    const char* says;
  };
  for (const bool v6 : {false, true}) {
    const std::size_t ip = v6 ? 40 : 20;
    const Case cases[] = {{ip + 17, "a wrong TCP checksum"},
                          {ip - 1, "a wrong "},
                          {0, "no IP version"},
                          {v6 ? std::size_t{5} : std::size_t{3}, "length"}};
    for (const Case& broken : cases) {
      ModelHost host(v6);
      host.spoil_packet = [&broken](PacketBytes& packet) { packet[broken.at] ^= std::byte{0x80}; };
      const std::string text = failure_of(host, std::string(kOpen), ScriptFault::broken, "> S");
      EXPECT_TRUE(says(text, broken.says));
    }
  }
}

TEST(Script, ReportsTimeThatStands) {
  ModelHost host;
  host.stuck = true;
  failure_of(host, "+1ms nothing\n", ScriptFault::stuck, "+1ms nothing");
}

TEST(Script, ShowsTheLastSegments) {
  ModelHost host;
  const std::string text =
      failure_of(host, after_open("read -> 5\n"), ScriptFault::wrong_result, "read");
  EXPECT_TRUE(says(text,
                   "before it:\n"
                   "  0.000000 connect -> in progress\n"
                   "  0.000000 > S 0:0(0) win 65535 <mss 1460, sack, wscale 7, ts val 100 ecr 0>\n"
                   "  0.020000 < S. 0:0(0) ack 1 win 65535 <mss 1460, sack, ts val 700 ecr 100, "
                   "wscale 7>\n"
                   "  0.020000 > . 1:1(0) ack 1 win 65535 <ts val 120 ecr 700>\n"));
}

TEST(Script, DamagesWhatArrives) {
  ModelHost host;
  EXPECT_TRUE(run_script(host, after_open(R"(
    < . 1:11(10) ack 1 bad-checksum
    faults -> a wrong TCP checksum
    < . 1:11(10) ack 1 offset 4
    faults -> tcp_header_length
    < . 1:11(10) ack 1 cut 19
    faults -> tcp_truncated
    < . 1:11(10) ack 1 <ts val 1 ecr 2, raw 08 00>
    faults -> tcp_option_length
    < . 1:11(10) ack 1 <raw 1e 06 00>
    faults -> tcp_option_overrun
    < . 1:11(10) ack 1 garbled
    > . 1:1(0) ack 11
    read -> 10 garbled
  )")));
}

TEST(Script, RefusesLinesThatItCannotRead) {
  for (const char* line : {"< S",
                           "< Q 0:0(0)",
                           "< S 0:5(0)",
                           "< S 0(0)",
                           "< S *",
                           "< S? 0:0(0)",
                           "< . 1:1(0)",
                           "< . 1:1(0) ack *",
                           "< . 1:1(0) ack 1..2",
                           "< S 0:0(0) win",
                           "< S 0:0(0) win x",
                           "< S 0:0(0) size 5",
                           "< S 0:0(0) <mss>",
                           "< S 0:0(0) <mss 1460",
                           "< S 0:0(0) <mss 1460 5>",
                           "< S 0:0(0) <mss *>",
                           "< S 0:0(0) <mss 1460, ...>",
                           "< S 0:0(0) <tfo>",
                           "< S 0:0(0) <sack 5>",
                           "< S 0:0(0) <ts val 1>",
                           "< S 0:0(0) <raw 0x1>",
                           "< S 0:0(0) offset 16",
                           "> S 0:0(0) bad-checksum",
                           "> S 0:0(0) garbled",
                           "> [x S 0:0(0)",
                           "& < S 0:0(0)",
                           "+5 nothing",
                           "+5ms..1ms > S 0:0(0)",
                           "+5ms..9ms nothing",
                           "+5ms",
                           "flow peer 0",
                           "flow peer 1.2.3:5",
                           "flow foe 5",
                           "tolerance x"}) {
    ModelHost host;
    failure_of(host, std::string("read -> *\n") + line + "\n", ScriptFault::syntax, line);
  }
}

TEST(Script, RefusesATimeThatHasPassed) {
  ModelHost host;
  failure_of(host, "+2s nothing\n@1s nothing\n", ScriptFault::syntax, "@1s nothing");
}

}  // namespace
}  // namespace pinion::test
