#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include <pinion/eventloop/loop.h>
#include <pinion/lib/result.h>
#include <pinion/net/transport.h>

#include "echo/options.h"

/// What the streams of pinion-echo run over: kernel sockets, or Pinion's own stack on a DPDK port.

namespace pinion::apps {

/// Of one lcore; it lives and dies on that.
class Backend {
 public:
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  virtual ~Backend() = default;

  [[nodiscard]] virtual Transport& transport() noexcept = 0;
};

/// Makes them. It outlives the loops, and lives and dies on the program's first thread.
class Backends {
 public:
  Backends() = default;
  Backends(const Backends&) = delete;
  Backends& operator=(const Backends&) = delete;
  virtual ~Backends() = default;

  /// For the first line.
  [[nodiscard]] virtual std::string name() const = 0;

  /// One for the calling lcore.
  [[nodiscard]] virtual Result<std::unique_ptr<Backend>> open(Loop& loop,
                                                              std::size_t max_connections) = 0;
};

[[nodiscard]] std::unique_ptr<Backends> kernel_backends();

/// On the options' port. Throws ProgramError, also when this build has no DPDK.
[[nodiscard]] std::unique_ptr<Backends> port_backends(const EchoOptions& options);

}  // namespace pinion::apps
