#include <pinion/lib/result.h>

#include <cerrno>
#include <string>

#include <gtest/gtest.h>

namespace pinion {
namespace {

Result<int> parse_port(int number) {
  if (number < 0) return fail(ErrorCode::invalid_argument, "port below zero", "--port 7007");
  return number;
}

Result<> check_port(int number) {
  const auto port = parse_port(number);
  if (!port) return tl::unexpected(port.error());
  return {};
}

TEST(Result, CarriesAValueOrAnError) {
  const auto good = parse_port(7);
  ASSERT_TRUE(good.has_value());
  EXPECT_EQ(*good, 7);
  const auto bad = check_port(-1);
  ASSERT_FALSE(bad.has_value());
  EXPECT_EQ(bad.error().code, ErrorCode::invalid_argument);
  EXPECT_TRUE(check_port(1).has_value());
}

TEST(Result, ReadsLikeAnErrorAndItsFix) {
  EXPECT_EQ(to_string(parse_port(-1).error()), "error: port below zero\nfix: --port 7007");
  EXPECT_EQ(to_string(Error{ErrorCode::io_error, "disk on fire", {}}), "error: disk on fire");
}

TEST(Result, SaysWhatTheSystemSays) {
  const Error error = errno_error(EADDRINUSE, "listen on 127.0.0.1:7007", "--listen 127.0.0.1:0");
  EXPECT_EQ(error.code, ErrorCode::already_exists);
  EXPECT_EQ(error.what, "listen on 127.0.0.1:7007: Address already in use");
  EXPECT_EQ(error.hint, "--listen 127.0.0.1:0");
  EXPECT_EQ(errno_error(-EADDRINUSE, "x").what, "x: Address already in use");
}

TEST(Result, SortsSystemErrorsByKind) {
  const auto code = [](int value) { return errno_error(value, "").code; };
  EXPECT_EQ(code(EINVAL), ErrorCode::invalid_argument);
  EXPECT_EQ(code(ENOENT), ErrorCode::not_found);
  EXPECT_EQ(code(EPERM), ErrorCode::permission_denied);
  EXPECT_EQ(code(EMFILE), ErrorCode::resource_exhausted);
  EXPECT_EQ(code(ECONNREFUSED), ErrorCode::unavailable);
  EXPECT_EQ(code(ENOSYS), ErrorCode::unsupported);
  EXPECT_EQ(code(ECANCELED), ErrorCode::cancelled);
  EXPECT_EQ(code(ETIME), ErrorCode::timed_out);
  EXPECT_EQ(code(EIO), ErrorCode::io_error);
  EXPECT_EQ(code(0), ErrorCode::io_error);
}

TEST(Result, NamesEveryCode) {
  for (int value = 0; value <= static_cast<int>(ErrorCode::timed_out); ++value) {
    EXPECT_NE(to_string(static_cast<ErrorCode>(value)), "unknown") << value;
  }
  EXPECT_EQ(to_string(ErrorCode::timed_out), "timed_out");
}

}  // namespace
}  // namespace pinion
