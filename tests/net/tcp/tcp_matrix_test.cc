#include "tcp_matrix.h"

#include <array>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "../script/script.h"
#include "script_options.h"
#include "script_tcp.h"

/// Every segment in every state, against the table of tcp_matrix.h. Each combination has a world of
/// its own: a script brings the host into the state, the segment comes, and the answer, the next
/// state, SND.UNA and what the user gets must be what the row says.

namespace pinion::test {
namespace {

using namespace matrix;

struct State {
  const char* name;
  const char* script;  ///< How the host comes to be in it.
  int rcv_nxt;
  int edge;  ///< RCV.NXT + RCV.WND, as the script's last window says.
  int snd_una;
  int snd_nxt;
};

/// At kStateCount places, in the order of the bits.
constexpr std::array<State, kStateCount> kStates = {{
    {"closed", "", 1'000, 66'535, 0, 0},
    {"listen", "", 1'000, 66'535, 0, 0},
    {"syn_sent", "connect -> in progress\n> S 0:0(0)\n", 1'000, 66'535, 0, 1},
    {"syn_received",
     "< S 0:0(0) win 65535 <mss 1460>\n"
     "> S. 0:0(0) ack 1 win 65535\n",
     1, 65'536, 0, 1},
    {"syn_received",
     "connect -> in progress\n> S 0:0(0)\n"
     "< S 0:0(0) win 65535 <mss 1460>\n> S. 0:0(0) ack 1 win 65535\n",
     1, 65'536, 0, 1},
    {"established", "write 100 -> 100\n> P. 1:101(100) ack 1 win 65535\n", 1, 65'536, 1, 101},
    {"fin_wait_1", "shutdown\n> F. 1:1(0) ack 1 win 65535\n", 1, 65'536, 1, 2},
    {"fin_wait_2", "shutdown\n> F. 1:1(0) ack 1 win 65535\n< . 1:1(0) ack 2\n", 1, 65'536, 2, 2},
    {"close_wait",
     "< F. 1:1(0) ack 1\n> . 1:1(0) ack 2 win 65534\n"
     "write 100 -> 100\n> P. 1:101(100) ack 2 win 65534\n",
     2, 65'536, 1, 101},
    {"closing",
     "shutdown\n> F. 1:1(0) ack 1\n"
     "< F. 1:1(0) ack 1\n> . 2:2(0) ack 2 win 65534\n",
     2, 65'536, 1, 2},
    {"last_ack",
     "< F. 1:1(0) ack 1\n> . 1:1(0) ack 2\n"
     "shutdown\n> F. 1:1(0) ack 2 win 65534\n",
     2, 65'536, 1, 2},
    {"time_wait",
     "shutdown\n> F. 1:1(0) ack 1\n< . 1:1(0) ack 2\n"
     "< F. 1:1(0) ack 2\n> . 2:2(0) ack 2 win 65534\n",
     2, 65'536, 2, 2},
}};

struct Event {
  const char* flags;
  bool ack;
  int size;    ///< Of its data.
  int length;  ///< SEG.LEN.
};

constexpr std::array<Event, kEventCount> kEvents = {{
    {"S", false, 0, 1},
    {"S.", true, 0, 1},
    {"SF", false, 0, 2},
    {"F", false, 0, 1},
    {"F.", true, 0, 1},
    {".", true, 0, 0},
    {"R", false, 0, 0},
    {"R.", true, 0, 0},
    {"P.", true, 100, 100},
    {"P", false, 100, 100},
}};

/// One combination.
struct Cell {
  int state;
  int event;
  int place;
  int ack;

  [[nodiscard]] const State& its_state() const { return kStates[static_cast<std::size_t>(state)]; }
  [[nodiscard]] const Event& its_event() const { return kEvents[static_cast<std::size_t>(event)]; }
  [[nodiscard]] bool is_in(States states) const { return ((1U << state) & states) != 0; }
  [[nodiscard]] bool acknowledges(Acks acks) const { return ((1U << ack) & acks) != 0; }

  [[nodiscard]] int begin() const {
    const State& s = its_state();
    const std::array begins = {s.rcv_nxt - 200, s.rcv_nxt - 1, s.rcv_nxt,     s.rcv_nxt + 100,
                               s.edge - 1,      s.edge,        s.edge + 1'000};
    return begins[static_cast<std::size_t>(place)];
  }

  /// MAX.SND.WND is 65535, as scripts leave it.
  [[nodiscard]] int acknowledgment() const {
    const State& s = its_state();
    const std::array acks = {
        s.snd_una - 65'536, s.snd_una - (is_in(kSynSent | kSynReceived) ? 0 : 1),
        s.snd_una,          s.snd_nxt,
        s.snd_nxt + 1,      0};
    return acks[static_cast<std::size_t>(ack)];
  }

  /// Whether there is such a segment in such a state.
  [[nodiscard]] bool exists() const {
    if (its_event().ack == acknowledges(kNoAck)) return false;
    if (!its_event().ack) return true;
    if (is_in(kClosed | kListen)) return acknowledges(kAll);
    const bool in_flight = its_state().snd_una != its_state().snd_nxt;
    return !acknowledges(kNothingNew) || (in_flight && !is_in(kSynSent | kSynReceived));
  }

  [[nodiscard]] bool belongs_to(const Row& row) const {
    return is_in(row.states) && ((1U << event) & row.events) != 0 &&
           ((1U << place) & row.places) != 0 && acknowledges(row.acks);
  }

  [[nodiscard]] std::string segment() const {
    const int at = begin();
    std::string text =
        fmt::format("{} {}:{}({})", its_event().flags, at, at + its_event().size, its_event().size);
    if (its_event().ack) text += fmt::format(" ack {}", acknowledgment());
    return text;
  }

  [[nodiscard]] std::string name() const {
    return fmt::format("{}{}: < {}", its_state().name, is_in(kBothOpen) ? " (both open)" : "",
                       segment());
  }
};

std::vector<Cell> all_cells() {
  std::vector<Cell> cells;
  for (int state = 0; state < kStateCount; ++state) {
    for (int event = 0; event < kEventCount; ++event) {
      for (int place = 0; place < kPlaceCount; ++place) {
        for (int ack = 0; ack < kAckCount; ++ack) {
          const Cell cell{.state = state, .event = event, .place = place, .ack = ack};
          if (cell.exists()) cells.push_back(cell);
        }
      }
    }
  }
  return cells;
}

/// The script's lines about the answer.
std::string answer_lines(const Cell& cell, Answer answer) {
  const State& s = cell.its_state();
  switch (answer) {
    case Answer::drop:
    case Answer::quiet:
      return "";
    case Answer::refuse:
    case Answer::challenge:
    case Answer::acknowledge:
    case Answer::acknowledge_within_limits:
      return fmt::format("> . {0}:{0}(0) ack {1}\n", s.snd_nxt, s.rcv_nxt);
    case Answer::ack_fin:
    case Answer::ack_syn:
      return fmt::format("> . {0}:{0}(0) ack {1}\n", s.snd_nxt, cell.begin() + 1);
    case Answer::ack_data:
      return fmt::format("+0ms..45ms > . {0}:{0}(0) ack {1}\n", s.snd_nxt,
                         cell.begin() + cell.its_event().size);
    case Answer::syn_ack:
      // After TIME-WAIT our numbers begin elsewhere.
      return fmt::format("> S. {} ack {}\n", cell.is_in(kTimeWait) ? "*" : "0:0(0)",
                         cell.begin() + 1);
    case Answer::reset_at_ack:
      return fmt::format("> R {0}:{0}(0)\n", cell.acknowledgment());
    case Answer::reset_all:
      return fmt::format("> R. 0:0(0) ack {}\n", cell.begin() + cell.its_event().length);
  }
  return "";
}

/// What is left of the connection: a TcpState, a record's state, or "gone".
std::string state_of(ScriptTcp& world) {
  if (world.tcp().time_waits() != 0) return "time_wait";
  if (world.tcp().half_open() != 0) return "syn_received";
  world.call("accept", {});  // If the segment has completed a handshake.
  const std::string state = world.call("state", {});
  return state == "over" ? "gone" : state;
}

std::string expected_state(const Cell& cell, Next next) {
  switch (next) {
    case Next::same:
      return cell.is_in(kClosed | kListen) ? "gone" : cell.its_state().name;
    case Next::gone:
    case Next::refused:
    case Next::reset:
    case Next::orderly:
      return "gone";
    case Next::syn_received:
      return "syn_received";
    case Next::established:
      return "established";
    case Next::fin_wait_2:
      return "fin_wait_2";
    case Next::close_wait:
      return "close_wait";
    case Next::closing:
      return "closing";
    case Next::time_wait:
      return "time_wait";
  }
  return "";
}

/// What the user must have been told of the end; "" for nothing.
std::string expected_end(Next next) {
  switch (next) {
    case Next::refused:
      return "closed:refused";
    case Next::reset:
      return "closed:reset";
    case Next::orderly:
    case Next::time_wait:
      return "closed:orderly";
    default:
      return "";
  }
}

bool counts_acknowledgment(Answer answer) {
  return answer == Answer::quiet || answer == Answer::acknowledge ||
         answer == Answer::acknowledge_within_limits || answer == Answer::ack_fin ||
         answer == Answer::ack_syn || answer == Answer::ack_data;
}

bool is_challenge(Answer answer) {
  return answer == Answer::challenge || answer == Answer::acknowledge_within_limits;
}

ScriptTcpOptions small_world() {
  ScriptTcpOptions options = plain_tcp();
  options.config.max_connections = 2;
  options.config.max_listeners = 1;
  options.config.max_half_open = 2;
  options.config.max_time_waits = 2;
  options.config.max_reordering = 2;
  options.pool = {.packets = 64, .views = 64};
  return options;
}

void check_user(ScriptTcp& world, const Cell& cell, const Row& row) {
  const std::string events = world.call("events", {});
  const std::string end = expected_end(row.next);
  const std::size_t at = events.find("closed:");
  EXPECT_EQ(at == std::string::npos ? "" : events.substr(at), end);
  const std::string got = world.call("read", {});
  if (row.answer == Answer::ack_data) {
    EXPECT_EQ(got, std::to_string(cell.begin() + 100 - cell.its_state().rcv_nxt));
  } else {
    EXPECT_FALSE(std::isdigit(static_cast<unsigned char>(got[0]))) << "read " << got;
  }
}

void check(const Cell& cell, const Row& row) {
  ScriptTcpOptions options = small_world();
  options.listens = !cell.is_in(kClosed);
  ScriptTcp world(options);
  const std::string script = cell.its_state().script;
  const std::string begin = cell.is_in(kSynchronized | kTimeWait) ? after_accept(script) : script;
  ASSERT_TRUE(run_script(world, begin + "events -> *\n"));
  const TcpStats before = world.tcp().stats();
  // One script, so that its numbers go on counting from the same places.
  ScriptTcp fresh(options);
  const std::string whole = begin + "events -> *\n< " + cell.segment() + "\n" +
                            answer_lines(cell, row.answer) + "+45ms nothing\n";
  ASSERT_TRUE(run_script(fresh, whole));
  // The challenge of a connection whose end is brought about with it isn't sent.
  if (row.next != Next::orderly) {
    EXPECT_EQ(fresh.tcp().stats().challenge_acks - before.challenge_acks,
              is_challenge(row.answer) ? 1U : 0U);
  }
  EXPECT_EQ(state_of(fresh), expected_state(cell, row.next));
  if (const auto info = fresh.tcp().info({.index = 0, .generation = 1});
      info && cell.is_in(kSynchronized) && info->state != TcpState::over) {
    const auto first = world.tcp().info({.index = 0, .generation = 1});
    const bool all = counts_acknowledgment(row.answer) && cell.acknowledges(kAll);
    const int moved = all ? cell.its_state().snd_nxt - cell.its_state().snd_una : 0;
    EXPECT_EQ(info->first_unacknowledged - first->first_unacknowledged, moved);
  }
  check_user(fresh, cell, row);
}

const Row* row_of(const Cell& cell) {
  const Row* found = nullptr;
  for (const Row& row : kRows) {
    if (!cell.belongs_to(row)) continue;
    if (found != nullptr) ADD_FAILURE() << cell.name() << ": two rows, " << row.why;
    found = &row;
  }
  if (found == nullptr) ADD_FAILURE() << cell.name() << ": no row";
  return found;
}

TEST(TcpMatrix, EverySegmentInEveryStateHasOneRow) {
  for (const Cell& cell : all_cells()) row_of(cell);
}

TEST(TcpMatrix, EverySegmentInEveryStateIsAnsweredAsItsRowSays) {
  for (const Cell& cell : all_cells()) {
    const Row* const row = row_of(cell);
    if (row == nullptr) continue;
    SCOPED_TRACE(fmt::format("{} ({})", cell.name(), row->why));
    check(cell, *row);
  }
}

}  // namespace
}  // namespace pinion::test
