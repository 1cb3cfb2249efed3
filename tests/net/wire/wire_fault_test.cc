#include "wire/wire_fault.h"

#include <set>
#include <string_view>

#include <gtest/gtest.h>

namespace pinion::test {
namespace {

TEST(WireFault, HasANameOfItsOwnForEachReason) {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < wire::kWireFaults; ++i) {
    const auto fault = static_cast<wire::WireFault>(i);
    EXPECT_EQ(wire::wire_fault_index(fault), i);
    names.insert(to_string(fault));
  }
  EXPECT_EQ(names.size(), wire::kWireFaults);
  EXPECT_EQ(names.count("unknown"), 0U);
  EXPECT_EQ(to_string(static_cast<wire::WireFault>(wire::kWireFaults)), "unknown");
}

}  // namespace
}  // namespace pinion::test
