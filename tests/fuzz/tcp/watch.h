#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <pinion/lib/time.h>
#include <pinion/net/address.h>

#include "../../net/script/segment.h"
#include "sequence_ranges.h"
#include "tcp/tcp.h"

/// What must hold of TCP whatever arrives, as seen from outside: by the packets that go in and out
/// between two endpoints, by what calls answer, and by TcpInfo. It reads packets by the slow reader
/// of tests/net/script. Whoever breaks a promise ends the process with a sentence that names it.
///
/// With PINION_FUZZ_TRACE set in the environment it says what happens.
///
/// The world is watched in moves, so small that it is known what each packet that leaves answers.
/// What the peer sends is a function of the sequence number, so that its segments agree wherever
/// they overlap; what the host sends is one of the byte's place in the stream.

namespace pinion::test {

/// What is done to the host in one go.
enum class Move : std::uint8_t {
  call,       ///< By the user.
  segment,    ///< A packet arrives; the burst isn't over.
  complaint,  ///< An ICMP error does.
  burst_end,
  time,
};

/// The byte that the host's user writes at `offset`.
[[nodiscard]] std::byte written_byte(std::uint64_t offset);

/// The bytes that the peer sends from the sequence number `begin` on.
[[nodiscard]] PacketBytes peer_bytes(std::uint32_t begin, std::size_t size);

/// The connection of the host's user, from its first segment to its end.
struct WatchedConnection {
  bool active = false;
  std::uint32_t iss = 0;
  std::optional<std::uint32_t> irs{};
  std::uint64_t written = 0;
  std::uint64_t read = 0;
  bool fin_asked = false;     ///< By shutdown_write() or close().
  bool released = false;      ///< By close() or abort().
  bool synchronized = false;  ///< It has been.
  bool over = false;
  bool reset_fits = false;    ///< A RST has come where it may end the connection.
  bool refusal_fits = false;  ///< What may end an open has come.
  bool told_connected = false;
  bool told_closed = false;
  std::uint32_t una = 0;                     ///< SND.UNA.
  std::uint32_t sent_end = 0;                ///< Behind the last number that has left.
  std::uint32_t syn_window = 0;              ///< What our SYN has offered.
  std::optional<std::uint32_t> last_ack{};   ///< What has left last,
  std::optional<std::uint32_t> edge{};       ///< the furthest edge of a window,
  std::optional<std::uint32_t> timestamp{};  ///< and the last TSval.
  Instant stamped_at{};
  Instant progress_at{};  ///< When the peer was last told something, or has last taken something.

  [[nodiscard]] std::uint32_t data_end() const {
    return iss + 1 + static_cast<std::uint32_t>(written);
  }
  [[nodiscard]] std::uint32_t send_end() const { return data_end() + (fin_asked ? 1U : 0U); }
};

/// The connection as a peer sees it that does everything right.
struct PeerView {
  enum class Stage : std::uint8_t { nothing, host_opens, host_answers, open };

  Stage stage = Stage::nothing;
  std::uint32_t iss = 0;        ///< The host's.
  std::uint32_t next = 0;       ///< The number that the host expects,
  std::uint32_t received = 0;   ///< and up to where the peer has everything.
  bool timestamps = false;      ///< The host sends them:
  std::uint32_t timestamp = 0;  ///< its own last one,
  std::uint32_t echo = 0;       ///< and the last one that it echoed.
};

struct TcpWatchOptions {
  Endpoint host;
  Endpoint peer;
  std::size_t mtu = 1500;
  Delay time_wait{};
  Delay patience{};  ///< With what isn't acknowledged.
};

class TcpWatch {
 public:
  explicit TcpWatch(const TcpWatchOptions& options)
      : options_(options), patience_(options.patience) {}

  /// A move: begin(), what happens in it, acted(), each packet that has left, end(). `info` is what
  /// is known of the user's connection then.
  void begin(Move move, const std::optional<TcpInfo>& info, Instant now);
  void arrives(std::span<const std::byte> packet);
  void acted(const std::optional<TcpInfo>& info);
  void leaves(std::span<const std::byte> packet);
  void end();

  /// What the user did and was told.
  void connects(const TcpInfo& info);
  void accepts(const TcpInfo& info);
  void writes(std::size_t bytes) { connection_->written += bytes; }
  void reads(std::span<const std::byte> bytes);
  void reads_end() const;
  void shuts_down(bool releases);
  void aborts();
  void sets_patience(Delay patience) { patience_ = patience; }
  void is_told_connected();
  void is_told_closed(TcpEnd why);
  /// The user has let go of a connection that is over.
  void forgets() { forgotten_ = true; }

  /// What must hold between moves: whatever waits for something has a timer.
  void check_deadlines(const Tcp& tcp, Instant due) const;

  /// Packets ran out: not all that TCP counts as sent has left.
  void loses_packets();

  /// None when the user has no connection.
  [[nodiscard]] const std::optional<WatchedConnection>& connection() const { return connection_; }
  [[nodiscard]] const std::optional<TcpInfo>& info() const { return after_; }
  [[nodiscard]] const PeerView& peer_view() const { return view_; }
  /// The furthest number, up to the window's edge, at which a segment from the peer has begun.
  [[nodiscard]] std::uint32_t furthest_named() const { return furthest_; }
  /// The edge of the host's window.
  [[nodiscard]] std::uint32_t edge() const;

 private:
  /// A SYN-ACK that has left.
  struct Opening {
    std::uint32_t iss = 0;
    std::uint32_t irs = 0;
    std::uint32_t edge = 0;
  };
  /// A connection that is over, of which the host may have kept the numbers.
  struct Past {
    std::uint32_t sent_end = 0;
    std::uint32_t irs = 0;
  };
  /// A SYN that has arrived.
  struct Syn {
    std::uint32_t sequence = 0;
    bool scale = false;
    bool timestamps = false;
    bool sack = false;
  };

  void note_arrival(const Segment& segment);
  void note_reset(const Segment& segment);
  void note_named(std::uint32_t number);
  void note_owed();
  void note_progress();
  void note_left(const Segment& segment);

  void check_form(const Segment& segment, std::size_t size) const;
  void check_reset(const Segment& segment) const;
  void check_syn(const Segment& segment);
  void check_segment(const Segment& segment);
  void check_text(const Segment& segment) const;
  void check_offer(const Segment& segment);
  void check_options(const Segment& segment);
  [[nodiscard]] bool is_answer(const Segment& reset) const;
  [[nodiscard]] bool is_of_connection(const Segment& segment) const {
    return alive_ && is_of(*connection_, segment);
  }
  [[nodiscard]] bool is_of(const WatchedConnection& c, const Segment& segment) const;
  void begin_connection();
  [[nodiscard]] bool is_of_opening(const Segment& segment) const;
  [[nodiscard]] bool is_of_past(const Segment& segment) const;
  [[nodiscard]] bool can_acknowledge(std::uint32_t irs, std::uint32_t number) const;

  [[nodiscard]] std::string state_text() const;
  void check_changes() const;
  void check_queues() const;
  void check_end() const;

  TcpWatchOptions options_;
  Delay patience_;
  std::optional<WatchedConnection> connection_;
  std::optional<WatchedConnection> last_;  ///< The one before, over in this move.
  bool alive_ = false;  ///< There is one, and it wasn't over when the move began.
  bool forgotten_ = false;
  std::vector<Opening> openings_;
  std::vector<Past> past_;

  Move move_ = Move::call;
  Instant now_{};
  std::optional<TcpInfo> before_;
  std::optional<TcpInfo> after_;
  std::optional<Segment> arrival_;  ///< In this move, if it is between the endpoints.
  bool readable_ = false;           ///< A packet that arrived in this move was a segment.
  std::size_t text_left_ = 0;       ///< Bytes that have left in this move,
  std::size_t empty_left_ = 0;      ///< and segments without any.

  SequenceRanges arrived_;          ///< The numbers of data that have arrived,
  std::set<std::uint32_t> fins_;    ///< of FINs,
  std::set<std::uint32_t> stamps_;  ///< and the timestamps.
  std::vector<Syn> syns_;
  std::vector<std::uint32_t> named_;  ///< Where segments that have arrived begin.
  std::uint32_t furthest_ = 0;
  bool owes_ = false;     ///< What has arrived wants an acknowledgement.
  bool tainted_ = false;  ///< A segment has arrived whose bytes aren't peer_bytes().
  bool lossless_ = true;
  PeerView view_;
};

}  // namespace pinion::test
