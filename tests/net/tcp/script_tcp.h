#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <pinion/net/slab_packet_pool.h>

#include "../script/transport_world.h"
#include "tcp/tcp.h"

/// A script's host with our TCP. Its calls, each about the connection made or accepted last:
///
///   connect [PORT]       to the peer; from PORT   -> in progress, or why not
///   listen, unlisten     at port 7
///   accept                                        -> accepted, or none
///   write N              the stream's next bytes  -> how many were taken, or closed
///   read [N]             at most N                -> how many; again, finished, closed; garbled
///   reading off          leaves what comes where it is; `on` reads it as it comes
///   shutdown, close, abort
///   no_delay on
///   keepalive IDLE_MS INTERVAL_MS PROBES
///   user_timeout MS
///   read_deadline MS     from now
///   stall MS             the lcore does nothing for so long: what was due is late
///   complain TROUBLE OFFSET [MTU]  ICMP, quoting this place in what the host sent
///   state                                         -> its TcpState, or gone
///   events               what was told since the last time, in order: `readable closed:reset`
///   dropped NAME         how many segments for this reason
///   leave N              takes packets from the pool until N are left; `all` gives them back
///   count NAME           of connections, half_open, time_waits, packets, suspicions, resets,
///                        confirmations

namespace pinion::test {

struct ScriptTcpOptions {
  TcpConfig config = {};
  TcpSocketOptions socket = {};
  std::uint32_t backlog = 8;
  bool listens = true;
  bool v6 = false;
  std::size_t mtu = 1500;
  SlabPacketPoolOptions pool = {};
  std::optional<SlabPacketPoolOptions> small_pool = {};  ///< None: the same one.
};

namespace detail {

/// Made before the world, and gone after it.
struct ScriptPool {
  explicit ScriptPool(const ScriptTcpOptions& options);
  ~ScriptPool();
  ScriptPool(const ScriptPool&) = delete;
  ScriptPool& operator=(const ScriptPool&) = delete;
  std::unique_ptr<SlabPacketPool> pool;
  std::unique_ptr<SlabPacketPool> small_pool;
};

}  // namespace detail

class ScriptTcp final : private detail::ScriptPool,
                        public TransportWorld,
                        private TcpObserver,
                        private TcpAcceptor {
 public:
  explicit ScriptTcp(const ScriptTcpOptions& options = {});
  ~ScriptTcp() override;

  std::string call(std::string_view name, std::span<const std::string> arguments) override;

  [[nodiscard]] Tcp& tcp() { return *tcp_; }

  /// Of the connection made or accepted last.
  [[nodiscard]] std::optional<TcpInfo> info() { return tcp_->info(handle_); }

 private:
  using Call = std::string (ScriptTcp::*)(std::span<const std::string>);
  static const std::map<std::string, Call, std::less<>>& calls();

  IpTransport& transport() override { return *tcp_; }

  void on_connected(TcpHandle connection, Instant now) noexcept override;
  void on_readable(TcpHandle connection, Instant now) noexcept override;
  void on_writable(TcpHandle connection, Instant now) noexcept override;
  void on_read_deadline(TcpHandle connection, Instant now) noexcept override;
  void on_write_deadline(TcpHandle connection, Instant now) noexcept override;
  void on_closed(TcpHandle connection, TcpEnd why, Instant now) noexcept override;
  void on_acceptable(TcpListenerHandle listener, Instant now) noexcept override;

  void note(const std::string& event);
  void start_connection(TcpHandle handle);

  std::string connect(std::span<const std::string> arguments);
  std::string listen(std::span<const std::string> arguments);
  std::string unlisten(std::span<const std::string> arguments);
  std::string accept(std::span<const std::string> arguments);
  std::string write(std::span<const std::string> arguments);
  std::string read(std::span<const std::string> arguments);
  std::string reading(std::span<const std::string> arguments);
  std::string shutdown(std::span<const std::string> arguments);
  std::string close(std::span<const std::string> arguments);
  std::string abort(std::span<const std::string> arguments);
  std::string no_delay(std::span<const std::string> arguments);
  std::string keepalive(std::span<const std::string> arguments);
  std::string user_timeout(std::span<const std::string> arguments);
  std::string read_deadline(std::span<const std::string> arguments);
  std::string stall(std::span<const std::string> arguments);
  std::string complain(std::span<const std::string> arguments);
  std::string state(std::span<const std::string> arguments);
  std::string events(std::span<const std::string> arguments);
  std::string dropped(std::span<const std::string> arguments);
  std::string leave(std::span<const std::string> arguments);
  std::string count(std::span<const std::string> arguments);

  std::size_t read_some(std::size_t most, TcpOutcome& outcome);

  ScriptTcpOptions options_;
  std::unique_ptr<Tcp> tcp_;
  TcpListenerHandle listener_;
  TcpHandle handle_;
  std::uint64_t written_ = 0;
  std::uint64_t read_ = 0;
  bool garbled_ = false;
  bool reads_ = false;
  std::string events_;
  std::vector<PacketPtr> hoard_;
};

}  // namespace pinion::test
