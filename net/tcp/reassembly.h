#pragma once

#include <cstdint>

#include <pinion/net/packet.h>

#include "../wire/sequence_number.h"
#include "out_of_order.h"
#include "receive_queue.h"

/// What becomes of the text of a segment that has arrived (RFC 9293, 3.10.7.4, seventh and eighth).
///
/// Ownership:  the packet passes to the queues, or is released.
/// Threading:  one lcore.
/// Cost:       in order and with nothing out of order: ReceiveQueue::push().
/// Errors:     what isn't new, or lies outside the window, is cut off and counts for nothing but
///             the answer; what there is no memory for is dropped, and the peer sends it again.

namespace pinion {

/// The text of a segment, behind its header.
struct SegmentText {
  wire::SequenceNumber begin;
  PacketPtr payload;  ///< Its chain ends with the text; empty when there is none.
  bool fin = false;
  bool report = false;  ///< SACK is permitted: report duplicates by D-SACK.
};

struct TextOutcome {
  std::uint32_t delivered = 0;  ///< Bytes that RCV.NXT has moved by, the FIN not counted.
  bool fin = false;             ///< RCV.NXT has moved past the peer's FIN, for the first time.
  bool out_of_order = false;    ///< Acknowledge at once: a gap is there, or was (RFC 5681, 4.2).
  bool duplicate = false;       ///< Acknowledge at once: it had bytes that were there already.
  bool outside = false;         ///< It had bytes, or a FIN, beyond the window,
  bool after_fin = false;       ///< or behind the FIN that the peer has sent before.
  bool no_room = false;         ///< Bytes of it were dropped since memory is short.
};

/// Takes the text of `segment` into `queue`, or into `beyond` until its turn comes. Not called any
/// more once the FIN was passed.
[[nodiscard]] TextOutcome receive_text(SegmentText segment, ReceiveQueue& queue, OutOfOrder& beyond,
                                       ReceiveMemory& receive_memory,
                                       OutOfOrderMemory& out_of_order_memory) noexcept;

}  // namespace pinion
