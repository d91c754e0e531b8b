// The MindSpore dialects by release: the settings that each accepts, refuses and ignores, and its tree.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "edited_plan.h"

namespace sonde::test {
namespace {

using Edits = std::vector<std::string>;

const std::string kAsync = "async_dump_settings={\"enable\": false, \"op_debug_mode\": 0}";
const std::string kAsyncOn = "async_dump_settings={\"enable\": true, \"op_debug_mode\": 0}";

Edits with(Edits edits, const Edits& more) {
  edits.insert(edits.end(), more.begin(), more.end());
  return edits;
}

// The good configuration in the form of that release.
Edits good(const std::string& version, const Edits& more = {}) {
  const std::string named = "s.version=\"" + version + "\"";
  if (version == "1.2") return with({named, "c.iteration=0", kAsync}, more);
  if (version == "1.3") return with({named, "c.op_debug_mode=0"}, more);
  return with({named}, more);
}

std::string_view layout_of_edits(const Edits& edits) { return info(plan_with(edits).sonde.layout).name; }

TEST(MindSpore12, ReadsItsFileIntoAPlan) {
  const Plan plan = plan_with({"c.iteration=3", "c.dump_mode=1", "c.kernels=[\"Default/Conv2D-op12\"]",
                               "c.input_output=2", "e.trans_flag=false", kAsync});
  EXPECT_EQ(plan.dialect, "mindspore-1.2");
  EXPECT_EQ(plan.iteration.text(), "3");
  EXPECT_EQ(plan.dump_mode, DumpMode::kernels);
  EXPECT_THAT(plan.kernels, testing::ElementsAre("Default/Conv2D-op12"));
  EXPECT_EQ(plan.input_output, Sides::outputs);
  EXPECT_FALSE(plan.trans_flag);
  EXPECT_TRUE(plan.synchronous());
  EXPECT_EQ(plan.sonde.layout, LayoutKind::mindspore_1_2);
  EXPECT_EQ(plan.sonde.version, Release::v1_2);
  EXPECT_TRUE(plan.nothing.empty());
}

TEST(MindSpore12, TakesIterationZeroForEveryStep) {
  EXPECT_TRUE(plan_with(good("1.2")).iteration.is_all());
  expect_message(good("1.2", {"c.iteration=\"all\""}), "error common_dump_settings.iteration",
                 "found \"all\"; allowed: an unsigned integer: one step, or 0 for every step");
  expect_message(good("1.2", {"c.iteration=-1"}), "error common_dump_settings.iteration", "found -1");
  expect_message(good("1.2", {"-c.iteration"}), "error common_dump_settings.iteration", "missing");
}

TEST(MindSpore12, IsRecognisedByANumberAsIterationWhereEveryKeyIsItsOwn) {
  const Plan plan = plan_with({"c.iteration=0"});
  EXPECT_EQ(plan.dialect, "mindspore-1.2");
  EXPECT_EQ(plan.sonde.layout, LayoutKind::mindspore_1_2);
  EXPECT_TRUE(plan.iteration.is_all());
  expect_message({"c.iteration=0"}, "warning common_dump_settings.iteration", "the file is read as 1.2 reads it");
  for (const char* younger : {"c.saved_data=\"tensor\"", "c.op_debug_mode=0", "e.sample_mode=0"}) {
    expect_message({"c.iteration=0", younger}, "error common_dump_settings.iteration", "found 0");
  }
  expect_message({"c.iteration=0", "s.version=\"2.7\""}, "error common_dump_settings.iteration", "found 0");
  expect_message({"c.iteration=0", "-e"}, "error common_dump_settings.iteration", "found 0");
}

TEST(MindSporeVersions, ExceptionsOfAnAsynchronousDumpOf23AreThoseOfTheTreeThatKnowsThem) {
  const Plan plan = plan_with(good("2.3", {"-e", "c.op_debug_mode=4"}));
  EXPECT_EQ(plan.op_debug_mode, 4U);
  EXPECT_EQ(plan.sonde.layout, LayoutKind::o2);
  EXPECT_EQ(layout_of_edits(good("2.3", {"-e", "c.op_debug_mode=3"})), "ge");
}

TEST(MindSpore12, IsSynchronousWhereBothAreEnabled) {
  const Plan both = plan_with({"c.iteration=0", "async_dump_settings={\"enable\": true, \"op_debug_mode\": 3}"});
  EXPECT_EQ(both.sonde.layout, LayoutKind::mindspore_1_2);
  EXPECT_EQ(both.op_debug_mode, 0U);
  expect_message({"c.iteration=0", kAsyncOn}, "warning async_dump_settings", "wins");

  const Plan async = plan_with({"c.iteration=0", "e.enable=false", kAsyncOn});
  EXPECT_EQ(async.sonde.layout, LayoutKind::mindspore_1_2_async);
  EXPECT_EQ(async.file_format, FileFormat::bin);
  EXPECT_FALSE(async.synchronous());
  EXPECT_EQ(layout_of_edits({"-e", "c.iteration=0", kAsyncOn}), "mindspore-1.2-async");
  EXPECT_EQ(layout_of_edits({"c.iteration=0", kAsync, "s.layout=\"mindspore-2.7\""}), "mindspore-2.7");
}

TEST(MindSpore12, RecordsNothingWhereNeitherIsEnabled) {
  const Edits neither = {"c.iteration=0", "e.enable=false", kAsync};
  EXPECT_THAT(plan_with(neither).nothing, testing::HasSubstr("neither"));
  expect_message(neither, "warning ", "nothing is recorded");
}

TEST(MindSpore12, ReadsTheOverflowModesOfTheAsynchronousDump) {
  const auto mode = [](const std::string& value) {
    return plan_with({"-e", "c.iteration=0", "async_dump_settings={\"enable\":true,\"op_debug_mode\":" + value + "}"})
        .op_debug_mode;
  };
  EXPECT_EQ(mode("0"), 0U);
  for (const char* value : {"1", "2", "3"}) EXPECT_EQ(mode(value), 3U);
  const std::string key = "error async_dump_settings.op_debug_mode";
  expect_message({"c.iteration=0", "async_dump_settings={\"enable\":true,\"op_debug_mode\":4}"}, key,
                 "found 4; allowed");
  expect_message({"c.iteration=0", "async_dump_settings={\"enable\":true}"}, key, "missing");
  expect_message({"c.iteration=0", "async_dump_settings={\"enable\":1,\"op_debug_mode\":0}"},
                 "error async_dump_settings.enable", "found 1; allowed: true, false");
}

struct Refusal {
  std::string version;
  Edits edits;
  std::string key, part;
};

TEST(MindSporeVersions, RefuseWhatTheOriginalRefuses) {
  const std::string c = "error common_dump_settings.", e = "error e2e_dump_settings.";
  const Refusal refusals[] = {
      {"1.2", {"c.dump_mode=2"}, c + "dump_mode", "found 2; allowed: an unsigned integer: 0 (all operators), 1"},
      {"1.2", {"-c.path", "env MS_DIAGNOSTIC_DATA_PATH=/d"}, c + "path", "missing; needed"},
      {"1.2", {"c.path=\"\"", "env MS_DIAGNOSTIC_DATA_PATH=/d"}, c + "path", "empty; needed"},
      {"1.2", {"c.path=\"rel\""}, c + "path", "not absolute"},
      {"1.2", {"c.net_name=\"a b\""}, c + "net_name", "found \"a b\""},
      {"1.2", {"-c.net_name"}, c + "net_name", "missing"},
      {"1.2", {"c.input_output=3"}, c + "input_output", "found 3"},
      {"1.2", {"-c.kernels"}, c + "kernels", "missing"},
      {"1.2", {"-c.support_device"}, c + "support_device", "missing"},
      {"1.2", {"-e.enable"}, e + "enable", "missing"},
      {"1.2", {"-e.trans_flag"}, e + "trans_flag", "missing"},
      {"1.2", {"e=1"}, "error e2e_dump_settings", "found 1; allowed: an object"},
      {"1.3", {"c.dump_mode=2"}, c + "dump_mode", "found 2"},
      {"1.3", {"-c.op_debug_mode"}, c + "op_debug_mode", "missing"},
      {"1.3", {"c.op_debug_mode=4"}, c + "op_debug_mode", "found 4; allowed: an unsigned integer: 0 (off), 1, 2, 3"},
      {"1.3", {"-c.path"}, c + "path", "missing; needed"},
      {"1.3", {"-e.trans_flag"}, e + "trans_flag", "missing"},
      {"1.3", {"c.iteration=3"}, c + "iteration", "sonde_settings.version \"1.2\" reads it so"},
      {"1.3", {"c.iteration=\"1||2\""}, c + "iteration", "MindSpore 1.3 fails at the first step"},
      {"1.3", {"c.iteration=\"1-\""}, c + "iteration", "MindSpore 1.3 fails"},
      {"2.0", {"-e.enable"}, e + "enable", "missing"},
      {"2.0", {"e={}"}, e + "trans_flag", "missing"},
      {"2.0", {"c.net_name=\"\""}, c + "net_name", "found \"\""},
      {"2.0", {"-e", "c.op_debug_mode=4"}, c + "op_debug_mode", "found 4"},
      {"2.0", {"-e", "c.file_format=\"txt\""}, c + "file_format", "allowed: \"bin\", \"npy\""},
      {"2.3", {"c.op_debug_mode=1"}, c + "op_debug_mode", "found 1; allowed: an unsigned integer: 0 (off), 3"},
      {"2.3", {"-e", "s.layout=\"ge\"", "c.op_debug_mode=4"}, c + "op_debug_mode", "found 4"},
      {"2.3", {"c.op_debug_mode=5"}, c + "op_debug_mode", "found 5"},
      {"2.3", {"-e.trans_flag"}, e + "trans_flag", "missing"},
      {"2.3", {"e.sample_mode=2"}, e + "sample_mode", "found 2"},
      {"2.5", {"-e", "c.file_format=3"}, c + "file_format", "found 3"},
      {"2.5", {"c.op_debug_mode=5"}, c + "op_debug_mode", "found 5"},
      {"2.5", {"c.overflow_number=1"}, c + "overflow_number", "only with op_debug_mode 3"},
      {"2.7", {"c.initial_iteration=\"x\""}, c + "initial_iteration", "found \"x\""},
  };
  for (const Refusal& one : refusals) {
    SCOPED_TRACE(one.version + " " + testing::PrintToString(one.edits));
    EXPECT_FALSE(parse_edits(good(one.version, one.edits)).plan);
    expect_message(good(one.version, one.edits), one.key, one.part);
  }
}

TEST(MindSporeVersions, AcceptWhatTheOriginalAccepts) {
  const std::pair<std::string, Edits> accepted[] = {
      {"1.2", {"c.net_name=\"\""}},
      {"1.3", {"c.net_name=\"\""}},
      {"1.3", {"c.iteration=\"1|3-5\"", "e.enable=false"}},
      {"2.0", {"-e"}},
      {"2.0", {"e.enable=false"}},
      {"2.0", {"c.op_debug_mode=-1"}},  // a synchronous dump does not read it
      {"2.0", {"c.op_debug_mode=\"0\""}},
      {"2.0", {"c.overflow_number=\"x\"", "e.sample_mode=9", "e.save_kernel_args=3", "e.stat_calc_mode=1"}},
      {"2.0", {"-c.path", "env MS_DIAGNOSTIC_DATA_PATH=/d"}},
      {"2.3", {"c.overflow_number=\"x\"", "c.statistic_category=3", "c.saved_data=\"full\""}},
      {"2.5", {"c.initial_iteration=\"x\""}},
      {"2.5", {"e={}"}},
      {"2.7", {"e={}"}},
  };
  for (const auto& [version, edits] : accepted) {
    EXPECT_TRUE(parse_edits(good(version, edits)).plan)
        << version << testing::PrintToString(messages(good(version, edits)));
  }
  for (const char* version : {"1.2", "1.3", "2.0", "2.3", "2.5", "2.7"}) {
    EXPECT_TRUE(parse_edits(good(version)).plan) << version << testing::PrintToString(messages(good(version)));
  }
}

TEST(MindSporeVersions, AcceptWhatOnlySondeCanDo) {
  const std::pair<std::string, Edits> accepted[] = {
      {"2.0", {"c.dump_mode=2"}},
      {"2.3", {"c.dump_mode=2", "-e"}},
      {"2.7", {"c.dump_mode=2"}},
      {"2.3", {"-e", "c.saved_data=\"statistic\"", "c.file_format=\"bin\""}},
      {"2.5", {"-e", "c.saved_data=\"full\""}},
      {"2.0", {"c.saved_data=\"statistic\""}},
  };
  for (const auto& [version, edits] : accepted) {
    EXPECT_TRUE(parse_edits(good(version, edits)).plan) << version << testing::PrintToString(edits);
  }
}

TEST(MindSporeVersions, SayWhichKeysTheyDoNotKnowYet) {
  const std::tuple<std::string, std::string, std::string> unknown[] = {
      {"1.2", "c.saved_data=\"full\"", "MindSpore 1.2 does not know it; 2.0 does"},
      {"1.3", "c.saved_data=\"full\"", "2.0 does"},
      {"2.0", "e.sample_mode=1", "2.3 does"},
      {"2.0", "e.stat_calc_mode=\"host\"", "2.3 does"},
      {"2.3", "c.overflow_number=1", "2.5 does"},
      {"2.3", "c.statistic_category=[\"max\"]", "2.5 does"},
      {"2.3", "e.save_kernel_args=true", "2.5 does"},
      {"2.3", "e.device_stat_precision_mode=\"low\"", "2.5 does"},
      {"2.5", "c.initial_iteration=7", "2.7 does"},
  };
  for (const auto& [version, edit, part] : unknown) {
    SCOPED_TRACE(version + " " + edit);
    expect_message(good(version, {edit}), "warning ", part);
  }
  EXPECT_EQ(plan_with(good("2.5", {"c.initial_iteration=7"})).initial_iteration, 0U);
  EXPECT_EQ(plan_with(good("1.3", {"c.saved_data=\"full\""})).saved_data, SavedData::tensor);
  expect_message(good("2.0", {"c.op_debug_mode=3"}), "warning common_dump_settings.op_debug_mode", "MindSpore 2.0");
  EXPECT_EQ(plan_with(good("2.0", {"c.op_debug_mode=3"})).op_debug_mode, 0U);
}

TEST(MindSporeVersions, SayWhatAnEntryOfKernelsMeantThen) {
  const std::string kernels = "c.kernels=[\"Conv2D\",\"name-regex(.*)\",\"a/b-op0\"]";
  const std::string key = "warning common_dump_settings.kernels";
  expect_message(good("1.2", {"c.dump_mode=1", kernels}), key + "[0]", "MindSpore 1.2 reads it as a full name");
  expect_message(good("1.3", {"c.dump_mode=1", kernels}), key + "[1]", "MindSpore 1.3 reads it as a full name");
  expect_message(good("2.0", {"c.dump_mode=1", kernels}), key + "[1]", "MindSpore 2.0 reads it as a type");
  EXPECT_EQ(messages(good("2.0", {"c.dump_mode=1", kernels})).size(), 1U);
  EXPECT_TRUE(messages(good("2.3", {"c.dump_mode=1", kernels})).empty());
  EXPECT_TRUE(parse_edits(good("2.0", {"c.dump_mode=1", "c.kernels=[\"name-regex([)\"]"})).plan);
}

TEST(MindSporeVersions, WidenTheDumpAsTheyDid) {
  const Edits overflow = {"c.op_debug_mode=3", "c.dump_mode=1", "c.kernels=[\"a\"]", "c.input_output=1"};
  EXPECT_EQ(plan_with(good("2.3", overflow)).dump_mode, DumpMode::kernels);
  EXPECT_EQ(plan_with(good("2.3", overflow)).input_output, Sides::inputs);
  EXPECT_EQ(plan_with(good("2.7", overflow)).dump_mode, DumpMode::all);
  EXPECT_TRUE(plan_with(good("2.3", {"c.op_debug_mode=4", "c.iteration=\"3\""})).iteration.is_all());
}

TEST(MindSporeVersions, HaveTheTreeOfTheirAsynchronousDumpWithoutE2e) {
  const std::string ge = "env ENABLE_MS_GE_DUMP=1", acl = "env MS_ACL_DUMP_CFG_PATH=data_dump.json";
  const std::tuple<Edits, const char*, FileFormat> cases[] = {
      {{}, "mindspore-2.7", FileFormat::npy},
      {{"-e"}, "mindspore-2.7", FileFormat::npy},
      {{"-e", "c.file_format=\"bin\""}, "mindspore-2.7", FileFormat::bin},
      {{"c.file_format=\"bin\""}, "mindspore-2.7", FileFormat::npy},  // e2e does not read it
      {{"-e", ge}, "ge", FileFormat::bin},
      {{"-e", acl}, "o2", FileFormat::bin},
      {{"-e", acl, "c.file_format=\"npy\""}, "o2", FileFormat::npy},
      {{"-e", "env MS_ACL_DUMP_CFG_PATH=/other.json"}, "mindspore-2.7", FileFormat::npy},
      {{"-e", "env ENABLE_MS_GE_DUMP=0"}, "mindspore-2.7", FileFormat::npy},
      {{ge}, "mindspore-2.7", FileFormat::npy},
      {good("1.3", {"-e"}), "mindspore-2.0", FileFormat::bin},
      {good("2.0"), "mindspore-2.0", FileFormat::npy},
      {good("2.0", {"e.enable=false"}), "mindspore-2.0", FileFormat::bin},
      {good("2.0", {"-e"}), "mindspore-2.0", FileFormat::bin},
      {good("2.0", {"-e", "c.file_format=\"npy\""}), "mindspore-2.0", FileFormat::npy},
      {good("2.3"), "mindspore-2.3", FileFormat::npy},
      {good("2.3", {"-e"}), "ge", FileFormat::bin},
      {good("2.3", {"-e", acl}), "o2", FileFormat::bin},
      {good("2.3", {"-e", acl, "c.op_debug_mode=4"}), "o2", FileFormat::bin},
      {good("2.5"), "mindspore-2.5", FileFormat::npy},
      {good("2.5", {"e.enable=false"}), "mindspore-2.5", FileFormat::npy},
      {good("2.5", {"-e"}), "o2", FileFormat::bin},
      {good("2.7", {"-e", "c.file_format=\"npy\""}), "o2", FileFormat::npy},
      {good("2.7", {"-e", ge}), "ge", FileFormat::bin},
      {{"-e", "s.layout=\"mindspore-2.5\""}, "mindspore-2.5", FileFormat::npy},
      {{"s.layout=\"ge\""}, "ge", FileFormat::bin},
      {{"s.layout=\"o2\"", "c.file_format=\"npy\""}, "o2", FileFormat::npy},
  };
  for (const auto& [edits, layout, format] : cases) {
    const Plan plan = plan_with(edits);
    EXPECT_EQ(info(plan.sonde.layout).name, layout) << testing::PrintToString(edits);
    EXPECT_EQ(plan.file_format, format) << testing::PrintToString(edits);
  }
  EXPECT_EQ(plan_with(good("2.7", {"-e"})).sonde.version, Release::v2_7);
  EXPECT_EQ(plan_with({"-e", ge}).sonde.version, Release::v2_5);
  expect_message({"-e"}, "warning e2e_dump_settings", "in npy files unless file_format is bin");
  expect_message(good("2.5", {"-e"}), "warning e2e_dump_settings", "its layout is \"o2\"");
}

TEST(MindSpore10, ReadsDumpSettings) {
  const auto parsed = [](const std::string& more) {
    return parse_plan(R"({"DumpSettings": {"mode": 1, "path": "/d", "net_name": "N", "iteration": 2,
                          "kernels": ["Default/a-op0"], "trans_flag": false)" +
                          more + "}}",
                      "e2e_dump_config_0.json");
  };
  const PlanResult result = parsed(", \"enable\": true");
  ASSERT_TRUE(result.plan);
  EXPECT_TRUE(result.diagnostics.empty());
  EXPECT_EQ(result.plan->dialect, "mindspore-1.0");
  EXPECT_EQ(result.plan->sonde.layout, LayoutKind::mindspore_1_2);
  EXPECT_EQ(result.plan->path, "/d");
  EXPECT_EQ(result.plan->iteration.text(), "2");
  EXPECT_EQ(result.plan->dump_mode, DumpMode::kernels);
  EXPECT_FALSE(result.plan->trans_flag);
  EXPECT_TRUE(result.plan->supports_device(7));
  EXPECT_EQ(parsed(", \"enable\": false").plan->nothing, "DumpSettings.enable is false");
  EXPECT_EQ(parsed("").diagnostics[0].message, "missing; needed: true, false (without quotes)");
  EXPECT_EQ(parsed(", \"enable\": 1").diagnostics[0].key, "DumpSettings.enable");
}

TEST(MindSporeEnvironment, SaysHowMuchOfTheSourceAGraphShows) {
  EXPECT_EQ(plan_with({}).source_lines, SourceLines::all);
  EXPECT_EQ(plan_with({"env ENV_DUMP_IR_LINE_LEVEL=0"}).source_lines, SourceLines::none);
  EXPECT_EQ(plan_with({"env ENV_DUMP_IR_LINE_LEVEL=1"}).source_lines, SourceLines::top);
  EXPECT_EQ(plan_with({"env ENV_DUMP_IR_LINE_LEVEL=2"}).source_lines, SourceLines::all);
  expect_message({"env ENV_DUMP_IR_LINE_LEVEL=3"}, "warning ENV_DUMP_IR_LINE_LEVEL", "found \"3\"; allowed: 0");
}

TEST(MindSporeEnvironment, ExplainsUselessOutputs) {
  const std::string name = "MINDSPORE_DUMP_IGNORE_USELESS_OUTPUT";
  expect_message({"env " + name + "=1"}, "warning " + name, "all are recorded, as with 0");
  EXPECT_TRUE(messages({"env " + name + "=0"}).empty());
}

}  // namespace
}  // namespace sonde::test
