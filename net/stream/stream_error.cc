#include <pinion/net/stream_error.h>

namespace pinion {

std::string_view to_string(StreamError error) noexcept {
  switch (error) {
    case StreamError::end_of_file:
      return "end_of_file";
    case StreamError::reset:
      return "reset";
    case StreamError::read_timeout:
      return "read_timeout";
    case StreamError::write_timeout:
      return "write_timeout";
    case StreamError::deadline_exceeded:
      return "deadline_exceeded";
    case StreamError::keepalive_timeout:
      return "keepalive_timeout";
    case StreamError::peer_timeout:
      return "peer_timeout";
    case StreamError::cancelled:
      return "cancelled";
    case StreamError::draining:
      return "draining";
    case StreamError::closed:
      return "closed";
    case StreamError::refused:
      return "refused";
    case StreamError::unreachable:
      return "unreachable";
    case StreamError::connect_timeout:
      return "connect_timeout";
    case StreamError::no_resources:
      return "no_resources";
    case StreamError::io_error:
      return "io_error";
  }
  return "unknown";
}

}  // namespace pinion
