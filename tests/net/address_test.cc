#include <string>

#include <gtest/gtest.h>
#include <pinion/net/address.h>

namespace pinion {
namespace {

TEST(Endpoint, ReadsWhatItPrints) {
  for (const char* text : {"127.0.0.1:7007", "0.0.0.0:0", "255.255.255.255:65535", "[::1]:7007",
                           "[::]:80", "[2001:db8::1:2]:443"}) {
    const auto endpoint = Endpoint::parse(text);
    ASSERT_TRUE(endpoint.has_value()) << text;
    EXPECT_EQ(to_string(*endpoint), text);
  }
}

TEST(Endpoint, ShowsHowToWriteOne) {
  for (const char* text : {"",
                           ":",
                           "127.0.0.1",
                           "127.0.0.1:",
                           ":7007",
                           "127.0.0.1:65536",
                           "127.0.0.1:-1",
                           "127.0.0.1:70x",
                           "127.0.0.1: 7",
                           "127.0.0.256:1",
                           "127.0.0:1",
                           "::1:7007",
                           "[::1]",
                           "[::1]:",
                           "[::1:7007",
                           "[127.0.0.1]:7007",
                           "::1",
                           "localhost:7007",
                           "[fe80::1%eth0]:7",
                           "[::1]7007",
                           "1.2.3.4:5:6"}) {
    const auto endpoint = Endpoint::parse(text);
    ASSERT_FALSE(endpoint.has_value()) << text;
    EXPECT_EQ(endpoint.error().code, ErrorCode::invalid_argument);
    EXPECT_NE(endpoint.error().what.find('\'' + std::string(text) + '\''), std::string::npos)
        << endpoint.error().what;
    EXPECT_NE(endpoint.error().hint.find("[::1]:7007"), std::string::npos);
  }
}

TEST(Endpoint, RefusesBytesBehindTheAddress) {
  const std::string text("127.0.0.1\0:80", 13);
  EXPECT_FALSE(Endpoint::parse(text).has_value());
  EXPECT_FALSE(IpAddress::parse(std::string("::1\0", 4)).has_value());
  EXPECT_FALSE(IpAddress::parse(std::string(1000, '1')).has_value());
}

TEST(HostAddress, ReadsWhatItPrints) {
  for (const char* text : {"10.9.0.1/24", "192.0.2.1/32", "10.0.0.1/1", "fd00::1/64", "::1/128"}) {
    const auto address = HostAddress::parse(text);
    ASSERT_TRUE(address.has_value()) << text;
    EXPECT_EQ(to_string(*address), text);
  }
}

TEST(HostAddress, ShowsHowToWriteOne) {
  for (const char* text :
       {"", "/", "10.9.0.1", "10.9.0.1/", "10.9.0.1/0", "10.9.0.1/33", "/24", "10.9.0.1/-1",
        "10.9.0.1/2x", "10.9.0.1/24/8", "10.9.0/24", "fd00::1/129", "[fd00::1]/64", "10.9.0.1 /24",
        "10.9.0.1/99999999999999999999"}) {
    const auto address = HostAddress::parse(text);
    ASSERT_FALSE(address.has_value()) << text;
    EXPECT_EQ(address.error().code, ErrorCode::invalid_argument);
    EXPECT_NE(address.error().what.find('\'' + std::string(text) + '\''), std::string::npos)
        << address.error().what;
    EXPECT_NE(address.error().hint.find("10.9.0.1/24"), std::string::npos);
  }
}

TEST(IpAddress, ComparesByFamilyAndBytes) {
  EXPECT_EQ(*IpAddress::parse("10.0.0.1"), IpAddress::v4({10, 0, 0, 1}));
  EXPECT_NE(*IpAddress::parse("::"), IpAddress());
  EXPECT_LT(*IpAddress::parse("10.0.0.1"), *IpAddress::parse("10.0.0.2"));
  EXPECT_TRUE(IpAddress::parse("::ffff:1.2.3.4")->is_v6());
}

}  // namespace
}  // namespace pinion
