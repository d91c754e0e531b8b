// The first and the last entry of a run, written and read.
#include "dump/journal/run_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "journal/planned_settings.h"

namespace sonde {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

RunHeader header_of(const Plan& plan, const RunInfo& run = {}) {
  const std::optional<RunHeader> header = parse_run_json(run_json(plan, run, "data_dump.json", 5));
  EXPECT_TRUE(header);
  return header.value_or(RunHeader());
}

TEST(RunJson, IsReadAsItWasWritten) {
  Plan plan;
  plan.net_name = "Net";
  plan.saved_data = SavedData::full;
  plan.statistic_category = {Category::min, Category::nan_count};
  plan.low_precision = true;
  plan.source_lines = SourceLines::top;
  plan.sonde.layout = LayoutKind::mindspore_2_3;
  plan.sonde.version = Release::v2_3;
  RunInfo run;
  run.rank = 3;
  run.host = "torch";
  run.command = "train.py";
  const RunHeader header = header_of(plan, run);
  EXPECT_EQ(header.host, "torch");
  EXPECT_EQ(header.command, "train.py");
  EXPECT_EQ(header.config_file, "data_dump.json");
  EXPECT_EQ(header.rank, 3);
  EXPECT_EQ(header.pid, static_cast<std::uint64_t>(::getpid()));
  EXPECT_EQ(header.started_us, 5);
  EXPECT_FALSE(header.mends);
  EXPECT_EQ(header.layout, "mindspore-2.3");
  EXPECT_EQ(header.version, "2.3");
  EXPECT_EQ(header.net_name, "Net");
  EXPECT_EQ(header.saved_data, "full");
  EXPECT_THAT(header.statistic_category.value(), ElementsAre(Category::min, Category::nan_count));
  EXPECT_EQ(header.low_precision, true);
  EXPECT_EQ(header.source_lines, SourceLines::top);
  EXPECT_EQ(header.settings, DumpSettings());
}

TEST(RunJson, SaysByWhichSettingsADumpIsRead) {
  const std::string path = std::filesystem::temp_directory_path().string();
  for (const PlannedSettings& planned : planned_settings(path)) {
    SCOPED_TRACE(planned.name);
    const PlanResult result = parse_plan(planned.configuration, "x.json");
    ASSERT_TRUE(result.plan) << result.diagnostics.front().message;
    EXPECT_EQ(header_of(*result.plan).settings, planned.settings);
  }
}

TEST(RunJson, SaysWhatAFileThatTorchAirNamesAsksFor) {
  const std::filesystem::path acl = std::filesystem::path(testing::TempDir()) / "run_json_test_acl.json";
  const std::string path = '"' + std::filesystem::temp_directory_path().string() + '"';
  std::ofstream(acl) << R"({"dump": {"dump_path": )" << path << R"(, "dump_debug": "on"}})";
  const PlanResult result = parse_plan(R"({"dump_config": {"enable_dump": true, "dump_path": )" + path +
                                           R"(, "dump_config_path": ")" + acl.string() + R"("}})",
                                       "x.json");
  std::filesystem::remove(acl);
  ASSERT_TRUE(result.plan) << result.diagnostics.front().message;
  EXPECT_EQ(header_of(*result.plan).settings, DumpSettings{.only_overflows = true});
}

TEST(RunJson, OfAnEarlierReleaseSaysNoSettings) {
  const std::optional<RunHeader> header = parse_run_json(R"({"host": "torch", "saved_data": "full"})");
  ASSERT_TRUE(header);
  EXPECT_EQ(header->host, "torch");
  EXPECT_FALSE(header->settings);
  EXPECT_FALSE(header->statistic_category);
  EXPECT_FALSE(header->low_precision);
  EXPECT_FALSE(header->source_lines);
  for (const char* text :
       {R"({"op_debug_mode": 3, "inputs": "after"})", R"({"op_debug_mode": 3, "reread": true})",
        R"({"inputs": "after", "reread": true})", R"({"op_debug_mode": "3", "inputs": "after", "reread": true})",
        R"({"op_debug_mode": 3, "inputs": "between", "reread": true})",
        R"({"op_debug_mode": 3, "inputs": "after", "reread": 1})"}) {
    EXPECT_FALSE(parse_run_json(text)->settings) << text;
  }
}

TEST(RunJson, OfAnotherWriterMayHaveAnyMembers) {
  for (const char* text : {"", "{", "[]", "3", "\xff"}) EXPECT_FALSE(parse_run_json(text)) << text;
  const std::optional<RunHeader> header = parse_run_json(
      R"({"host": 3, "rank": -1, "pid": "7", "mends": 2, "source_lines": 9, "statistic_columns": ["min", 4, "x"]})");
  ASSERT_TRUE(header);
  EXPECT_THAT(header->host, IsEmpty());
  EXPECT_EQ(header->rank, 0);
  EXPECT_EQ(header->pid, 0);
  EXPECT_EQ(header->mends, 2);
  EXPECT_EQ(header->source_lines, SourceLines::all);
}

TEST(EndJson, IsReadAsItWasWritten) {
  Totals totals;
  totals.bytes_read = 7;
  totals.bytes_written = 8;
  const RunEnd end = parse_end_json(end_json(totals, Error{ErrorCode::io, "disk full"}, 9));
  EXPECT_EQ(end.ended_us, 9);
  EXPECT_EQ(end.bytes_read, 7);
  EXPECT_EQ(end.bytes_written, 8);
  EXPECT_EQ(end.error, "disk full");
  EXPECT_FALSE(parse_end_json(end_json(totals, {}, 9)).error);
  EXPECT_FALSE(parse_end_json("").error);
}

}  // namespace
}  // namespace sonde
