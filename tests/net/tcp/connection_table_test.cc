#include "tcp/connection_table.h"

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include <gtest/gtest.h>

#include <pinion/lib/random.h>
#include <pinion/test/seed.h>

namespace pinion {
namespace {

/// A table beside a std::unordered_map from keys to indexes. `mask` makes hashes collide.
class TableModel {
 public:
  TableModel(std::size_t limit, std::uint64_t mask, std::uint64_t seed)
      : random_(seed), mask_(mask), table_(limit), keys_(limit) {
    for (std::size_t i = limit; i-- > 0;) free_.push_back(static_cast<std::uint32_t>(i));
  }

  void step(bool growing) {
    if (!live_.empty() && random_.chance(growing ? 0.3 : 0.7)) {
      remove();
    } else {
      add();
    }
    ASSERT_EQ(table_.size(), live_.size());
    look_up(random_.next() % kKeys);
  }

  void compare() {
    ASSERT_TRUE(table_.check());
    for (const auto& [key, index] : live_) ASSERT_EQ(find(key), index);
  }

  [[nodiscard]] const ConnectionTable& table() const { return table_; }

 private:
  static constexpr std::uint64_t kKeys = 4'000;

  [[nodiscard]] std::uint64_t hash(std::uint64_t key) const {
    return (key * 0x9e3779b97f4a7c15U) >> 20 & mask_;
  }
  [[nodiscard]] std::optional<std::uint32_t> find(std::uint64_t key) const {
    return table_.find(hash(key), [&](std::uint32_t index) { return keys_[index] == key; });
  }

  void add() {
    const std::uint64_t key = random_.below(kKeys);
    if (live_.contains(key)) return;
    if (free_.empty()) {
      ASSERT_FALSE(table_.insert(hash(key), 0));
      return;
    }
    const std::uint32_t index = free_.back();
    free_.pop_back();
    keys_[index] = key;
    live_[key] = index;
    ASSERT_TRUE(table_.insert(hash(key), index));
  }
  void remove() {
    // From a random key on, since the map's own order is no fair choice.
    std::uint64_t key = random_.below(kKeys);
    while (!live_.contains(key)) key = (key + 1) % kKeys;
    const std::uint32_t index = live_[key];
    table_.erase(hash(key), index);
    live_.erase(key);
    free_.push_back(index);
  }
  void look_up(std::uint64_t key) {
    table_.prefetch(hash(key));
    const auto found = find(key);
    ASSERT_EQ(found.has_value(), live_.contains(key));
    if (found) {
      ASSERT_EQ(*found, live_[key]);
      ASSERT_TRUE(table_.likely(hash(key)));
    }
  }

  Random random_;
  std::uint64_t mask_;
  ConnectionTable table_;
  std::vector<std::uint64_t> keys_;
  std::vector<std::uint32_t> free_;
  std::unordered_map<std::uint64_t, std::uint32_t> live_;
};

TEST(ConnectionTable, AgreesWithAMap) {
  const std::uint64_t steps = test::scaled(20'000);
  // Well spread, two values of the tag for each slot, and nearly everything in one cluster.
  for (const std::uint64_t mask : {~std::uint64_t{0}, std::uint64_t{0x3ff}, std::uint64_t{0x7}}) {
    for (const std::size_t limit : {1U, 3U, 64U, 200U}) {
      TableModel model(limit, mask, test::seed() + limit + mask);
      for (std::uint64_t i = 0; i < steps; ++i) {
        model.step(i / 500 % 2 == 0);
        if (i % 250 == 0) model.compare();
        if (testing::Test::HasFatalFailure()) {
          FAIL() << "limit " << limit << " mask " << mask << " step " << i;
        }
      }
    }
  }
}

TEST(ConnectionTable, WrapsAroundItsEnd) {
  ConnectionTable table(4);  // Eight slots.
  for (const std::uint32_t index : {0U, 1U, 2U}) ASSERT_TRUE(table.insert(7, index));
  ASSERT_TRUE(table.insert(0, 3));
  const auto any = [](std::uint32_t) { return true; };
  table.erase(7, 0);
  EXPECT_TRUE(table.check());
  table.erase(7, 1);
  table.erase(7, 2);
  EXPECT_TRUE(table.check());
  EXPECT_FALSE(table.find(7, any));
  EXPECT_EQ(table.find(0, any), 3U);
}

TEST(ConnectionTable, IsFullAtItsLimitAndNotBefore) {
  ConnectionTable table(1'000);
  for (std::uint32_t i = 0; i < 1'000; ++i) ASSERT_TRUE(table.insert(i * 977, i));
  EXPECT_FALSE(table.insert(5, 1'000));
  table.erase(0, 0);
  EXPECT_TRUE(table.insert(5, 1'000));
  EXPECT_EQ(table.memory(), 2'048U * 8);
}

TEST(ConnectionTable, TellsEntriesOfOneHashApart) {
  ConnectionTable table(10);
  for (std::uint32_t i = 0; i < 10; ++i) ASSERT_TRUE(table.insert(42, i));
  for (std::uint32_t i = 0; i < 10; ++i) {
    EXPECT_EQ(table.find(42, [&](std::uint32_t index) { return index == i; }), i);
  }
  table.erase(42, 5);
  EXPECT_FALSE(table.find(42, [](std::uint32_t index) { return index == 5; }));
}

TEST(ConnectionTableDeathTest, RefusesToEraseWhatIsNotThere) {
  ConnectionTable table(4);
  ASSERT_TRUE(table.insert(1, 1));
  EXPECT_DEATH(table.erase(1, 2), "entry");
}

}  // namespace
}  // namespace pinion
