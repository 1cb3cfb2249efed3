#pragma once

#include <pinion/net/stream_error.h>
#include <pinion/net/transport.h>

namespace pinion::detail {

/// Counts a failure that isn't our own doing, each kind by itself (docs/stream.md, "Values").
void count_failure(TransportStats& stats, StreamError error) noexcept;

/// The same of a stream that was open: who is unreachable has left its data unacknowledged.
inline void count_stream_failure(TransportStats& stats, StreamError error) noexcept {
  count_failure(stats, error == StreamError::unreachable ? StreamError::peer_timeout : error);
}

}  // namespace pinion::detail
