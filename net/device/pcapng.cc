#include "pcapng.h"

#include <algorithm>
#include <cstring>

#include <pinion/lib/assert.h>
#include <pinion/lib/bits.h>
#include <pinion/net/packet_copy.h>

namespace pinion::detail {
namespace {

constexpr std::size_t kWord = 4;  // Everything in the file is padded to this.

constexpr std::uint32_t kSectionHeader = 0x0A0D0D0A;
constexpr std::uint32_t kInterfaceDescription = 1;
constexpr std::uint32_t kInterfaceStatistics = 5;
constexpr std::uint32_t kEnhancedPacket = 6;

constexpr std::uint32_t kByteOrderMagic = 0x1A2B3C4D;
constexpr std::uint16_t kLinkTypeEthernet = 1;

constexpr std::uint16_t kEndOfOptions = 0;
constexpr std::uint16_t kUserApplication = 4;  // shb_userappl
constexpr std::uint16_t kInterfaceName = 2;    // if_name
constexpr std::uint16_t kInterfaceMac = 6;     // if_MACaddr
constexpr std::uint16_t kTimeResolution = 9;   // if_tsresol
constexpr std::uint16_t kPacketFlags = 2;      // epb_flags
constexpr std::uint16_t kReceived = 4;         // isb_ifrecv
constexpr std::uint16_t kDropped = 5;          // isb_ifdrop

constexpr std::size_t kBlockFrame = 4 + 4 + 4;  // type, length, length again
constexpr std::size_t kOptionHeader = 2 + 2;
/// Interface, time, captured and original length; flags, end of options.
constexpr std::size_t kPacketOverhead =
    kBlockFrame + 4 + 8 + 4 + 4 + (kOptionHeader + 4) + kOptionHeader;
/// Interface, time; two counts, end of options.
constexpr std::size_t kStatisticsBlock =
    kBlockFrame + 4 + 8 + 2 * (kOptionHeader + 8) + kOptionHeader;

}  // namespace

/// Not cleared, so that what is never used costs no page.
PcapngBuffer::PcapngBuffer(std::size_t bytes)
    : capacity_(bytes), begin_(std::make_unique_for_overwrite<std::byte[]>(bytes)) {}

void PcapngBuffer::add_header(std::string_view interface_name, const MacAddress& mac,
                              std::uint32_t snap_length) noexcept {
  const std::size_t section = begin_block(kSectionHeader);
  put(kByteOrderMagic);
  put(std::uint16_t{1});  // version 1.0
  put(std::uint16_t{0});
  put(~std::uint64_t{0});  // of unknown length
  constexpr std::string_view kProgram = "pinion";
  put_option(kUserApplication, kProgram.data(), kProgram.size());
  put_option(kEndOfOptions, nullptr, 0);
  end_block(section);

  const std::size_t interface = begin_block(kInterfaceDescription);
  put(kLinkTypeEthernet);
  put(std::uint16_t{0});
  put(snap_length);
  put_option(kInterfaceName, interface_name.data(), interface_name.size());
  put_option(kInterfaceMac, mac.data(), mac.size());
  const std::uint8_t power_of_ten = 9;
  put_option(kTimeResolution, &power_of_ten, 1);
  put_option(kEndOfOptions, nullptr, 0);
  end_block(interface);
}

bool PcapngBuffer::add_packet(const Packet& packet, PcapngDirection direction,
                              std::uint32_t snap_length, std::uint64_t unix_ns) noexcept {
  const std::size_t original = packet.chain_size();
  const std::size_t kept = std::min<std::size_t>(original, snap_length);
  const std::size_t block = kPacketOverhead + round_up_to_multiple(kept, kWord);
  if (block > capacity_ - size_ || capacity_ - size_ - block < kStatisticsBlock) return false;
  const std::size_t start = begin_block(kEnhancedPacket);
  put(std::uint32_t{0});
  put_time(unix_ns);
  put(static_cast<std::uint32_t>(kept));
  put(static_cast<std::uint32_t>(original));
  size_ += copy_out(packet, 0, {begin_.get() + size_, kept});
  put_padding(kept);
  const auto flags = static_cast<std::uint32_t>(direction);
  put_option(kPacketFlags, &flags, sizeof flags);
  put_option(kEndOfOptions, nullptr, 0);
  end_block(start);
  PINION_DCHECK(size_ - start == block);
  return true;
}

bool PcapngBuffer::add_statistics(std::uint64_t packets, std::uint64_t dropped,
                                  std::uint64_t unix_ns) noexcept {
  if (capacity_ - size_ < kStatisticsBlock) return false;
  const std::size_t start = begin_block(kInterfaceStatistics);
  put(std::uint32_t{0});
  put_time(unix_ns);
  put_option(kReceived, &packets, sizeof packets);
  put_option(kDropped, &dropped, sizeof dropped);
  put_option(kEndOfOptions, nullptr, 0);
  end_block(start);
  PINION_DCHECK(size_ - start == kStatisticsBlock);
  return true;
}

void PcapngBuffer::remove_front(std::size_t count) noexcept {
  PINION_ASSERT(count <= size_);
  std::memmove(begin_.get(), begin_.get() + count, size_ - count);
  size_ -= count;
}

template <class T>
void PcapngBuffer::put(T value) noexcept {
  put_bytes(&value, sizeof value);
}

void PcapngBuffer::put_bytes(const void* bytes, std::size_t count) noexcept {
  PINION_DCHECK(count <= capacity_ - size_);
  if (count != 0) std::memcpy(begin_.get() + size_, bytes, count);
  size_ += count;
}

/// What makes `length` bytes whole words. The buffer itself may begin inside of one.
void PcapngBuffer::put_padding(std::size_t length) noexcept {
  constexpr std::byte kZeros[kWord] = {};
  put_bytes(kZeros, round_up_to_multiple(length, kWord) - length);
}

void PcapngBuffer::put_option(std::uint16_t code, const void* value, std::size_t length) noexcept {
  put(code);
  put(static_cast<std::uint16_t>(length));
  put_bytes(value, length);
  put_padding(length);
}

/// Its upper half comes first, in either byte order.
void PcapngBuffer::put_time(std::uint64_t unix_ns) noexcept {
  put(static_cast<std::uint32_t>(unix_ns >> 32));
  put(static_cast<std::uint32_t>(unix_ns));
}

std::size_t PcapngBuffer::begin_block(std::uint32_t type) noexcept {
  const std::size_t start = size_;
  put(type);
  put(std::uint32_t{0});
  return start;
}

/// Writes the block's length on both sides of it.
void PcapngBuffer::end_block(std::size_t start) noexcept {
  const auto length = static_cast<std::uint32_t>(size_ - start + sizeof(std::uint32_t));
  put(length);
  std::memcpy(begin_.get() + start + sizeof(std::uint32_t), &length, sizeof length);
}

}  // namespace pinion::detail
