#include "icmp.h"

#include <algorithm>

#include <pinion/lib/assert.h>

#include "byte_order.h"
#include "ipv4.h"
#include "ipv6.h"
#include "ipv6_extensions.h"

namespace pinion::wire {
namespace {

/// What RFC 792 promises of the transport's header: the ports, and TCP's sequence number.
constexpr std::size_t kSmallestQuote = 8;

/// The quote behind an error message's header.
std::span<const std::byte> quote_in(std::span<const std::byte> message) noexcept {
  return message.subspan(std::min(message.size(), IcmpMessage::kHeaderSize));
}

tl::unexpected<WireFault> no_use() noexcept {
  return tl::unexpected(WireFault::icmp_quote);
}

}  // namespace

Parsed<IcmpMessage> parse_icmp(std::span<const std::byte> bytes) noexcept {
  if (bytes.size() < IcmpMessage::kHeaderSize) return tl::unexpected(WireFault::icmp_truncated);
  const std::byte* const at = bytes.data();
  return IcmpMessage{.type = load_u8(at), .code = load_u8(at + 1), .detail = load_be32(at + 4)};
}

std::size_t emit_icmp(const IcmpMessage& message, std::span<std::byte> into) noexcept {
  PINION_ASSERT(into.size() >= IcmpMessage::kHeaderSize);
  std::byte* const at = into.data();
  store_u8(at, message.type);
  store_u8(at + 1, message.code);
  store_be16(at + IcmpMessage::kChecksumOffset, 0);
  store_be32(at + 4, message.detail);
  return IcmpMessage::kHeaderSize;
}

Parsed<QuotedDatagram> parse_icmp_quote(std::span<const std::byte> bytes) noexcept {
  // Routers have changed it on its way, and its end is missing: parse_ipv4() would refuse it.
  const std::span<const std::byte> quote = quote_in(bytes);
  if (quote.size() < Ipv4Header::kMinSize) return no_use();
  const std::uint8_t first = load_u8(quote.data());
  const std::size_t header_size = std::size_t{first & 0xfU} * 4;
  const std::size_t total = load_be16(quote.data() + 2);
  if (first >> 4 != 4 || header_size < Ipv4Header::kMinSize) return no_use();
  if (total < header_size + kSmallestQuote || quote.size() < header_size + kSmallestQuote) {
    return no_use();
  }
  const Ipv4Header header = detail::ipv4_fields(quote.data(), header_size);
  if (header.fragment_offset != 0) return no_use();
  return QuotedDatagram{
      .source = IpAddress::v4(header.source),
      .destination = IpAddress::v4(header.destination),
      .protocol = header.protocol,
      .transport = quote.first(std::min(quote.size(), total)).subspan(header_size),
  };
}

Parsed<QuotedDatagram> parse_icmp_v6_quote(std::span<const std::byte> bytes) noexcept {
  const std::span<const std::byte> quote = quote_in(bytes);
  const auto header = parse_ipv6(quote, SIZE_MAX);
  if (!header) return no_use();
  std::span<const std::byte> rest = quote.subspan(Ipv6Header::kSize);
  rest = rest.first(std::min<std::size_t>(rest.size(), header->payload_size));
  // Passed over, not obeyed: they were meant for whoever complains.
  std::uint8_t protocol = header->next_header;
  for (std::size_t count = 0; is_ipv6_extension(protocol); ++count) {
    if (count == kMaxIpv6Extensions || rest.size() < Ipv6Fragment::kSize) return no_use();
    const bool fragment = static_cast<Ipv6NextHeader>(protocol) == Ipv6NextHeader::fragment;
    if (fragment && (load_be16(&rest[2]) & 0xfff8U) != 0) return no_use();
    const std::size_t units = fragment ? 1 : load_u8(&rest[1]) + std::size_t{1};
    if (rest.size() < units * 8) return no_use();
    protocol = load_u8(rest.data());
    rest = rest.subspan(units * 8);
  }
  if (rest.size() < kSmallestQuote) return no_use();
  return QuotedDatagram{
      .source = IpAddress::v6(header->source),
      .destination = IpAddress::v6(header->destination),
      .protocol = protocol,
      .transport = rest,
  };
}

}  // namespace pinion::wire
