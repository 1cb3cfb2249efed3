#include "stack.h"

#include <algorithm>
#include <utility>

namespace pinion::c_abi {

Stack::Stack(std::unique_ptr<SlabPacketPool> pool, const StackOptions& options)
    : pool_(std::move(pool)),
      wheel_(options.start),
      now_(options.start),
      ports_(options.seed + 1),
      settings_(options.sockets),
      first_port_(options.host.tcp.first_ephemeral_port),
      last_port_(options.host.tcp.last_ephemeral_port),
      max_sockets_(options.max_sockets),
      sockets_(std::make_unique<Socket[]>(options.max_sockets)),
      scratch_(std::make_unique<std::byte[]>(kScratch)) {}

Stack::~Stack() = default;

Result<> Stack::set_up(const StackOptions& options) {
  constexpr std::size_t kLongestChain = 64;
  auto host = Host::create(
      options.host,
      {.wheel = wheel_, .packets = *pool_, .small_packets = *pool_, .max_segments = kLongestChain},
      options.seed, now_);
  if (!host) return tl::unexpected(std::move(host.error()));
  host_ = std::move(*host);
  InterfaceOptions its_interface = options.interface;
  its_interface.max_segments = kLongestChain;
  const Result<std::uint8_t> interface = ip().add_interface(its_interface, now_);
  if (!interface) return tl::unexpected(interface.error());
  interface_ = *interface;
  for (const bool v6 : {false, true}) {
    const auto is_of_family = [v6](const IpPrefix& own) { return own.address.is_v6() == v6; };
    if (std::ranges::none_of(options.interface.addresses, is_of_family)) continue;
    const IpPrefix everybody{.address = v6 ? IpAddress::v6({}) : IpAddress()};
    const Route route{.destination = everybody, .interface = interface_};
    if (Result<> added = ip().add_route(route); !added) return added;
  }
  return {};
}

Socket* Stack::find(int fd) noexcept {
  if (fd < kFirstDescriptor || index_of(fd) >= max_sockets_) return nullptr;
  Socket& socket = at(fd);
  return socket.used ? &socket : nullptr;
}

int Stack::reserve() noexcept {
  while (first_free_ < max_sockets_ && sockets_[first_free_].used) ++first_free_;
  if (first_free_ == max_sockets_) return -EMFILE;
  ++open_sockets_;
  return static_cast<int>(first_free_) + kFirstDescriptor;
}

void Stack::release(int fd) noexcept {
  Socket& socket = at(fd);
  socket.used = false;
  socket.udp.reset();
  --open_sockets_;
  first_free_ = std::min(first_free_, index_of(fd));
}

std::uint16_t Stack::draw_port() noexcept {
  return static_cast<std::uint16_t>(first_port_ + ports_.below(last_port_ - first_port_ + 1U));
}

int Stack::wait(int fd, short events, Instant deadline, bool dont_wait) noexcept {
  const Socket& socket = at(fd);
  if (dont_wait || socket.non_blocking || hook_ == nullptr || now_ >= deadline) return -EAGAIN;
  settle();
  const std::uint64_t generation = socket.generation;
  const std::uint64_t until = deadline == kNever
                                  ? UINT64_MAX
                                  : static_cast<std::uint64_t>(deadline.time_since_epoch().count());
  ++hook_depth_;
  const int answer = hook_(hook_user_, static_cast<pinion_stack*>(this), fd, events, until);
  --hook_depth_;
  constexpr int kLargestErrno = 4095;
  if (answer < 0 || answer > kLargestErrno) return -EINVAL;
  if (answer != 0) return -answer;
  return socket.used && socket.generation == generation ? 0 : -EBADF;
}

}  // namespace pinion::c_abi
