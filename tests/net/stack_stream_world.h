#pragma once

#include <memory>
#include <vector>

#include <pinion/eventloop/loop.h>
#include <pinion/net/link.h>
#include <pinion/net/slab_packet_pool.h>
#include <pinion/net/stack_transport.h>
#include <pinion/timers/time_source.h>

#include "stream_world.h"

namespace pinion::test {

struct StackWorldOptions {
  bool itself = false;  ///< One host, which connects to itself.
  SlabPacketPoolOptions client_packets = {.packets = 16'384, .views = 16'384};
  SlabPacketPoolOptions server_packets = {.packets = 16'384, .views = 16'384};
  StackOptions client = {};  ///< But for the interfaces.
  StackOptions server = {};
  LinkOptions link = {};
};

/// Two hosts of our own, joined by a link, or one that talks to itself; on the calling thread.
class StackStreamWorld final : public StreamWorld {
 public:
  explicit StackStreamWorld(const StackWorldOptions& options = {}, const LoopOptions& loop = {});
  ~StackStreamWorld() override;

  Loop& loop() override { return *loop_; }
  Transport& transport() override { return *server_; }
  Transport& client_transport() override { return client_ != nullptr ? *client_ : *server_; }
  Endpoint any_port() override { return {server_address().address, 0}; }
  void end_transport() override;

  [[nodiscard]] static HostAddress client_address();
  [[nodiscard]] static HostAddress server_address();
  [[nodiscard]] SlabPacketPool& server_packets() { return *server_packets_; }
  [[nodiscard]] SlabPacketPool& client_packets() { return *client_packets_; }

  /// Ends the client's transport alone.
  void end_client() { client_.reset(); }

 private:
  MonotonicTime time_;
  std::unique_ptr<Loop> loop_;
  std::unique_ptr<SlabPacketPool> client_packets_;
  std::unique_ptr<SlabPacketPool> server_packets_;
  std::unique_ptr<Link> link_;
  std::unique_ptr<StackTransport> client_;
  std::unique_ptr<StackTransport> server_;
};

std::vector<StreamWorldKind> stack_stream_worlds();

}  // namespace pinion::test
