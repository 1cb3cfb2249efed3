#include <arpa/inet.h>

#include <charconv>
#include <cstring>

#include <fmt/format.h>
#include <pinion/net/address.h>

namespace pinion {
namespace {

constexpr const char* kAddressHint = "write it as 127.0.0.1 or ::1";
constexpr const char* kHostAddressHint = "write it as 10.9.0.1/24 or fd00::1/64";
constexpr const char* kEndpointHint = "write it as 127.0.0.1:7007 or [::1]:7007";

tl::unexpected<Error> bad_endpoint(std::string_view text, std::string_view why) {
  return fail(ErrorCode::invalid_argument, fmt::format("'{}' is no endpoint: {}", text, why),
              kEndpointHint);
}

Result<std::uint16_t> parse_port(std::string_view whole, std::string_view text) {
  if (text.empty()) return bad_endpoint(whole, "the port is missing");
  std::uint16_t port = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, port);
  if (error != std::errc{} || stop != end) {
    return bad_endpoint(whole, fmt::format("'{}' is no port from 0 to 65535", text));
  }
  return port;
}

}  // namespace

Result<IpAddress> IpAddress::parse(std::string_view text) {
  // inet_pton wants a terminated string; no address is longer than this.
  std::array<char, INET6_ADDRSTRLEN> buffer{};
  if (text.size() < buffer.size() && text.find('\0') == std::string_view::npos) {
    std::memcpy(buffer.data(), text.data(), text.size());
    std::array<std::uint8_t, 16> bytes{};
    if (inet_pton(AF_INET, buffer.data(), bytes.data()) == 1) {
      return v4({bytes[0], bytes[1], bytes[2], bytes[3]});
    }
    if (inet_pton(AF_INET6, buffer.data(), bytes.data()) == 1) return v6(bytes);
  }
  return fail(ErrorCode::invalid_argument, fmt::format("'{}' is no IP address", text),
              kAddressHint);
}

Result<HostAddress> HostAddress::parse(std::string_view text) {
  const auto refuse = [text](std::string_view why) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("'{}' is no address with a prefix: {}", text, why), kHostAddressHint);
  };
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) return refuse("the prefix's length is missing");
  const std::string_view host = text.substr(0, slash);
  const Result<IpAddress> address = IpAddress::parse(host);
  if (!address) return refuse(fmt::format("'{}' is no IP address", host));
  const std::string_view digits = text.substr(slash + 1);
  const unsigned longest = address->is_v4() ? 32 : 128;
  unsigned length = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, length);
  if (error != std::errc{} || stop != end || length == 0 || length > longest) {
    return refuse(fmt::format("'{}' is no length from 1 to {}", digits, longest));
  }
  return HostAddress{*address, static_cast<std::uint8_t>(length)};
}

Result<Endpoint> Endpoint::parse(std::string_view text) {
  std::string_view host;
  std::string_view rest;
  const bool bracketed = !text.empty() && text.front() == '[';
  if (bracketed) {
    const std::size_t close = text.find(']');
    if (close == std::string_view::npos) return bad_endpoint(text, "']' is missing");
    host = text.substr(1, close - 1);
    rest = text.substr(close + 1);
  } else {
    const std::size_t colon = text.find(':');
    if (colon != text.rfind(':')) return bad_endpoint(text, "an IPv6 address stands in brackets");
    host = text.substr(0, colon);
    rest = colon == std::string_view::npos ? std::string_view{} : text.substr(colon);
  }
  if (rest.empty() || rest.front() != ':') return bad_endpoint(text, "the port is missing");

  const Result<IpAddress> address = IpAddress::parse(host);
  if (!address) return bad_endpoint(text, fmt::format("'{}' is no IP address", host));
  if (address->is_v6() != bracketed) {
    return bad_endpoint(text, "brackets are for IPv6 addresses, and only for them");
  }
  const Result<std::uint16_t> port = parse_port(text, rest.substr(1));
  if (!port) return tl::unexpected(port.error());
  return Endpoint{*address, *port};
}

std::string to_string(const IpAddress& address) {
  std::array<char, INET6_ADDRSTRLEN> buffer{};
  const int family = address.is_v4() ? AF_INET : AF_INET6;
  inet_ntop(family, address.bytes().data(), buffer.data(), buffer.size());
  return buffer.data();
}

std::string to_string(const HostAddress& address) {
  return fmt::format("{}/{}", to_string(address.address), address.prefix_length);
}

std::string to_string(const Endpoint& endpoint) {
  const bool v6 = endpoint.address.is_v6();
  return fmt::format("{}{}{}:{}", v6 ? "[" : "", to_string(endpoint.address), v6 ? "]" : "",
                     endpoint.port);
}

}  // namespace pinion
