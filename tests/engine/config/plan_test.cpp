// The values of a plan, and the effects of keys on each other.
#include "plan/config/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "edited_plan.h"

namespace sonde::test {
namespace {

using testing::ElementsAre;

TEST(Plan, OfTheSmallestFileHasTheDefaults) {
  const Plan plan = plan_with({"-e.enable", "-e.trans_flag"});
  EXPECT_EQ(plan.dialect, "mindspore-2.x");
  EXPECT_EQ(plan.path, "/dump");
  EXPECT_EQ(plan.net_name, "Net");
  EXPECT_EQ(plan.dump_mode, DumpMode::all);
  EXPECT_TRUE(plan.iteration.is_all());
  EXPECT_EQ(plan.input_output, Sides::both);
  EXPECT_THAT(plan.support_device, ElementsAre(0));
  EXPECT_EQ(plan.op_debug_mode, 0U);
  EXPECT_EQ(plan.saved_data, SavedData::tensor);
  EXPECT_THAT(plan.statistic_category, ElementsAre(Category::max, Category::min, Category::l2norm));
  EXPECT_TRUE(plan.e2e);
  EXPECT_FALSE(plan.enable);
  EXPECT_TRUE(plan.trans_flag);
  EXPECT_EQ(plan.stat_calc_mode, "host");
  EXPECT_EQ(plan.device_stat_precision_mode, "high");
  EXPECT_EQ(plan.sample_mode, 0U);
  EXPECT_EQ(plan.sample_num, 100U);
  EXPECT_FALSE(plan.save_kernel_args);
  EXPECT_EQ(plan.file_format, FileFormat::npy);
  EXPECT_EQ(plan.sonde.layout, LayoutKind::mindspore_2_7);
  EXPECT_TRUE(messages({}).empty());
}

TEST(Plan, HoldsEveryValueOfTheFile) {
  const Plan plan = plan_with({"c.dump_mode=1", "c.path=\"/a/b_c-1/\"", "c.iteration=\"1|3-4\"", "c.input_output=2",
                               "c.kernels=[\"Conv2D\"]", "c.support_device=[3,1]", "c.saved_data=\"full\"",
                               "c.statistic_category=[\"md5\",\"max\",\"hash:md5\"]", "c.initial_iteration=7",
                               "e.enable=true", "e.trans_flag=false", "e.device_stat_precision_mode=\"low\"",
                               "e.sample_mode=1", "e.sample_num=5", "e.save_kernel_args=true"});
  EXPECT_EQ(plan.dump_mode, DumpMode::kernels);
  EXPECT_EQ(plan.path, "/a/b_c-1");
  EXPECT_EQ(plan.iteration.text(), "1|3-4");
  EXPECT_EQ(plan.input_output, Sides::outputs);
  EXPECT_THAT(plan.kernels, ElementsAre("Conv2D"));
  EXPECT_THAT(plan.support_device, ElementsAre(3, 1));
  EXPECT_EQ(plan.saved_data, SavedData::full);
  EXPECT_THAT(plan.statistic_category, ElementsAre(Category::md5, Category::max));
  EXPECT_EQ(plan.initial_iteration, 7U);
  EXPECT_TRUE(plan.enable);
  EXPECT_FALSE(plan.trans_flag);
  EXPECT_EQ(plan.device_stat_precision_mode, "low");
  EXPECT_EQ(plan.sample_mode, 1U);
  EXPECT_EQ(plan.sample_num, 5U);
  EXPECT_TRUE(plan.save_kernel_args);
}

TEST(Plan, KeepsTheBytesOfTheFile) {
  const std::string text = edited({}).json + " \n";
  const PlanResult result = parse_plan(text, "name.json");
  EXPECT_EQ(result.plan->source_text, text);
  EXPECT_EQ(result.plan->source, "name.json");
}

TEST(Plan, TakesEveryWordForAStatistic) {
  const Plan plan = plan_with({"c.saved_data=\"statistic\"",
                               "c.statistic_category=[\"max\",\"min\",\"avg\",\"count\",\"negative zero count\","
                               "\"positive zero count\",\"nan count\",\"negative inf count\",\"positive inf count\","
                               "\"zero count\",\"md5\",\"l2norm\",\"hash\",\"hash:sha1\",\"hash:md5\"]"});
  EXPECT_EQ(plan.statistic_category.size(), kCategories);
  EXPECT_EQ(plan.statistic_category.back(), Category::sha1);
}

TEST(Plan, TakesTheDiagnosticDirectoryOnlyWhenThePathIsMissingOrEmpty) {
  const std::string variable = "env MS_DIAGNOSTIC_DATA_PATH=/data/";
  EXPECT_EQ(plan_with({"-c.path", variable}).path, "/data/debug_dump");
  EXPECT_EQ(plan_with({"c.path=\"\"", variable}).path, "/data/debug_dump");
  EXPECT_EQ(plan_with({variable}).path, "/dump");
  expect_message({"-c.path"}, "error common_dump_settings.path", "MS_DIAGNOSTIC_DATA_PATH is not set");
  expect_message({"-c.path", "env MS_DIAGNOSTIC_DATA_PATH="}, "error common_dump_settings.path", "missing");
  expect_message({"-c.path", "env MS_DIAGNOSTIC_DATA_PATH=/a.b"}, "error common_dump_settings.path",
                 "from MS_DIAGNOSTIC_DATA_PATH");
  expect_message({"c.path=null", variable}, "error common_dump_settings.path", "found null");
}

TEST(Plan, NamesTheSettingThatTakesAnyPath) {
  expect_message({"c.path=\"/home/a.user/dump\""}, "error common_dump_settings.path",
                 "\"sonde_settings\": {\"path\": …}");
}

TEST(Plan, ReadsKernelsAsMindSporeSeesThem) {
  const auto kernels = [](const std::string& json) {
    return plan_with({"c.dump_mode=1", "c.kernels=" + json}).kernels;
  };
  EXPECT_THAT(kernels("[\"R e L U\", \"\", \"  \", \"ReLU\"]"), ElementsAre("ReLU"));
  EXPECT_THAT(kernels("[1, null, true, [\"ReLU\"], {\"a\":1}, 1.5]"),
              ElementsAre("1", "null", "true", "[ReLU]", "{a:1}", "1.5"));
  EXPECT_THAT(kernels("[\"\\u0052eLU\"]"), ElementsAre("ReLU"));
  EXPECT_THAT(kernels("[\"\\\"ReLU\\\"\"]"), ElementsAre("\\ReLU\\"));
  EXPECT_THAT(kernels("[\" name-regex(a\\\\.b \\\\d) \"]"), ElementsAre("name-regex(a\\.b\\d)"));
  expect_message({"c.dump_mode=1", "c.kernels=[\"a\",\"a\"]"}, "warning common_dump_settings.kernels[1]",
                 "listed twice");
  expect_message({"c.dump_mode=1", "c.kernels=[1]"}, "warning common_dump_settings.kernels[0]", "not a string");
}

TEST(Plan, NamesTheEntryWhoseExpressionIsBad) {
  expect_message({"c.dump_mode=1", "c.kernels=[\"a\",\"name-regex((?i)x)\"]"}, "error common_dump_settings.kernels[1]",
                 "'(?i' is not part of the ECMAScript grammar");
  EXPECT_TRUE(messages({"c.kernels=[\"name-regex([)\"]"}).empty());  // dump_mode 0 does not check them
}

TEST(Plan, BoundsTheNumberOfExpressions) {
  std::string kernels = "c.kernels=[\"conv\"";
  for (int i = 0; i < 1000; ++i) kernels += ",\"name-regex(a" + std::to_string(i) + ")\"";
  EXPECT_EQ(plan_with({"c.dump_mode=1", kernels + "]"}).kernels.size(), 1001U);
  expect_message({"c.dump_mode=1", kernels + ",\"name-regex(b)\"]"}, "error common_dump_settings.kernels[1001]",
                 "more than 1000");
}

TEST(Plan, WidensTheDumpForOverflowMode) {
  const std::vector<std::string> edits = {"c.op_debug_mode=3", "c.dump_mode=1",     "c.kernels=[\"a\"]",
                                          "c.input_output=1",  "c.iteration=\"3\"", "c.overflow_number=9"};
  const Plan plan = plan_with(edits);
  EXPECT_EQ(plan.dump_mode, DumpMode::all);
  EXPECT_EQ(plan.input_output, Sides::both);
  EXPECT_EQ(plan.iteration.text(), "3");
  EXPECT_EQ(plan.overflow_number, 9U);
  expect_message(edits, "warning common_dump_settings.dump_mode", "becomes 0");
  expect_message(edits, "warning common_dump_settings.input_output", "becomes 0");
}

TEST(Plan, ReadsTheOldOverflowModesAsThree) {
  for (const std::string mode : {"1", "2"}) {
    EXPECT_EQ(plan_with({"c.op_debug_mode=" + mode, "c.overflow_number=1"}).op_debug_mode, 3U);
    expect_message({"c.op_debug_mode=" + mode}, "warning common_dump_settings.op_debug_mode", "read as 3");
  }
}

TEST(Plan, WidensTheDumpForExceptionMode) {
  const std::vector<std::string> edits = {"c.op_debug_mode=4", "c.iteration=\"3\"", "e.sample_mode=1",
                                          "c.saved_data=\"whatever\"", "c.input_output=1"};
  const Plan plan = plan_with(edits);
  EXPECT_TRUE(plan.iteration.is_all());
  EXPECT_EQ(plan.sample_mode, 0U);
  EXPECT_EQ(plan.saved_data, SavedData::tensor);
  EXPECT_EQ(plan.input_output, Sides::inputs);
  expect_message(edits, "warning common_dump_settings.iteration", "becomes \"all\"");
  expect_message(edits, "warning e2e_dump_settings.sample_mode", "becomes 0");
  expect_message(edits, "warning common_dump_settings.saved_data", "becomes \"tensor\"");
}

TEST(Plan, ComputesStatisticsOfTensorsOnTheHost) {
  for (const std::string data : {"tensor", "full"}) {
    const std::vector<std::string> edits = {"c.saved_data=\"" + data + "\"", "e.stat_calc_mode=\"device\""};
    EXPECT_EQ(plan_with(edits).stat_calc_mode, "host");
    expect_message(edits, "warning e2e_dump_settings.stat_calc_mode", "becomes \"host\"");
  }
}

TEST(Plan, ComputesStatisticsWhereTheTensorIsUnlessTheFileSaysHost) {
  const std::string statistics = "c.saved_data=\"statistic\"";
  EXPECT_EQ(plan_with({statistics, "e.stat_calc_mode=\"device\""}).stat_calc_mode, "device");
  EXPECT_TRUE(plan_with({statistics, "e.stat_calc_mode=\"device\""}).device_statistics);
  EXPECT_TRUE(plan_with({statistics}).device_statistics);
  EXPECT_FALSE(plan_with({statistics, "e.stat_calc_mode=\"host\""}).device_statistics);
}

TEST(Plan, ListsUnknownStatisticsOnlyWhenTheyAreAskedFor) {
  const std::string words = "c.statistic_category=[\"max\",\"nan cuont\",\"zzz\",3]";
  const std::string key = "common_dump_settings.statistic_category";
  expect_message({words}, "warning " + key + "[1]", "not used");
  const std::vector<std::string> asked = {words, "c.saved_data=\"statistic\""};
  expect_message(asked, "error " + key + "[1]", "did you mean \"nan count\"?");
  expect_message(asked, "error " + key + "[2]", "\"hash:sha1\"");
  expect_message(asked, "error " + key + "[3]", "found 3");
  expect_message({"c.statistic_category=\"max\"", "c.saved_data=\"full\""}, "error " + key,
                 "found \"max\"; allowed: an array");
}

TEST(Plan, WrapsHugeNumbersAsMindSporeDoesAndSaysSo) {
  EXPECT_EQ(plan_with({"c.input_output=4294967297"}).input_output, Sides::inputs);
  expect_message({"c.input_output=4294967297"}, "warning common_dump_settings.input_output", "read as 1");
  expect_message({"c.input_output=4294967299"}, "error common_dump_settings.input_output",
                 "allowed: an unsigned integer: 0");
  EXPECT_THAT(plan_with({"c.support_device=[-1,1.5,true,4294967298]"}).support_device, ElementsAre(4294967295, 1, 2));
  expect_message({"c.support_device=[-1]"}, "warning common_dump_settings.support_device[0]", "not a device number");
}

TEST(Plan, NamesTheNearestKeyForOneItDoesNotKnow) {
  expect_message({"c.dump_mod=0"}, "warning common_dump_settings.dump_mod", "did you mean 'dump_mode'?");
  expect_message({"c.zzzzzzzzzzz=0"}, "warning common_dump_settings.zzz", "the nearest known key is '");
  expect_message({"c.trans_flag=true"}, "warning common_dump_settings.trans_flag", "it belongs to e2e_dump_settings");
  expect_message({"e.kernels=[]"}, "warning e2e_dump_settings.kernels", "it belongs to common_dump_settings");
  expect_message({"c.Trans_Flag=1"}, "warning common_dump_settings.Trans_Flag", "'trans_flag' of e2e_dump_settings");
  expect_message({"e2e_dump_setting={}"}, "warning e2e_dump_setting", "did you mean 'e2e_dump_settings'?");
  expect_message({"async_dump_settings={}"}, "warning async_dump_settings", "MindSpore 1.2");
  expect_message({"e.slice_flag=0"}, "warning e2e_dump_settings.slice_flag", "unknown key");
}

TEST(Plan, SaysWhatAFileOfAnotherProgramIs) {
  const std::vector<std::pair<std::string, std::string>> files = {
      {R"({"task": "statistics", "dump_path": "/d", "rank": [], "step": [], "level": "L1", "tensor": {"scope": []}})",
       "this is a configuration of msprobe"},
      {R"({"task": "tensor", "level": "L1", "data": {}})", "this is a dump of msprobe"},
      {R"({"train_batch_size": 8, "zero_optimization": {}})", "this is a configuration of DeepSpeed"},
      {R"({"first": 1, "second": 2, "third": 3, "fourth": 4})", "found the keys \"first\", \"second\", \"third\", …"},
  };
  for (const auto& [text, said] : files) {
    const PlanResult result = parse_plan(text, "config.json");
    ASSERT_THAT(result.diagnostics, testing::SizeIs(1)) << text;
    EXPECT_THAT(result.diagnostics[0].message, testing::HasSubstr(said));
    EXPECT_FALSE(result.plan) << text;
  }
}

TEST(Plan, TakesAMissingOrOddE2eObjectAsEmpty) {
  EXPECT_FALSE(plan_with({"-e"}).e2e);
  EXPECT_TRUE(plan_with({"e={}"}).e2e);
  EXPECT_TRUE(plan_with({"e=null"}).e2e);
  expect_message({"-e"}, "warning e2e_dump_settings", "missing");
  expect_message({"-e"}, "warning e2e_dump_settings",
                 "\"sonde_settings\": {\"version\": \"2.0\"}, \"2.3\" or \"2.5\" writes");
  expect_message({"e=[1]"}, "warning e2e_dump_settings", "read as {}");
}

TEST(Plan, ShowsAnIterationWithoutItsSpaces) {
  expect_message({"c.iteration=\"0 | 5-8\""}, "error common_dump_settings.iteration",
                 "without spaces it would be \"0|5-8\"");
  expect_message({"c.iteration=3", "c.op_debug_mode=0"}, "error common_dump_settings.iteration", "MindSpore 1.2");
}

TEST(Plan, WarnsOfNamesNoFileSystemHolds) {
  const std::string name(256, 'n');
  expect_message({"c.path=\"/" + name + "\""}, "warning common_dump_settings.path", "too long");
  expect_message({"c.net_name=\"" + name + "\""}, "warning common_dump_settings.net_name", "too long");
  EXPECT_TRUE(messages({"c.net_name=\"" + name.substr(1) + "\""}).empty());
}

TEST(Plan, ReportsAllErrorsAtOnceInTheOrderOfTheFile) {
  const PlanResult result =
      parse_edits({"c.dump_mode=true", "c.path=\"rel\"", "c.net_name=\"a b\"", "c.iteration=\"x\"", "c.input_output=9",
                   "-c.kernels", "c.support_device=0", "e.enable=1", "s.layuot=\"x\""});
  EXPECT_FALSE(result.plan);
  std::vector<std::string> keys;
  for (const Diagnostic& d : result.diagnostics) {
    EXPECT_TRUE(d.is_error);
    EXPECT_GT(d.line, 0U);
    keys.push_back(d.key);
  }
  const std::string c = "common_dump_settings.";
  EXPECT_THAT(
      keys, ElementsAre(c + "kernels", c + "dump_mode", c + "path", c + "net_name", c + "iteration", c + "input_output",
                        c + "support_device", "e2e_dump_settings.enable", "sonde_settings.layuot"));
  EXPECT_TRUE(std::is_sorted(result.diagnostics.begin(), result.diagnostics.end(),
                             [](const Diagnostic& a, const Diagnostic& b) { return a.line < b.line; }));
}

TEST(Plan, SurvivesAThousandUnknownKeys) {
  std::vector<std::string> edits;
  for (int i = 0; i < 1000; ++i) edits.push_back("c.unknown_key_" + std::to_string(i) + "=1");
  const PlanResult result = parse_edits(edits);
  EXPECT_TRUE(result.plan);
  EXPECT_LT(result.diagnostics.size(), 210U);
  EXPECT_EQ(result.diagnostics.back().message, "800 more of the same kind are not shown");
}

TEST(TextOf, IsFileLineSeverityKeyMessage) {
  EXPECT_EQ(text_of({true, 3, "a.b", "found 1"}, "/x/f.json"), "/x/f.json:3: error: a.b: found 1");
  EXPECT_EQ(text_of({false, 0, "", "odd"}, "f.json"), "f.json: warning: odd");
}

}  // namespace
}  // namespace sonde::test
