#include <cerrno>

#include <gtest/gtest.h>

#include "kernel/socket.h"

// What the kernel's errors mean to streams.

namespace pinion::test {
namespace {

using detail::connect_error;
using detail::stream_error;

TEST(KernelErrors, SayWhyThePeerOfAnOpenStreamWasGivenUp) {
  EXPECT_EQ(stream_error(ETIMEDOUT), StreamError::peer_timeout);
  for (const int unreachable : {EHOSTUNREACH, ENETUNREACH, EHOSTDOWN, ENETDOWN}) {
    EXPECT_EQ(stream_error(unreachable), StreamError::unreachable) << unreachable;
    EXPECT_EQ(connect_error(unreachable), StreamError::unreachable) << unreachable;
  }
  EXPECT_EQ(connect_error(ETIMEDOUT), StreamError::connect_timeout);
  for (const int over : {ECONNRESET, EPIPE, ENOTCONN, ECONNABORTED}) {
    EXPECT_EQ(stream_error(over), StreamError::reset) << over;
  }
  EXPECT_EQ(stream_error(EIO), StreamError::io_error);
}

}  // namespace
}  // namespace pinion::test
