#pragma once

#include <pinion/net/stream_error.h>
#include <pinion/net/transport.h>

namespace pinion::detail {

/// Counts a failure that isn't our own doing, each kind by itself (docs/stream.md, "Values").
void count_failure(TransportStats& stats, StreamError error) noexcept;

}  // namespace pinion::detail
