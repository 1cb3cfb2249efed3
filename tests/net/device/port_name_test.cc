#include <string>

#include <gtest/gtest.h>
#include <pinion/lib/random.h>
#include <pinion/net/port_name.h>
#include <pinion/test/seed.h>

namespace pinion {
namespace {

TEST(PortName, ReadsWhatItPrints) {
  for (const char* text :
       {"tap:ptap0", "tap:ptap0,mtu=9000", "af_packet:veth0", "af_xdp:eth0.12",
        "memif:/run/pinion/m.sock,role=server,id=3", "pci:0000:03:00.0", "pci:FFFF:ff:1f.7",
        "tap:a,mac=02:00:00:00:00:01,mtu=1500", "tap:fifteen_letters"}) {
    const Result<PortName> port = PortName::parse(text);
    ASSERT_TRUE(port) << text << ": " << port.error().what;
    EXPECT_EQ(to_string(*port), text);
  }
}

TEST(PortName, KnowsItsParts) {
  const Result<PortName> port = PortName::parse("tap:ptap0,mac=02:00:00:00:00:01,mtu=9000");
  ASSERT_TRUE(port);
  EXPECT_EQ(port->kind, PortKind::tap);
  EXPECT_EQ(port->name, "ptap0");
  const std::vector<PortSetting> settings{{"mac", "02:00:00:00:00:01"}, {"mtu", "9000"}};
  EXPECT_EQ(port->settings, settings);
}

TEST(PortName, WritesAPciAddressWithItsDomain) {
  const Result<PortName> port = PortName::parse("pci:03:00.0");
  ASSERT_TRUE(port);
  EXPECT_EQ(to_string(*port), "pci:0000:03:00.0");
}

struct Refusal {
  const char* text;
  const char* why;
  const char* hint;
};

TEST(PortName, QuotesWhatItRefusesAndShowsHowToWriteIt) {
  for (const Refusal& refusal : std::initializer_list<Refusal>{
           {"", "its kind is missing", "kind:name"},
           {"ptap0", "its kind is missing", "kind:name"},
           {":ptap0", "there is no kind ''", "kind:name"},
           {"vmxnet:0", "there is no kind 'vmxnet'", "tap, af_packet, af_xdp, memif or pci"},
           {"TAP:ptap0", "there is no kind 'TAP'", "kind:name"},
           {"tap:", "its name is missing", "tap:ptap0"},
           {"tap:,mtu=1500", "its name is missing", "tap:ptap0"},
           {"tap:sixteen_letters_", "at most 15 characters", "tap:ptap0"},
           {"tap:a b", "letters, digits and marks", "tap:ptap0"},
           {"tap:a/b", "letters, digits and marks", "tap:ptap0"},
           {"af_xdp:a:b", "letters, digits and marks", "af_xdp:veth0"},
           {"tap:dtap%d", "letters, digits and marks", "tap:ptap0"},
           {"tap:..", "the kernel refuses that name", "tap:ptap0"},
           {"memif:run/m.sock", "begins with /", "memif:/run/pinion/m.sock"},
           {"pci:0000:03:00", "the form 0000:03:00.0", "pci:0000:03:00.0"},
           {"pci:0000:03:00.8", "the form 0000:03:00.0", "pci:0000:03:00.0"},
           {"pci:0000-03:00.0", "the form 0000:03:00.0", "pci:0000:03:00.0"},
           {"pci:000g:03:00.0", "the form 0000:03:00.0", "pci:0000:03:00.0"},
           {"tap:a,", "'' is no key=value", "key=value"},
           {"tap:a,mtu", "'mtu' is no key=value", "key=value"},
           {"tap:a,mtu=", "'mtu=' is no key=value", "key=value"},
           {"tap:a,=1", "'=1' is no key=value", "key=value"},
           {"tap:a,MTU=1", "'MTU=1' is no key=value", "key=value"},
           {"tap:a,mtu=1,,", "'' is no key=value", "key=value"},
           {"tap:a,mtu=1,mtu=2", "'mtu' comes twice", "key=value"},
       }) {
    const Result<PortName> port = PortName::parse(refusal.text);
    ASSERT_FALSE(port) << refusal.text;
    EXPECT_EQ(port.error().code, ErrorCode::invalid_argument);
    EXPECT_NE(port.error().what.find('\'' + std::string(refusal.text) + '\''), std::string::npos)
        << port.error().what;
    EXPECT_NE(port.error().what.find(refusal.why), std::string::npos) << port.error().what;
    EXPECT_NE(port.error().hint.find(refusal.hint), std::string::npos) << port.error().hint;
  }
}

TEST(PortName, RefusesPathsThatNoSocketCanHave) {
  const std::string longest = "/" + std::string(106, 'x');
  EXPECT_TRUE(PortName::parse("memif:" + longest));
  EXPECT_FALSE(PortName::parse("memif:" + longest + "x"));
  EXPECT_FALSE(PortName::parse(std::string("memif:/a\0b", 10)));
  EXPECT_FALSE(PortName::parse(std::string("tap:a\0b", 7)));
}

TEST(PortName, TakesOrRefusesWhateverIsTyped) {
  Random random(test::seed());
  const std::string letters = "tapf_cekxdmi:/,=.0127ab%\0 ";
  for (std::uint64_t i = 0; i < test::scaled(20'000); ++i) {
    std::string text = random.chance(0.5) ? "tap:" : "";
    for (std::uint64_t left = random.below(24); left > 0; --left) {
      text += letters[random.below(letters.size())];
    }
    const Result<PortName> port = PortName::parse(text);
    if (!port) continue;
    const Result<PortName> again = PortName::parse(to_string(*port));
    ASSERT_TRUE(again) << text;
    EXPECT_EQ(*again, *port) << text;
  }
}

}  // namespace
}  // namespace pinion
