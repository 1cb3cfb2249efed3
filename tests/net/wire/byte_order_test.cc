#include "wire/byte_order.h"

#include <array>
#include <cstddef>
#include <cstdint>

#include <gtest/gtest.h>

#include "wire_support.h"

namespace pinion::test {
namespace {

TEST(ByteOrder, LoadsTheMostSignificantByteFirst) {
  const Bytes bytes = from_hex("ff 01 82 03 84 05 86 07 88");
  EXPECT_EQ(wire::load_u8(&bytes[2]), 0x82);
  EXPECT_EQ(wire::load_be16(&bytes[1]), 0x0182);
  EXPECT_EQ(wire::load_be32(&bytes[1]), 0x01820384U);
  EXPECT_EQ(wire::load_be64(&bytes[1]), 0x0182038405860788U);
}

TEST(ByteOrder, StoresWhatItLoadsAndTouchesNothingElse) {
  Bytes bytes(10, std::byte{0x5a});
  wire::store_be64(&bytes[1], 0xf102030405060708U);
  EXPECT_EQ(bytes, from_hex("5a f1 02 03 04 05 06 07 08 5a"));
  wire::store_be32(&bytes[2], 0xf9fafbfcU);
  EXPECT_EQ(bytes, from_hex("5a f1 f9 fa fb fc 06 07 08 5a"));
  wire::store_be16(&bytes[3], 0xabcd);
  EXPECT_EQ(bytes, from_hex("5a f1 f9 ab cd fc 06 07 08 5a"));
  wire::store_u8(&bytes[0], 0xee);
  EXPECT_EQ(bytes, from_hex("ee f1 f9 ab cd fc 06 07 08 5a"));
}

TEST(ByteOrder, IsForConstantsToo) {
  constexpr std::array<std::byte, 4> kBytes = {std::byte{1}, std::byte{2}, std::byte{3},
                                               std::byte{4}};
  static_assert(wire::load_be32(kBytes.data()) == 0x01020304);
}

TEST(ByteOrder, KeepsTheOrderOfAddresses) {
  const Bytes bytes = from_hex("00 c0 00 02 07");
  const auto address = wire::load_bytes<4>(&bytes[1]);
  EXPECT_EQ(address, (std::array<std::uint8_t, 4>{0xc0, 0, 2, 7}));
  Bytes into(6);
  wire::store_bytes(&into[1], address);
  EXPECT_EQ(into, from_hex("00 c0 00 02 07 00"));
}

}  // namespace
}  // namespace pinion::test
