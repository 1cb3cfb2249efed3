#include <string>

#include <gtest/gtest.h>

#include "../script/script.h"
#include "script_options.h"
#include "script_tcp.h"

/// Duplicate acknowledgements of a burst, which is acknowledged once: that the peer, and we, take
/// them for as many as they are (RFC 5681, 3.2 and 4.2).

namespace pinion::test {
namespace {

TEST(TcpDuplicates, ABurstBehindAHoleIsToldByThree) {
  ScriptTcp world(plain_tcp());
  EXPECT_TRUE(run_script(world, after_accept(R"(
    < . 1001:2001(1000) ack 1
    & < . 2001:3001(1000) ack 1
    > . 1:1(0) ack 1
    > . 1:1(0) ack 1
    < . 3001:4001(1000) ack 1
    & < . 4001:5001(1000) ack 1
    & < . 5001:6001(1000) ack 1
    & < . 6001:7001(1000) ack 1
    & < . 7001:8001(1000) ack 1
    > . 1:1(0) ack 1
    > . 1:1(0) ack 1
    > . 1:1(0) ack 1
    < P. 1:1001(1000) ack 1
    > . 1:1(0) ack 8001
    < P. 8001:9001(1000) ack 1
    & < . 10001:11001(1000) ack 1
    & < . 11001:12001(1000) ack 1
    & < . 12001:13001(1000) ack 1
    > . 1:1(0) ack 9001
    > . 1:1(0) ack 9001
    > . 1:1(0) ack 9001
    > . 1:1(0) ack 9001
    abort
    > R. 1:1(0)
  )")));
}

std::string after_accept_with_sack(const std::string& script) {
  return R"(
    < S 0:0(0) win 65535 <mss 1460, sack>
    > S. 0:0(0) ack 1 <mss 1460, sack>
    < . 1:1(0) ack 1 win 65535
    accept -> accepted
  )" + script;
}

ScriptTcpOptions with_sack() {
  ScriptTcpOptions options = plain_tcp();
  options.config.sack = true;
  return options;
}

TEST(TcpDuplicates, WithSackOneTellsAll) {
  ScriptTcp world(with_sack());
  EXPECT_TRUE(run_script(world, after_accept_with_sack(R"(
    < . 1001:2001(1000) ack 1
    & < . 2001:3001(1000) ack 1
    & < . 4001:5001(1000) ack 1
    > . 1:1(0) ack 1 <sack 4001:5001 1001:3001>
    abort
    > R. 1:1(0)
  )")));
}

TEST(TcpDuplicates, BlocksOfThreeSegmentsAreAsManyDuplicates) {
  ScriptTcp world(with_sack());
  EXPECT_TRUE(run_script(
      world, after_accept_with_sack("write 14600 -> 14600\n" + full_segments(1, 9, 1460) + R"(
    > P. 13141:14601(1460) ack 1
    +10ms < . 1:1(0) ack 1 <sack 1461:5841>
    > . 1:1461(1460) ack 1
    < . 1:1(0) ack 14601
    abort
    > R. 14601:14601(0)
  )")));
}

TEST(TcpDuplicates, BlocksOfWhatWasNeverSentOrIsKnownCountForNothing) {
  ScriptTcp world(with_sack());
  EXPECT_TRUE(run_script(
      world, after_accept_with_sack("write 14600 -> 14600\n" + full_segments(1, 9, 1460) + R"(
    > P. 13141:14601(1460) ack 1
    +10ms < . 1:1(0) ack 1 <sack 14601:24601 -9999:1>
    < . 1:1(0) ack 1 <sack 1461:2921>
    < . 1:1(0) ack 1 <sack 1461:4381>
    > . 1:1461(1460) ack 1
    abort
    > R. 14601:14601(0)
  )")));
}

}  // namespace
}  // namespace pinion::test
