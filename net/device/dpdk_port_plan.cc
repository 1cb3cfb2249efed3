#include "dpdk_port_plan.h"

#include <charconv>
#include <string_view>

#include <fmt/format.h>

namespace pinion {
namespace {

// RFC 791: every host takes 68 bytes.
constexpr std::size_t kLeastMtu = 68;

/// What DPDK 22.11 configures: net_tap has frames of 1522 bytes, net_af_packet of 1518, of which it
/// counts 18 as Ethernet's.
constexpr std::size_t most_mtu(PortKind kind) noexcept {
  return kind == PortKind::tap ? 1504 : 1500;
}

tl::unexpected<Error> bad_setting(const PortName& name, const PortSetting& setting,
                                  std::string_view why, std::string hint) {
  return fail(
      ErrorCode::invalid_argument,
      fmt::format("'{}={}' of port {} {}", setting.key, setting.value, to_string(name), why),
      std::move(hint));
}

std::optional<std::size_t> parse_mtu(std::string_view text, std::size_t most) noexcept {
  std::size_t mtu = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, mtu);
  if (error != std::errc{} || stop != end || mtu < kLeastMtu || mtu > most) return {};
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
    const std::size_t most = most_mtu(plan.name.kind);
    const std::optional<std::size_t> mtu = parse_mtu(setting.value, most);
    if (!mtu) {
      return bad_setting(plan.name, setting, "is no MTU that DPDK's driver has",
                         fmt::format("mtu=1500, or another from {} to {}", kLeastMtu, most));
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
  if (name.kind != PortKind::tap) plan.mtu = interface_mtu;
  for (const PortSetting& setting : name.settings) {
    if (Result<> taken = take_setting(plan, setting); !taken) return tl::unexpected(taken.error());
  }
  if (plan.mtu > most_mtu(name.kind)) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("cannot open {}: the interface's MTU of {} is above {}, the most that "
                            "DPDK's driver has",
                            to_string(name), plan.mtu, most_mtu(name.kind)),
                fmt::format("{}:{},mtu=1500, or: ip link set {} mtu 1500", to_string(name.kind),
                            name.name, name.name));
  }
  if (name.kind == PortKind::af_packet) {
    // Two frames of the ring in a block; the driver takes 32 bytes of each for its own.
    plan.arguments += ",blocksz=4096,framesz=2048,framecnt=512";
    plan.ring_frame = 2048 - 32;
  }
  return plan;
}

}  // namespace pinion
