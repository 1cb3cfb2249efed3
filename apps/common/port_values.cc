#include "port_values.h"

#include <utility>

namespace pinion::apps {
namespace {

constexpr std::string_view kNone = "none";

template <class T>
Parsed<std::vector<T>> parse_list(std::string_view text) {
  std::vector<T> list;
  if (text == kNone) return list;
  for (;;) {
    const std::size_t comma = text.find(',');
    Result<T> item = T::parse(text.substr(0, comma));
    if (!item) return tl::unexpected(std::move(item.error().what));
    list.push_back(*item);
    if (comma == std::string_view::npos) return list;
    text.remove_prefix(comma + 1);
  }
}

template <class T>
std::string format_list(const std::vector<T>& list) {
  if (list.empty()) return std::string(kNone);
  std::string text;
  for (const T& item : list) {
    if (!text.empty()) text += ',';
    text += to_string(item);
  }
  return text;
}

}  // namespace

Parsed<std::optional<PortName>> Codec<std::optional<PortName>>::parse(std::string_view text) {
  if (text == kNone) return std::optional<PortName>();
  Result<PortName> port = PortName::parse(text);
  if (!port) return tl::unexpected(std::move(port.error().what));
  return std::optional(std::move(*port));
}

std::string Codec<std::optional<PortName>>::format(const std::optional<PortName>& port) {
  return port ? to_string(*port) : std::string(kNone);
}

Parsed<std::vector<HostAddress>> Codec<std::vector<HostAddress>>::parse(std::string_view text) {
  return parse_list<HostAddress>(text);
}

std::string Codec<std::vector<HostAddress>>::format(const std::vector<HostAddress>& addresses) {
  return format_list(addresses);
}

Parsed<std::vector<IpAddress>> Codec<std::vector<IpAddress>>::parse(std::string_view text) {
  return parse_list<IpAddress>(text);
}

std::string Codec<std::vector<IpAddress>>::format(const std::vector<IpAddress>& addresses) {
  return format_list(addresses);
}

}  // namespace pinion::apps
