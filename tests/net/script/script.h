#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "script_world.h"

/// TCP tests as a script of what comes and goes, on virtual time.
///
///   EXPECT_TRUE(run_script(world, R"(
///     connect -> in progress
///     > S 0:0(0) win 65535 <mss 1460, sack, ts val 100 ecr 0, wscale 7>
///     +20ms < S. 0:0(0) ack 1 win 65535 <mss 1460>
///     > . 1:1(0) ack 1 <>
///     write 3000 -> 3000
///     > P?. 1:1461(1460) ack 1 ...
///     +200ms nothing
///   )"));
///
/// One line, one event; `#` begins a comment. A line may begin with its time:
///
///   +20ms      after the event before it       @1.5s      since the script's begin
///   +1s..2s    from then until then            +1s~10ms   up to 10 ms earlier or later
///
/// in ns, us, ms, s, min, h or d. Without one, an event is at the same time as the one before it.
///
///   > SEGMENT   the host sends this at that time, and nothing before it. With a bare time it may
///               be late by the tolerance, 1 ms, since a wheel rounds up to its tick.
///   < SEGMENT   arrives at the host, in a burst of its own;
///   & < SEGMENT in the burst of the `<` before it.
///   nothing     the host sends nothing until then.
///   NAME WORD…  a call of the world's: `write 3000`. Behind `->` stands what it answers, `*` for
///               anything; without one it answers nothing.
///   tolerance 5ms
///   flow        the connection's ends, forgetting what was learned: `flow peer 10.0.0.9:81 host 7
///               isn 5000`, each part optional; isn is the peer's.
///
/// Whatever the host sends must be expected: between any two lines, and behind the last one.
///
/// SEGMENT is `FLAGS BEGIN:END(SIZE)`, then in any order `ack N`, `win N`, `urg N`, `<OPTIONS>`.
///
///   FLAGS       of S F R P U E W (CWR) and `.` (ACK), `-` for none. `P?` leaves PSH open, `*` all.
///   numbers     sequence numbers count from their direction's ISN: SYN is 0, the first byte 1.
///               The host's ISN is that of its first SYN, and 0 before it. `win` is as it stands in
///               the header, unscaled. Expected ones may be a range, 1..5, or `*`.
///   OPTIONS     mss N, wscale N, sack (permitted), sack 1:5 9:11 (blocks), ts val N ecr N, in any
///               order; `<>` for none, `...` at the end for others too. The host's timestamps count
///               so that the first one is what the script says of it, or 0; the peer's are as they
///               stand.
///   left out    of an expected segment: anything goes. Of an arriving one: ack 0, win 65535, no
///               options.
///   payload     the bytes that pattern_byte() has at their place in the stream. Of what arrives
///               `garbled` makes them wrong ones.
///   damage      of what arrives: `bad-checksum`, `partial-checksum` (of the pseudo header alone),
///               `offset N` (words), `cut N` (bytes that are left), `raw 08 00` in the options:
///               these bytes.
///   [NAME]      behind `<`, `>` or `flow`: another connection, each with ends of its own. Its peer
///               has the next port, unless `flow [NAME] peer …` says otherwise.
///
/// Each packet that the host sends must be right down to lengths and checksums. The peer's ISN lies
/// 4096 below the wrap, so that longer streams cross it.

namespace pinion::test {

enum class ScriptFault {
  syntax,       ///< The script is wrong, not the host.
  wrong,        ///< A segment that differs from the expected one.
  missing,      ///< An expected segment didn't come.
  superfluous,  ///< One that nobody expected.
  early,
  late,
  wrong_result,  ///< A call that answered otherwise.
  broken,        ///< A packet that is no right IP packet with a right TCP segment.
  stuck,         ///< The host's next deadline doesn't pass.
};

struct ScriptFailure {
  ScriptFault fault = ScriptFault::syntax;
  int line = 0;      ///< 1 for the first one; one past the last for what comes behind it.
  std::string text;  ///< What was expected and what came, and the last segments.
};

/// Runs the script up to its first failure.
[[nodiscard]] std::optional<ScriptFailure> find_failure(ScriptWorld& world,
                                                        std::string_view script);

/// The same, for EXPECT_TRUE.
[[nodiscard]] testing::AssertionResult run_script(ScriptWorld& world, std::string_view script);

}  // namespace pinion::test
