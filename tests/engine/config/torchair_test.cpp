// TorchAir's dump options as a file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "plan/config/plan.h"
#include "plan/config/selector.h"

namespace sonde::test {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class TorchAir : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "sonde-torchair-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    ::unsetenv("ASCEND_DUMP_SCENE");
  }
  void TearDown() override { fs::remove_all(directory_); }

  static PlanResult parse(const std::string& options) {
    return parse_plan("{\"dump_config\": {" + options + "}}", "options.json");
  }
  // With enable_dump and a dump_path that exists in front.
  PlanResult enabled(const std::string& options) const {
    return parse(R"("enable_dump": true, "dump_path": ")" + directory_.string() + "\"" + (options.empty() ? "" : ", ") +
                 options);
  }
  Plan plan(const std::string& options) const {
    const PlanResult result = enabled(options);
    EXPECT_TRUE(result.plan) << options << (result.diagnostics.empty() ? "" : result.diagnostics[0].message);
    return result.plan.value_or(Plan{});
  }
  static std::string only_error(const PlanResult& result) {
    EXPECT_FALSE(result.plan);
    EXPECT_EQ(result.diagnostics.size(), 1U);
    return result.diagnostics.empty() ? "" : result.diagnostics[0].message;
  }
  std::string acl_file(const std::string& members) const {
    const fs::path file = directory_ / "acl.json";
    std::ofstream(file) << "{\"dump\": {" << members << "}}";
    return file.string();
  }

  fs::path directory_;
};

TEST_F(TorchAir, HasTheDefaultsOfTheOriginal) {
  const Plan defaults = plan("");
  EXPECT_EQ(defaults.dialect, "torchair");
  EXPECT_EQ(defaults.path, directory_);
  EXPECT_EQ(defaults.sonde.layout, LayoutKind::torchair);
  EXPECT_EQ(defaults.input_output, Sides::both);
  EXPECT_EQ(defaults.saved_data, SavedData::tensor);
  EXPECT_EQ(defaults.file_format, FileFormat::bin);
  EXPECT_TRUE(defaults.iteration.is_all());
  EXPECT_TRUE(Selector(defaults).decide_op("Default/add-op0", "add").any());  // no layer: every operator
  EXPECT_EQ(parse(R"("enable_dump": true)").plan->path, fs::current_path());
}

TEST_F(TorchAir, TakesItsOptions) {
  const Plan set =
      plan(R"("dump_mode": "input", "dump_step": "0|2-3|", "dump_layer": " Add  Conv2D ", "dump_data": "stats",
                           "quant_dumpable": false, "data_dump_stage": "optimized")");
  EXPECT_EQ(set.input_output, Sides::inputs);
  EXPECT_TRUE(set.iteration.contains(3));
  EXPECT_FALSE(set.iteration.contains(1));
  ASSERT_EQ(set.acl.dump_list.size(), 1U);
  EXPECT_THAT(set.acl.dump_list[0].layer, ElementsAre("Add", "Conv2D"));
  EXPECT_EQ(set.saved_data, SavedData::statistic);
  EXPECT_EQ(set.statistic_category.size(), 6U);
  Selector selector(set);
  EXPECT_TRUE(selector.decide_op("Default/add-op0", "add").inputs);
  EXPECT_FALSE(selector.decide_op("Default/sub-op0", "sub").any());
}

TEST_F(TorchAir, TakesNamesOfGraphsAndFiles) {
  Selector selector(
      plan(R"("dump_layer": "Default/network-Net/conv-Conv2d/conv2d-op0 Default_network-Net_relu-op1 Ad")"));
  EXPECT_TRUE(selector.decide_op("Default/network-Net/conv-Conv2d/conv2d-op0", "conv2d").any());
  EXPECT_TRUE(selector.decide_op("Default/network-Net/relu-op1", "relu").any());
  EXPECT_FALSE(selector.decide_op("Default/network-Net/add-op0", "add").any());
  const std::vector<Selector::UnusedEntry> unused = selector.unused();
  ASSERT_EQ(unused.size(), 1U);
  EXPECT_EQ(unused[0].key, "dump_config.dump_layer");
  EXPECT_THAT(unused[0].nearest, ElementsAre("add", "relu", "conv2d"));
}

TEST_F(TorchAir, RecordsWhatIsQuantised) {
  Selector selector(plan(R"("dump_layer": "relu", "dump_mode": "output", "quant_dumpable": true)"));
  const Selector::Wanted wanted = selector.decide_op("Default/quantize_per_tensor-op0", "quantize_per_tensor");
  EXPECT_TRUE(wanted.inputs);
  EXPECT_FALSE(wanted.outputs);
  EXPECT_FALSE(selector.decide_op("Default/dequantize_per_tensor-op0", "dequantize_per_tensor").any());
  EXPECT_FALSE(selector.decide_op("Default/relu-op0", "relu").inputs);
}

TEST_F(TorchAir, RefusesWithTheOriginalsWords) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("dump_mod": "all")",
       "ValueError: _DataDumpConfig has no option dump_mod, all options ['enable_dump', 'dump_path', 'dump_mode', "
       "'quant_dumpable', 'dump_step', 'dump_layer', 'dump_data', 'dump_config_path', 'data_dump_stage']"},
      {R"("enable_dump": 1)",
       "ValueError: Value 1 (type: <class 'int'>) not in optional list [False, True] (type: <class 'bool'>)."},
      {R"("quant_dumpable": "1")",
       "ValueError: Value '1' (type: <class 'str'>) not in optional list [False, True] (type: <class 'bool'>)."},
      {R"("dump_mode": "both")",
       "ValueError: Value 'both' (type: <class 'str'>) not in optional list ['input', 'output', 'all'] (type: <class "
       "'str'>)."},
      {R"("dump_data": null)",
       "ValueError: Value None (type: <class 'NoneType'>) not in optional list ['tensor', 'stats'] (type: <class "
       "'str'>)."},
      {R"("data_dump_stage": "first")",
       "ValueError: Value 'first' (type: <class 'str'>) not in optional list ['original', 'optimized'] (type: <class "
       "'str'>)."},
      {R"("dump_layer": "Add|")",
       "ValueError: Please set legal regex value format match ^[0-9a-zA-Z_\" \"/\\\\.-]*$, Add| is Illegal format, "
       "correct example:Mul_1 Add1 Conv2D_1."},
      {R"("dump_path": "/no/such")",
       "FileNotFoundError: Please set legal dir path, /no/such is not found or is not a file directory!"},
      {R"("dump_config_path": "")", "ValueError: File path cannot be empty!"},
      {R"("dump_config_path": "/no/such.json")",
       "FileNotFoundError: Please set legal file path, /no/such.json is not found or is not '.json' file!"},
      {R"("dump_config_path": "/etc/passwd")",
       "FileNotFoundError: Please set legal file path, /etc/passwd is not found or is not '.json' file!"},
  };
  for (const auto& [options, message] : cases) EXPECT_EQ(only_error(parse(options)), message);
  for (const char* step : {"0ad", "0|2&", "--", "1-", "-1", "02||||34", "1--", "1--6"}) {
    EXPECT_THAT(
        only_error(enabled(R"("dump_step": ")" + std::string(step) + "\"")),
        HasSubstr("ValueError: Please set legal regex value format match ^(((\\d+)|(\\d+-{0,1}\\d+))\\|{0,1})*$, " +
                  std::string(step) + " is Illegal format, correct example:0|1|2-5|6."));
  }
  for (const char* step : {"0", "12", "02|3|4", "0-1", "0|1|2-5|6"}) {
    EXPECT_TRUE(enabled(R"("dump_step": ")" + std::string(step) + "\"").plan) << step;
  }
  EXPECT_THAT(only_error(enabled(R"("dump_step": "5-2")")), HasSubstr("EP0003"));  // the engine's own message
  EXPECT_EQ(only_error(parse_plan(R"({"dump_config": []})", "options.json")), "found []; allowed: an object");
}

TEST_F(TorchAir, WinsOverTheFileItNames) {
  const std::string file =
      acl_file(R"("dump_path": "/tmp", "dump_mode": "output", "dump_step": "7", "dump_data": "stats",
      "dump_stats": ["Max"], "dump_list": [{"model_name": "Net", "layer": ["relu"]}])");
  const std::string named = R"("dump_config_path": ")" + file + "\"";
  const Plan own = plan(named + R"(, "dump_mode": "all")");
  EXPECT_EQ(own.sonde.layout, LayoutKind::torchair);
  EXPECT_EQ(own.path, directory_);
  EXPECT_EQ(own.input_output, Sides::both);
  EXPECT_EQ(own.iteration.text(), "7");
  EXPECT_THAT(own.statistic_category, ElementsAre(Category::max));
  EXPECT_EQ(own.acl.dump_list[0].model_name, "Net");
  EXPECT_THAT(plan(named + R"(, "dump_layer": "Add")").acl.dump_list[0].layer, ElementsAre("Add"));
  EXPECT_EQ(plan(named + R"(, "dump_data": "tensor")").saved_data, SavedData::tensor);

  const PlanResult alone = parse(named);  // enable_dump is False: the file counts as it is
  ASSERT_TRUE(alone.plan);
  EXPECT_EQ(alone.plan->sonde.layout, LayoutKind::acl);
  EXPECT_EQ(alone.plan->path, "/tmp");
}

TEST_F(TorchAir, ReportsErrorsInTheFileItNames) {
  const std::string file = acl_file(R"("dump_path": "/tmp", "dump_mode": "x")");
  const PlanResult result = enabled(R"("dump_config_path": ")" + file + "\"");
  EXPECT_THAT(only_error(result), HasSubstr(file + ":1: error: dump.dump_mode: EP0002: Value x for"));
  EXPECT_EQ(result.diagnostics[0].key, "dump_config.dump_config_path");
  std::ofstream(file) << "[]";
  EXPECT_THAT(only_error(enabled(R"("dump_config_path": ")" + file + "\"")), HasSubstr("found [] at the top"));
}

TEST_F(TorchAir, RecordsNothingUntilItIsEnabled) {
  for (const char* options : {"", R"("enable_dump": false, "dump_mode": "all")"}) {
    EXPECT_EQ(parse(options).plan->nothing, "enable_dump is False and no dump_config_path is given");
  }
}

}  // namespace
}  // namespace sonde::test
