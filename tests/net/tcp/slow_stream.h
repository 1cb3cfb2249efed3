#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "byte_world.h"
#include "wire/sequence_number.h"
#include "wire/tcp_header.h"

/// What becomes of a stream's segments, the slow and obvious way: one entry per byte that says what
/// it is and which segment brought it last.

namespace pinion::test {

class SlowStream {
 public:
  SlowStream(wire::SequenceNumber start, std::uint32_t length) : start_(start), cells_(length) {}

  [[nodiscard]] std::uint32_t length() const { return static_cast<std::uint32_t>(cells_.size()); }
  [[nodiscard]] std::uint32_t next() const { return next_; }
  /// The byte as the first segment had it that brought it.
  [[nodiscard]] std::byte byte(std::uint32_t at) const { return cells_[at].value; }
  /// Whether something has arrived beyond a hole.
  [[nodiscard]] bool has_beyond() const {
    return std::any_of(cells_.begin() + next_, cells_.end(),
                       [](const Cell& cell) { return cell.touched != 0; });
  }

  /// The bytes of the next segment, from `begin` to before `end`: other ones than any before it.
  [[nodiscard]] Bytes next_segment(std::uint32_t begin, std::uint32_t end) {
    ++segments_;
    Bytes bytes(end - begin);
    for (std::uint32_t i = 0; i < bytes.size(); ++i) bytes[i] = byte_at(segments_, begin + i);
    return bytes;
  }

  /// Takes the segment, and answers the report that it should draw.
  std::vector<wire::SackBlock> take(std::uint32_t begin, std::uint32_t end, const Bytes& bytes) {
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

 private:
  struct Cell {
    std::byte value{};
    std::uint32_t touched = 0;  ///< The last segment that had it; 0: it hasn't arrived.
  };

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

  const wire::SequenceNumber start_;
  std::vector<Cell> cells_;
  std::uint32_t segments_ = 0;
  std::uint32_t next_ = 0;  ///< RCV.NXT, counted from start_.
};

}  // namespace pinion::test
