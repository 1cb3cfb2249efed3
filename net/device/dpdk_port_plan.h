#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include <pinion/lib/result.h>
#include <pinion/net/device.h>
#include <pinion/net/port_name.h>

/// What a port's name means to DPDK. Nothing here touches DPDK or the machine.

namespace pinion {

struct DpdkPortPlan {
  PortName name;
  std::string driver;     ///< Its package is librte-NAME23, for who has not installed it.
  std::string vdev;       ///< Begins with the driver's name, and is the port's own.
  std::string arguments;  ///< The driver's.
  std::size_t mtu = 1500;
  std::size_t ring_frame = 0;  ///< What a packet must have room for, whatever the MTU.
  std::optional<MacAddress> mac;

  /// Refuses settings that the kind doesn't have, and values out of range. `interface_mtu` is that
  /// of the interface which af_packet takes.
  [[nodiscard]] static Result<DpdkPortPlan> make(const PortName& name, std::size_t interface_mtu);
};

}  // namespace pinion
