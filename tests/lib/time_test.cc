#include <pinion/lib/time.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <ratio>
#include <type_traits>

#include <gtest/gtest.h>

namespace pinion {
namespace {

using namespace std::chrono_literals;
using std::chrono::duration;
using std::chrono::nanoseconds;

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();

static_assert(std::is_trivially_copyable_v<Delay>);
static_assert(std::is_trivially_destructible_v<Delay>);
static_assert(sizeof(Delay) == 8 && sizeof(Instant) == 8);
static_assert(std::is_convertible_v<std::chrono::years, Delay>);
static_assert(std::is_convertible_v<duration<float, std::milli>, Delay>);
static_assert(!std::is_convertible_v<int, Delay>);
static_assert(!std::is_convertible_v<Delay, nanoseconds>);

constexpr std::int64_t count(Delay delay) {
  return delay.count();
}
constexpr Instant at(std::int64_t ns) {
  return Instant{nanoseconds{ns}};
}

// In a constant expression, a conversion that overflows on the way doesn't compile.
static_assert(count(duration<double>{-1e10}) == kMin && count(duration<double>{1e10}) == kMax);
static_assert(count(std::chrono::hours::min()) == kMin && count(std::chrono::hours::max()) == kMax);
static_assert(saturating_add(kNever, 1ns) == kNever);

TEST(Delay, ConvertsWholeUnitsExactly) {
  EXPECT_EQ(count({}), 0);
  EXPECT_EQ(count(7ns), 7);
  EXPECT_EQ(count(7us), 7'000);
  EXPECT_EQ(count(-7ms), -7'000'000);
  EXPECT_EQ(count(1h), 3'600'000'000'000);
  EXPECT_EQ(count(std::chrono::years{1}), 31'556'952'000'000'000);
  EXPECT_EQ(count(duration<std::uint8_t>{255}), 255'000'000'000);
  EXPECT_EQ(Delay(3ms).to_nanoseconds(), 3ms);
}

TEST(Delay, SaturatesInsteadOfWrapping) {
  EXPECT_EQ(count(std::chrono::hours::max()), kMax);
  EXPECT_EQ(count(std::chrono::hours::min()), kMin);
  EXPECT_EQ(count(std::chrono::milliseconds::max()), kMax);
  EXPECT_EQ(count(std::chrono::years{300}), kMax);
  EXPECT_EQ(count(std::chrono::years{-300}), kMin);
  EXPECT_EQ(count(std::chrono::years{292}), 292 * 31'556'952'000'000'000);
  EXPECT_EQ(count(nanoseconds::max()), kMax);
  EXPECT_EQ(count(nanoseconds::min()), kMin);
  EXPECT_EQ(count(duration<std::uint64_t, std::nano>{~std::uint64_t{0}}), kMax);
  EXPECT_EQ(count(duration<std::uint64_t, std::pico>{~std::uint64_t{0}}), 18'446'744'073'709'552);
  EXPECT_EQ(Delay(std::chrono::hours::max()), kNoTimeout);
}

TEST(Delay, IsExactJustInsideTheLimit) {
  using std::chrono::microseconds;
  EXPECT_EQ(count(microseconds{9'223'372'036'854'775}), 9'223'372'036'854'775'000);
  EXPECT_EQ(count(microseconds{9'223'372'036'854'776}), kMax);
  EXPECT_EQ(count(microseconds{-9'223'372'036'854'775}), -9'223'372'036'854'775'000);
  EXPECT_EQ(count(microseconds{-9'223'372'036'854'776}), kMin);
}

TEST(Delay, RoundsPartsOfANanosecondUp) {
  using Picoseconds = duration<std::int64_t, std::pico>;
  EXPECT_EQ(count(Picoseconds{1}), 1);
  EXPECT_EQ(count(Picoseconds{1000}), 1);
  EXPECT_EQ(count(Picoseconds{1001}), 2);
  EXPECT_EQ(count(Picoseconds{-1}), 0);
  EXPECT_EQ(count(Picoseconds{-1000}), -1);
  EXPECT_EQ(count(Picoseconds{-1001}), -1);
  EXPECT_EQ(count(duration<int, std::ratio<1, 3>>{1}), 333'333'334);
  EXPECT_EQ(count(duration<int, std::ratio<1, 3>>{-1}), -333'333'333);
}

TEST(Delay, TakesPeriodsThatNoRatioOfNanosecondsHolds) {
  EXPECT_EQ(count(duration<int, std::exa>{0}), 0);
  EXPECT_EQ(count(duration<int, std::exa>{1}), kMax);
  EXPECT_EQ(count(duration<int, std::exa>{-1}), kMin);
  EXPECT_EQ(count(duration<std::int64_t, std::atto>{1'500'000'000}), 2);
  using Odd = std::ratio<std::numeric_limits<std::intmax_t>::max(), 1'000'003>;
  EXPECT_EQ(count(duration<std::int64_t, Odd>{0}), 0);
  EXPECT_EQ(count(duration<std::int64_t, Odd>{kMax}), kMax);
  EXPECT_EQ(count(duration<std::int64_t, Odd>{kMin}), kMin);
}

TEST(Delay, ConvertsFloatingPointUnits) {
  EXPECT_EQ(count(duration<double>{0.1}), 100'000'000);
  EXPECT_EQ(count(duration<double>{-0.1}), -100'000'000);
  EXPECT_EQ(count(duration<double, std::milli>{1.5}), 1'500'000);
  EXPECT_EQ(count(duration<float>{0.5F}), 500'000'000);
  EXPECT_EQ(count(duration<long double, std::micro>{2.5L}), 2'500);
  EXPECT_EQ(count(duration<double, std::nano>{0.25}), 1);
  EXPECT_EQ(count(duration<double, std::nano>{-0.25}), 0);
  EXPECT_EQ(count(duration<double>{1e-300}), 1);
}

TEST(Delay, SaturatesFloatingPointUnits) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(count(duration<double>{kInfinity}), kMax);
  EXPECT_EQ(count(duration<double>{-kInfinity}), kMin);
  EXPECT_EQ(count(duration<double>{1e300}), kMax);
  EXPECT_EQ(count(duration<double>{-1e300}), kMin);
  EXPECT_EQ(count(duration<double, std::nano>{0x1p63}), kMax);
  EXPECT_EQ(count(duration<double, std::nano>{-0x1p63}), kMin);
  EXPECT_EQ(count(duration<float>{std::numeric_limits<float>::max()}), kMax);
  constexpr double kBelow = 0x1.fffffffffffffp62;
  EXPECT_EQ(count(duration<double, std::nano>{kBelow}), 9'223'372'036'854'774'784);
}

TEST(DelayDeathTest, RefusesNotANumber) {
  const duration<double> nan{std::nan("")};
  EXPECT_DEATH((void)Delay(nan), "is_a_number");
}

TEST(Delay, OrdersAgainstChronoAndItself) {
  EXPECT_LT(Delay(1ms), Delay(2ms));
  EXPECT_TRUE(Delay(1ms) == 1000us);
  EXPECT_TRUE(Delay(1ms) < 2h);
  EXPECT_TRUE(-1ns < Delay());
  EXPECT_LT(Delay::min(), Delay());
}

TEST(SaturatingAdd, BoundsBothEnds) {
  EXPECT_EQ(saturating_add(at(5), 7ns), at(12));
  EXPECT_EQ(saturating_add(at(5), -7ns), at(-2));
  EXPECT_EQ(saturating_add(at(kMax - 1), 1ns), kNever);
  EXPECT_EQ(saturating_add(at(kMax - 1), 1h), kNever);
  EXPECT_EQ(saturating_add(at(kMin), -1ns), Instant::min());
  EXPECT_EQ(saturating_add(at(kMin + 1), Delay::min()), Instant::min());
  EXPECT_EQ(saturating_add(at(kMin), 1ns), at(kMin + 1));
  EXPECT_EQ(saturating_add(at(1), Delay::min()), at(kMin + 1));
}

TEST(SaturatingAdd, KeepsNever) {
  EXPECT_EQ(saturating_add(at(1), kNoTimeout), kNever);
  EXPECT_EQ(saturating_add(at(-1), kNoTimeout), kNever);
  EXPECT_EQ(saturating_add(at(kMin), kNoTimeout), kNever);
  EXPECT_EQ(saturating_add(kNever, -1h), kNever);
  EXPECT_EQ(saturating_add(at(1), std::chrono::hours::max()), kNever);
}

TEST(SaturatingAdd, IsWhatPlusDoes) {
  EXPECT_EQ(at(5) + Delay(7ns), at(12));
  EXPECT_EQ(Delay(7ns) + at(5), at(12));
  EXPECT_EQ(at(1) + Delay(std::chrono::hours::max()), kNever);
  EXPECT_EQ(at(1) + kNoTimeout, kNever);
  EXPECT_EQ(kNoTimeout + at(1), kNever);
  EXPECT_EQ(at(-5) + Delay::min(), Instant::min());
  EXPECT_EQ(kNever + Delay(-1h), kNever);
}

TEST(Delay, IsMadeOfTypesThatFitInto64Bits) {
  __extension__ using Wide = __int128;
  static_assert(std::is_constructible_v<Delay, duration<std::int64_t>>);
  static_assert(std::is_constructible_v<Delay, duration<long double>>);
  static_assert(!std::is_constructible_v<Delay, duration<Wide>>);
}

TEST(SaturatingSub, BoundsBothEnds) {
  EXPECT_EQ(saturating_sub(at(12), at(5)), Delay(7ns));
  EXPECT_EQ(saturating_sub(at(5), at(12)), Delay(-7ns));
  EXPECT_EQ(saturating_sub(at(kMax - 1), at(-5)), Delay::max());
  EXPECT_EQ(saturating_sub(at(kMin), at(5)), Delay::min());
  EXPECT_EQ(saturating_sub(at(kMin), at(kMin)), Delay());
  EXPECT_EQ(saturating_sub(at(-1), at(kMin)), Delay::max());
}

TEST(SaturatingSub, KeepsNever) {
  EXPECT_EQ(saturating_sub(kNever, at(1'000)), kNoTimeout);
  EXPECT_EQ(saturating_sub(kNever, kNever), kNoTimeout);
  EXPECT_EQ(saturating_sub(at(0), kNever), Delay(nanoseconds{-kMax}));
}

}  // namespace
}  // namespace pinion
