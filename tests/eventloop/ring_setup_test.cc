#include <gtest/gtest.h>
#include <liburing.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>

#include <pinion/eventloop/ring.h>

#include "ring_setup.h"

// What a ring asks of the kernel, from inside: kernels that lack something can't be had otherwise.

namespace pinion {
namespace {

/// What this kernel says of itself, which is more than the floor.
detail::KernelAnswer this_kernel() {
  io_uring ring;
  EXPECT_EQ(io_uring_queue_init(1, &ring, 0), 0);
  const Result<detail::KernelAnswer> answer = detail::ask_kernel(ring);
  EXPECT_TRUE(answer);
  io_uring_queue_exit(&ring);
  return answer.value_or(detail::KernelAnswer{});
}

/// The last word of the error, or nothing when such a kernel will do.
std::string named_missing(const detail::KernelAnswer& answer) {
  const Result<> checked = detail::check_floor(answer);
  if (checked) return "";
  EXPECT_EQ(checked.error().code, ErrorCode::unsupported);
  EXPECT_EQ(checked.error().hint, "run Linux 6.1 or newer");
  return checked.error().what.substr(checked.error().what.rfind(' ') + 1);
}

TEST(RingSetup, WhateverOfTheFloorIsMissingIsNamed) {
  const detail::KernelAnswer kernel = this_kernel();
  EXPECT_EQ(named_missing(kernel), "");
  std::multiset<std::string> missing;
  for (unsigned bit = 0; bit < 32; ++bit) {
    detail::KernelAnswer masked = kernel;
    masked.features &= ~(1U << bit);
    missing.insert(named_missing(masked));
  }
  for (std::size_t i = 0; i < detail::KernelAnswer::kOperations; ++i) {
    detail::KernelAnswer masked = kernel;
    masked.operations[i] = false;
    missing.insert(named_missing(masked));
  }
  missing.erase("");
  EXPECT_EQ(missing, (std::multiset<std::string>{"EXT_ARG", "NODROP", "SUBMIT_STABLE", "CQE_SKIP",
                                                 "ASYNC_CANCEL", "POLL_ADD", "ACCEPT", "CONNECT",
                                                 "RECV", "SEND"}));
}

constexpr RingFeatures kAll = {RingFeature::message, RingFeature::multishot_accept,
                               RingFeature::multishot_receive};

// All of them are older than the floor: what is found missing here is a fault of the search.
TEST(RingSetup, AKernelThatSetsUpTheRingHasEveryFeature) {
  const Result<RingFeatures> found = detail::probe_features();
  ASSERT_TRUE(found);
  EXPECT_EQ(*found, kAll);
  EXPECT_EQ(detail::probe_features().value_or(RingFeatures{}), kAll);
}

TEST(RingSetup, AMaskedFeatureIsMissingAndNoOther) {
  const RingFeature each[] = {RingFeature::message, RingFeature::multishot_accept,
                              RingFeature::multishot_receive};
  for (const RingFeature masked : each) {
    const auto ring = Ring::create({.masked = {masked}});
    ASSERT_TRUE(ring);
    for (const RingFeature feature : each) EXPECT_EQ((*ring)->has(feature), feature != masked);
  }
}

TEST(RingSetup, WithoutMessagesARingRingsNobody) {
  auto target = Ring::create({});
  auto ring = Ring::create({.masked = {RingFeature::message}});
  ASSERT_TRUE(target && ring);
  ASSERT_TRUE((*target)->enable() && (*ring)->enable());
  EXPECT_FALSE((*ring)->ring_doorbell((*target)->fd()));
  EXPECT_EQ((*ring)->stats().submitted, 0U);
  EXPECT_FALSE((*target)->ready());
}

}  // namespace
}  // namespace pinion
