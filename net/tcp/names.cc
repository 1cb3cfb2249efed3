#include <string_view>

#include "tcp_events.h"
#include "tcp_stats.h"

namespace pinion {

std::string_view to_string(TcpEnd end) noexcept {
  switch (end) {
    case TcpEnd::orderly:
      return "orderly";
    case TcpEnd::aborted:
      return "aborted";
    case TcpEnd::reset:
      return "reset";
    case TcpEnd::refused:
      return "refused";
    case TcpEnd::unreachable:
      return "unreachable";
    case TcpEnd::connect_timeout:
      return "connect_timeout";
    case TcpEnd::peer_timeout:
      return "peer_timeout";
    case TcpEnd::keepalive_timeout:
      return "keepalive_timeout";
    case TcpEnd::close_timeout:
      return "close_timeout";
    case TcpEnd::data_after_close:
      return "data_after_close";
  }
  return "unknown";
}

std::string_view to_string(TcpDrop drop) noexcept {
  switch (drop) {
    case TcpDrop::broadcast:
      return "broadcast";
    case TcpDrop::address:
      return "address";
    case TcpDrop::no_listener:
      return "no_listener";
    case TcpDrop::no_such_connection:
      return "no_such_connection";
    case TcpDrop::listen_flags:
      return "listen_flags";
    case TcpDrop::backlog_full:
      return "backlog_full";
    case TcpDrop::packets_scarce:
      return "packets_scarce";
    case TcpDrop::no_connection_slot:
      return "no_connection_slot";
    case TcpDrop::syn_sent_ack:
      return "syn_sent_ack";
    case TcpDrop::no_ack_flag:
      return "no_ack_flag";
    case TcpDrop::paws:
      return "paws";
    case TcpDrop::no_timestamp:
      return "no_timestamp";
    case TcpDrop::out_of_window:
      return "out_of_window";
    case TcpDrop::reset_out_of_window:
      return "reset_out_of_window";
    case TcpDrop::reset_challenged:
      return "reset_challenged";
    case TcpDrop::syn_challenged:
      return "syn_challenged";
    case TcpDrop::ack_too_new:
      return "ack_too_new";
    case TcpDrop::ack_too_old:
      return "ack_too_old";
    case TcpDrop::handshake_ack:
      return "handshake_ack";
    case TcpDrop::data_after_fin:
      return "data_after_fin";
    case TcpDrop::data_after_close:
      return "data_after_close";
    case TcpDrop::duplicate_data:
      return "duplicate_data";
    case TcpDrop::no_room:
      return "no_room";
    case TcpDrop::time_wait:
      return "time_wait";
    case TcpDrop::complaint_unknown:
      return "complaint_unknown";
    case TcpDrop::complaint_sequence:
      return "complaint_sequence";
    case TcpDrop::complaint_mtu:
      return "complaint_mtu";
  }
  return "unknown";
}

}  // namespace pinion
