#include "stack_stream_world.h"

#include "kernel_world.h"

namespace pinion::test {
namespace {

StackOptions with_interface(StackOptions options, Device& device, const HostAddress& address) {
  options.interfaces = {{.device = &device, .addresses = {address}}};
  if (!options.seed) options.seed = seed();
  return options;
}

template <bool kItself>
std::unique_ptr<StreamWorld> make_world() {
  StackWorldOptions options;
  options.itself = kItself;
  for (StackOptions* const host : {&options.client, &options.server}) {
    host->max_connections = 4096;
    host->max_listeners = 64;
  }
  return std::make_unique<StackStreamWorld>(options);
}

}  // namespace

StackStreamWorld::StackStreamWorld(const StackWorldOptions& options, const LoopOptions& loop)
    : loop_(or_abort(Loop::create(loop, time_))),
      client_packets_(or_abort(SlabPacketPool::create(options.client_packets))),
      server_packets_(or_abort(SlabPacketPool::create(options.server_packets))),
      link_(or_abort(Link::create(*client_packets_, *server_packets_, options.link))) {
  or_abort(loop_->adopt_thread());
  // In this order what the client sends arrives in the same turn.
  if (!options.itself) {
    client_ = or_abort(StackTransport::create(
        *loop_, *client_packets_, with_interface(options.client, link_->a(), client_address())));
  }
  server_ = or_abort(StackTransport::create(
      *loop_, *server_packets_, with_interface(options.server, link_->b(), server_address())));
}

StackStreamWorld::~StackStreamWorld() {
  end_transport();
  loop_.reset();  // Its tasks may hold chunks.
}

void StackStreamWorld::end_transport() {
  client_.reset();
  server_.reset();
}

HostAddress StackStreamWorld::client_address() {
  return {IpAddress::v4({10, 9, 0, 2}), 24};
}

HostAddress StackStreamWorld::server_address() {
  return {IpAddress::v4({10, 9, 0, 1}), 24};
}

std::vector<StreamWorldKind> stack_stream_worlds() {
  return {{"stack", &make_world<false>}, {"stack_with_itself", &make_world<true>, 10}};
}

}  // namespace pinion::test
