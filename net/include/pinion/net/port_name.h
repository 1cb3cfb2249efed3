#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <pinion/lib/export.h>
#include <pinion/lib/result.h>

/// What a person calls a port: `kind:name[,key=value…]`.
///
///   tap:ptap0                       an interface that is made, the kernel at its other end
///   af_packet:veth0,mtu=1400        an interface of the kernel, by packet socket
///   af_xdp:veth0                    the same, by AF_XDP
///   memif:/run/pinion/m.sock        shared memory with another process
///   pci:0000:03:00.0                a NIC that the kernel has let go of
///
/// Ownership:  plain values.
/// Threading:  any.
/// Cost:       allocates; for set-up.
/// Errors:     text that is no port gives an Error that quotes it and shows how to write one. Which
///             keys a kind has, and whether it can be opened here, is for whoever opens it to say.

namespace pinion {

enum class PortKind : std::uint8_t { tap, af_packet, af_xdp, memif, pci };

/// As it is written in front of the colon.
[[nodiscard]] PINION_EXPORT std::string_view to_string(PortKind kind) noexcept;

struct PortSetting {
  std::string key;
  std::string value;

  friend bool operator==(const PortSetting&, const PortSetting&) noexcept = default;
};

struct PortName {
  PortKind kind = PortKind::tap;
  std::string name;  ///< Of an interface, an absolute path, or a PCI address, as the kind has it.
  std::vector<PortSetting> settings;  ///< As they were written; no key comes twice.

  [[nodiscard]] PINION_EXPORT static Result<PortName> parse(std::string_view text);

  friend bool operator==(const PortName&, const PortName&) noexcept = default;
};

/// As parse() reads it. A PCI address is written with its domain.
[[nodiscard]] PINION_EXPORT std::string to_string(const PortName& port);

}  // namespace pinion
