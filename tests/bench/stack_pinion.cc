#include <fmt/core.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <utility>

#include <pinion/net/slab_packet_pool.h>
#include <pinion/timers/timing_wheel.h>

#include "host/host.h"
#include "stack_subjects.h"

/// Pinion's stack as a server.

namespace pinion::bench {
namespace {

/// In a burst, in flight on one connection, and on the way to be given back.
constexpr std::size_t kPackets = 4'096;
constexpr std::size_t kBuffer = 2'048;
/// Timers of a turn, as a loop bounds them: with a million connections very many are due at once.
constexpr std::size_t kTimers = 256;
/// Packets that wait to leave, more than a turn has.
constexpr std::size_t kTxQueue = 1'024;
/// As network cards have it: a header in front of a payload that is kept.
constexpr std::size_t kMaxSegments = 8;

template <class T>
T or_exit(Result<T> result) {
  if (!result) {
    fmt::print(stderr, "{}\n", to_string(result.error()));
    std::exit(1);
  }
  return std::move(*result);
}

constexpr IpAddress address_of(std::uint32_t address) noexcept {
  return IpAddress::v4(
      {static_cast<std::uint8_t>(address >> 24), static_cast<std::uint8_t>(address >> 16),
       static_cast<std::uint8_t>(address >> 8), static_cast<std::uint8_t>(address)});
}

std::uint32_t number_of(const IpAddress& address) noexcept {
  const auto& bytes = address.bytes();
  return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 |
         std::uint32_t{bytes[2]} << 8 | bytes[3];
}

class PinionStack final : public StackServer, TcpObserver, TcpAcceptor {
 public:
  PinionStack(std::size_t connections, Instant now)
      : pool_(or_exit(SlabPacketPool::create(
            {.packets = kPackets, .views = kPackets, .buffer_size = kBuffer}))),
        wheel_(now),
        handles_(connections) {
    HostOptions options;
    options.tcp.max_connections = connections;
    const HostParts parts{
        .wheel = wheel_, .packets = *pool_, .small_packets = *pool_, .max_segments = kMaxSegments};
    host_ = or_exit(Host::create(options, parts, 1, now));
    const IpPrefix own{.address = address_of(kStackServer), .length = 8};
    interface_ = or_exit(host_->ip().add_interface({.link = LinkKind::ip,
                                                    .tx_queue = kTxQueue,
                                                    .max_segments = kMaxSegments,
                                                    .addresses = {&own, 1}},
                                                   now));
    listener_ = or_exit(host_->tcp().listen({own.address, kStackPort}, {}, this));
  }
  PinionStack(const PinionStack&) = delete;
  PinionStack& operator=(const PinionStack&) = delete;
  /// The packets come back before their pool goes.
  ~PinionStack() override {
    burst_.clear();
    give_back();
    host_.reset();
  }

  void load(std::span<const std::byte> packet) override {
    PacketPtr loaded(pool_->allocate());
    std::memcpy(loaded->append(packet.size()), packet.data(), packet.size());
    burst_.push_back(loaded.take());
  }

  void turn(Instant now, std::span<const std::uint32_t> writers) override {
    host_->receive(interface_, burst_, now);
    wheel_.advance(now, kTimers);
    if (!host_->is_settled()) host_->end_of_burst(now);
    for (const std::uint32_t writer : writers) {
      static_cast<void>(host_->tcp().write(handles_[writer], application_.segment(), now));
    }
    left_count_ = host_->take(interface_, left_);
    burst_.clear();
  }

  void collect(const std::function<void(std::span<const std::byte>)>& packet) override {
    std::vector<std::byte> whole;
    for (const Packet* const left : std::span(left_).first(left_count_)) {
      whole.clear();
      for (const Packet* at = left; at != nullptr; at = at->next_segment()) {
        whole.insert(whole.end(), at->bytes().begin(), at->bytes().end());
      }
      packet(whole);
    }
    give_back();
  }

  [[nodiscard]] std::size_t connections() const override { return host_->tcp().connections(); }

 private:
  void on_acceptable(TcpListenerHandle listener, Instant /*now*/) noexcept override {
    while (const TcpHandle handle = host_->tcp().accept(listener, this)) {
      const auto info = host_->tcp().info(handle);
      handles_[stack_connection(number_of(info->remote.address), info->remote.port)] = handle;
    }
  }
  void on_readable(TcpHandle connection, Instant now) noexcept override {
    Tcp& tcp = host_->tcp();
    PacketPtr piece;
    while (tcp.take(connection, piece, now) == TcpOutcome::done) {
      application_.take(piece->bytes());
      if (!application_.answers) continue;
      static_cast<void>(tcp.write(connection, application_.answer(), now));
    }
  }
  void on_connected(TcpHandle /*connection*/, Instant /*now*/) noexcept override {}
  void on_writable(TcpHandle /*connection*/, Instant /*now*/) noexcept override {}
  void on_read_deadline(TcpHandle /*connection*/, Instant /*now*/) noexcept override {}
  void on_write_deadline(TcpHandle /*connection*/, Instant /*now*/) noexcept override {}
  void on_closed(TcpHandle /*connection*/, TcpEnd /*why*/, Instant /*now*/) noexcept override {}

  void give_back() {
    for (Packet* const packet : std::span(left_).first(left_count_)) packet->release();
    left_count_ = 0;
  }

  std::unique_ptr<SlabPacketPool> pool_;
  TimingWheel wheel_;
  std::unique_ptr<Host> host_;
  std::uint8_t interface_ = 0;
  TcpListenerHandle listener_;
  std::vector<TcpHandle> handles_;
  std::vector<Packet*> burst_;
  std::array<Packet*, kTxQueue> left_{};
  std::size_t left_count_ = 0;
};

}  // namespace

std::unique_ptr<StackServer> make_pinion_stack(std::size_t connections, Instant now) {
  return std::make_unique<PinionStack>(connections, now);
}

}  // namespace pinion::bench
