#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "byte_world.h"
#include "tcp/reassembly.h"

/// A ReceiveQueue with an OutOfOrder beside the slow, obvious way: one entry per byte of the stream
/// that says what it is and which segment brought it.

namespace pinion::test {

class ReassemblyModel {
 public:
  /// A stream of `length` bytes from `start` on, then FIN.
  ReassemblyModel(ByteWorld& world, wire::SequenceNumber start, std::uint32_t length,
                  std::uint32_t limit)
      : world_(world), start_(start), limit_(limit), cells_(length), queue_(start, limit) {
    static_cast<void>(queue_.offer(kMss, 0));
  }
  ~ReassemblyModel() {
    queue_.clear(world_.receive);
    beyond_.clear(world_.beyond);
  }
  ReassemblyModel(const ReassemblyModel&) = delete;
  ReassemblyModel& operator=(const ReassemblyModel&) = delete;

  [[nodiscard]] const std::string& failure() const { return failure_; }
  [[nodiscard]] std::uint32_t next() const { return next_; }
  [[nodiscard]] std::uint32_t blocks() const { return beyond_.blocks(); }
  [[nodiscard]] bool is_over() const { return fin_passed_; }

  /// The bytes from `begin` to before `end` arrive, and FIN with the last one of the stream. False
  /// once something differed. `begin` may be before the window, `end` behind it.
  bool arrive(std::uint32_t begin, std::uint32_t end, Shape shape) {
    if (queue_.true_size() > ReceiveQueue::kOverdraft * limit_) read(cells_.size(), false);
    ++segments_;
    Bytes bytes(end - begin);
    for (std::uint32_t i = 0; i < bytes.size(); ++i) bytes[i] = byte_at(segments_, begin + i);
    const bool fin = end == cells_.size();
    const auto edge = static_cast<std::uint32_t>(queue_.edge() - start_);
    const TextOutcome outcome = receive_text({.begin = start_ + begin,
                                              .payload = world_.packet(bytes, shape),
                                              .fin = fin,
                                              .report = true},
                                             queue_, beyond_, world_.receive, world_.beyond);
    const std::uint32_t before = next_;
    const std::vector<wire::SackBlock> expected = expect(begin, std::min(end, edge), bytes);
    require(outcome.delivered == next_ - before, "delivered");
    fin_seen_ = fin_seen_ || (fin && end <= edge);
    const bool over = fin_seen_ && next_ == cells_.size();
    require(outcome.fin == over, "FIN");
    require(!outcome.no_room, "no room");
    fin_passed_ = over;
    require(queue_.next() == start_ + (next_ + (over ? 1U : 0U)), "RCV.NXT");
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
      require(got.size() == std::min<std::size_t>(most, next_ - read_), "how many bytes were read");
    }
    for (const std::byte byte : got) require(byte == cells_[read_++].value, "a byte");
    require(queue_.size() == next_ - read_, "what is unread");
    const wire::SequenceNumber before = queue_.edge();
    static_cast<void>(queue_.offer(kMss, 0));
    require(!after(before, queue_.edge()), "the right edge");
    return failure_.empty();
  }

 private:
  static constexpr std::uint32_t kMss = 100;

  struct Cell {
    std::byte value{};
    std::uint32_t touched = 0;  ///< The last segment that had it; 0: it hasn't arrived.
  };

  void require(bool condition, const char* what) {
    if (!condition && failure_.empty()) failure_ = what;
  }

  /// Takes the segment, and answers the report that it should draw.
  std::vector<wire::SackBlock> expect(std::uint32_t begin, std::uint32_t end, const Bytes& bytes) {
    std::vector<wire::SackBlock> report;
    bool in_first_run = true;
    for (std::uint32_t at = begin; at < end; ++at) {
      Cell& cell = cells_[at];
      if (cell.touched == 0) {
        cell.value = bytes[at - begin];
        in_first_run = in_first_run && report.empty();
      } else if (report.empty()) {
        report.push_back({start_ + at, start_ + (at + 1)});
      } else if (in_first_run) {
        report.front().right += 1;
      }
      cell.touched = segments_;
    }
    while (next_ < cells_.size() && cells_[next_].touched != 0) ++next_;
    std::vector<std::pair<std::uint32_t, wire::SackBlock>> ranges = ranges_beyond();
    std::sort(ranges.begin(), ranges.end(), [](auto& a, auto& b) { return a.first > b.first; });
    for (const auto& [touched, range] : ranges) report.push_back(range);
    return report;
  }

  /// What has arrived beyond next_, with the last segment that fell into it.
  [[nodiscard]] std::vector<std::pair<std::uint32_t, wire::SackBlock>> ranges_beyond() const {
    std::vector<std::pair<std::uint32_t, wire::SackBlock>> ranges;
    for (std::uint32_t at = next_; at < cells_.size(); ++at) {
      if (cells_[at].touched == 0) continue;
      if (cells_[at - 1].touched == 0) ranges.push_back({0, {start_ + at, start_ + at}});
      ranges.back().second.right += 1;
      ranges.back().first = std::max(ranges.back().first, cells_[at].touched);
    }
    return ranges;
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
  std::vector<Cell> cells_;
  ReceiveQueue queue_;
  OutOfOrder beyond_;
  std::uint32_t segments_ = 0;
  std::uint32_t next_ = 0;  ///< RCV.NXT, counted from start_.
  std::uint32_t read_ = 0;
  bool fin_seen_ = false;
  bool fin_passed_ = false;
  std::string failure_;
};

}  // namespace pinion::test
