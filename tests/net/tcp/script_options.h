#pragma once

#include <string>
#include <string_view>

#include "script_tcp.h"

/// What the scripts of TCP's tests begin with.

namespace pinion::test {

/// No options but MSS, which is 1460 over either family, and windows of 64 KiB.
inline ScriptTcpOptions plain_tcp(bool v6 = false) {
  ScriptTcpOptions options;
  options.v6 = v6;
  if (v6) options.mtu = 1'520;
  options.config.timestamps = false;
  options.config.window_scale = false;
  options.config.sack = false;
  options.socket.receive_buffer = 65'535;
  return options;
}

/// A passive open.
inline std::string after_accept(const std::string& script) {
  constexpr std::string_view kAccept = R"(
    < S 0:0(0) win 65535 <mss 1460>
    > S. 0:0(0) ack 1 win 65535 <mss 1460>
    < . 1:1(0) ack 1 win 65535
    accept -> accepted
    events -> acceptable
  )";
  return std::string(kAccept) + script;
}

/// Full segments of `size` bytes from the host, from `begin` on.
inline std::string full_segments(std::uint32_t begin, int count, std::uint32_t size) {
  std::string lines;
  for (int i = 0; i < count; ++i, begin += size) {
    lines += "> . " + std::to_string(begin) + ":" + std::to_string(begin + size) + "(" +
             std::to_string(size) + ") ack 1\n";
  }
  return lines;
}

}  // namespace pinion::test
