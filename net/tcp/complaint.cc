#include <algorithm>

#include "../wire/byte_order.h"
#include "segment_size.h"
#include "tcp.h"

/// ICMP errors (RFC 9293, 3.9.2.2). Anybody can send one: it counts only if it quotes a number that
/// is in flight, and never ends a connection that is established (RFC 5927). It is remembered as
/// the reason, should the peer be given up before it has acknowledged anything more.

namespace pinion {

void Tcp::complain(const IpComplaint& complaint, Instant now) noexcept {
  note(now);
  constexpr std::size_t kNumbers = 8;  // Ports and the sequence number.
  if (complaint.quoted.size() < kNumbers) return drop(TcpDrop::complaint_unknown);
  const std::byte* const quoted = complaint.quoted.data();
  const std::optional<FourTuple> tuple =
      FourTuple::between({complaint.source, wire::load_be16(quoted)},
                         {complaint.destination, wire::load_be16(quoted + 2)});
  TcpConnection* const c = tuple ? find(*tuple) : nullptr;
  if (c == nullptr) return drop(TcpDrop::complaint_unknown);
  const wire::SequenceNumber sequence(wire::load_be32(quoted + 4));
  if (before(sequence, c->snd_una) || at_or_after(sequence, c->snd_max)) {
    return drop(TcpDrop::complaint_sequence);
  }
  switch (complaint.trouble) {
    case IpTrouble::packet_too_big:
      return learn_mtu(*c, complaint.mtu);
    case IpTrouble::protocol_unreachable:
    case IpTrouble::port_unreachable:
      if (c->synchronized()) break;
      ++stats_.connects_refused;
      return finish(*c, TcpEnd::refused);
    case IpTrouble::net_unreachable:
    case IpTrouble::host_unreachable:
    case IpTrouble::prohibited:
    case IpTrouble::time_exceeded:
    case IpTrouble::parameter_problem:
      break;
  }
  c->soft_error = true;
}

/// RFC 1191 and 8201. A router that doesn't say its limit gets what all must take (RFC 1191, 5).
void Tcp::learn_mtu(TcpConnection& c, std::size_t mtu) noexcept {
  constexpr std::size_t kOldRouters = 576;
  const std::size_t limit = mtu == 0 ? kOldRouters : mtu;
  const IpAddress local = c.tuple.local.address();
  const IpAddress remote = c.tuple.remote.address();
  if (limit < ip_.path_mtu(local, remote)) ip_.learn_path_mtu(local, remote, limit, now_);
  // Another connection may have learned it before, while our segments were under way.
  if (!adopt_path_mss(c)) return drop(TcpDrop::complaint_mtu);
  // What was too big is lost, and says nothing of congestion.
  c.snd_nxt = c.snd_una;
  c.timer = TcpTimer::none;
  touch(c);
}

/// Adopts what others have learnt of the path (RFC 1191, 6.2; RFC 8201, 5.2). Whether something in
/// flight may have been too big: it is lost, then, and goes out again. (After 256 changes since the
/// last look there seems to be none: a timeout finds it.)
bool Tcp::follow_path(TcpConnection& c) noexcept {
  c.paths_seen = paths_;
  if (!adopt_path_mss(c) || c.flight() <= c.mss) return false;
  c.snd_nxt = c.snd_una;
  c.timer = TcpTimer::none;
  return true;
}

/// Segments become smaller if the path takes less than they were. Whether they did.
bool Tcp::adopt_path_mss(TcpConnection& c) noexcept {
  if (!c.synchronized()) return false;
  const auto most =
      static_cast<std::uint16_t>(path_mss(c.tuple) - fixed_options_size(c.with_timestamps));
  if (most >= c.mss) return false;
  c.mss = most;
  c.congestion.set_segment(most);
  return true;
}

}  // namespace pinion
