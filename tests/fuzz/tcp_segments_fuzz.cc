#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "../net/script/segment.h"
#include "byte_choices.h"
#include "tcp/peer.h"
#include "tcp/world.h"

/// A whole host and one TCP connection: segments with numbers near the edges that matter, with any
/// flags, options and data, bursts, duplicates, damage and ICMP errors, calls of every kind, and
/// time. A peer that does everything right takes part, so that all states are reached, and has the
/// last word: whatever came before, what was written then arrives.

namespace {

using namespace pinion;
using namespace pinion::test;
using std::chrono::milliseconds;
using std::chrono::seconds;

class Session {
 public:
  explicit Session(ByteChoices& choices)
      : choices_(choices),
        options_(choose_options()),
        world_(options_),
        peer_(world_.watch(), world_.host(), world_.peer(), choose_peer()) {}

  void run() {
    while (!choices_.exhausted()) step();
    deliver();
    if (abrupt_) return;
    world_.hoard(TcpWorld::kPackets);
    finish();
  }

 private:
  TcpWorldOptions choose_options();
  TcpPeerOptions choose_peer();
  void step();
  void choose_packet(std::uint32_t kind);
  void choose_event(std::uint32_t kind);
  void choose_window();
  void choose_scarcity();
  void choose_segment();
  void choose_data();
  void choose_damage();
  void choose_complaint();
  void choose_time();
  void choose_call();
  void choose_setting();
  void choose_habit();
  std::uint32_t choose_delta();
  std::uint32_t choose_sequence();
  std::uint32_t choose_acknowledgment();
  std::size_t choose_size();
  void choose_options_of(Segment& segment);

  void send(PacketBytes packet);
  void send(const Segment& segment) { send(peer_.packet(segment)); }
  void deliver();
  void converse(int rounds);
  [[nodiscard]] bool is_open() const;
  [[nodiscard]] bool all_is_done() const;
  [[nodiscard]] bool all_is_read() const;
  [[nodiscard]] bool is_lost() const;
  [[nodiscard]] bool is_behind() const;
  void fill();
  void finish();

  ByteChoices& choices_;
  bool abrupt_ = false;
  TcpWorldOptions options_;
  TcpWorld world_;
  TcpPeer peer_;
  std::vector<PacketBytes> burst_;
  std::size_t burst_size_ = 1;
  std::size_t piece_ = SIZE_MAX;
  std::vector<PacketBytes> sent_;  ///< By the peer, the last ones.
};

// ---------------------------------------------------------------------------------------------
// The world

Instant choose_start(ByteChoices& choices) {
  // Near where milliseconds, their sign and microseconds in 32 bits wrap around.
  const Instant starts[] = {
      Instant{seconds{1000}},
      Instant{milliseconds{(std::int64_t{1} << 32) - 5'000}},
      Instant{milliseconds{(std::int64_t{1} << 31) - 5'000}},
      Instant{std::chrono::microseconds{(std::int64_t{1} << 32) - 5'000'000}},
  };
  return choices.one_of(starts) + std::chrono::microseconds{300};
}

TcpWorldOptions Session::choose_options() {
  constexpr std::uint32_t kBuffers[] = {65'536, 4'096, 16'384, 262'144, 1 << 20};
  constexpr std::size_t kMtus[] = {1500, 1280, 1400, 4000};
  const std::uint32_t bits = choices_.below32(256);
  TcpWorldOptions options;
  options.v6 = (bits & 1) != 0;
  options.listens = (bits & 2) == 0;
  options.config.timestamps = (bits & 4) == 0;
  options.config.window_scale = (bits & 8) == 0;
  options.config.sack = (bits & 16) == 0;
  options.socket.no_delay = (bits & 32) != 0;
  abrupt_ = (bits & 192) == 192;
  options.config.max_connections = 2 + choices_.below(3);
  options.config.max_half_open = 1 + choices_.below(3);
  options.config.max_time_waits = 1 + choices_.below(2);
  options.config.max_reordering = 1 + choices_.below(2);
  options.config.max_listeners = 1;
  options.socket.receive_buffer = choices_.one_of(kBuffers);
  options.socket.send_buffer = choices_.one_of(kBuffers);
  options.mtu = choices_.one_of(kMtus);
  options.max_segments = options.mtu > 1500 ? 8 : 1 + choices_.below(4);
  options.seed = choices_.below(65'536);
  options.start = choose_start(choices_);
  return options;
}

TcpPeerOptions Session::choose_peer() {
  constexpr std::uint16_t kSegments[] = {1460, 536, 88, 1, 65'535};
  constexpr std::uint32_t kFirst[] = {1, 0xffff'ffffU, 0xffff'f000U, 0x7fff'ff00U};
  const std::uint32_t bits = choices_.below32(256);
  TcpPeerOptions options;
  options.isn = choices_.one_of(kFirst);
  options.timestamps = (bits & 1) == 0;
  options.sack = (bits & 2) == 0;
  if ((bits & 4) == 0) options.scale = static_cast<std::uint8_t>((bits >> 4) % 15);
  if ((bits & 8) == 0) options.mss = choices_.one_of(kSegments);
  return options;
}

// ---------------------------------------------------------------------------------------------
// Steps

void Session::send(PacketBytes packet) {
  constexpr std::size_t kRemembered = 8;
  if (sent_.size() == kRemembered) sent_.erase(sent_.begin());
  sent_.push_back(packet);
  burst_.push_back(std::move(packet));
  if (burst_.size() >= burst_size_) deliver();
}

void Session::deliver() {
  burst_size_ = 1;
  if (burst_.empty()) return;
  world_.receive(burst_, piece_);
  burst_.clear();
}

void Session::step() {
  constexpr std::uint32_t kOfSegments = 13;
  const std::uint32_t kind = choices_.below32(32);
  if (kind < kOfSegments) return choose_packet(kind);
  // Segments of one burst have nothing between them.
  if (!burst_.empty()) deliver();
  choose_event(kind - kOfSegments);
}

void Session::choose_packet(std::uint32_t kind) {
  switch (kind) {
    case 5:
    case 6:
      return send(peer_.reply(world_.milliseconds()));
    case 7:
    case 8:
      return choose_data();
    case 9:
      return send(peer_.data(0, true, world_.milliseconds()));
    case 10:
      if (!sent_.empty()) send(sent_[choices_.below(sent_.size())]);
      return;
    case 11:
      return choose_damage();
    case 12:
      burst_size_ = 1 + choices_.below(8);
      return;
    default:
      return choose_segment();
  }
}

void Session::choose_event(std::uint32_t kind) {
  switch (kind) {
    case 0:
    case 1:
    case 2:
      return converse(1 + static_cast<int>(choices_.below(8)));
    case 3:
    case 4:
    case 5:
    case 6:
      return choose_time();
    case 7:
      return choose_complaint();
    case 8:
    case 9: {
      const std::size_t size = choose_size();
      return world_.write(size * (1 + choices_.below(8)));
    }
    case 10:
      return world_.write_packet(choose_size());
    case 11:
      return world_.read(choose_size());
    case 12:
      return world_.take();
    case 13:
    case 14:
      return choose_call();
    case 15:
      return choose_setting();
    case 16:
      return choose_habit();
    case 17:
      return choose_window();
    default:
      return choose_scarcity();
  }
}

void Session::choose_window() {
  const bool coarse = choices_.below(2) == 0;
  peer_.set_window(coarse ? choices_.below32(3) * 0x7fffU : choices_.below32(65'536));
}

/// Of the packets, and of the room in those that arrive.
void Session::choose_scarcity() {
  piece_ = choices_.below(2) == 0 ? SIZE_MAX : 128 + choices_.below(512);
  world_.hoard(choices_.below(4) != 0 ? TcpWorld::kPackets : choices_.below(128));
}

/// 0 more often than not.
std::uint32_t Session::choose_delta() {
  const std::uint32_t kind = choices_.below32(16);
  const std::uint32_t mss = peer_.segment();
  switch (kind) {
    case 8:
      return 1;
    case 9:
      return 0U - 1;
    case 10:
      return mss;
    case 11:
      return 0U - mss;
    case 12:
      return choices_.below32(256);
    case 13:
      return 0U - choices_.below32(256);
    case 14:
      return choices_.below32(65'536);
    case 15:
      return 0U - choices_.below32(65'536);
    default:
      return 0;
  }
}

std::uint32_t Session::choose_sequence() {
  const std::uint32_t next = peer_.next();
  const std::uint32_t bases[] = {
      next,        next, next, next - 1, world_.watch().edge(), world_.watch().furthest_named(),
      peer_.isn(), next};
  const std::uint32_t kind = choices_.below32(8);
  if (kind == 7) return choices_.below32(0xffff'ffffU);
  return bases[kind] + choose_delta();
}

std::uint32_t Session::choose_acknowledgment() {
  const auto& info = world_.watch().info();
  const std::uint32_t all = peer_.received();
  const std::uint32_t una = info ? info->first_unacknowledged.value() : all;
  const std::uint32_t bases[] = {
      all, all, all, all, una, una - (65'535U << 14), world_.watch().peer_view().iss, all};
  const std::uint32_t kind = choices_.below32(8);
  if (kind == 7) return choices_.below32(0xffff'ffffU);
  return bases[kind] + choose_delta();
}

std::size_t Session::choose_size() {
  const std::uint32_t kind = choices_.below32(8);
  if (kind < 3) return peer_.segment();
  if (kind == 3) return 0;
  if (kind == 4) return 1;
  return kind == 5 ? choices_.below(256) : choices_.below(4'096);
}

void Session::choose_segment() {
  constexpr std::uint8_t kFlags[] = {kAck, kAck,        kAck, kAck | kPsh,       kAck | kFin,
                                     kSyn, kSyn | kAck, kRst, kRst | kAck,       kAck | kUrg,
                                     0,    kFin,        kAck, kSyn | kEce | kCwr};
  Segment segment = peer_.bare(world_.milliseconds());
  const std::uint32_t kind = choices_.below32(16);
  segment.flags =
      kind < std::size(kFlags) ? kFlags[kind] : static_cast<std::uint8_t>(choices_.below(256));
  segment.sequence = choose_sequence();
  segment.acknowledgment = segment.has(kAck) ? choose_acknowledgment() : 0;
  if (segment.has(kUrg)) segment.urgent_pointer = static_cast<std::uint16_t>(choices_.below(2'000));
  const std::uint32_t window = choices_.below32(8);
  if (window == 4) segment.window = 0;
  if (window == 5) segment.window = 1;
  if (window == 6) segment.window = static_cast<std::uint16_t>(choices_.below(256));
  if (window == 7) segment.window = static_cast<std::uint16_t>(choices_.below(65'536));
  const std::size_t size = choices_.below(2) == 0 ? 0 : choose_size();
  segment.payload = peer_bytes(segment.sequence + (segment.has(kSyn) ? 1U : 0U), size);
  if (segment.has(kSyn)) segment.options = peer_.offers(world_.milliseconds());
  choose_options_of(segment);
  if (choices_.below(32) == 31) segment.source_port = 1'001;
  send(segment);
}

/// The peer's next bytes.
void Session::choose_data() {
  const std::size_t size = choose_size();
  const bool fin = choices_.below(8) == 7;
  send(peer_.data(size, fin, world_.milliseconds()));
}

void Session::choose_options_of(Segment& segment) {
  switch (choices_.below(16)) {
    case 10:
      segment.options.clear();
      return;
    case 11: {  // Old, new or strange timestamps.
      const std::uint32_t value = world_.milliseconds() + choose_delta();
      const std::uint32_t echo = choices_.below(2) == 0 ? value : choices_.below32(0xffff'ffffU);
      std::erase_if(segment.options, [](auto& one) { return one.kind == kOptionTimestamps; });
      segment.options.push_back(timestamps_option(value, echo));
      return;
    }
    case 12: {
      SegmentOption& option = segment.options.emplace_back();
      option.kind = kOptionSack;
      const std::size_t blocks = 1 + choices_.below(3);
      for (std::size_t i = 0; i < 2 * blocks; ++i) {
        const PacketBytes edge = bytes_of(choose_acknowledgment());
        option.data.insert(option.data.end(), edge.begin(), edge.end());
      }
      return;
    }
    case 13:
      segment.options = peer_.offers(world_.milliseconds());
      return;
    case 14: {  // Anything, and most of it malformed.
      SegmentOption& option = segment.options.emplace_back();
      option.kind = static_cast<std::uint8_t>(choices_.below(16));
      option.data.resize(choices_.below(12));
      for (std::byte& byte : option.data) byte = static_cast<std::byte>(choices_.below(256));
      return;
    }
    default:
      return;
  }
}

/// A segment from before, with some bytes changed behind the IP header; its checksum is put right,
/// unless that is what is wrong with it. Only headers change then: the stream stays one.
void Session::choose_damage() {
  if (sent_.empty()) return;
  PacketBytes packet = sent_[choices_.below(sent_.size())];
  const bool repairs = choices_.below(4) != 3;
  const std::size_t begin = options_.v6 ? 40 : 20;
  PacketBytes tcp(packet.begin() + static_cast<std::ptrdiff_t>(begin), packet.end());
  for (std::size_t count = 1 + choices_.below(3); count != 0 && !tcp.empty(); --count) {
    const std::size_t at = choices_.below(std::min<std::size_t>(tcp.size(), 60));
    tcp[at] = static_cast<std::byte>(choices_.below(256));
  }
  if (choices_.below(8) == 7) tcp.resize(choices_.below(tcp.size() + 1));
  send(repairs ? peer_.repaired(tcp) : write_ip(world_.peer().address, world_.host().address, tcp));
}

void Session::choose_complaint() {
  constexpr std::uint16_t kMtus[] = {1280, 0, 68, 576, 1400, 1500};
  IcmpSpeech speech;
  speech.type = static_cast<std::uint8_t>(choices_.below(16));
  speech.code = static_cast<std::uint8_t>(choices_.below(16));
  speech.detail = choices_.one_of(kMtus);
  speech.sequence = choose_acknowledgment();
  if (choices_.below(2) == 0) --speech.sequence;  // What was sent last.
  speech.quoted = 8 + choices_.below(24);
  world_.complain(peer_.complaint(speech));
}

void Session::choose_time() {
  constexpr Delay kLong[] = {seconds{1}, seconds{5}, seconds{61}, std::chrono::minutes{11},
                             std::chrono::hours{24 * 25}};
  switch (choices_.below(8)) {
    case 0:
      return world_.pass(milliseconds{1}, 8);
    case 1:
      return world_.pass(milliseconds{choices_.below(256)}, 8);
    case 2:
      return world_.pass(milliseconds{choices_.below(65'536)}, 8);
    case 3:
      return world_.pass(choices_.one_of(kLong), 32);
    case 4:
      for (std::uint64_t left = choices_.below(16); left != 0; --left) world_.pass_to_deadline();
      return;
    default:
      return world_.pass_to_deadline();
  }
}

void Session::choose_call() {
  switch (choices_.below(16)) {
    case 0:
    case 1:
    case 2:
      return world_.shutdown();
    case 3:
    case 4:
    case 5:
      return world_.close();
    case 6:
      return world_.abort();
    case 7:
    case 8:
    case 9:
      peer_.begins_again();
      return world_.connect();
    case 10:
      return world_.accept();
    case 11:
      return world_.stop_listening();
    case 12:
      return world_.listen();
    case 13:
      return world_.bury();
    default:
      return peer_.begins_again();
  }
}

void Session::choose_setting() {
  switch (choices_.below(8)) {
    case 0:
      return world_.set_no_delay(choices_.below(2) == 0);
    case 1:
    case 2:
      return world_.set_keepalive({.idle = choices_.below(4) == 3
                                               ? kNoTimeout
                                               : Delay{milliseconds{choices_.below(65'536)}},
                                   .interval = milliseconds{choices_.below(65'536)},
                                   .probes = static_cast<int>(choices_.below(8))});
    case 3:
    case 4:
      return world_.set_user_timeout(milliseconds{choices_.below(65'536)});
    case 5: {
      const milliseconds read{choices_.below(65'536)};
      return world_.set_deadlines(read, milliseconds{choices_.below(65'536)});
    }
    case 6:
      return world_.set_traffic_class(static_cast<std::uint8_t>(choices_.below(256)));
    default:
      return world_.set_user_timeout(kNoTimeout);
  }
}

void Session::choose_habit() {
  const std::uint64_t bits = choices_.below(256);
  world_.habits = {.accepts = (bits & 3) != 3,
                   .reads = (bits & 4) == 0,
                   .writes = (bits & 8) == 0,
                   .closes_at_end = (bits & 16) != 0,
                   .keeps_the_dead = (bits & 32) != 0};
}

/// The peer answers what comes, round after round.
void Session::converse(int rounds) {
  for (; rounds != 0; --rounds) {
    send(peer_.reply(world_.milliseconds()));
    world_.pass(milliseconds{50}, 4);
  }
}

// ---------------------------------------------------------------------------------------------
// The end

bool Session::is_open() const {
  const auto& c = world_.watch().connection();
  return c && !c->over && c->synchronized;
}

bool Session::all_is_done() const {
  const WatchedConnection& c = *world_.watch().connection();
  return c.una == c.send_end() && world_.has_written_all();
}

bool Session::all_is_read() const {
  const WatchedConnection& c = *world_.watch().connection();
  if (c.released) return true;  // Nobody reads any more.
  const std::uint32_t fin = world_.watch().info()->end_of_stream ? 1 : 0;
  const std::uint32_t behind = *c.irs + 1 + static_cast<std::uint32_t>(c.read) + fin;
  return static_cast<std::int32_t>(behind - peer_.next()) >= 0;
}

/// Whether a segment from before has named numbers that the peer will never reach, behind its own
/// FIN: by SND.WL1 the windows that it offers now are old ones.
bool Session::is_lost() const {
  return world_.watch().info()->end_of_stream && is_behind();
}

bool Session::is_behind() const {
  return static_cast<std::int32_t>(world_.watch().furthest_named() - peer_.next()) > 0;
}

/// The next segment of the peer, up to the furthest number that it has named before.
void Session::fill() {
  if (!is_behind()) return send(peer_.reply(world_.milliseconds()));
  const std::uint32_t left = world_.watch().furthest_named() - peer_.next();
  send(peer_.data(std::min(left, 1'200U), false, world_.milliseconds()));
}

/// Everybody does what is right from here on: what was written arrives, what was sent is read, and
/// the connection ends in order.
void Session::finish() {
  // What comes of ends that the peer hasn't brought about: time, and settings from before.
  world_.habits = {};
  peer_.set_window(0xffff);
  constexpr int kMostRounds = 2'000;
  converse(4);
  world_.read_to_end();
  world_.write_more();
  const auto acknowledged = [&] { return world_.watch().connection()->una; };
  for (int round = 0, standing = 0; is_open() && !all_is_done(); ++round, ++standing) {
    require(standing < kMostRounds / 2, "a peer that does everything right gets what was written");
    // Much is left, in tiny segments.
    if (is_lost() || round == kMostRounds) return;
    const auto before = acknowledged();
    fill();
    world_.pass(milliseconds{200}, 8);
    if (acknowledged() != before) standing = 0;
  }
  if (!is_open()) return;
  world_.pass(milliseconds{100}, 8);
  if (!is_open()) return;
  require(all_is_read(), "who reads what he is told of gets all that was acknowledged");
  if (!is_behind()) world_.check_idle();
  world_.close();
  for (int round = 0; is_open(); ++round) {
    require(round < kMostRounds, "a connection that both close is over");
    if (is_lost()) return;
    const bool fin = !world_.watch().info()->end_of_stream;
    send(fin ? peer_.data(0, true, world_.milliseconds()) : peer_.reply(world_.milliseconds()));
    world_.pass(milliseconds{200}, 8);
  }
  world_.pass(std::chrono::minutes{5}, 64);
  world_.check_idle();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ByteChoices choices(data, size);
  Session(choices).run();
  return 0;
}
