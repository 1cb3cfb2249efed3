#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pinion/net/slab_packet_pool.h>

#include "wire/arp.h"
#include "wire/ethernet.h"
#include "wire/icmp.h"
#include "wire/ipv4.h"
#include "wire/ipv6.h"
#include "wire/ipv6_extensions.h"
#include "wire/ndp.h"
#include "wire/tcp_checksum.h"
#include "wire/tcp_emitter.h"
#include "wire/tcp_parser.h"
#include "wire/udp.h"
#include "wire_bytes.h"

/// What our parsers and emitters make of bytes and fields, for a test that asks another
/// implementation the same. A line in, a line out:
///
///   parse KIND HEX            name=value … in the header's order, or `fault NAME`
///   emit KIND name=value …    HEX
///
/// Numbers are decimal, addresses and bytes hexadecimal. A kind is one entry of `kKinds`. Of `tcp`
/// an IP packet is parsed, for the addresses that its checksum covers, and a segment emitted.

namespace {

using namespace pinion;
using pinion::test::Bytes;

using View = std::span<const std::byte>;

/// The fields of one line.
class Fields {
 public:
  explicit Fields(std::string_view text) {
    while (!text.empty()) {
      const std::string_view word = text.substr(0, text.find(' '));
      text.remove_prefix(std::min(text.size(), word.size() + 1));
      const std::size_t equals = word.find('=');
      values_[std::string(word.substr(0, equals))] = word.substr(equals + 1);
    }
  }

  template <class T>
  [[nodiscard]] T number(const char* name) const {
    const std::string& text = values_.at(name);
    std::uint64_t value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return static_cast<T>(value);
  }

  [[nodiscard]] std::string_view text(const char* name) const { return values_.at(name); }

  [[nodiscard]] Bytes bytes(const char* name) const {
    return pinion::test::from_hex(values_.at(name));
  }

  template <class Address>
  [[nodiscard]] Address address(const char* name) const {
    const Bytes found = bytes(name);
    Address address{};
    for (std::size_t i = 0; i < address.size(); ++i) {
      address[i] = std::to_integer<std::uint8_t>(found.at(i));
    }
    return address;
  }

 private:
  std::map<std::string, std::string, std::less<>> values_;
};

std::string hex(View bytes) {
  std::string text;
  for (const std::byte byte : bytes) text += fmt::format("{:02x}", std::to_integer<int>(byte));
  return text;
}

template <std::size_t Size>
std::string hex(const std::array<std::uint8_t, Size>& address) {
  return fmt::format("{:02x}", fmt::join(address, ""));
}

std::string fault(wire::WireFault why) {
  return fmt::format("fault {}", to_string(why));
}

std::string parse_ethernet(View bytes) {
  const auto header = wire::parse_ethernet(bytes);
  if (!header) return fault(header.error());
  std::string tags;
  for (std::size_t i = 0; i < header->tag_count; ++i) {
    const wire::VlanTag& tag = header->tags[i];
    tags += fmt::format("/{:04x}.{}.{}.{}", static_cast<unsigned>(tag.type), tag.priority,
                        int{tag.drop_eligible}, tag.id);
  }
  return fmt::format("dst={} src={} tags={} type={}", hex(header->destination), hex(header->source),
                     tags, static_cast<unsigned>(header->type));
}

Bytes emit_ethernet(const Fields& fields) {
  const wire::EthernetHeader header{
      .destination = fields.address<MacAddress>("dst"),
      .source = fields.address<MacAddress>("src"),
      .type = fields.number<wire::EtherType>("type"),
  };
  Bytes bytes(header.size());
  wire::emit_ethernet(header, bytes);
  return bytes;
}

std::string parse_arp(View bytes) {
  const auto message = wire::parse_arp(bytes);
  if (!message) return fault(message.error());
  return fmt::format("op={} hwsrc={} psrc={} hwdst={} pdst={}",
                     static_cast<unsigned>(message->operation), hex(message->sender_mac),
                     hex(message->sender), hex(message->target_mac), hex(message->target));
}

Bytes emit_arp(const Fields& fields) {
  Bytes bytes(wire::ArpMessage::kSize);
  wire::emit_arp({.operation = fields.number<wire::ArpOperation>("op"),
                  .sender_mac = fields.address<MacAddress>("hwsrc"),
                  .sender = fields.address<wire::Ipv4Address>("psrc"),
                  .target_mac = fields.address<MacAddress>("hwdst"),
                  .target = fields.address<wire::Ipv4Address>("pdst")},
                 bytes);
  return bytes;
}

std::string parse_ipv4(View bytes) {
  const auto header = wire::parse_ipv4(bytes);
  if (!header) return fault(header.error());
  return fmt::format(
      "tos={} payload={} id={} df={} mf={} frag={} ttl={} proto={} src={} dst={} options={} "
      "source_route={} checksum={}",
      header->traffic_class, header->payload_size, header->identification,
      int{header->dont_fragment}, int{header->more_fragments}, header->fragment_offset / 8,
      header->hop_limit, header->protocol, hex(header->source), hex(header->destination),
      hex(header->options), int{header->has_source_route()},
      wire::ipv4_checksum_good(bytes.first(header->size())) ? "good" : "bad");
}

Bytes emit_ipv4(const Fields& fields) {
  const Bytes options = fields.bytes("options");
  const wire::Ipv4Header header{
      .source = fields.address<wire::Ipv4Address>("src"),
      .destination = fields.address<wire::Ipv4Address>("dst"),
      .payload_size = fields.number<std::uint16_t>("payload"),
      .identification = fields.number<std::uint16_t>("id"),
      .fragment_offset = static_cast<std::uint16_t>(8 * fields.number<unsigned>("frag")),
      .more_fragments = fields.number<unsigned>("mf") != 0,
      .dont_fragment = fields.number<unsigned>("df") != 0,
      .traffic_class = fields.number<std::uint8_t>("tos"),
      .hop_limit = fields.number<std::uint8_t>("ttl"),
      .protocol = fields.number<std::uint8_t>("proto"),
      .options = options,
  };
  Bytes bytes(header.size());
  wire::emit_ipv4(header, bytes);
  return bytes;
}

/// With what the walk over its extension headers says.
std::string parse_ipv6(View bytes) {
  const auto header = wire::parse_ipv6(bytes);
  if (!header) return fault(header.error());
  const wire::Ipv6Walk found =
      wire::walk_ipv6_extensions(*header, bytes.subspan(wire::Ipv6Header::kSize));
  const std::string fixed =
      fmt::format("tc={} fl={} plen={} nh={} hlim={} src={} dst={}", header->traffic_class,
                  header->flow_label, header->payload_size, header->next_header, header->hop_limit,
                  hex(header->source), hex(header->destination));
  if (!found) return fmt::format("{} {}", fixed, fault(found.error().fault));
  std::string fragment = "none";
  if (found->fragment) {
    fragment = fmt::format("{}.{}.{}", found->fragment->identification, found->fragment->offset / 8,
                           int{found->fragment->more});
  }
  return fmt::format("{} protocol={} walked={} fragment={}", fixed, found->protocol, found->size,
                     fragment);
}

Bytes emit_ipv6(const Fields& fields) {
  Bytes bytes(wire::Ipv6Header::kSize);
  wire::emit_ipv6({.source = fields.address<wire::Ipv6Address>("src"),
                   .destination = fields.address<wire::Ipv6Address>("dst"),
                   .flow_label = fields.number<std::uint32_t>("fl"),
                   .payload_size = fields.number<std::uint16_t>("plen"),
                   .traffic_class = fields.number<std::uint8_t>("tc"),
                   .hop_limit = fields.number<std::uint8_t>("hlim"),
                   .next_header = fields.number<std::uint8_t>("nh")},
                  bytes);
  return bytes;
}

std::string parse_udp(View bytes) {
  const auto header = wire::parse_udp(bytes, bytes.size());
  if (!header) return fault(header.error());
  return fmt::format("sport={} dport={} payload={} chksum={}", header->source_port,
                     header->destination_port, header->payload_size, header->checksum);
}

Bytes emit_udp(const Fields& fields) {
  Bytes bytes(wire::UdpHeader::kSize);
  wire::emit_udp({.source_port = fields.number<std::uint16_t>("sport"),
                  .destination_port = fields.number<std::uint16_t>("dport"),
                  .payload_size = fields.number<std::uint16_t>("payload"),
                  .checksum = fields.number<std::uint16_t>("chksum")},
                 bytes);
  return bytes;
}

std::string parse_ndp(View bytes) {
  const auto header = wire::parse_icmp(bytes);
  if (!header) return fault(header.error());
  wire::NdpEnvelope envelope;
  envelope.source[0] = 0xfe;
  envelope.source[1] = 0x80;
  const auto message = wire::parse_ndp(*header, bytes, envelope);
  if (!message) return fault(message.error());
  return fmt::format("type={} R={} S={} O={} tgt={} lladdr={}", header->type, int{message->router},
                     int{message->solicited}, int{message->overrides}, hex(message->target),
                     message->mac ? hex(*message->mac) : "none");
}

Bytes emit_ndp(const Fields& fields) {
  Bytes bytes(wire::kMaxNdpSize);
  bytes.resize(wire::emit_ndp({.type = fields.number<wire::IcmpV6Type>("type"),
                               .router = fields.number<unsigned>("R") != 0,
                               .solicited = fields.number<unsigned>("S") != 0,
                               .overrides = fields.number<unsigned>("O") != 0,
                               .target = fields.address<wire::Ipv6Address>("tgt"),
                               .mac = fields.address<MacAddress>("lladdr")},
                              bytes));
  return bytes;
}

/// A segment in a packet of its own, as the stack has it.
PacketPtr packet_of(View bytes) {
  static const std::unique_ptr<SlabPacketPool> pool = [] {
    auto made = SlabPacketPool::create({.packets = 1});
    PINION_ASSERT(made);
    return std::move(*made);
  }();
  PacketPtr packet(pool->allocate());
  std::ranges::copy(bytes, packet->append(bytes.size()));
  return packet;
}

/// What an IP packet without options and extension headers carries, and between whom.
struct Carried {
  IpAddress source;
  IpAddress destination;
  View segment;
};

std::optional<Carried> carried_by(View bytes) {
  if (const auto v4 = wire::parse_ipv4(bytes)) {
    return Carried{.source = IpAddress::v4(v4->source),
                   .destination = IpAddress::v4(v4->destination),
                   .segment = bytes.subspan(v4->size(), v4->payload_size)};
  }
  if (const auto v6 = wire::parse_ipv6(bytes)) {
    return Carried{.source = IpAddress::v6(v6->source),
                   .destination = IpAddress::v6(v6->destination),
                   .segment = bytes.subspan(wire::Ipv6Header::kSize, v6->payload_size)};
  }
  return std::nullopt;
}

std::string text_of(const IpAddress& address) {
  const std::string all = hex(address.bytes());
  return address.is_v4() ? all.substr(0, 8) : all;
}

std::string text_of(const wire::TcpOptions& options) {
  const auto number = [](const auto& value) {
    return value ? fmt::format("{}", unsigned{*value}) : std::string("none");
  };
  std::string timestamps = "none";
  if (options.timestamps) {
    timestamps = fmt::format("{}.{}", options.timestamps->value, options.timestamps->echo_reply);
  }
  std::string sack;
  for (const wire::SackBlock& block : options.sack) {
    sack += fmt::format("/{}.{}", block.left.value(), block.right.value());
  }
  return fmt::format("mss={} wscale={} sackok={} ts={} sack={}", number(options.mss),
                     number(options.window_scale), int{options.sack_permitted}, timestamps, sack);
}

/// In the order of Tcp::read_segment(): a segment whose checksum is wrong isn't looked at.
std::string parse_tcp(View bytes) {
  const std::optional<Carried> carried = carried_by(bytes);
  if (!carried) return "no IP packet";
  const View segment = carried->segment;
  const PacketPtr packet = packet_of(segment);
  if (segment.size() >= wire::kTcpHeaderSize &&
      !wire::tcp_checksum_good(*packet, segment.size(), carried->source, carried->destination)) {
    return fault(wire::WireFault::tcp_checksum);
  }
  const auto parsed = wire::parse_tcp(segment);
  if (!parsed) return fault(parsed.error());
  const wire::TcpHeader& header = parsed->header;
  return fmt::format(
      "src={} dst={} sport={} dport={} seq={} ack={} dataofs={} flags={} window={} urgptr={} {} "
      "data={}",
      text_of(carried->source), text_of(carried->destination), header.source_port,
      header.destination_port, header.sequence.value(), header.acknowledgment.value(),
      header.data_offset, header.flags.bits(), header.window, header.urgent_pointer,
      text_of(parsed->options), hex(segment.subspan(header.size())));
}

/// The numbers in `text`, whatever stands between them.
std::vector<std::uint32_t> numbers_in(std::string_view text) {
  std::vector<std::uint32_t> numbers;
  while (!text.empty()) {
    std::uint32_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error == std::errc{}) numbers.push_back(number);
    text.remove_prefix(std::max<std::size_t>(1, static_cast<std::size_t>(end - text.data())));
  }
  return numbers;
}

wire::TcpOptions options_of(const Fields& fields) {
  wire::TcpOptions options;
  if (fields.text("mss") != "none") options.mss = fields.number<std::uint16_t>("mss");
  if (fields.text("wscale") != "none") options.window_scale = fields.number<std::uint8_t>("wscale");
  options.sack_permitted = fields.number<unsigned>("sackok") != 0;
  if (const auto values = numbers_in(fields.text("ts")); !values.empty()) {
    options.timestamps = {.value = values.at(0), .echo_reply = values.at(1)};
  }
  const std::vector<std::uint32_t> edges = numbers_in(fields.text("sack"));
  for (std::size_t i = 0; i < edges.size(); i += 2) {
    options.sack.push_back({.left = wire::SequenceNumber(edges.at(i)),
                            .right = wire::SequenceNumber(edges.at(i + 1))});
  }
  return options;
}

IpAddress address_of(const Fields& fields, const char* name) {
  if (fields.text(name).size() == 8) return IpAddress::v4(fields.address<wire::Ipv4Address>(name));
  return IpAddress::v6(fields.address<wire::Ipv6Address>(name));
}

Bytes emit_tcp(const Fields& fields) {
  const wire::TcpHeader header{
      .source_port = fields.number<std::uint16_t>("sport"),
      .destination_port = fields.number<std::uint16_t>("dport"),
      .sequence = wire::SequenceNumber(fields.number<std::uint32_t>("seq")),
      .acknowledgment = wire::SequenceNumber(fields.number<std::uint32_t>("ack")),
      .flags = wire::TcpFlags::from_bits(fields.number<std::uint8_t>("flags")),
      .window = fields.number<std::uint16_t>("window"),
      .urgent_pointer = fields.number<std::uint16_t>("urgptr"),
  };
  const wire::TcpOptions options = options_of(fields);
  Bytes bytes(wire::kTcpHeaderSize + wire::tcp_options_size(options));
  wire::emit_tcp(bytes, header, options);
  bytes = pinion::test::joined(bytes, fields.bytes("data"));
  const PacketPtr packet = packet_of(bytes);
  wire::store_tcp_checksum(*packet, bytes.size(), address_of(fields, "src"),
                           address_of(fields, "dst"));
  const View sent = std::as_const(*packet).bytes();
  return {sent.begin(), sent.end()};
}

struct Kind {
  std::string_view name;
  std::string (*parse)(View);
  Bytes (*emit)(const Fields&);
};

constexpr Kind kKinds[] = {
    {"arp", parse_arp, emit_arp},    {"ethernet", parse_ethernet, emit_ethernet},
    {"ipv4", parse_ipv4, emit_ipv4}, {"ipv6", parse_ipv6, emit_ipv6},
    {"ndp", parse_ndp, emit_ndp},    {"tcp", parse_tcp, emit_tcp},
    {"udp", parse_udp, emit_udp},
};

std::string answer(std::string_view line) {
  const std::size_t first = line.find(' ');
  const std::size_t second = line.find(' ', first + 1);
  const std::string_view verb = line.substr(0, first);
  const std::string_view name = line.substr(first + 1, second - first - 1);
  const std::string_view rest = line.substr(second + 1);
  for (const Kind& kind : kKinds) {
    if (kind.name != name) continue;
    if (verb == "parse") return kind.parse(pinion::test::from_hex(rest));
    if (verb == "emit") return hex(kind.emit(Fields(rest)));
  }
  return "what?";
}

}  // namespace

int main() {
  std::string line;
  while (std::getline(std::cin, line)) std::cout << answer(line) << std::endl;
  return 0;
}
