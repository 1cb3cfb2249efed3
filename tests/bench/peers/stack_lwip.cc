#include <fmt/core.h>
#include <lwip/init.h>
#include <lwip/ip4_addr.h>
#include <lwip/netif.h>
#include <lwip/pbuf.h>
#include <lwip/priv/tcp_priv.h>
#include <lwip/tcp.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "stack_subjects.h"

/// Debian's lwIP as a server, through its raw API: callbacks, no thread of its own, timers called
/// by hand. It was built for threads (SYS_LIGHTWEIGHT_PROT): what takes and gives buffers locks a
/// mutex that nobody else wants.

namespace pinion::bench {
namespace {

void or_exit(bool good, std::string_view what) {
  if (good) return;
  fmt::print(stderr, "error: lwIP: {} failed\nfix: apt-get install --reinstall liblwip0\n", what);
  std::exit(1);
}

class LwipStack final : public StackServer {
 public:
  LwipStack(std::size_t connections, Instant now)
      : connections_(connections), next_timers_(now + kTimers) {
    static const bool once = [] {
      lwip_init();
      return true;
    }();
    static_cast<void>(once);
    ip4_addr_t own{};
    ip4_addr_t mask{};
    ip4_addr_t gateway{};
    own.addr = lwip_htonl(kStackServer);
    mask.addr = lwip_htonl(0xff000000);
    or_exit(netif_add(&netif_, &own, &mask, &gateway, this, &set_up_netif, &ip_input) != nullptr,
            "netif_add");
    netif_set_default(&netif_);
    netif_set_up(&netif_);
    netif_set_link_up(&netif_);
    tcp_pcb* const fresh = tcp_new();
    or_exit(fresh != nullptr, "tcp_new");
    or_exit(tcp_bind(fresh, IP4_ADDR_ANY, kStackPort) == ERR_OK, "tcp_bind");
    listener_ = tcp_listen(fresh);
    or_exit(listener_ != nullptr, "tcp_listen");
    tcp_arg(listener_, this);
    tcp_accept(listener_, &on_accept);
  }
  LwipStack(const LwipStack&) = delete;
  LwipStack& operator=(const LwipStack&) = delete;
  ~LwipStack() override {
    tcp_close(listener_);
    while (tcp_active_pcbs != nullptr) {
      tcp_err(tcp_active_pcbs, nullptr);
      tcp_abort(tcp_active_pcbs);
      give_back();
    }
    netif_remove(&netif_);
  }

  void load(std::span<const std::byte> packet) override {
    const auto size = static_cast<u16_t>(packet.size());
    // Debian's pool has elements of 592 bytes for packets of 1500 (PBUF_POOL).
    pbuf* const loaded = pbuf_alloc(PBUF_RAW, size, PBUF_RAM);
    or_exit(loaded != nullptr && pbuf_take(loaded, packet.data(), size) == ERR_OK, "pbuf_alloc");
    burst_.push_back(loaded);
  }

  void turn(Instant now, std::span<const std::uint32_t> writers) override {
    for (pbuf* const packet : burst_) {
      if (netif_.input(packet, &netif_) != ERR_OK) pbuf_free(packet);
    }
    if (now >= next_timers_) {
      next_timers_ = now + kTimers;
      tcp_tmr();
    }
    for (const std::uint32_t writer : writers) {
      write(connections_[writer], application_.segment());
      tcp_output(connections_[writer]);
    }
    burst_.clear();
  }

  void collect(const std::function<void(std::span<const std::byte>)>& packet) override {
    std::vector<std::byte> whole;
    for (const pbuf* const left : left_) {
      whole.resize(left->tot_len);
      pbuf_copy_partial(left, whole.data(), left->tot_len, 0);
      packet(whole);
    }
    give_back();
  }

  [[nodiscard]] std::size_t connections() const override { return accepted_; }

 private:
  static constexpr Delay kTimers = std::chrono::milliseconds{TCP_TMR_INTERVAL};

  static err_t set_up_netif(netif* interface) {
    interface->output = &on_output;
    interface->mtu = 1'500;
    return ERR_OK;
  }

  /// The device: it holds the packet until it has sent it.
  static err_t on_output(netif* interface, pbuf* packet, const ip4_addr_t* /*to*/) {
    pbuf_ref(packet);
    static_cast<LwipStack*>(interface->state)->left_.push_back(packet);
    return ERR_OK;
  }

  static err_t on_accept(void* self, tcp_pcb* connection, err_t error) {
    auto& server = *static_cast<LwipStack*>(self);
    if (error != ERR_OK) return error;
    const std::uint32_t address = lwip_ntohl(ip_2_ip4(&connection->remote_ip)->addr);
    server.connections_[stack_connection(address, connection->remote_port)] = connection;
    ++server.accepted_;
    tcp_recv(connection, &on_receive);
    tcp_err(connection, &on_error);
    return ERR_OK;
  }

  static err_t on_receive(void* self, tcp_pcb* connection, pbuf* pieces, err_t /*error*/) {
    auto& server = *static_cast<LwipStack*>(self);
    if (pieces == nullptr) return tcp_close(connection);
    StackApplication& application = server.application_;
    for (const pbuf* piece = pieces; piece != nullptr; piece = piece->next) {
      application.take({static_cast<const std::byte*>(piece->payload), piece->len});
      // What is written leaves when the segment that this is in has been dealt with.
      if (application.answers) write(connection, application.answer());
    }
    tcp_recved(connection, pieces->tot_len);
    pbuf_free(pieces);
    return ERR_OK;
  }

  static void on_error(void* self, err_t /*error*/) { --static_cast<LwipStack*>(self)->accepted_; }

  static void write(tcp_pcb* connection, std::span<const std::byte> bytes) {
    static_cast<void>(
        tcp_write(connection, bytes.data(), static_cast<u16_t>(bytes.size()), TCP_WRITE_FLAG_COPY));
  }

  void give_back() {
    for (pbuf* const packet : left_) pbuf_free(packet);
    left_.clear();
  }

  netif netif_{};
  tcp_pcb* listener_ = nullptr;
  std::vector<tcp_pcb*> connections_;
  std::size_t accepted_ = 0;
  Instant next_timers_;
  std::vector<pbuf*> burst_;
  std::vector<pbuf*> left_;
};

}  // namespace

std::unique_ptr<StackServer> make_lwip_stack(std::size_t connections, Instant now) {
  return std::make_unique<LwipStack>(connections, now);
}

}  // namespace pinion::bench
