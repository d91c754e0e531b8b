// What the copy of a configuration says of a dump.
#include "catalog/dump_settings.h"

#include <gtest/gtest.h>

#include <fstream>

#include "writer/dump_fixture.h"

namespace sonde {
namespace {

DumpSettings settings_in(const std::string& configuration) {
  const test::TemporaryDirectory directory;
  std::ofstream(directory.path() / "data_dump.json") << configuration;
  CatalogRank rank;
  rank.metadata = directory.path();
  return settings_of(rank);
}

// 1 and 2 are the overflow modes of single units: a dump of theirs holds what one of mode 3 does.
TEST(DumpSettings, EveryOverflowModeIsOne) {
  for (const std::string object : {"common_dump_settings", "async_dump_settings"}) {
    for (int mode = 0; mode <= 4; ++mode) {
      SCOPED_TRACE(object + " " + std::to_string(mode));
      const std::string text = R"({")" + object + R"(": {"op_debug_mode": )" + std::to_string(mode) + "}}";
      EXPECT_EQ(settings_in(text).only_overflows, mode >= 1 && mode <= 3);
    }
  }
  EXPECT_TRUE(settings_in(R"({"dump": {"dump_debug": "on"}})").only_overflows);
  EXPECT_FALSE(settings_in(R"({"dump": {"dump_debug": "off"}})").only_overflows);
}

TEST(DumpSettings, SayHowInputsWereRead) {
  EXPECT_TRUE(settings_in(R"({"sonde_settings": {"inputs": "after"}})").inputs_after);
  EXPECT_FALSE(settings_in(R"({"sonde_settings": {"inputs": "before"}})").inputs_after);
  EXPECT_TRUE(settings_in(R"({"sonde_settings": {"reread": true}})").reread);
  EXPECT_FALSE(settings_in(R"({"sonde_settings": {}})").reread);
}

TEST(DumpSettings, ConfigurationsThatCannotBeReadSayNothing) {
  for (const char* text : {"", "{", "[]", R"({"common_dump_settings": 3})"}) {
    EXPECT_FALSE(settings_in(text).only_overflows) << text;
  }
}

}  // namespace
}  // namespace sonde
