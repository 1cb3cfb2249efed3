#include <pinion/test/seed.h>

#include <cstdio>
#include <cstdlib>
#include <random>

#include <gtest/gtest.h>

namespace pinion::test {
namespace {

std::uint64_t number_from_environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == '\0') return otherwise;
  char* end = nullptr;
  const std::uint64_t value = std::strtoull(text, &end, 0);
  if (*end != '\0') {
    std::fprintf(stderr, "error: %s=%s is not a number\nfix: %s=12345\n", name, text, name);
    std::exit(2);
  }
  return value;
}

std::uint64_t drawn_seed() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

/// Prints the seed below each failed test.
class SeedPrinter final : public testing::EmptyTestEventListener {
  void OnTestEnd(const testing::TestInfo& info) override {
    if (!info.result()->Failed()) return;
    std::fprintf(stderr, "replay with PINION_SEED=%llu\n", static_cast<unsigned long long>(seed()));
  }
};

}  // namespace

std::uint64_t seed() {
  static const std::uint64_t value = number_from_environment("PINION_SEED", drawn_seed());
  return value;
}

std::uint64_t scaled(std::uint64_t base) {
  static const std::uint64_t factor = number_from_environment("PINION_TEST_SCALE", 1);
  return base * factor;
}

}  // namespace pinion::test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  testing::UnitTest::GetInstance()->listeners().Append(new pinion::test::SeedPrinter);
  return RUN_ALL_TESTS();
}
