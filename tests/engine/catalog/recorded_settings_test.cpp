// The settings by which a dump is read: those in its journal, otherwise those in the copy of its configuration.
#include "read/catalog/recorded_settings.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "dump/journal/journal.h"
#include "dump/journal/run_json.h"
#include "dump_files.h"
#include "journal/planned_settings.h"
#include "read/catalog/overflow_records.h"

namespace sonde {
namespace {

constexpr const char* kMetadata = "rank_0/.dump_metadata";
constexpr const char* kTensorFile =
    "rank_0/Net/0/0/Mul.Default_Mul-op2.0.0.1700000000000003.output.0.DefaultFormat.npy";
constexpr const char* kNowhere = "/nowhere/that-is/here";  // the dump comes from another machine

std::string run_in_journal(const std::string& header) {
  JournalWriter writer;
  writer.run(header);
  writer.end("{}");
  return writer.buffer();
}

class Dump {
 public:
  void copy(const std::string& configuration, const std::string& name = "data_dump.json") {
    directory_.write(std::filesystem::path(kMetadata) / name, configuration);
  }
  void journal(const std::string& bytes) {
    directory_.write(std::filesystem::path(kMetadata) / "sonde/journal", bytes);
  }
  void tensor() { directory_.write(kTensorFile, npy("<f4", "(1,)", bytes_of({1}))); }

  // As first-bad does, and as `watch` does.
  DumpSettings settings() const {
    const Catalog catalog = opened(directory_.path());
    if (catalog.ranks.size() != 1) ADD_FAILURE() << catalog.ranks.size() << " ranks";
    if (catalog.ranks.empty()) return {};
    const DumpSettings settings = settings_of(catalog.ranks[0]);
    EXPECT_EQ(OverflowRecords(catalog.ranks[0]).only_overflows(), settings.only_overflows);
    return settings;
  }

 private:
  TemporaryDirectory directory_;
};

DumpSettings settings_of_tree(const std::string& configuration) {
  Dump dump;
  dump.tensor();
  dump.copy(configuration);
  return dump.settings();
}

TEST(RecordedSettings, AreThoseOfTheJournal) {
  const std::string path = std::filesystem::temp_directory_path().string();
  for (const PlannedSettings& planned : planned_settings(path)) {
    SCOPED_TRACE(planned.name);
    Dump dump;
    const PlanResult result = parse_plan(planned.configuration, "x.json");
    ASSERT_TRUE(result.plan);
    dump.journal(run_in_journal(run_json(*result.plan, {}, "data_dump.json", 5)));
    // The copy is not used: it may have been changed.
    dump.copy(
        R"({"common_dump_settings": {"op_debug_mode": 3}, "sonde_settings": {"inputs": "after", "reread": true}})");
    EXPECT_EQ(dump.settings(), planned.settings);
  }
}

TEST(RecordedSettings, OfADumpWithoutAJournalAreThoseOfTheCopy) {
  for (const PlannedSettings& planned : planned_settings(kNowhere)) {
    SCOPED_TRACE(planned.name);
    EXPECT_EQ(settings_of_tree(planned.configuration), planned.settings);
  }
}

TEST(RecordedSettings, OfAnEarlierReleaseAreThoseOfTheCopy) {
  for (const PlannedSettings& planned : planned_settings(kNowhere)) {
    for (const std::string header : {R"({"host": "torch", "config_file": "data_dump.json"})", R"({"host": "torch"})"}) {
      SCOPED_TRACE(planned.name + ", " + header);
      Dump dump;
      dump.journal(run_in_journal(header));
      dump.copy(planned.configuration);
      EXPECT_EQ(dump.settings(), planned.settings);
    }
  }
}

TEST(RecordedSettings, OfARunAreThoseOfItsOwnCopy) {
  Dump dump;
  dump.journal(run_in_journal(R"({"config_file": "sonde/run_2.json"})"));
  dump.copy(R"({"common_dump_settings": {"op_debug_mode": 3}})");
  dump.copy(R"({"sonde_settings": {"reread": true}})", "sonde/run_2.json");
  EXPECT_EQ(dump.settings(), DumpSettings{.reread = true});
}

TEST(RecordedSettings, OfARankAreThoseOfAllItsRuns) {
  Dump dump;
  dump.journal(run_in_journal(R"({"op_debug_mode": 0, "inputs": "after", "reread": false})") +
               run_in_journal(R"({"op_debug_mode": 3, "inputs": "before", "reread": false})"));
  EXPECT_EQ(dump.settings(), (DumpSettings{.only_overflows = true, .inputs_after = true}));
}

TEST(RecordedSettings, AreNotReadOutsideTheDump) {
  const TemporaryDirectory outside;
  outside.write("x.json", R"({"sonde_settings": {"reread": true}})");
  const std::string file = (outside.path() / "x.json").string();
  for (const std::string& name : {file, "../../../.." + file, std::string("../other.json")}) {
    Dump dump;
    dump.journal(run_in_journal(R"({"config_file": ")" + name + R"("})"));
    dump.copy(R"({"sonde_settings": {"reread": true}})", "../other.json");
    EXPECT_EQ(dump.settings(), DumpSettings()) << name;
  }
  // Files that a copy names are not used either.
  outside.write("acl.json", R"({"dump": {"dump_path": "/tmp", "dump_debug": "on"}})");
  EXPECT_EQ(settings_of_tree(R"({"dump_config": {"enable_dump": true, "dump_config_path": ")" +
                             (outside.path() / "acl.json").string() + R"("}})"),
            DumpSettings());
}

TEST(RecordedSettings, DoNotFollowTheEnvironmentOfTheReader) {
  ::setenv("ASCEND_DUMP_SCENE", "aic_err_norm_dump", 1);
  EXPECT_EQ(settings_of_tree(R"({"dump": {"dump_path": "/nowhere"}})"), DumpSettings());
  ::unsetenv("ASCEND_DUMP_SCENE");
}

// A private dump keeps no paths, and a later release may know keys that this one refuses.
TEST(RecordedSettings, ReadWhatStandsBesideMistakes) {
  for (const char* text :
       {R"({"common_dump_settings": {"op_debug_mode": 2}})",
        R"({"common_dump_settings": {"path": "", "op_debug_mode": 3, "kernels": 7}, "sonde_settings": {"later": 1}})",
        R"({"dump": {"dump_path": "", "dump_debug": "on", "dump_level": 3}})"}) {
    EXPECT_EQ(settings_of_tree(text), DumpSettings{.only_overflows = true}) << text;
  }
  EXPECT_EQ(settings_of_tree(R"({"DumpSettings": {"mode": 9}, "sonde_settings": {"reread": true}})"),
            DumpSettings{.reread = true});
}

TEST(RecordedSettings, OfConfigurationsThatCannotBeReadAreNone) {
  for (const char* text : {"", "{", "[]", "3", R"({"common_dump_settings": 3})", R"({"device_target": "CPU"})",
                           R"({"dump": 3})", R"({"dump_config": []})", R"({"DumpSettings": null})"}) {
    EXPECT_EQ(settings_of_tree(text), DumpSettings()) << text;
  }
}

}  // namespace
}  // namespace sonde
