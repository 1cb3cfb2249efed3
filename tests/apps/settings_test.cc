#include "common/settings.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <pinion/lib/time.h>
#include <unistd.h>

#include "common/program.h"

namespace pinion::apps {
namespace {

using namespace std::chrono_literals;

/// A program with a setting of each kind, an environment of its own and a scratch directory.
class SettingsTest : public testing::Test {
 protected:
  SettingsTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "settings-XXXXXX").string();
    directory_ = mkdtemp(pattern.data());
    settings_.add(text_, {.name = "listen", .help = "where"});
    settings_.add(count_, {.name = "lcores", .help = "how many"}, Range<std::uint32_t>{1, 64});
    settings_.add(timeout_, {.name = "read-timeout", .help = "how long"},
                  Range<Delay>{1ms, kNoTimeout});
    settings_.add(period_, {.name = "stats", .help = "how often"}, Range<Delay>{1s, 1h});
    settings_.add(size_, {.name = "size", .help = "how large"}, Range<ByteCount>{{1}, {1 << 20}});
    settings_.add(reconnect_, {.name = "reconnect", .help = "again"});
    settings_.add(cpus_, {.name = "cpus", .help = "which"});
  }
  ~SettingsTest() override {
    std::filesystem::remove_all(directory_);
    for (const std::string& name : variables_) unsetenv(name.c_str());
  }

  bool read(const std::vector<const char*>& arguments) {
    std::vector<const char*> all = {"program"};
    for (const char* argument : arguments) all.push_back(argument);
    return settings_.read(static_cast<int>(all.size()), all.data());
  }
  /// "error: …\nfix: …" of a wrong use, and that its exit code is 2.
  std::string error_of(const std::vector<const char*>& arguments) {
    try {
      static_cast<void>(read(arguments));
    } catch (const ProgramError& error) {
      EXPECT_EQ(error.exit_code(), kExitUsage);
      return to_string(error.error());
    }
    return "no error";
  }
  void set_environment(const std::string& name, const char* value) {
    setenv(name.c_str(), value, 1);
    variables_.push_back(name);
  }
  std::string file(const std::string& name, const std::string& content) const {
    const std::string path = directory_ / name;
    std::ofstream(path) << content;
    return path;
  }

  std::filesystem::path directory_;
  std::vector<std::string> variables_;
  std::string text_ = "127.0.0.1:7007";
  std::uint32_t count_ = 1;
  Delay timeout_ = 30s;
  Delay period_ = 1s;
  ByteCount size_{64};
  bool reconnect_ = false;
  std::vector<unsigned> cpus_;
  Settings settings_{{.name = "program", .summary = "a program"}};
};

TEST_F(SettingsTest, KeepsDefaultsWhenNothingIsSaid) {
  EXPECT_TRUE(read({}));
  EXPECT_EQ(count_, 1U);
  EXPECT_EQ(timeout_, Delay(30s));
  EXPECT_EQ(settings_.source("lcores"), "default");
}

TEST_F(SettingsTest, ReadsFlagsInBothForms) {
  EXPECT_TRUE(read(
      {"--lcores", "2", "--read-timeout=none", "--size=4KiB", "--reconnect", "--cpus", "0-1,3"}));
  EXPECT_EQ(count_, 2U);
  EXPECT_EQ(timeout_, kNoTimeout);
  EXPECT_EQ(size_.value, 4096U);
  EXPECT_TRUE(reconnect_);
  EXPECT_EQ(cpus_, (std::vector<unsigned>{0, 1, 3}));
  EXPECT_EQ(settings_.source("lcores"), "flag");
}

TEST_F(SettingsTest, LetsTheLastOfARepeatedFlagWin) {
  EXPECT_TRUE(read({"--lcores", "2", "--lcores", "3"}));
  EXPECT_EQ(count_, 3U);
}

TEST_F(SettingsTest, PrefersFlagToEnvironmentToFileToDefault) {
  const std::string path =
      file("a.toml", "lcores = 2\nread-timeout = \"2s\"\nstats = \"2s\"\nsize = 2\n");
  set_environment("PINION_LCORES", "3");
  set_environment("PINION_READ_TIMEOUT", "3s");
  EXPECT_TRUE(read({"--config", path.c_str(), "--lcores", "4"}));
  EXPECT_EQ(count_, 4U);
  EXPECT_EQ(timeout_, Delay(3s));
  EXPECT_EQ(period_, Delay(2s));
  EXPECT_EQ(size_.value, 2U);
  EXPECT_EQ(text_, "127.0.0.1:7007");
  EXPECT_EQ(settings_.source("lcores"), "flag");
  EXPECT_EQ(settings_.source("read-timeout"), "environment PINION_READ_TIMEOUT");
  EXPECT_EQ(settings_.source("stats"), "file " + path + ":3");
}

TEST_F(SettingsTest, TakesTheFileFromTheEnvironment) {
  set_environment("PINION_CONFIG", file("a.toml", "lcores = 5\n").c_str());
  EXPECT_TRUE(read({}));
  EXPECT_EQ(count_, 5U);
}

TEST_F(SettingsTest, RefusesWrongFlags) {
  EXPECT_EQ(error_of({"--read-timout", "3s"}),
            "error: unknown option --read-timout\n"
            "fix: --read-timeout; program --help lists all options");
  EXPECT_EQ(error_of({"--zzz=3"}),
            "error: unknown option --zzz\nfix: program --help lists all options");
  EXPECT_EQ(error_of({"7007"}),
            "error: unexpected argument 7007\nfix: program --help lists all options");
  EXPECT_EQ(error_of({"--lcores"}), "error: --lcores needs a value\nfix: --lcores N, from 1 to 64");
  EXPECT_EQ(error_of({"--read-timeout", "30"}),
            "error: --read-timeout 30: a duration needs a unit\n"
            "fix: --read-timeout TIME, such as 250ms, 30s or 1m30s, from 1ms, or none");
  EXPECT_EQ(error_of({"--lcores", "0"}),
            "error: --lcores 0: out of range\nfix: --lcores N, from 1 to 64");
  EXPECT_EQ(error_of({"--lcores", "-1"}),
            "error: --lcores -1: not a whole number\nfix: --lcores N, from 1 to 64");
  EXPECT_EQ(error_of({"--stats", "none"}),
            "error: --stats none: out of range\n"
            "fix: --stats TIME, such as 250ms, 30s or 1m30s, from 1s to 1h");
}

TEST_F(SettingsTest, RefusesAWrongEnvironment) {
  set_environment("PINION_READ_TIMEOUT", "soon");
  EXPECT_EQ(error_of({}),
            "error: PINION_READ_TIMEOUT=soon: not a duration\n"
            "fix: PINION_READ_TIMEOUT=TIME, such as 250ms, 30s or 1m30s, from 1ms, or none");
}

TEST_F(SettingsTest, RefusesAWrongFileWithItsLineAndTheNearestName) {
  const auto error_in = [&](const std::string& content) {
    std::string error = error_of({"--config", file("a.toml", content).c_str()});
    if (const auto at = error.find(directory_.string()); at != std::string::npos) {
      error.erase(at, directory_.string().size() + 1);
    }
    return error;
  };
  EXPECT_EQ(error_in("# a comment\n\nread_timeout = \"3s\"\n"),
            "error: a.toml:3: unknown setting read_timeout\nfix: read-timeout = …");
  EXPECT_EQ(error_in("zebra = 1\nlcors = 1\n"),
            "error: a.toml:1: unknown setting zebra\n"
            "fix: program --print-config lists all settings");
  EXPECT_EQ(error_in("lcores = \"two\"\n"),
            "error: a.toml:1: lcores must be a whole number, this is text\nfix: lcores = 1");
  EXPECT_EQ(error_in("read-timeout = 30\n"),
            "error: a.toml:1: read-timeout must be text in quotes, this is a whole number\n"
            "fix: read-timeout = \"30s\"");
  EXPECT_EQ(error_in("reconnect = \"yes\"\n"),
            "error: a.toml:1: reconnect must be true or false, this is text\n"
            "fix: reconnect = false");
  EXPECT_EQ(error_in("[lcores]\n"),
            "error: a.toml:1: lcores must be a whole number, this is a table\nfix: lcores = 1");
  EXPECT_EQ(error_in("lcores = 100\n"),
            "error: a.toml:1: lcores = 100: out of range\nfix: lcores = 1; from 1 to 64");
  EXPECT_EQ(error_in("lcores = 1\nlcores = 2\n").substr(0, 17), "error: a.toml:2:1");
  EXPECT_EQ(error_in("lcores =\n").substr(0, 16), "error: a.toml:1:");
}

// The parser never sees what it can't stand: letters beyond ASCII outside of quotes, long numbers.
TEST_F(SettingsTest, RefusesAFileOfAnotherForm) {
  const auto wrong_line = [&](const std::string& content) -> std::string {
    const std::string path = file("a.toml", content);
    const std::string error = error_of({"--config", path.c_str()});
    const std::string form =
        ": not a setting\nfix: one setting a line, name = value, with text in quotes";
    if (!error.starts_with("error: " + path + ":") || !error.ends_with(form)) return error;
    const std::size_t begin = path.size() + 8;
    return error.substr(begin, error.size() - form.size() - begin);
  };
  const std::string e = "\xc3\xa9";
  EXPECT_EQ(wrong_line("\xcf\x87"
                       "1x"),
            "1");
  EXPECT_EQ(wrong_line("# " + e + "\nlcores = 1 \xe3\x80\x82\n"), "2");
  EXPECT_EQ(wrong_line("[a" + e + "]\n"), "1");
  EXPECT_EQ(wrong_line("\nlisten = \"" + e + "\"" + e + "\n"), "2");
  EXPECT_EQ(wrong_line("listen = \"\\\"#" + e + "\" # '\nx = '\\' " + e + "\n"), "2");
  for (const char* before : {"1", "+", "-", "1=", "1[", "2020-01-01 12", "1\"a\"", "[", "\"\""}) {
    EXPECT_EQ(wrong_line("lcores = " + std::string(before) + "\"" + e + "\"\n"), "1") << before;
  }
  EXPECT_EQ(wrong_line("listen = \"\"\"a\"\"\"\n"), "1") << "a text of many lines";
  EXPECT_EQ(wrong_line("listen = \"a\nlcores = 1\n"), "1") << "no second quote";
  EXPECT_EQ(wrong_line("a = 2020-01-01" + std::string(115, '_') + " 12\n"), "1");
  EXPECT_EQ(wrong_line("a = [\n1=\"" + e + "\"\n]\n"), "1");
  EXPECT_EQ(wrong_line("a = {\n"), "1");
  EXPECT_EQ(wrong_line("lcores\n"), "1");
  EXPECT_EQ(wrong_line(std::string(101, 'a') + " = 1\n"), "1");
  EXPECT_EQ(wrong_line("= 1\n"), "1");
  EXPECT_EQ(wrong_line("lcores = 1 2 \x01\n"), "1");
}

TEST_F(SettingsTest, TakesAnyLettersInQuotesAndComments) {
  const std::string content =
      "\xEF\xBB\xBF# \xc3\xa9\r\n\tlcores=2#\xc3\xa9\r\nlisten = '\xc3\xa9\"' # '\xc3\xa9\n"
      "size = \"1\\u0030\"";
  EXPECT_TRUE(read({"--config", file("b.toml", content).c_str()}));
  EXPECT_EQ(count_, 2U);
  EXPECT_EQ(text_, "\xc3\xa9\"");
  EXPECT_EQ(size_.value, 10U);
}

TEST_F(SettingsTest, RefusesAFileThatIsNotThere) {
  EXPECT_EQ(error_of({"--config", "/nowhere/a.toml"}),
            "error: can't read the settings file /nowhere/a.toml: No such file or directory\n"
            "fix: --config or PINION_CONFIG, a file that exists and that this user may read");
  EXPECT_NE(error_of({"--config", directory_.c_str()}).find("Is a directory"), std::string::npos);
  EXPECT_TRUE(read({"--config", file("empty.toml", "").c_str()}));
}

TEST_F(SettingsTest, PrintsAFileThatReadsBackTheSame) {
  text_ = "a \"quoted\" \\ text\n";
  EXPECT_TRUE(read({"--lcores", "3", "--read-timeout", "1m30s", "--reconnect", "--size", "4KiB"}));
  const std::string first = settings_.config_text();
  EXPECT_NE(first.find("lcores = 3"), std::string::npos);
  EXPECT_NE(first.find("# flag"), std::string::npos);
  const std::string path = file("a.toml", first);
  count_ = 1;
  timeout_ = 1s;
  reconnect_ = false;
  size_ = {};
  EXPECT_TRUE(read({"--config", path.c_str()}));
  EXPECT_EQ(count_, 3U);
  EXPECT_EQ(timeout_, Delay(90s));
  EXPECT_TRUE(reconnect_);
  EXPECT_EQ(size_.value, 4096U);
  EXPECT_EQ(text_, "a \"quoted\" \\ text\n");
  EXPECT_EQ(settings_.source("lcores"), "file " + path + ":3");
}

TEST_F(SettingsTest, AFollowerTakesItsValueFromAnotherSettingUntilSomethingNamesIt) {
  settings_.follow("lcores", "cpus", [this] { return std::to_string(cpus_.size()); });
  ASSERT_TRUE(read({"--cpus", "auto"}));
  EXPECT_EQ(count_, 1U);
  EXPECT_EQ(settings_.source("lcores"), "default");
  ASSERT_TRUE(read({"--cpus", "0,2-3"}));
  EXPECT_EQ(count_, 3U);
  EXPECT_EQ(settings_.source("lcores"), "cpus");
  ASSERT_TRUE(read({"--cpus", "0,2-3", "--lcores", "7"}));
  EXPECT_EQ(count_, 7U);
  EXPECT_EQ(settings_.source("lcores"), "flag");
}

TEST_F(SettingsTest, HelpNamesEverySettingWithinEightyColumns) {
  const std::string help = settings_.help_text();
  for (const char* part : {"--listen TEXT", "--lcores N", "--read-timeout TIME", "--reconnect",
                           "default 30s; from 1ms, or none", "default 1; from 1 to 64",
                           "TIME is such as 250ms", "--print-config", "--config FILE"}) {
    EXPECT_NE(help.find(part), std::string::npos) << part;
  }
  for (std::size_t at = 0; at < help.size();) {
    const std::size_t end = help.find('\n', at);
    EXPECT_LE(end - at, 80U) << help.substr(at, end - at);
    at = end + 1;
  }
}

}  // namespace
}  // namespace pinion::apps
