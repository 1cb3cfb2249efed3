#include <pinion/lib/list.h>

#include <algorithm>
#include <array>
#include <deque>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include <pinion/test/seed.h>

namespace pinion {
namespace {

struct Item : ListNode {
  explicit Item(int id_of_item = 0) : id(id_of_item) {}
  int id;
};

template <class L>
std::vector<int> forwards(const L& list) {
  std::vector<int> ids;
  for (const auto& item : list) ids.push_back(item.id);
  return ids;
}

template <class L>
std::vector<int> backwards(const L& list) {
  std::vector<int> ids;
  for (auto at = list.end(); at != list.begin();) ids.push_back((--at)->id);
  return ids;
}

TEST(List, KeepsOrderAtBothEnds) {
  Item a(1), b(2), c(3);
  List<Item> list;
  EXPECT_TRUE(list.empty());
  EXPECT_EQ(list.pop_front(), nullptr);
  list.push_back(b);
  list.push_back(c);
  list.push_front(a);
  EXPECT_EQ(forwards(list), (std::vector{1, 2, 3}));
  EXPECT_EQ(backwards(list), (std::vector{3, 2, 1}));
  EXPECT_EQ(list.front().id, 1);
  EXPECT_EQ(list.back().id, 3);
  EXPECT_EQ(list.pop_front(), &a);
  EXPECT_FALSE(List<Item>::linked(a));
  EXPECT_TRUE(List<Item>::linked(b));
}

TEST(List, ErasesWithoutKnowingWhichList) {
  Item a(1), b(2);
  List<Item> list;
  list.push_back(a);
  list.push_back(b);
  List<Item>::erase(a);
  EXPECT_EQ(forwards(list), (std::vector{2}));
  list.push_back(a);
  EXPECT_EQ(forwards(list), (std::vector{2, 1}));
}

TEST(List, AllowsErasingWhileIterating) {
  std::deque<Item> items;
  for (int id = 0; id < 10; ++id) items.emplace_back(id);
  List<Item> list;
  for (Item& item : items) list.push_back(item);
  for (auto at = list.begin(); at != list.end();) {
    Item& item = *at++;
    if (item.id % 3 != 0) list.erase(item);
  }
  EXPECT_EQ(forwards(list), (std::vector{0, 3, 6, 9}));
}

TEST(List, AllowsErasingANeighbourWhileIterating) {
  Item a(1), b(2), c(3);
  List<Item> list;
  for (Item* item : {&a, &b, &c}) list.push_back(*item);
  auto at = list.begin();
  ++at;
  list.erase(a);
  list.erase(c);
  EXPECT_EQ(at->id, 2);
  EXPECT_EQ(++at, list.end());
}

TEST(List, SplicesInOrder) {
  Item a(1), b(2), c(3);
  List<Item> first;
  List<Item> second;
  first.splice(second);
  EXPECT_TRUE(first.empty());
  second.push_back(b);
  second.push_back(c);
  first.push_back(a);
  first.splice(second);
  EXPECT_TRUE(second.empty());
  EXPECT_EQ(forwards(first), (std::vector{1, 2, 3}));
  EXPECT_EQ(backwards(first), (std::vector{3, 2, 1}));
  second.splice(first);
  EXPECT_EQ(forwards(second), (std::vector{1, 2, 3}));
}

TEST(List, UnlinksWhatItHoldsWhenItDies) {
  Item a(1);
  {
    List<Item> list;
    list.push_back(a);
  }
  EXPECT_FALSE(List<Item>::linked(a));
}

struct ByAge {};
struct ByName {};
struct Person : TaggedListNode<ByAge>, TaggedListNode<ByName> {
  explicit Person(int id_of_person) : id(id_of_person) {}
  int id;
};

TEST(List, HoldsOneElementInTwoTaggedLists) {
  Person a(1), b(2);
  List<Person, ByAge> by_age;
  List<Person, ByName> by_name;
  by_age.push_back(a);
  by_age.push_back(b);
  by_name.push_back(b);
  by_name.push_back(a);
  by_age.erase(a);
  EXPECT_EQ(forwards(by_age), (std::vector{2}));
  EXPECT_EQ(forwards(by_name), (std::vector{2, 1}));
}

/// The same steps on two lists and on two deques of ids.
class Model {
 public:
  explicit Model(std::uint64_t seed) : random_(seed) {
    for (int id = 0; id < 40; ++id) items_.emplace_back(id);
  }

  void step() {
    const std::size_t which = random_() % 2;
    Item& item = items_[random_() % items_.size()];
    const auto holder = std::find_if(model_.begin(), model_.end(), [&](const auto& ids) {
      return std::find(ids.begin(), ids.end(), item.id) != ids.end();
    });
    ASSERT_EQ(List<Item>::linked(item), holder != model_.end());
    switch (random_() % 16) {
      case 0:
        lists_[which].splice(lists_[1 - which]);
        model_[which].insert(model_[which].end(), model_[1 - which].begin(),
                             model_[1 - which].end());
        model_[1 - which].clear();
        break;
      case 1:
      case 2:
      case 3:
        pop(which);
        break;
      default:
        if (holder != model_.end()) {
          List<Item>::erase(item);
          holder->erase(std::find(holder->begin(), holder->end(), item.id));
        } else if (random_() % 2 == 0) {
          lists_[which].push_back(item);
          model_[which].push_back(item.id);
        } else {
          lists_[which].push_front(item);
          model_[which].push_front(item.id);
        }
    }
  }

  void check() const {
    for (std::size_t which = 0; which < 2; ++which) {
      const std::vector<int> expected(model_[which].begin(), model_[which].end());
      ASSERT_EQ(forwards(lists_[which]), expected);
      ASSERT_EQ(backwards(lists_[which]), std::vector<int>(expected.rbegin(), expected.rend()));
      ASSERT_EQ(lists_[which].empty(), expected.empty());
    }
  }

 private:
  void pop(std::size_t which) {
    Item* first = lists_[which].pop_front();
    ASSERT_EQ(first == nullptr, model_[which].empty());
    if (first == nullptr) return;
    ASSERT_EQ(first->id, model_[which].front());
    model_[which].pop_front();
  }

  std::mt19937_64 random_;
  std::deque<Item> items_;
  std::array<List<Item>, 2> lists_;
  std::array<std::deque<int>, 2> model_;
};

TEST(List, BehavesLikeADeque) {
  Model model(test::seed());
  for (std::uint64_t step = 0; step < test::scaled(20'000); ++step) {
    ASSERT_NO_FATAL_FAILURE(model.step());
    ASSERT_NO_FATAL_FAILURE(model.check());
  }
}

#ifndef PINION_NO_DCHECK
TEST(ListDeathTest, RefusesMisuse) {
  Item a(1);
  List<Item> list;
  list.push_back(a);
  EXPECT_DEATH(list.push_back(a), "!linked");
  EXPECT_DEATH(list.splice(list), "&other != this");
  list.erase(a);
  EXPECT_DEATH(list.erase(a), "linked");
  EXPECT_DEATH((void)list.front(), "!empty");
  EXPECT_DEATH(
      {
        Item dies_linked(2);
        list.push_back(dies_linked);
      },
      "next == nullptr");
}
#endif

}  // namespace
}  // namespace pinion
