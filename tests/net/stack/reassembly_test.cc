#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>
#include <pinion/lib/random.h>
#include <pinion/test/seed.h>

#include "stack/reassembly.h"
#include "table_world.h"

namespace pinion::test {
namespace {

constexpr std::uint8_t kHeader = 20;

class Host final : public ReassemblyHost {
 public:
  void reassembly_timed_out(PacketPtr first_fragment, Instant /*now*/) noexcept override {
    timed_out.push_back(first_fragment->size());
  }
  std::vector<std::size_t> timed_out;
};

class Reassemble : public TableWorld {
 protected:
  static FragmentKey key(std::uint32_t id) {
    return {.source = ip("10.0.0.1"), .destination = ip("10.0.0.2"), .id = id, .protocol = 17};
  }

  /// The byte at `place` of datagram `id`.
  static std::byte byte_at(std::uint32_t id, std::size_t place) {
    return static_cast<std::byte>(id * 31 + place * 7 + place / 256);
  }

  [[nodiscard]] PacketPtr fragment(std::uint32_t id, std::uint32_t offset, std::uint32_t size) {
    PacketPtr made = packet(kHeader + size, 0xee);
    for (std::uint32_t i = 0; i < size; ++i) made->data()[kHeader + i] = byte_at(id, offset + i);
    return made;
  }

  ReassemblyResult insert(std::uint32_t id, std::uint32_t offset, std::uint32_t size, bool more,
                          std::uint8_t ecn = 0) {
    return reassembly->insert(
        fragment(id, offset, size), key(id),
        {.offset = offset, .size = size, .more = more, .header_size = kHeader, .ecn = ecn}, now);
  }

  static testing::AssertionResult whole(const ReassemblyResult& result, std::uint32_t id,
                                        std::size_t size) {
    if (result.fate != FragmentFate::complete) return testing::AssertionFailure() << "incomplete";
    if (result.payload_size != size || result.header_size != kHeader) {
      return testing::AssertionFailure() << "sizes";
    }
    std::size_t place = 0;
    const Packet* at = result.datagram.get();
    std::span<const std::byte> bytes = at->bytes().subspan(kHeader);
    for (;;) {
      for (const std::byte byte : bytes) {
        if (byte != byte_at(id, place++)) return testing::AssertionFailure() << "byte " << place;
      }
      at = at->next_segment();
      if (at == nullptr) break;
      bytes = at->bytes();
    }
    return place == size ? testing::AssertionSuccess() : testing::AssertionFailure() << "size";
  }

  Host host;
  IpCounters counters;
  std::unique_ptr<Reassembly> reassembly = std::make_unique<Reassembly>(
      ReassemblyOptions{.datagrams = 16, .bytes = 128UL * 2048, .fragments = 128}, host, *wheel,
      counters, seed());
};

// N3: fragments.
TEST_F(Reassemble, N3PutsFragmentsTogetherInAnyOrder) {
  std::vector<std::uint32_t> order(5);
  std::iota(order.begin(), order.end(), 0U);
  std::uint32_t id = 0;
  do {
    ++id;
    for (std::size_t i = 0; i < order.size(); ++i) {
      const std::uint32_t which = order[i];
      const bool last = which == 4;
      const ReassemblyResult result = insert(id, which * 64, last ? 13 : 64, !last);
      if (i + 1 < order.size()) {
        ASSERT_EQ(result.fate, FragmentFate::held);
      } else {
        ASSERT_TRUE(whole(result, id, 4 * 64 + 13));
      }
    }
  } while (std::ranges::next_permutation(order).found);
  EXPECT_EQ(counters.reassembled, 120U);
  EXPECT_EQ(reassembly->bytes(), 0U);
  EXPECT_EQ(reassembly->fragments(), 0U);
  EXPECT_EQ(reassembly->datagrams(), 0U);
}

// N3: fragments.
TEST_F(Reassemble, N3Takes45FragmentsOf64KiB) {
  constexpr std::uint32_t kPart = 1480;
  constexpr std::uint32_t kSize = 65'515;
  std::vector<std::uint32_t> order(45);
  std::iota(order.begin(), order.end(), 0U);
  Random random(seed());
  for (int round = 0; round < 20; ++round) {
    random.shuffle(order);
    ReassemblyResult result;
    for (const std::uint32_t which : order) {
      const std::uint32_t offset = which * kPart;
      const std::uint32_t size = std::min(kPart, kSize - offset);
      result = insert(7, offset, size, offset + size != kSize);
    }
    ASSERT_TRUE(whole(result, 7, kSize));
  }
}

// N3: fragments.
TEST_F(Reassemble, N3AnOverlapCondemnsTheDatagramWithWhatIsStillToCome) {
  struct Case {
    std::uint32_t offset, size;
    bool more;
  };
  // 64 to 128 is there.
  for (const Case& bad : {Case{64, 56, true}, Case{72, 56, true}, Case{72, 8, true},
                          Case{56, 16, true}, Case{120, 16, true}, Case{0, 256, true},
                          Case{64, 64, false}, Case{120, 3, false}, Case{0, 72, false}}) {
    static std::uint32_t id = 100;
    ++id;
    const std::uint64_t before = counters.fragment_overlap;
    EXPECT_EQ(insert(id, 64, 64, true).fate, FragmentFate::held);
    EXPECT_EQ(insert(id, bad.offset, bad.size, bad.more).fate, FragmentFate::dropped);
    EXPECT_EQ(counters.fragment_overlap, before + 1) << bad.offset << " " << bad.size;
    EXPECT_EQ(reassembly->bytes(), 0U);
    EXPECT_EQ(insert(id, 0, 64, true).fate, FragmentFate::dropped);
    EXPECT_EQ(insert(id, 64, 64, true).fate, FragmentFate::dropped);
    EXPECT_EQ(insert(id, 128, 5, false).fate, FragmentFate::dropped);
  }
  EXPECT_EQ(counters.fragment_condemned, 27U);
}

TEST_F(Reassemble, TheEndMustNotMove) {
  EXPECT_EQ(insert(1, 64, 10, false).fate, FragmentFate::held);
  EXPECT_EQ(insert(1, 128, 10, false).fate, FragmentFate::dropped);
  EXPECT_EQ(insert(2, 64, 10, false).fate, FragmentFate::held);
  EXPECT_EQ(insert(2, 80, 8, true).fate, FragmentFate::dropped);
  EXPECT_EQ(insert(3, 128, 64, true).fate, FragmentFate::held);
  EXPECT_EQ(insert(3, 64, 10, false).fate, FragmentFate::dropped);
  EXPECT_EQ(counters.fragment_overlap, 3U);
}

TEST_F(Reassemble, ARepetitionIsDroppedAlone) {
  EXPECT_EQ(insert(1, 64, 10, false).fate, FragmentFate::held);
  EXPECT_EQ(insert(1, 64, 10, false).fate, FragmentFate::dropped);
  EXPECT_EQ(insert(1, 0, 32, true).fate, FragmentFate::held);
  EXPECT_EQ(insert(1, 0, 32, true).fate, FragmentFate::dropped);
  EXPECT_TRUE(whole(insert(1, 32, 32, true), 1, 74));
  EXPECT_EQ(counters.fragment_repeated, 2U);
}

// N3: fragments.
TEST_F(Reassemble, N3WithoutTheLastItIsGivenUpAfterAMinute) {
  EXPECT_EQ(insert(1, 0, 64, true).fate, FragmentFate::held);
  pass(30s);
  EXPECT_EQ(insert(1, 64, 64, true).fate, FragmentFate::held);
  EXPECT_EQ(insert(2, 64, 64, true).fate, FragmentFate::held);
  pass(29'900ms);
  EXPECT_EQ(reassembly->datagrams(), 2U);
  EXPECT_TRUE(host.timed_out.empty());
  pass(200ms);
  EXPECT_EQ(reassembly->datagrams(), 1U);
  EXPECT_EQ(host.timed_out, (std::vector<std::size_t>{kHeader + 64}));
  // Without its first part nobody is told.
  pass(31s);
  EXPECT_EQ(reassembly->datagrams(), 0U);
  EXPECT_EQ(host.timed_out.size(), 1U);
  EXPECT_EQ(counters.reassembly_timeout, 2U);
  EXPECT_EQ(reassembly->bytes(), 0U);
}

// N3: fragments.
TEST_F(Reassemble, N3AFloodOfFirstFragmentsStaysUnderItsCaps) {
  EXPECT_EQ(insert(1, 0, 64, true).fate, FragmentFate::held);
  for (std::uint32_t id = 2; id < 5'000; ++id) {
    EXPECT_EQ(insert(id, 0, 1480, true).fate, FragmentFate::held);
    ASSERT_LE(reassembly->datagrams(), 16U);
    ASSERT_LE(reassembly->bytes(), 128U * 2048);
  }
  EXPECT_EQ(counters.reassembly_displaced, 4'983U);
  // The newest is whole in spite of it.
  EXPECT_TRUE(whole(insert(4'999, 1480, 10, false), 4'999, 1490));
}

TEST_F(Reassemble, BytesAreCountedAsThePoolDoes) {
  // A fragment of 8 bytes costs what its buffer costs: 64 datagrams of two would be too many.
  const std::size_t cost = packet(8)->true_size();
  reassembly = std::make_unique<Reassembly>(
      ReassemblyOptions{.datagrams = 64, .bytes = cost * 10, .fragments = 128}, host, *wheel,
      counters, seed());
  for (std::uint32_t id = 0; id < 40; ++id) {
    (void)insert(id, 0, 8, true);
    ASSERT_LE(reassembly->bytes(), cost * 10);
  }
  EXPECT_EQ(reassembly->datagrams(), 10U);
  // One that alone wants more than there is can't be helped.
  for (std::uint32_t i = 0; i < 10; ++i) (void)insert(77, i * 8, 8, true);
  EXPECT_EQ(reassembly->datagrams(), 1U);
  EXPECT_EQ(insert(77, 80, 8, true).fate, FragmentFate::dropped);
  EXPECT_EQ(counters.fragment_no_room, 1U);
  EXPECT_EQ(reassembly->bytes(), 0U);
}

TEST_F(Reassemble, ADatagramHas128FragmentsAtMost) {
  reassembly = std::make_unique<Reassembly>(
      ReassemblyOptions{.datagrams = 4, .bytes = 1UL << 30, .fragments = 1024}, host, *wheel,
      counters, seed());
  for (std::uint32_t i = 0; i < 128; ++i) {
    EXPECT_EQ(insert(1, i * 16, 8, true).fate, FragmentFate::held);
  }
  EXPECT_EQ(insert(1, 8, 8, true).fate, FragmentFate::dropped);
  EXPECT_EQ(counters.fragment_too_many, 1U);
  EXPECT_EQ(reassembly->fragments(), 0U);
}

TEST_F(Reassemble, CongestionExperiencedIsNotLost) {
  const auto merged = [this](std::uint8_t a, std::uint8_t b) {
    static std::uint32_t id = 0;
    ++id;
    (void)insert(id, 0, 8, true, a);
    const ReassemblyResult result = insert(id, 8, 8, false, b);
    return result.fate == FragmentFate::complete ? int{result.ecn} : -1;
  };
  EXPECT_EQ(merged(0, 0), 0);
  EXPECT_EQ(merged(2, 2), 2);
  EXPECT_EQ(merged(1, 1), 1);
  EXPECT_EQ(merged(2, 3), 3);
  EXPECT_EQ(merged(3, 1), 3);
  // RFC 3168, 5.3: one with CE, one without ECN.
  EXPECT_EQ(merged(0, 3), -1);
  EXPECT_EQ(counters.fragment_ecn, 1U);
}

TEST_F(Reassemble, KeysAreKeptApart) {
  const auto with = [this](FragmentKey k, std::uint32_t offset, bool more) {
    return reassembly
        ->insert(fragment(1, offset, 8), k,
                 {.offset = offset, .size = 8, .more = more, .header_size = kHeader}, now)
        .fate;
  };
  FragmentKey base = key(1);
  EXPECT_EQ(with(base, 0, true), FragmentFate::held);
  for (const auto& change : std::vector<std::function<void(FragmentKey&)>>{
           [](FragmentKey& k) { k.source = ip("10.0.0.3"); },
           [](FragmentKey& k) { k.destination = ip("10.0.0.3"); }, [](FragmentKey& k) { k.id = 2; },
           [](FragmentKey& k) { k.protocol = 6; }, [](FragmentKey& k) { k.source = ip("::1"); }}) {
    FragmentKey other = base;
    change(other);
    EXPECT_EQ(with(other, 8, false), FragmentFate::held);
  }
  EXPECT_EQ(with(base, 8, false), FragmentFate::complete);
}

/// A map of bytes instead of a list of holes.
struct SlowDatagram {
  std::vector<bool> have = std::vector<bool>(256);
  std::vector<FragmentPlace> places;
  std::size_t end = 0;
  bool condemned = false;
};

TEST_F(Reassemble, DoesWhatASlowModelDoes) {
  Random random(seed());
  for (std::uint64_t round = 0; round < scaled(1'000); ++round) {
    const auto id = static_cast<std::uint32_t>(round);
    SlowDatagram model;
    for (int i = 0; i < 40; ++i) {
      const auto offset = static_cast<std::uint32_t>(random.below(12) * 8);
      const auto size = static_cast<std::uint32_t>((1 + random.below(4)) * 8);
      const bool more = random.chance(0.9);
      const auto same = [&](const FragmentPlace& p) {
        return p.offset == offset && p.size == size && p.more == more;
      };
      const bool repeats = std::ranges::any_of(model.places, same);
      bool bad = false;
      std::size_t furthest = 0;
      for (std::size_t at = 0; at < model.have.size(); ++at) {
        if (model.have[at]) furthest = at + 1;
        if (model.have[at] && at >= offset && at < offset + size) bad = true;
      }
      if (!more && (model.end != 0 ? offset + size != model.end : furthest > offset)) bad = true;
      if (more && model.end != 0 && offset + size >= model.end) bad = true;

      FragmentFate should = FragmentFate::held;
      if (model.condemned || repeats) {
        should = FragmentFate::dropped;
      } else if (bad) {
        model.condemned = true;
        should = FragmentFate::dropped;
      } else {
        std::fill_n(model.have.begin() + offset, size, true);
        model.places.push_back({.offset = offset, .size = size, .more = more});
        if (!more) model.end = offset + size;
        const auto count = std::ranges::count(model.have, true);
        if (model.end != 0 && static_cast<std::size_t>(count) == model.end) {
          should = FragmentFate::complete;
        }
      }
      const ReassemblyResult result = insert(id, offset, size, more);
      ASSERT_EQ(result.fate, should) << "datagram " << id << ", fragment " << i;
      if (should == FragmentFate::complete) {
        ASSERT_TRUE(whole(result, id, model.end));
        break;
      }
    }
  }
}

}  // namespace
}  // namespace pinion::test
