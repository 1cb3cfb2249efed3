#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "stack_world.h"

/// A host on three Ethernets and a link without frames, whose transport may know the flow of
/// whatever comes from a host; and all that can be seen of it, as text.

namespace pinion::test {

/// Takes packets of known flows, if it is to, and writes down what is the same for all.
class FlowsTransport final : public IpTransport {
 public:
  explicit FlowsTransport(bool knows) : knows_(knows) {}

  [[nodiscard]] bool receive_known(PacketPtr& packet, Instant now) noexcept override;
  void receive(PacketPtr packet, const IpArrival& arrival, Instant now) noexcept override;
  void complain(const IpComplaint& complaint, Instant now) noexcept override;
  void end_of_burst(Instant) noexcept override {}

  std::vector<std::string> said;
  std::size_t known = 0;

 private:
  void note(const Bytes& bytes, const IpAddress& from, const IpAddress& to);

  const bool knows_;
};

class WaysHost {
 public:
  /// Interfaces 0 and 1 have addresses in use, those of 2 are being checked, and 3 is bare IP.
  WaysHost(bool knows, std::uint64_t seed);
  WaysHost(const WaysHost&) = delete;
  WaysHost& operator=(const WaysHost&) = delete;
  ~WaysHost() = default;

  /// `marks` are of PacketMark. Of a packet that is shared somebody else holds the last segment.
  struct How {
    std::uint8_t interface = 0;
    std::size_t first_segment = SIZE_MAX;  ///< Bytes in it; the rest has one of its own.
    std::vector<PacketMark> marks = {};
    bool shared = false;
  };
  void inject(const Bytes& bytes, const How& how);
  void pass(Delay time);

  /// What was received and sent since the last time, and all counters.
  [[nodiscard]] std::string seen();
  [[nodiscard]] std::size_t known() const { return transport_.known; }
  [[nodiscard]] const IpCounters& counters() const { return stack_->counters(); }
  [[nodiscard]] IpStack& stack() { return *stack_; }

 private:
  const TestPool pool_;
  Instant now_;
  const std::unique_ptr<TimingWheel> wheel_;
  FlowsTransport transport_;
  std::unique_ptr<IpStack> stack_;
};

}  // namespace pinion::test
