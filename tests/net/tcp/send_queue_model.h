#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "byte_world.h"

/// A SendQueue beside all bytes that were ever written to it.

namespace pinion::test {

/// `Choices` answers below(n): random numbers, or a fuzzer's input.
template <class Choices>
class SendQueueModel {
 public:
  SendQueueModel(ByteWorld& world, wire::SequenceNumber start, std::uint32_t limit,
                 Choices& choices)
      : world_(world), choices_(choices), start_(start), queue_(start, limit) {}
  ~SendQueueModel() { queue_.clear(world_.send); }
  SendQueueModel(const SendQueueModel&) = delete;
  SendQueueModel& operator=(const SendQueueModel&) = delete;

  [[nodiscard]] const std::string& failure() const { return failure_; }

  /// Does one thing and compares. False once something differed.
  bool step() {
    switch (choices_.below(8)) {
      case 0:
      case 1:
        write_bytes();
        break;
      case 2:
        write_packet();
        break;
      case 3:
      case 4:
      case 5:
        cut();
        break;
      case 6:
        if (!on_the_way_.empty()) on_the_way_.erase(on_the_way_.begin());
        break;
      default:
        acknowledge();
    }
    require(queue_.begin() == number(acknowledged_), "begin()");
    require(queue_.end() == number(written_.size()), "end()");
    require(queue_.empty() == (acknowledged_ == written_.size()), "empty()");
    require(queue_.true_size() >= queue_.size(), "the charge");
    return failure_.empty();
  }

 private:
  /// A segment that the device has not sent yet, and what it must say when it does.
  struct OnTheWay {
    PacketPtr packet;
    std::size_t from;
    std::size_t size;
  };

  void require(bool condition, const char* what) {
    if (!condition && failure_.empty()) failure_ = what;
  }

  std::size_t below(std::size_t bound) { return static_cast<std::size_t>(choices_.below(bound)); }
  std::size_t some_size() { return below(2) == 0 ? 1 + below(40) : 1 + below(6'000); }

  [[nodiscard]] wire::SequenceNumber number(std::size_t offset) const {
    return start_ + static_cast<std::uint32_t>(offset);
  }

  void write_bytes() {
    const Bytes bytes = some_bytes(some_size(), ++writes_);
    const bool was_full = queue_.full();
    const std::size_t count = queue_.write(bytes, world_.send);
    require(count <= bytes.size(), "how much was taken");
    require(count == bytes.size() || queue_.full(), "less was taken than fits");
    require(was_full || count != 0, "nothing was taken");
    written_.insert(written_.end(), bytes.begin(),
                    bytes.begin() + static_cast<std::ptrdiff_t>(count));
  }

  void write_packet() {
    const Bytes bytes = some_bytes(below(1'900), ++writes_);
    PacketPtr packet = world_.packet(bytes, static_cast<Shape>(below(kShapes)));
    const std::size_t count = queue_.write(packet, world_.send);
    const Bytes left = packet ? bytes_of(*packet) : Bytes();
    require(count + left.size() == bytes.size(), "what is left of a packet");
    require(!packet || queue_.full(), "less was taken than fits");
    written_.insert(written_.end(), bytes.begin(),
                    bytes.begin() + static_cast<std::ptrdiff_t>(count));
  }

  void cut() {
    if (acknowledged_ == written_.size()) return;
    const std::size_t from = acknowledged_ + below(written_.size() - acknowledged_);
    const std::size_t most = some_size();
    SendSegment segment =
        queue_.segment(number(from), static_cast<std::uint32_t>(most), world_.send);
    require(static_cast<bool>(segment.packet), "no packet");
    require(segment.size > 0 && segment.size <= most, "the segment's size");
    require(segment.packet->headroom() >= kPacketHeadroom, "room for headers");
    require(!segment.packet->shared(), "headers go into a packet of one's own");
    require(segment.push == (from + segment.size == written_.size()), "PSH");
    on_the_way_.push_back({std::move(segment.packet), from, segment.size});
    if (on_the_way_.size() > 20) on_the_way_.erase(on_the_way_.begin() + 10);
    for (const OnTheWay& sent : on_the_way_) check(sent);
  }

  void check(const OnTheWay& sent) {
    const Bytes bytes = bytes_of(*sent.packet);
    require(bytes.size() == sent.size, "how much a segment has");
    if (!failure_.empty()) return;
    require(std::equal(bytes.begin(), bytes.end(),
                       written_.begin() + static_cast<std::ptrdiff_t>(sent.from)),
            "a segment's bytes");
    std::size_t segments = 0;
    for (const Packet* at = sent.packet.get(); at != nullptr; at = at->next_segment()) ++segments;
    require(segments <= world_.send.max_segments, "how long a chain is");
  }

  void acknowledge() {
    acknowledged_ += below(written_.size() - acknowledged_ + 1);
    queue_.acknowledge(number(acknowledged_), world_.send);
  }

  ByteWorld& world_;
  Choices& choices_;
  const wire::SequenceNumber start_;
  SendQueue queue_;
  Bytes written_;
  std::size_t acknowledged_ = 0;
  std::uint32_t writes_ = 0;
  std::vector<OnTheWay> on_the_way_;
  std::string failure_;
};

}  // namespace pinion::test
