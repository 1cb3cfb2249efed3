#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <pinion/lib/assert.h>
#include <pinion/lib/list.h>
#include <pinion/lib/slab.h>

#include "secret_numbers.h"

/// A bounded table of records by key, in an order of age: the IP layer's caches.
///
/// Ownership:  the table owns its records; they stay where they are until erased.
/// Threading:  one lcore.
/// Cost:       find, insert and erase O(1) under a keyed hash; all memory is taken by the
///             constructor.
/// Full:       insert() answers nullptr; whoever calls decides what gives way, see oldest().

namespace pinion {

struct ByAge;

/// What a record of a KeyedTable begins with. `Key` compares and gives its words() to hash.
template <class Key>
struct KeyedRecord : TaggedListNode<ByAge> {
  using KeyType = Key;

  explicit KeyedRecord(const Key& its) noexcept : key(its) {}

  const Key key;
  KeyedRecord* next_in_bucket = nullptr;
};

template <class Record>
class KeyedTable {
  using Key = typename Record::KeyType;
  using Link = KeyedRecord<Key>;

 public:
  KeyedTable(std::size_t capacity, std::uint64_t seed)
      : key_(SecretNumbers(seed).next_key()),
        records_(capacity),
        buckets_(std::bit_ceil(capacity)) {
    PINION_ASSERT(capacity > 0);
    const bool reserved = records_.reserve(capacity);
    PINION_ASSERT(reserved);
  }
  KeyedTable(const KeyedTable&) = delete;
  KeyedTable& operator=(const KeyedTable&) = delete;
  ~KeyedTable() {
    while (!empty()) erase(oldest());
  }

  [[nodiscard]] Record* find(const Key& key) noexcept {
    for (Link* at = bucket(key); at != nullptr; at = at->next_in_bucket) {
      if (at->key == key) return static_cast<Record*>(at);
    }
    return nullptr;
  }
  [[nodiscard]] const Record* find(const Key& key) const noexcept {
    return const_cast<KeyedTable*>(this)->find(key);
  }

  /// A new record, the newest, for a key that has none; nullptr when the table is full.
  [[nodiscard]] Record* insert(const Key& key) noexcept {
    PINION_DCHECK(find(key) == nullptr);
    Record* const record = records_.allocate(key);
    if (record == nullptr) return nullptr;
    Link*& head = bucket(key);
    record->next_in_bucket = head;
    head = record;
    by_age_.push_back(*record);
    return record;
  }

  void erase(Record& record) noexcept {
    Link** at = &bucket(record.key);
    while (*at != &record) at = &(*at)->next_in_bucket;
    *at = record.next_in_bucket;
    Order::erase(record);
    records_.release(record);
  }

  void make_newest(Record& record) noexcept {
    Order::erase(record);
    by_age_.push_back(record);
  }
  void make_oldest(Record& record) noexcept {
    Order::erase(record);
    by_age_.push_front(record);
  }

  [[nodiscard]] Record& oldest() const noexcept { return by_age_.front(); }

  [[nodiscard]] bool empty() const noexcept { return records_.live() == 0; }
  [[nodiscard]] bool full() const noexcept { return records_.live() == records_.limit(); }
  [[nodiscard]] std::size_t size() const noexcept { return records_.live(); }
  [[nodiscard]] std::size_t capacity() const noexcept { return records_.limit(); }

 private:
  using Order = List<Record, ByAge>;

  [[nodiscard]] Link*& bucket(const Key& key) noexcept {
    return buckets_[hash_words(key_, key.words()) & (buckets_.size() - 1)];
  }

  const SipKey key_;
  Slab<Record> records_;
  std::vector<Link*> buckets_;
  Order by_age_;
};

}  // namespace pinion
