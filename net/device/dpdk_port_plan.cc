#include "dpdk_port_plan.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include <fmt/format.h>

namespace pinion {
namespace {

// RFC 791: every host takes 68 bytes. Above it is what drivers and switches call jumbo frames.
constexpr std::size_t kLeastMtu = 68;
constexpr std::size_t kMostMtu = 9216;

tl::unexpected<Error> bad_setting(const PortName& name, const PortSetting& setting,
                                  std::string_view why, std::string hint) {
  return fail(
      ErrorCode::invalid_argument,
      fmt::format("'{}={}' of port {} {}", setting.key, setting.value, to_string(name), why),
      std::move(hint));
}

std::optional<std::size_t> parse_mtu(std::string_view text) noexcept {
  std::size_t mtu = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, mtu);
  if (error != std::errc{} || stop != end || mtu < kLeastMtu || mtu > kMostMtu) return {};
  return mtu;
}

/// An address of one host: not of a group, not zero.
std::optional<MacAddress> parse_mac(std::string_view text) noexcept {
  MacAddress mac{};
  if (text.size() != 17) return {};
  for (std::size_t i = 0; i < mac.size(); ++i) {
    const char* const digits = text.data() + 3 * i;
    const auto [stop, error] = std::from_chars(digits, digits + 2, mac[i], 16);
    if (error != std::errc{} || stop != digits + 2) return {};
    if (i + 1 < mac.size() && *stop != ':') return {};
  }
  if ((mac[0] & 1U) != 0 || mac == MacAddress{}) return {};
  return mac;
}

Result<> take_setting(DpdkPortPlan& plan, const PortSetting& setting) {
  if (setting.key == "mtu") {
    const std::optional<std::size_t> mtu = parse_mtu(setting.value);
    if (!mtu) {
      return bad_setting(plan.name, setting, "is no MTU",
                         fmt::format("mtu={} to {}", kLeastMtu, kMostMtu));
    }
    if (plan.name.kind != PortKind::tap && *mtu > plan.mtu) {
      return bad_setting(plan.name, setting, fmt::format("is above the interface's {}", plan.mtu),
                         fmt::format("ip link set {} mtu {}", plan.name.name, *mtu));
    }
    plan.mtu = *mtu;
    return {};
  }
  if (setting.key == "mac" && plan.name.kind == PortKind::tap) {
    plan.mac = parse_mac(setting.value);
    if (!plan.mac) {
      return bad_setting(plan.name, setting, "is no MAC address of a host",
                         "mac=02:00:00:00:00:01");
    }
    return {};
  }
  return bad_setting(plan.name, setting, "is a setting that this kind has not",
                     plan.name.kind == PortKind::tap ? "mtu or mac" : "mtu");
}

}  // namespace

Result<DpdkPortPlan> DpdkPortPlan::make(const PortName& name, std::size_t interface_mtu) {
  DpdkPortPlan plan;
  plan.name = name;
  plan.driver = fmt::format("net_{}", to_string(name.kind));
  plan.vdev = fmt::format("{}_{}", plan.driver, name.name);
  plan.arguments = fmt::format("iface={}", name.name);
  if (name.kind != PortKind::tap) plan.mtu = std::min(interface_mtu, kMostMtu);
  for (const PortSetting& setting : name.settings) {
    if (Result<> taken = take_setting(plan, setting); !taken) return tl::unexpected(taken.error());
  }
  if (name.kind == PortKind::af_packet) {
    // A frame of its ring holds 66 bytes of the kernel's before the packet; a block holds a frame.
    const std::size_t frame = plan.mtu <= 1500 ? 2048 : 16384;
    plan.arguments += fmt::format(",blocksz={},framesz={},framecnt=512", frame * 2, frame);
  }
  return plan;
}

}  // namespace pinion
