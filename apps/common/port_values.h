#pragma once

#include <optional>
#include <vector>

#include <pinion/net/address.h>
#include <pinion/net/port_name.h>

#include "settings.h"

/// How a program is told of a port of its own and who it is there.

namespace pinion::apps {

template <>
struct Codec<std::optional<PortName>> {
  static constexpr FileKind kKind = FileKind::text;
  static constexpr std::string_view kValueName = "PORT";
  static constexpr std::string_view kExamples = "such as tap:ptap0 or af_packet:veth0";
  static constexpr std::string_view kChoices = "or none";
  static Parsed<std::optional<PortName>> parse(std::string_view text);
  static std::string format(const std::optional<PortName>& port);
};

/// Addresses with their prefixes, separated by commas.
template <>
struct Codec<std::vector<HostAddress>> {
  static constexpr FileKind kKind = FileKind::text;
  static constexpr std::string_view kValueName = "ADDR/LENGTH";
  static constexpr std::string_view kExamples = "such as 10.9.0.1/24 or 10.9.0.1/24,fd00::1/64";
  static constexpr std::string_view kChoices = "or none";
  static Parsed<std::vector<HostAddress>> parse(std::string_view text);
  static std::string format(const std::vector<HostAddress>& addresses);
};

/// Addresses, separated by commas.
template <>
struct Codec<std::vector<IpAddress>> {
  static constexpr FileKind kKind = FileKind::text;
  static constexpr std::string_view kValueName = "ADDR";
  static constexpr std::string_view kExamples = "such as 10.9.0.254";
  static constexpr std::string_view kChoices = "or none";
  static Parsed<std::vector<IpAddress>> parse(std::string_view text);
  static std::string format(const std::vector<IpAddress>& addresses);
};

}  // namespace pinion::apps
