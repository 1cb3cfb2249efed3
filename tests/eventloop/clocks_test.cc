#include "clocks.h"

#include <gtest/gtest.h>

#include <memory>

#include <pinion/eventloop/runtime.h>

/// Which clock the lcores get.

namespace pinion {
namespace {

using namespace std::chrono_literals;

TEST(Clocks, ACounterThatCanBeTrustedIsTheFirstChoiceASystemCallTheLast) {
  EXPECT_EQ(detail::choose_clock(true, 20ns), ClockChoice::tsc);
  EXPECT_EQ(detail::choose_clock(true, 2us), ClockChoice::tsc);
  EXPECT_EQ(detail::choose_clock(false, 20ns), ClockChoice::monotonic);
  EXPECT_EQ(detail::choose_clock(false, 60ns), ClockChoice::monotonic);
  EXPECT_EQ(detail::choose_clock(false, 600ns), ClockChoice::metronome);
  EXPECT_EQ(detail::choose_clock(false, 2us), ClockChoice::metronome);
}

TEST(Clocks, OnlyAMetronomeHasAThread) {
  for (const ClockChoice choice : {ClockChoice::monotonic, ClockChoice::metronome}) {
    detail::Clocks clocks;
    ASSERT_TRUE(clocks.prepare({.cpus = {0, 1}, .clock = choice}));
    EXPECT_EQ(clocks.metronome() != nullptr, choice == ClockChoice::metronome);
    auto first = clocks.make(0);
    auto second = clocks.make(1);
    ASSERT_TRUE(first && second);
    const bool coarse = (*second)->resolution() > Delay{};
    EXPECT_EQ(coarse, choice == ClockChoice::metronome);
    const Instant before = MonotonicTime::read();
    EXPECT_GE((*first)->fresh(), before);
    const Instant now = (*first)->now();
    EXPECT_LE(now, MonotonicTime::read());
  }
}

TEST(Clocks, WhatAMetronomeCannotDoIsAnErrorOfTheRuntime) {
  RuntimeOptions options{.cpus = *first_cpus(1), .clock = ClockChoice::metronome};
  options.metronome.resolution = 1us;
  const auto runtime = Runtime::create(options);
  ASSERT_TRUE(runtime);
  const auto report = (*runtime)->run([](Lcore&) -> Result<> { return {}; });
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace pinion
