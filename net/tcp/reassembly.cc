#include "reassembly.h"

#include <algorithm>
#include <utility>

namespace pinion {
namespace {

/// The text of a segment, cut to what is new and allowed.
struct Text {
  wire::SequenceNumber begin;
  PacketChain bytes;
  bool fin;
  bool report;

  [[nodiscard]] wire::SequenceNumber end() const noexcept { return begin + bytes.size(); }

  /// Drops what lies at `limit` and behind it.
  void cut_behind(wire::SequenceNumber limit) noexcept {
    if (!after(end(), limit)) return;
    bytes.remove_suffix(std::min(bytes.size(), static_cast<std::uint32_t>(end() - limit)));
    fin = false;
  }
};

/// Drops what is before `next`.
void cut_before(Text& text, wire::SequenceNumber next, OutOfOrder& beyond, TextOutcome& outcome,
                OutOfOrderMemory& memory) noexcept {
  if (text.bytes.empty() || at_or_after(text.begin, next)) return;
  const std::uint32_t count =
      std::min(text.bytes.size(), static_cast<std::uint32_t>(next - text.begin));
  if (text.report) beyond.note_duplicate({.left = text.begin, .right = text.begin + count}, memory);
  text.report = false;  // Of several ranges that had arrived the first is told (RFC 2883, 4).
  text.bytes.remove_prefix(count);
  text.begin += count;
  outcome.duplicate = true;
}

}  // namespace

TextOutcome receive_text(SegmentText segment, ReceiveQueue& queue, OutOfOrder& beyond,
                         ReceiveMemory& receive_memory,
                         OutOfOrderMemory& out_of_order_memory) noexcept {
  TextOutcome outcome;
  Text text{.begin = segment.begin,
            .bytes = PacketChain(std::move(segment.payload)),
            .fin = segment.fin,
            .report = segment.report};
  cut_before(text, queue.next(), beyond, outcome, out_of_order_memory);
  // A FIN needs no room: it may stand at the edge itself.
  outcome.outside = after(text.end(), queue.edge());
  text.cut_behind(queue.edge());
  outcome.after_fin = beyond.fin_before(text.end());
  if (outcome.after_fin) text.cut_behind(beyond.fin());

  const wire::SequenceNumber end = text.end();
  if (!text.bytes.empty() && text.begin == queue.next()) {
    outcome.out_of_order = beyond.has_bytes();
    PacketChain joined =
        beyond.join(text.begin, std::move(text.bytes), text.report, out_of_order_memory);
    const std::uint32_t count = joined.size();
    outcome.no_room = !queue.push(std::move(joined), receive_memory);
    if (!outcome.no_room) outcome.delivered = count;
  } else if (!text.bytes.empty()) {
    outcome.out_of_order = true;
    const OutOfOrderOutcome kept = beyond.insert(text.begin, std::move(text.bytes), text.report,
                                                 out_of_order_memory, queue.limit());
    outcome.no_room = kept == OutOfOrderOutcome::no_room;
    outcome.duplicate = outcome.duplicate || kept == OutOfOrderOutcome::duplicate;
  }

  if (text.fin && after(end, queue.next())) {
    outcome.out_of_order = true;
    beyond.remember_fin(end, out_of_order_memory);
  }
  if ((text.fin && end == queue.next()) || beyond.fin_at(queue.next())) {
    queue.pass_fin();
    beyond.clear(out_of_order_memory);
    outcome.fin = true;
  }
  return outcome;
}

}  // namespace pinion
