#include <pinion/net/port_name.h>

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <net/if.h>
#include <sys/un.h>

namespace pinion {
namespace {

struct KindEntry {
  PortKind kind;
  std::string_view name;
  const char* example;
};

constexpr std::array<KindEntry, 5> kKinds = {{
    {PortKind::tap, "tap", "write it as tap:ptap0"},
    {PortKind::af_packet, "af_packet", "write it as af_packet:veth0"},
    {PortKind::af_xdp, "af_xdp", "write it as af_xdp:veth0"},
    {PortKind::memif, "memif", "write it as memif:/run/pinion/m.sock"},
    {PortKind::pci, "pci", "write it as pci:0000:03:00.0"},
}};
constexpr const char* kShapeHint =
    "write it as kind:name[,key=value…] with kind tap, af_packet, af_xdp, memif or pci";

const KindEntry& entry_of(PortKind kind) noexcept {
  return kKinds[static_cast<std::size_t>(kind)];
}

tl::unexpected<Error> bad_port(std::string_view text, std::string_view why, const char* hint) {
  return fail(ErrorCode::invalid_argument, fmt::format("'{}' is no port: {}", text, why), hint);
}

bool is_hex(std::string_view text) noexcept {
  return std::ranges::all_of(text, [](char character) {
    return (character >= '0' && character <= '9') || (character >= 'a' && character <= 'f') ||
           (character >= 'A' && character <= 'F');
  });
}

/// What the kernel takes for the name of an interface (dev_valid_name), as far as it can be typed.
const char* wrong_with_interface(std::string_view name) noexcept {
  if (name.size() >= IFNAMSIZ) return "the name of an interface has at most 15 characters";
  if (name == "." || name == "..") return "the kernel refuses that name";
  const bool typed = std::ranges::all_of(name, [](char character) {
    return character > ' ' && character <= '~' && character != '/' && character != ':' &&
           character != '=' && character != '%';
  });
  return typed ? nullptr : "the name of an interface has letters, digits and marks but / : = %";
}

const char* wrong_with_path(std::string_view name) noexcept {
  if (name.front() != '/') return "the path of its socket begins with /";
  if (name.size() >= sizeof(sockaddr_un::sun_path)) return "its path has at most 107 characters";
  if (name.find('\0') != std::string_view::npos) return "its path has a character of value 0";
  return nullptr;
}

/// `03:00.0` or `0000:03:00.0`.
const char* wrong_with_pci_address(std::string_view name) noexcept {
  constexpr const char* kWrong = "a PCI address has the form 0000:03:00.0";
  if (name.size() == 12) {
    if (!is_hex(name.substr(0, 4)) || name[4] != ':') return kWrong;
    name.remove_prefix(5);
  }
  if (name.size() != 7 || name[2] != ':' || name[5] != '.') return kWrong;
  const bool digits = is_hex(name.substr(0, 2)) && is_hex(name.substr(3, 2));
  return digits && name[6] >= '0' && name[6] <= '7' ? nullptr : kWrong;
}

const char* wrong_with_name(PortKind kind, std::string_view name) noexcept {
  if (name.empty()) return "its name is missing";
  switch (kind) {
    case PortKind::tap:
    case PortKind::af_packet:
    case PortKind::af_xdp:
      return wrong_with_interface(name);
    case PortKind::memif:
      return wrong_with_path(name);
    case PortKind::pci:
      return wrong_with_pci_address(name);
  }
  return nullptr;
}

bool is_key(std::string_view key) noexcept {
  return !key.empty() && std::ranges::all_of(key, [](char character) {
    return (character >= 'a' && character <= 'z') || character == '_';
  });
}

/// Everything behind the first comma.
Result<std::vector<PortSetting>> parse_settings(std::string_view whole, std::string_view text) {
  std::vector<PortSetting> settings;
  while (true) {
    const std::size_t comma = text.find(',');
    const std::string_view one = text.substr(0, comma);
    const std::size_t equals = one.find('=');
    const std::string_view key = one.substr(0, equals);
    if (equals == std::string_view::npos || !is_key(key) || one.substr(equals + 1).empty()) {
      return bad_port(whole, fmt::format("'{}' is no key=value", one), kShapeHint);
    }
    if (std::ranges::find(settings, key, &PortSetting::key) != settings.end()) {
      return bad_port(whole, fmt::format("'{}' comes twice", key), kShapeHint);
    }
    settings.push_back({std::string(key), std::string(one.substr(equals + 1))});
    if (comma == std::string_view::npos) return settings;
    text.remove_prefix(comma + 1);
  }
}

}  // namespace

std::string_view to_string(PortKind kind) noexcept {
  return entry_of(kind).name;
}

Result<PortName> PortName::parse(std::string_view text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) return bad_port(text, "its kind is missing", kShapeHint);
  const std::string_view kind = text.substr(0, colon);
  const auto* const entry = std::ranges::find(kKinds, kind, &KindEntry::name);
  if (entry == kKinds.end()) {
    return bad_port(text, fmt::format("there is no kind '{}'", kind), kShapeHint);
  }
  const std::string_view rest = text.substr(colon + 1);
  const std::size_t comma = rest.find(',');
  PortName port{.kind = entry->kind, .name = std::string(rest.substr(0, comma)), .settings = {}};
  if (const char* const wrong = wrong_with_name(port.kind, port.name)) {
    return bad_port(text, wrong, entry->example);
  }
  if (port.kind == PortKind::pci && port.name.size() == 7) port.name.insert(0, "0000:");
  if (comma != std::string_view::npos) {
    Result<std::vector<PortSetting>> settings = parse_settings(text, rest.substr(comma + 1));
    if (!settings) return tl::unexpected(settings.error());
    port.settings = std::move(*settings);
  }
  return port;
}

std::string to_string(const PortName& port) {
  std::string text = fmt::format("{}:{}", to_string(port.kind), port.name);
  for (const PortSetting& setting : port.settings) {
    text += fmt::format(",{}={}", setting.key, setting.value);
  }
  return text;
}

}  // namespace pinion
