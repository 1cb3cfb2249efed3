#include "round_trip.h"

#include <algorithm>

namespace pinion {

void RoundTrip::add_sample(std::uint32_t rtt_us, std::uint32_t now_us,
                           const RetransmissionSettings& settings) noexcept {
  const std::uint32_t rtt = std::clamp<std::uint32_t>(rtt_us, 1, settings.max_us);
  if (!has_sample()) {
    srtt_ = rtt << kSrttShift;
    rttvar_ = rtt << (kRttvarShift - 1);  // Half of it (2.2).
  } else {
    // RTTVAR first, by the SRTT of before (2.3). Neither sum wraps: both stand below max_us, which
    // leaves room for the fixed point.
    const std::uint32_t srtt = srtt_us();
    const std::uint32_t error = rtt > srtt ? rtt - srtt : srtt - rtt;
    rttvar_ = rttvar_ - (rttvar_ >> kRttvarShift) + error;
    srtt_ = std::max<std::uint32_t>(srtt_ - (srtt_ >> kSrttShift) + rtt, 1U << kSrttShift);
  }
  sampled_at_us_ = now_us;
  backoff_ = 0;
  after_syn_ = false;
}

}  // namespace pinion
