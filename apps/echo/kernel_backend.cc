#include <utility>

#include <pinion/net/kernel_transport.h>

#include "echo/backend.h"

namespace pinion::apps {
namespace {

class KernelBackend final : public Backend {
 public:
  explicit KernelBackend(std::unique_ptr<KernelTransport> transport)
      : transport_(std::move(transport)) {}

  Transport& transport() noexcept override { return *transport_; }

 private:
  std::unique_ptr<KernelTransport> transport_;
};

class KernelBackends final : public Backends {
 public:
  std::string name() const override { return "kernel sockets over io_uring"; }

  Result<std::unique_ptr<Backend>> open(Loop& loop, std::size_t max_connections) override {
    auto transport = KernelTransport::create(loop, {.max_connections = max_connections});
    if (!transport) return tl::unexpected(transport.error());
    return std::make_unique<KernelBackend>(std::move(*transport));
  }
};

}  // namespace

std::unique_ptr<Backends> kernel_backends() {
  return std::make_unique<KernelBackends>();
}

}  // namespace pinion::apps
