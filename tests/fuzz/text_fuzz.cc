#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <pinion/net/address.h>
#include <pinion/net/dpdk_eal.h>
#include <pinion/net/port_name.h>
#include <tl/expected.hpp>

#include "common/net_values.h"
#include "common/text.h"

/// What people type: the first byte chooses a parser, the rest is the text. Whatever a parser takes
/// is written in its one form, and that is read as the same value.

namespace {

using namespace pinion::apps;

void require(bool holds, std::string_view what, std::string_view text) {
  if (holds) return;
  std::fprintf(stderr, "%.*s: '%.*s'\n", static_cast<int>(what.size()), what.data(),
               static_cast<int>(text.size()), text.data());
  std::abort();
}

template <class Parse, class Format>
void check(std::string_view what, std::string_view text, Parse parse, Format format) {
  const auto value = parse(text);
  if (!value) return require(!value.error().empty(), what, text);
  const std::string written = format(*value);
  const auto again = parse(written);
  require(static_cast<bool>(again), what, written);
  require(*again == *value, what, text);
  require(format(*again) == written, what, written);
}

pinion::apps::Parsed<pinion::IpAddress> parse_address(std::string_view text) {
  auto address = pinion::IpAddress::parse(text);
  if (!address) return tl::unexpected(address.error().what);
  return *address;
}

pinion::apps::Parsed<pinion::PortName> parse_port(std::string_view text) {
  auto port = pinion::PortName::parse(text);
  if (!port) return tl::unexpected(port.error().what);
  return *port;
}

pinion::apps::Parsed<pinion::DpdkMemory> parse_memory(std::string_view text) {
  auto memory = pinion::DpdkMemory::parse(text);
  if (!memory) return tl::unexpected(memory.error().what);
  return *memory;
}

std::string format_memory(const pinion::DpdkMemory& memory) {
  for (const char* const name : {"small", "medium", "large"}) {
    if (memory == *pinion::DpdkMemory::parse(name)) return name;
  }
  return fmt::format("{}M", memory.bytes >> 20);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data + 1), size - 1);
  const auto same = [](const auto& value) { return fmt::format("{}", value); };
  switch (data[0] % 10) {
    case 0:
      check("duration", text, &parse_duration, &format_duration);
      break;
    case 1:
      check("size", text, &parse_size, &format_size);
      break;
    case 2:
      check("number", text, &parse_number, same);
      break;
    case 3:
      check("CPU list", text, &parse_cpu_list,
            [](const auto& cpus) { return format_cpu_list(cpus); });
      break;
    case 4:
      check("address", text, &parse_address,
            [](const auto& address) { return to_string(address); });
      break;
    case 5:
      check("endpoint", text, &Codec<pinion::Endpoint>::parse, &Codec<pinion::Endpoint>::format);
      break;
    case 6: {
      const auto keepalive = Codec<pinion::Keepalive>::parse(text);
      if (!keepalive) break;
      const std::string written = Codec<pinion::Keepalive>::format(*keepalive);
      const auto again = Codec<pinion::Keepalive>::parse(written);
      require(again && Codec<pinion::Keepalive>::format(*again) == written, "keepalive", text);
      break;
    }
    case 7:
      check("port", text, &parse_port, [](const auto& port) { return to_string(port); });
      break;
    case 8:
      check("memory", text, &parse_memory, &format_memory);
      break;
    default:
      require(printable(printable(text)) == printable(text), "printable", text);
      static_cast<void>(quoted_for_shell(text));
      break;
  }
  return 0;
}
