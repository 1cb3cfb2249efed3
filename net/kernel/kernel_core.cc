#include "kernel_core.h"

#include <liburing.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <utility>

#include <fmt/format.h>

#include "socket.h"

namespace pinion {
namespace {

/// Descriptors for what isn't a connection: rings, listeners, logs, files.
constexpr std::size_t kOtherDescriptors = 32;

/// How long bytes may wait in a buffer when there are too few.
constexpr Delay kPatience = std::chrono::milliseconds{100};

std::size_t descriptor_limit() noexcept {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
  return limit.rlim_cur;
}

}  // namespace

Result<> check_descriptor_limit(std::size_t connections) {
  const std::size_t limit = descriptor_limit();
  const std::size_t most = limit > kOtherDescriptors ? limit - kOtherDescriptors : 0;
  if (connections <= most) return {};
  const std::size_t needed =
      std::min(connections, SIZE_MAX - kOtherDescriptors) + kOtherDescriptors;
  return fail(ErrorCode::resource_exhausted,
              fmt::format("{} connections need {} descriptors, and this process may open {}",
                          connections, needed, limit),
              fmt::format("`ulimit -n {}`, or at most {} connections", needed, most));
}

namespace detail {

KernelCore::KernelCore(Loop& loop, const KernelOptions& options) noexcept
    : loop_(&loop),
      options_(options),
      connections_(options.max_connections + kMaxPending),
      drain_timer_(*this),
      relief_timer_(*this) {}

Result<KernelCore*> KernelCore::create(Loop& loop, const KernelOptions& wanted) {
  KernelOptions options = wanted;
  if (options.max_connections == 0) {
    const std::size_t limit = std::min<std::size_t>(descriptor_limit(), 1U << 20);
    options.max_connections = std::max(limit, kOtherDescriptors + 1) - kOtherDescriptors;
  } else if (const auto enough = check_descriptor_limit(options.max_connections); !enough) {
    return tl::unexpected(enough.error());
  }
  options.buffers_per_connection = std::max(options.buffers_per_connection, 1U);
  std::unique_ptr<KernelCore, void (*)(KernelCore*)> core(
      new KernelCore(loop, options), [](KernelCore* unused) { delete unused; });
  const std::uint32_t spare =
      options.spare_count != 0 ? options.spare_count : options.buffer_count / 4;
  auto pool = ReceivePool::create({options.buffer_count, options.buffer_size, spare}, *core);
  if (!pool) return tl::unexpected(pool.error());
  core->pool_ = std::move(*pool);
  if (const auto attached = core->pool_->attach(loop.ring().raw()); !attached) {
    return tl::unexpected(attached.error());
  }
  loop.add_drainable(*core);
  return core.release();
}

TransportStats KernelCore::stats() const noexcept {
  TransportStats stats = counters_;
  stats.receive_copied = pool_->copied();
  stats.buffers_free = pool_->free();
  stats.buffers_lowest = pool_->lowest_free();
  return stats;
}

KernelConnection* KernelCore::adopt(int fd) noexcept {
  KernelConnection* const connection = connections_.allocate(*this, fd);
  if (connection == nullptr) return nullptr;
  ++sockets_;
  all_.push_back(*connection);
  return connection;
}

void KernelCore::free(KernelConnection& connection) noexcept {
  all_.erase(connection);
  connections_.release(connection);
  end_if_unused();
}

void KernelCore::close_descriptor(int fd) noexcept {
  ::close(fd);
  --sockets_;
  --leaving_;
  for (KernelListener& listener : listeners_) listener.room_appeared();
}

void KernelCore::make_room(bool for_caller) noexcept {
  const auto wanted = [&] {
    const auto listeners =
        std::count_if(listeners_.begin(), listeners_.end(),
                      [](const KernelListener& listener) { return listener.wants_room(); });
    const std::size_t taken = sockets_ - pending_;
    const std::size_t spoken_for = taken - std::min(taken, options_.max_connections);
    return static_cast<std::size_t>(listeners) + spoken_for + (for_caller && !may_open() ? 1 : 0);
  };
  while (!lingering_.empty() && leaving_ < wanted()) lingering_.front().stop_lingering();
}

void KernelCore::arm_relief() noexcept {
  const Received* const held = pool_->longest_held();
  if (held == nullptr || relief_timer_.armed()) return;
  wheel().arm(relief_timer_, saturating_add(held->held_since, kPatience));
}

void KernelCore::ReliefTimer::fire(TimerEntry& entry) {
  static_cast<ReliefTimer&>(entry).core.relieve();
}

/// Goes on until buffers aren't scarce any more: a spare one alone helps nobody who can't receive.
/// One at a time: what it was sending comes back with a completion, and may be enough.
void KernelCore::relieve() noexcept {
  if (!pool_->low()) return;
  const Received* const held = pool_->longest_held();
  if (held == nullptr) return;
  if (saturating_add(held->held_since, kPatience) <= loop_->now()) held->holder->give_way();
  arm_relief();
}

void KernelCore::starve(KernelConnection& connection, bool resumed) noexcept {
  if (resumed) {
    --resuming_;
    starved_.push_front(connection);
  } else {
    starved_.push_back(connection);
  }
  feed_starved();
}

void KernelCore::resumed() noexcept {
  --resuming_;
  feed_starved();
}

void KernelCore::on_buffer_free() noexcept {
  feed_starved();
}

/// Lets as many receives go on as there are buffers. The count is ahead of the kernel while
/// completions are on their way: then a receive comes back empty-handed and stands in line again.
void KernelCore::feed_starved() noexcept {
  while (alive_ && resuming_ < pool_->free() && !starved_.empty()) {
    if (starved_.pop_front()->resume_receive()) ++resuming_;
  }
}

void KernelCore::on_last_chunk_gone() noexcept {
  end_if_unused();
}

Result<Listener> KernelCore::listen(const Endpoint& endpoint, const ListenOptions& options) {
  if (draining_) return fail(ErrorCode::unavailable, "cannot listen: the loop drains");
  const Result<int> fd = open_listener(endpoint, options);
  if (!fd) return tl::unexpected(fd.error());
  auto* listener = new KernelListener(*this, *fd, local_endpoint(*fd), options.share);
  listeners_.push_back(*listener);
  return Listener(*listener);
}

void KernelCore::free(KernelListener& listener) noexcept {
  listeners_.erase(listener);
  delete &listener;
  end_if_unused();
}

bool KernelCore::start_connect(ConnectAwaiter& connect) noexcept {
  const auto refuse = [&](StreamError why) {
    count_failure(why);
    connect.settle(tl::unexpected(why));
    return false;
  };
  if (draining_) return refuse(StreamError::draining);
  if (connect.timeout() <= Delay{}) return refuse(StreamError::connect_timeout);
  if (!may_open()) make_room(true);
  if (!may_connect()) return refuse(StreamError::no_resources);
  const int fd = open_connector(connect.peer(), connect.options());
  if (fd < 0) return refuse(connect_error(-fd));
  KernelConnection* const connection = adopt(fd);
  if (connection == nullptr) {
    ::close(fd);
    return refuse(StreamError::no_resources);
  }
  return connection->start_connect(connect);
}

void KernelCore::cancel_connect(ConnectAwaiter& connect) noexcept {
  static_cast<KernelConnection*>(connect.operation())->cancel_connect(StreamError::cancelled);
}

void KernelCore::abandon_connect(ConnectAwaiter& connect) noexcept {
  static_cast<KernelConnection*>(connect.operation())->abandon_connect();
}

void KernelCore::withdraw(Completion& operation) noexcept {
  if (operation.in_flight() == 0) return;
  const bool handed_over = ring().flush();
  PINION_ASSERT(handed_over);  // What is still queued would be read from memory that is gone.
  io_uring_sync_cancel_reg request{};
  request.addr = reinterpret_cast<std::uintptr_t>(&operation);
  request.fd = -1;
  request.timeout = {-1, -1};
  int outcome = 0;
  do {
    outcome = io_uring_register_sync_cancel(&ring().raw(), &request);
  } while (outcome == -EINTR);
}

void KernelCore::DrainTimer::fire(TimerEntry& entry) {
  KernelCore& core = static_cast<DrainTimer&>(entry).core;
  for (auto at = core.all_.begin(); at != core.all_.end();) (*at++).drain();
}

/// What arrived before is still answered: reads that wait are told one turn later, when the
/// completions that the kernel has ready were handled.
void KernelCore::on_drain() {
  if (draining_) return;
  draining_ = true;
  for (auto at = listeners_.begin(); at != listeners_.end();) (*at++).stop(StreamError::draining);
  wheel().arm(drain_timer_, loop_->now());
}

void KernelCore::on_drain_expired() {
  on_drain();
  for (auto at = all_.begin(); at != all_.end();) (*at++).end(StreamError::draining);
}

void KernelCore::shut_down() noexcept {
  loop_->remove_drainable(*this);
  draining_ = true;
  for (auto at = listeners_.begin(); at != listeners_.end();) (*at++).stop(StreamError::closed);
  for (auto at = all_.begin(); at != all_.end();) (*at++).end(StreamError::closed);
  wheel().cancel(drain_timer_);
  wheel().cancel(relief_timer_);
  pool_->detach(ring().raw());
  alive_ = false;
  end_if_unused();
}

/// Deletes the core once the transport is gone and nobody refers to it. The last thing its callers
/// do.
void KernelCore::end_if_unused() noexcept {
  if (alive_ || connections_.live() != 0 || !listeners_.empty() || pool_->out() != 0) return;
  delete this;
}

}  // namespace detail
}  // namespace pinion
