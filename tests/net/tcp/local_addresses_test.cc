#include "tcp/local_addresses.h"

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include <pinion/lib/random.h>
#include <pinion/test/seed.h>

#include "tuples.h"

namespace pinion {
namespace {

CompactAddress address(std::uint32_t bits) {
  return *CompactAddress::of(test::address_v4(bits));
}

TEST(LocalAddresses, GivesEachAddressOneNumberWhileItIsReferredTo) {
  LocalAddresses addresses(3);
  const auto one = addresses.take(address(1));
  const auto two = addresses.take(address(2));
  ASSERT_TRUE(one && two);
  EXPECT_NE(*one, *two);
  EXPECT_EQ(addresses.take(address(1)), one);
  EXPECT_EQ(addresses[*one], address(1));
  EXPECT_EQ(addresses[*two], address(2));
}

TEST(LocalAddresses, TellsTheAddressOfAllZerosFromAFreePlace) {
  LocalAddresses addresses(2);
  const auto zero = addresses.take(CompactAddress());
  ASSERT_TRUE(zero);
  EXPECT_EQ(addresses[*zero], CompactAddress());
  EXPECT_NE(addresses.take(address(1)), zero);
}

TEST(LocalAddresses, AgreesWithAMapOfCounts) {
  Random random(test::seed());
  LocalAddresses addresses(8);
  std::map<std::uint32_t, std::vector<std::uint16_t>> model;  // Each reference's number.
  for (std::uint64_t i = 0; i < test::scaled(20'000); ++i) {
    const auto bits = static_cast<std::uint32_t>(random.below(12));
    if (random.chance(0.5)) {
      const auto number = addresses.take(address(bits));
      ASSERT_EQ(number.has_value(), model.contains(bits) || model.size() < 8);
      if (!number) continue;
      auto& numbers = model[bits];
      numbers.push_back(*number);
      ASSERT_EQ(*number, numbers.front());
    } else if (model.contains(bits)) {
      addresses.give_back(model[bits].back());
      model[bits].pop_back();
      if (model[bits].empty()) model.erase(bits);
    }
    for (const auto& [held, numbers] : model) ASSERT_EQ(addresses[numbers.front()], address(held));
  }
}

TEST(LocalAddressesDeathTest, RefusesAReferenceThatIsNotHeld) {
  LocalAddresses addresses(2);
  const auto number = addresses.take(address(1));
  addresses.give_back(*number);
  EXPECT_DEATH(addresses.give_back(*number), "references");
}

}  // namespace
}  // namespace pinion
