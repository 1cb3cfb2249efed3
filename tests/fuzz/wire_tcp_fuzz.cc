#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>

#include "../net/wire/tcp_cases.h"

/// A TCP segment: whatever its bytes, the parser and the slow reader of tests/net/script agree on
/// it, and what a header says, once written, is read as the same again.

namespace {

using namespace pinion;

void require(bool holds, const std::string& what) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", what.c_str());
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  const std::string difference = test::difference(bytes);
  require(difference.empty(), difference);
  const auto parsed = wire::parse_tcp(bytes);
  if (!parsed) return 0;
  // What came with odd padding or twice may not fit when it is written our way.
  const std::size_t options_size = wire::tcp_options_size(parsed->options);
  if (options_size > wire::kTcpMaxOptionsSize) return 0;
  wire::TcpSegment segment = *parsed;
  segment.header.data_offset = static_cast<std::uint8_t>((wire::kTcpHeaderSize + options_size) / 4);
  test::PacketBytes written(wire::kTcpHeaderSize + options_size);
  require(wire::emit_tcp(written, segment.header, segment.options) == written.size(), "size");
  const auto again = wire::parse_tcp(written);
  require(again.has_value() && *again == segment, "written, it is read as something else");
  return 0;
}
