#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include <pinion/test/packets.h>

/// A slow, obvious reader of pcapng files with one Ethernet interface in the machine's byte order.
/// Whatever is not as the format says throws.

namespace pinion::test {

struct PcapngPacket {
  std::uint64_t time = 0;
  std::uint32_t original_length = 0;
  std::uint32_t flags = 0;
  Bytes bytes;
};

struct PcapngStatistics {
  std::uint64_t time = 0;
  std::uint64_t received = 0;
  std::uint64_t dropped = 0;
};

struct PcapngFile {
  std::uint16_t link_type = 0;
  std::uint32_t snap_length = 0;
  std::string interface_name;
  Bytes mac;
  std::uint8_t time_resolution = 6;
  std::vector<PcapngPacket> packets;
  std::vector<PcapngStatistics> statistics;
};

inline void require(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(what);
}

/// A part of the file that is read from its front.
class PcapngPart {
 public:
  explicit PcapngPart(Bytes bytes) : bytes_(std::move(bytes)) {}

  bool empty() const { return at_ == bytes_.size(); }

  Bytes take(std::size_t count) {
    require(count <= bytes_.size() - at_, "cut short");
    const auto from = bytes_.begin() + static_cast<std::ptrdiff_t>(at_);
    at_ += count;
    return {from, from + static_cast<std::ptrdiff_t>(count)};
  }

  template <class T>
  T number() {
    const Bytes bytes = take(sizeof(T));
    T value = 0;
    std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }

  Bytes take_padded(std::size_t count) {
    Bytes bytes = take(count);
    for (; count % 4 != 0; ++count) require(take(1)[0] == 0, "padding");
    return bytes;
  }

  std::uint64_t time() {
    const std::uint64_t high = number<std::uint32_t>();
    return high << 32 | number<std::uint32_t>();
  }

  std::map<std::uint16_t, Bytes> options() {
    std::map<std::uint16_t, Bytes> options;
    while (true) {
      const auto code = number<std::uint16_t>();
      const auto length = number<std::uint16_t>();
      if (code == 0) {
        require(length == 0 && empty(), "end of options");
        return options;
      }
      require(options.emplace(code, take_padded(length)).second, "an option twice");
    }
  }

 private:
  Bytes bytes_;
  std::size_t at_ = 0;
};

template <class T>
T number_in(const Bytes& bytes) {
  require(bytes.size() == sizeof(T), "length of an option");
  return PcapngPart(bytes).number<T>();
}

inline void read_section(PcapngPart block) {
  require(block.number<std::uint32_t>() == 0x1A2B3C4D, "byte order");
  require(block.number<std::uint16_t>() == 1 && block.number<std::uint16_t>() == 0, "version");
  require(block.number<std::uint64_t>() == ~std::uint64_t{0}, "section length");
  const auto options = block.options();
  require(options.at(4) == Bytes({'p', 'i', 'n', 'i', 'o', 'n'}), "shb_userappl");
}

inline void read_interface(PcapngPart block, PcapngFile& file) {
  file.link_type = block.number<std::uint16_t>();
  require(block.number<std::uint16_t>() == 0, "reserved");
  file.snap_length = block.number<std::uint32_t>();
  const auto options = block.options();
  file.interface_name.assign(options.at(2).begin(), options.at(2).end());
  file.mac = options.at(6);
  file.time_resolution = number_in<std::uint8_t>(options.at(9));
}

inline void read_packet(PcapngPart block, PcapngFile& file) {
  require(block.number<std::uint32_t>() == 0, "interface");
  PcapngPacket packet;
  packet.time = block.time();
  const auto captured = block.number<std::uint32_t>();
  packet.original_length = block.number<std::uint32_t>();
  require(captured <= packet.original_length && captured <= file.snap_length, "lengths");
  packet.bytes = block.take_padded(captured);
  packet.flags = number_in<std::uint32_t>(block.options().at(2));
  file.packets.push_back(std::move(packet));
}

inline void read_statistics(PcapngPart block, PcapngFile& file) {
  require(block.number<std::uint32_t>() == 0, "interface");
  PcapngStatistics statistics;
  statistics.time = block.time();
  const auto options = block.options();
  statistics.received = number_in<std::uint64_t>(options.at(4));
  statistics.dropped = number_in<std::uint64_t>(options.at(5));
  file.statistics.push_back(statistics);
}

inline PcapngFile read_pcapng(const Bytes& bytes) {
  PcapngFile file;
  PcapngPart rest(bytes);
  for (int count = 0; !rest.empty(); ++count) {
    const auto type = rest.number<std::uint32_t>();
    const auto length = rest.number<std::uint32_t>();
    require(length % 4 == 0 && length >= 12, "block length");
    PcapngPart block(rest.take(length - 12));
    require(rest.number<std::uint32_t>() == length, "block length behind");
    require((count == 0) == (type == 0x0A0D0D0A), "one section header in front");
    require((count == 1) == (type == 1), "one interface behind it");
    if (type == 0x0A0D0D0A) read_section(std::move(block));
    if (type == 1) read_interface(std::move(block), file);
    if (type == 6) read_packet(std::move(block), file);
    if (type == 5) read_statistics(std::move(block), file);
    require(type == 0x0A0D0D0A || type == 1 || type == 5 || type == 6, "block type");
  }
  return file;
}

}  // namespace pinion::test
