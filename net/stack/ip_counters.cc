#include "ip_counters.h"

namespace pinion {
namespace {

constexpr std::array kCounters = std::to_array<IpCounter>({
    {&IpCounters::packets_in, "packets_in"},
    {&IpCounters::delivered, "delivered"},
    {&IpCounters::header_split, "header_split"},
    {&IpCounters::frame_other_host, "frame_other_host"},
    {&IpCounters::frame_ours, "frame_ours"},
    {&IpCounters::frame_type, "frame_type"},
    {&IpCounters::frame_group, "frame_group"},
    {&IpCounters::source_martian, "source_martian"},
    {&IpCounters::source_ours, "source_ours"},
    {&IpCounters::destination_martian, "destination_martian"},
    {&IpCounters::not_for_us, "not_for_us"},
    {&IpCounters::source_route, "source_route"},
    {&IpCounters::protocol_unknown, "protocol_unknown"},
    {&IpCounters::no_next_header, "no_next_header"},
    {&IpCounters::in_no_packet, "in_no_packet"},
    {&IpCounters::fragments_in, "fragments_in"},
    {&IpCounters::reassembled, "reassembled"},
    {&IpCounters::fragment_overlap, "fragment_overlap"},
    {&IpCounters::fragment_condemned, "fragment_condemned"},
    {&IpCounters::fragment_repeated, "fragment_repeated"},
    {&IpCounters::fragment_too_many, "fragment_too_many"},
    {&IpCounters::fragment_no_room, "fragment_no_room"},
    {&IpCounters::fragment_ecn, "fragment_ecn"},
    {&IpCounters::fragment_header, "fragment_header"},
    {&IpCounters::reassembly_displaced, "reassembly_displaced"},
    {&IpCounters::reassembly_timeout, "reassembly_timeout"},
    {&IpCounters::echo_requests, "echo_requests"},
    {&IpCounters::echo_to_group, "echo_to_group"},
    {&IpCounters::icmp_errors_in, "icmp_errors_in"},
    {&IpCounters::icmp_not_ours, "icmp_not_ours"},
    {&IpCounters::icmp_redirect, "icmp_redirect"},
    {&IpCounters::icmp_ignored, "icmp_ignored"},
    {&IpCounters::icmp_errors_out, "icmp_errors_out"},
    {&IpCounters::icmp_not_answered, "icmp_not_answered"},
    {&IpCounters::icmp_rate_limited, "icmp_rate_limited"},
    {&IpCounters::neighbour_solicitations, "neighbour_solicitations"},
    {&IpCounters::neighbour_requests, "neighbour_requests"},
    {&IpCounters::neighbour_ignored, "neighbour_ignored"},
    {&IpCounters::neighbour_bad, "neighbour_bad"},
    {&IpCounters::neighbour_not_asked, "neighbour_not_asked"},
    {&IpCounters::neighbour_cache_full, "neighbour_cache_full"},
    {&IpCounters::neighbour_queue_full, "neighbour_queue_full"},
    {&IpCounters::neighbours_displaced, "neighbours_displaced"},
    {&IpCounters::neighbours_unreachable, "neighbours_unreachable"},
    {&IpCounters::address_duplicate, "address_duplicate"},
    {&IpCounters::address_conflict, "address_conflict"},
    {&IpCounters::packets_out, "packets_out"},
    {&IpCounters::looped_back, "looped_back"},
    {&IpCounters::fragments_out, "fragments_out"},
    {&IpCounters::no_route, "no_route"},
    {&IpCounters::no_source, "no_source"},
    {&IpCounters::out_too_big, "out_too_big"},
    {&IpCounters::out_no_packet, "out_no_packet"},
    {&IpCounters::loopback_full, "loopback_full"},
    {&IpCounters::tx_queue_full, "tx_queue_full"},
});
static_assert(sizeof(IpCounters) == (kCounters.size() + wire::kWireFaults) * sizeof(std::uint64_t),
              "each counter has its line above");

}  // namespace

std::span<const IpCounter> ip_counters() noexcept {
  return kCounters;
}

}  // namespace pinion
