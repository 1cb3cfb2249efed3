#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "byte_world.h"
#include "slow_stream.h"
#include "tcp/reassembly.h"

/// A ReceiveQueue with an OutOfOrder beside the slow, obvious way.

namespace pinion::test {

class ReassemblyModel {
 public:
  /// A stream of `length` bytes from `start` on, then FIN.
  ReassemblyModel(ByteWorld& world, wire::SequenceNumber start, std::uint32_t length,
                  std::uint32_t limit)
      : world_(world), start_(start), limit_(limit), slow_(start, length), queue_(start, limit) {
    static_cast<void>(queue_.offer(kMss, 0));
  }
  ~ReassemblyModel() {
    queue_.clear(world_.receive);
    beyond_.clear(world_.beyond);
  }
  ReassemblyModel(const ReassemblyModel&) = delete;
  ReassemblyModel& operator=(const ReassemblyModel&) = delete;

  [[nodiscard]] const std::string& failure() const { return failure_; }
  [[nodiscard]] std::uint32_t next() const { return slow_.next(); }
  [[nodiscard]] std::uint32_t blocks() const { return beyond_.blocks(); }
  [[nodiscard]] bool is_over() const { return fin_passed_; }

  /// The bytes from `begin` to before `end` arrive, and FIN with the last one of the stream. False
  /// once something differed. `begin` may be before the window, `end` behind it.
  bool arrive(std::uint32_t begin, std::uint32_t end, Shape shape) {
    if (queue_.true_size() > ReceiveQueue::kOverdraft * limit_) read(slow_.length(), false);
    const Bytes bytes = slow_.next_segment(begin, end);
    const bool fin = end == slow_.length();
    const auto edge = static_cast<std::uint32_t>(queue_.edge() - start_);
    const TextOutcome outcome = receive_text({.begin = start_ + begin,
                                              .payload = world_.packet(bytes, shape),
                                              .fin = fin,
                                              .report = true},
                                             queue_, beyond_, world_.receive, world_.beyond);
    const std::uint32_t before = next();
    const std::vector<wire::SackBlock> expected = slow_.take(begin, std::min(end, edge), bytes);
    require(outcome.delivered == next() - before, "delivered");
    fin_seen_ = fin_seen_ || (fin && end <= edge);
    const bool over = fin_seen_ && next() == slow_.length();
    require(outcome.fin == over, "FIN");
    require(!outcome.no_room, "no room");
    fin_passed_ = over;
    require(queue_.next() == start_ + (next() + (over ? 1U : 0U)), "RCV.NXT");
    if (!over) compare_report(expected);
    queue_.compact(world_.receive);
    return failure_.empty();
  }

  /// The reader takes up to `most` bytes, or one packet.
  bool read(std::size_t most, bool whole_packet) {
    Bytes got(most);
    if (whole_packet) {
      const PacketPtr packet = queue_.pop(world_.receive);
      got = packet ? bytes_of(*packet) : Bytes();
      require(!packet || packet->next_segment() == nullptr, "a packet alone");
    } else {
      got.resize(queue_.read(got, world_.receive));
      require(got.size() == std::min<std::size_t>(most, next() - read_),
              "how many bytes were read");
    }
    for (const std::byte byte : got) require(byte == slow_.byte(read_++), "a byte");
    require(queue_.size() == next() - read_, "what is unread");
    const wire::SequenceNumber before = queue_.edge();
    static_cast<void>(queue_.offer(kMss, 0));
    require(!after(before, queue_.edge()), "the right edge");
    return failure_.empty();
  }

 private:
  static constexpr std::uint32_t kMss = 100;

  void require(bool condition, const char* what) {
    if (!condition && failure_.empty()) failure_ = what;
  }

  void compare_report(const std::vector<wire::SackBlock>& expected) {
    const wire::SackBlocks report = beyond_.take_report(wire::SackBlocks::kMost, world_.beyond);
    require(report.size() == std::min(expected.size(), wire::SackBlocks::kMost), "SACK blocks");
    if (!failure_.empty()) return;
    require(std::equal(report.begin(), report.end(), expected.begin()), "a SACK block");
  }

  ByteWorld& world_;
  const wire::SequenceNumber start_;
  const std::uint32_t limit_;
  SlowStream slow_;
  ReceiveQueue queue_;
  OutOfOrder beyond_;
  std::uint32_t read_ = 0;
  bool fin_seen_ = false;
  bool fin_passed_ = false;
  std::string failure_;
};

}  // namespace pinion::test
