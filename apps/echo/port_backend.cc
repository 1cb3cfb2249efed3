#include <utility>

#include <pinion/net/dpdk_eal.h>
#include <pinion/net/dpdk_pool.h>
#include <pinion/net/dpdk_port.h>
#include <pinion/net/stack_transport.h>

#include "echo/backend.h"

namespace pinion::apps {
namespace {

/// A port with the own stack on it. Members die in reverse order: the thread's place in DPDK last.
class PortBackend final : public Backend {
 public:
  static Result<std::unique_ptr<Backend>> open(Loop& loop, DpdkEal& eal, DpdkPacketPool& pool,
                                               const EchoOptions& options,
                                               std::size_t max_connections) {
    auto thread = DpdkThread::create(eal);
    if (!thread) return tl::unexpected(thread.error());
    auto port = DpdkPort::open(eal, pool, *options.port);
    if (!port) return tl::unexpected(port.error());
    StackOptions stack;
    stack.interfaces = {
        {.device = port->get(), .addresses = options.ip, .gateways = options.gateway}};
    stack.max_connections = max_connections;
    stack.trust_partial_checksums = options.trust_partial_checksums;
    auto transport = StackTransport::create(loop, pool, stack);
    if (!transport) return tl::unexpected(transport.error());
    std::unique_ptr<PortBackend> backend(new PortBackend);
    backend->thread_ = std::move(*thread);
    backend->port_ = std::move(*port);
    backend->transport_ = std::move(*transport);
    return backend;
  }

  Transport& transport() noexcept override { return *transport_; }

 private:
  PortBackend() = default;

  std::unique_ptr<DpdkThread> thread_;
  std::unique_ptr<DpdkPort> port_;
  std::unique_ptr<StackTransport> transport_;
};

class PortBackends final : public Backends {
 public:
  explicit PortBackends(const EchoOptions& options)
      : options_(options),
        eal_(must(DpdkEal::create({.memory = must(DpdkMemory::parse(options.memory))}))),
        pool_(must(DpdkPacketPool::create(*eal_, {}))) {}

  std::string name() const override {
    return fmt::format("own stack on {} as {}", to_string(*options_.port),
                       Codec<std::vector<HostAddress>>::format(options_.ip));
  }

  Result<std::unique_ptr<Backend>> open(Loop& loop, std::size_t max_connections) override {
    return PortBackend::open(loop, *eal_, *pool_, options_, max_connections);
  }

 private:
  const EchoOptions& options_;
  std::unique_ptr<DpdkEal> eal_;
  std::unique_ptr<DpdkPacketPool> pool_;
};

}  // namespace

std::unique_ptr<Backends> port_backends(const EchoOptions& options) {
  return std::make_unique<PortBackends>(options);
}

}  // namespace pinion::apps
