#include "echo/backend.h"

// For a build without DPDK.

namespace pinion::apps {

std::unique_ptr<Backends> port_backends(const EchoOptions& options) {
  throw_usage_error(fmt::format("--port {} needs DPDK, and this program was built without",
                                to_string(*options.port)),
                    "apt-get install libdpdk-dev, and build again; or kernel sockets: no --port");
}

}  // namespace pinion::apps
