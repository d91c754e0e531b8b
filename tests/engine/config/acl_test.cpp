// CANN's acl.json: its messages, their order, and the resulting plan.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "plan/config/plan.h"

namespace sonde::test {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class Acl : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "sonde-acl-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    clear_environment();
  }
  void TearDown() override {
    clear_environment();
    fs::remove_all(directory_);
  }
  static void clear_environment() {
    for (const char* name : {"NPU_COLLECT_PATH", "ASCEND_DUMP_PATH", "ASCEND_WORK_PATH", "ASCEND_DUMP_SCENE"}) {
      ::unsetenv(name);
    }
  }

  // The members of `dump`, with a dump_path that exists in front.
  PlanResult parse(const std::string& members) const {
    const std::string path = "\"dump_path\": \"" + directory_.string() + "\"";
    return bare(path + (members.empty() ? "" : ", ") + members);
  }
  static PlanResult bare(const std::string& members) {
    return parse_plan("{\"dump\": {" + members + "}}", "/cfg/acl.json");
  }
  Plan plan(const std::string& members) const {
    const PlanResult result = parse(members);
    EXPECT_TRUE(result.plan) << members << ": " << (result.diagnostics.empty() ? "" : result.diagnostics[0].message);
    return result.plan.value_or(Plan{});
  }
  static std::vector<std::string> errors(const PlanResult& result) {
    std::vector<std::string> messages;
    for (const Diagnostic& diagnostic : result.diagnostics) {
      if (!diagnostic.is_error) continue;
      EXPECT_GT(diagnostic.line, 0U) << diagnostic.message;
      messages.push_back(diagnostic.message);
    }
    EXPECT_EQ(result.plan.has_value(), messages.empty());
    return messages;
  }
  static std::vector<std::string> warnings(const PlanResult& result) {
    std::vector<std::string> texts;
    for (const Diagnostic& d : result.diagnostics) {
      if (!d.is_error) texts.push_back(d.key + ": " + d.message);
    }
    return texts;
  }

  fs::path directory_;
};

const std::string kFile = " in configuration file /cfg/acl.json is invalid. ";

std::string content(const std::string& item, const std::string& reason) {
  return "EP0001: The content of configuration item " + item + kFile + "Reason: " + reason + ".";
}
std::string options(const std::string& value, const std::string& item, const std::string& expected) {
  return "EP0002: Value " + value + " for configuration item " + item + kFile + "Expected value: " + expected + ".";
}
std::string bad_value(const std::string& value, const std::string& item, const std::string& reason) {
  return "EP0003: Value " + value + " for configuration item " + item + kFile + "Reason: " + reason + ".";
}
std::string conflict(const std::string& reason) {
  return "EP0005: Conflict of configuration items in configuration file /cfg/acl.json. Reason: " + reason + ".";
}
std::string cannot_be(const std::string& when, const std::string& is, const std::string& item,
                      const std::string& value) {
  return conflict("When configuration item " + when + " is set to " + is + ", configuration item " + item +
                  " cannot be set to " + value);
}
std::string cannot_be_configured(const std::string& when, const std::string& item) {
  return conflict("When configuration item " + when + ", configuration item " + item + " cannot be configured");
}

TEST_F(Acl, ReadsTheMinimalDocuments) {
  const Plan model = plan(R"("dump_list": [{"model_name": "M1"}, {"model_name": "M2", "layer": ["a", "b"]}],
                             "dump_mode": "output", "dump_op_switch": "off", "dump_data": "tensor")");
  EXPECT_EQ(model.dialect, "acl");
  EXPECT_EQ(model.path, directory_);
  EXPECT_EQ(model.sonde.layout, LayoutKind::acl);
  EXPECT_EQ(model.file_format, FileFormat::bin);
  EXPECT_EQ(model.input_output, Sides::outputs);
  EXPECT_EQ(model.saved_data, SavedData::tensor);
  EXPECT_TRUE(model.acl.in_use);
  EXPECT_FALSE(model.acl.single_ops);
  EXPECT_EQ(model.acl.dump_level, "all");
  EXPECT_TRUE(model.iteration.is_all());
  EXPECT_TRUE(model.supports_device(3));
  ASSERT_EQ(model.acl.dump_list.size(), 2U);
  EXPECT_EQ(model.acl.dump_list[1].model_name, "M2");
  EXPECT_THAT(model.acl.dump_list[1].layer, ElementsAre("a", "b"));

  const Plan single = plan(R"("dump_list": [], "dump_op_switch": "on", "dump_data": "tensor")");
  EXPECT_TRUE(single.acl.single_ops);
  EXPECT_TRUE(plan(R"("dump_list": [{}], "dump_op_switch": "on")").acl.dump_list[0].model_name.empty());

  const Plan debug = plan(R"("dump_debug": "on")");
  EXPECT_EQ(debug.op_debug_mode, 3U);
  EXPECT_EQ(debug.input_output, Sides::both);

  const Plan watcher = plan(R"("dump_list": [{"layer": ["A", "B"], "watcher_nodes": ["C", "D"]}],
                               "dump_mode": "output", "dump_scene": "watcher")");
  EXPECT_EQ(watcher.acl.scene, Scene::watcher);
  EXPECT_THAT(watcher.acl.dump_list[0].watcher_nodes, ElementsAre("C", "D"));
  EXPECT_EQ(watcher.op_debug_mode, 0U);
}

TEST_F(Acl, HoldsEveryValue) {
  const Plan all = plan(R"("dump_mode": "all", "dump_level": "op", "dump_step": "0|3-5", "dump_data": "stats",
      "dump_stats": ["L2norm", "Max"], "dump_list": [{"model_name": "M",
      "optype_blacklist": [{"name": "Conv2D", "pos": ["input0", "output12", "inputx"]}],
      "opname_blacklist": [{"name": "a", "pos": []}], "opname_range": [{"begin": "x", "end": "y"}]}])");
  EXPECT_EQ(all.input_output, Sides::both);
  EXPECT_EQ(all.acl.dump_level, "op");
  EXPECT_EQ(all.iteration.text(), "0|3-5");
  EXPECT_EQ(all.saved_data, SavedData::statistic);
  EXPECT_THAT(all.statistic_category, ElementsAre(Category::max, Category::l2norm));  // in CANN's order
  const DumpListEntry& entry = all.acl.dump_list[0];
  ASSERT_EQ(entry.optype_blacklist[0].slots.size(), 2U);  // invalid slots are ignored
  EXPECT_TRUE(entry.optype_blacklist[0].slots[0].is_input);
  EXPECT_EQ(entry.optype_blacklist[0].slots[1].index, 12U);
  EXPECT_EQ(entry.opname_blacklist[0].name, "a");
  EXPECT_EQ(entry.opname_range[0].end, "y");
  EXPECT_THAT(plan(R"("dump_op_switch": "on", "dump_data": "stats")").statistic_category,
              ElementsAre(Category::max, Category::min, Category::avg, Category::nan_count,
                          Category::negative_inf_count, Category::positive_inf_count));
  EXPECT_EQ(plan(R"("dump_op_switch": "on", "dump_mode": "input")").input_output, Sides::inputs);
}

TEST_F(Acl, ComplainsOfTypes) {
  EXPECT_THAT(errors(parse_plan(R"({"dump": 3})", "/cfg/acl.json")),
              ElementsAre(content("dump", "must be object type")));
  for (const char* item : {"dump_mode", "dump_op_switch", "dump_debug", "dump_level", "dump_data", "dump_step",
                           "dump_scene", "dump_kernel_data", "quant_dumpable"}) {
    EXPECT_THAT(errors(parse("\"" + std::string(item) + "\": 1")), ElementsAre(content(item, "must be string")));
  }
  EXPECT_THAT(errors(bare("\"dump_path\": []")), ElementsAre(content("dump_path", "must be string")));
  EXPECT_THAT(errors(parse("\"dump_stats\": \"Max\"")), ElementsAre(content("dump_stats", "must be array")));
  EXPECT_THAT(errors(parse("\"dump_list\": {}")), ElementsAre(content("dump_list", "must be array")));
  const std::pair<const char*, std::string> cases[] = {
      {R"("dump_stats": ["Max", 1])", content("dump_stats[1]", "array member must be string")},
      {R"("dump_list": ["a"])", content("dump_list[0]", "array member must be object")},
      {R"("dump_list": [{"model_name": 1}])", content("dump_list[0].model_name", "must be string")},
      {R"("dump_list": [{"layer": "a"}])", content("dump_list[0].layer", "must be array")},
      {R"("dump_list": [{}, {"layer": ["a", 1]}])", content("dump_list[1].layer[1]", "array member must be string")},
      {R"("dump_list": [{"watcher_nodes": [1]}])",
       content("dump_list[0].watcher_nodes[0]", "array member must be string")},
      {R"("dump_list": [{"opname_range": ["a"]}])",
       content("dump_list[0].opname_range[0]", "array member must be object")},
      {R"("dump_list": [{"opname_range": [{"begin": "a"}]}])",
       content("dump_list[0].opname_range[0].end", "item not found")},
      {R"("dump_list": [{"optype_blacklist": [{"name": 1, "pos": []}]}])",
       content("dump_list[0].optype_blacklist[0].name", "must be string")},
      {R"("dump_list": [{"optype_blacklist": [{"pos": []}]}])",
       content("dump_list[0].optype_blacklist[0].name", "item not found")},
      {R"("dump_list": [{"opname_blacklist": [{"name": "a"}]}])",
       content("dump_list[0].opname_blacklist[0].pos", "item not found")},
      {R"("dump_list": [{"opname_blacklist": [{"name": "a", "pos": "input0"}]}])",
       content("dump_list[0].opname_blacklist[0].pos", "must be array")},
      {R"("dump_list": [{"opname_blacklist": [{"name": "a", "pos": [1]}]}])",
       content("dump_list[0].opname_blacklist[0].pos[0]", "array member must be string")},
  };
  for (const auto& [members, message] : cases) EXPECT_THAT(errors(parse(members)), ElementsAre(message)) << members;
}

TEST_F(Acl, ComplainsOfValues) {
  const std::pair<const char*, std::string> cases[] = {
      {R"("dump_mode": "x")", options("x", "dump_mode", "all/input/output")},
      {R"("dump_op_switch": "On")", options("On", "dump_op_switch", "off/on")},
      {R"("dump_debug": "1")", options("1", "dump_debug", "off/on")},
      {R"("dump_level": "layer")", options("layer", "dump_level", "all/kernel/op")},
      {R"("dump_data": "full")", options("full", "dump_data", "stats/tensor")},
      {R"("dump_scene": "aic")",
       options("aic", "dump_scene", "aic_err_brief_dump/aic_err_detail_dump/aic_err_norm_dump/lite_exception/watcher")},
      {R"("dump_stats": ["Max", "Median"])",
       options("Median", "dump_stats[1]", "Avg/L2norm/Max/Min/Nan/Negative Inf/Positive Inf")},
      {R"("dump_kernel_data": "printf,x")", options("x", "dump_kernel_data", "all/assert/printf/tensor/timestamp")},
      {R"("dump_mode": "")", content("dump_mode", "The configuration item value is empty")},
      {R"("dump_kernel_data": "printf,")", content("dump_kernel_data", "The configuration item value is empty")},
      {R"("quant_dumpable": "yes")", options("yes", "quant_dumpable", "0/1")},
  };
  for (const auto& [members, message] : cases) EXPECT_THAT(errors(parse(members)), ElementsAre(message)) << members;
}

TEST_F(Acl, ComplainsOfConflicts) {
  const std::string watcher = R"("dump_scene": "watcher", "dump_list": [{"watcher_nodes": ["a"]}])";
  const std::pair<std::string, std::string> cases[] = {
      {watcher + R"(, "dump_debug": "on")", cannot_be("dump_scene", "watcher", "dump_debug", "on")},
      {watcher + R"(, "dump_op_switch": "on")", cannot_be("dump_scene", "watcher", "dump_op_switch", "on")},
      {watcher + R"(, "dump_mode": "all")", cannot_be("dump_scene", "watcher", "dump_mode", "all")},
      {R"("dump_scene": "lite_exception", "dump_debug": "on")",
       cannot_be("dump_scene", "lite_exception", "dump_debug", "on")},
      {R"("dump_scene": "aic_err_norm_dump", "dump_op_switch": "on")",
       cannot_be("dump_scene", "aic_err_norm_dump", "dump_op_switch", "on")},
      {R"("dump_debug": "on", "dump_op_switch": "on")", cannot_be("dump_debug", "on", "dump_op_switch", "on")},
      {R"("dump_debug": "on", "dump_list": [{}])", cannot_be_configured("dump_debug is set to on", "dump_list")},
      {R"("dump_op_switch": "on", "dump_stats": ["Max"])",
       cannot_be_configured("dump_data is set to tensor", "dump_stats")},
      {R"("dump_list": [{"watcher_nodes": ["a"]}])",
       cannot_be_configured("dump_scene is not set to watcher", "dump_list[0].watcher_nodes")},
      {R"("dump_scene": "watcher", "dump_list": [{"model_name": "M", "watcher_nodes": ["a"]}])",
       cannot_be_configured("dump_scene is set to watcher", "dump_list[0].model_name")},
      {R"("dump_list": [{"optype_blacklist": [{"name": "a", "pos": []}]}])",
       cannot_be_configured("dump_level is not set to op", "dump_list[0].optype_blacklist")},
      {R"("dump_list": [{"opname_blacklist": [{"name": "a", "pos": []}]}])",
       cannot_be_configured("dump_level is not set to op", "dump_list[0].opname_blacklist")},
      {R"("dump_list": [{"opname_range": [{"begin": "a", "end": "b"}]}])",
       cannot_be_configured("dump_level is not set to op", "dump_list[0].opname_range")},
  };
  for (const auto& [members, message] : cases) EXPECT_THAT(errors(parse(members)), ElementsAre(message)) << members;
}

TEST_F(Acl, ComplainsOfTheListOfModels) {
  const std::string empty = "The configuration item value is empty";
  std::string many;
  for (int i = 0; i < 101; ++i) many += std::string(i > 0 ? "," : "") + R"({"name": "a", "pos": []})";
  const std::pair<std::string, std::string> cases[] = {
      {R"("dump_list": [{"model_name": ""}])", content("dump_list[0].model_name", empty)},
      {R"("dump_list": [{"layer": []}])", content("dump_list[0].layer", empty)},
      {R"("dump_scene": "watcher", "dump_list": [{"layer": ["a"]}])",
       content("dump_list[0].watcher_nodes", "item not found")},
      {R"("dump_scene": "watcher", "dump_list": [{"watcher_nodes": []}])",
       content("dump_list[0].watcher_nodes", empty)},
      {R"("dump_level": "op", "dump_list": [{"opname_range": [{"begin": "a", "end": "b"}]}])",
       content("dump_list[0].model_name", "item not found")},
      {R"("dump_level": "op", "dump_list": [{"model_name": "M", "opname_range": [{"begin": "", "end": "b"}]}])",
       content("dump_list[0].opname_range[0].begin", empty)},
      {R"("dump_level": "op", "dump_list": [{"model_name": "M", "opname_range": [{"begin": "a", "end": ""}]}])",
       content("dump_list[0].opname_range[0].end", empty)},
      {R"("dump_level": "op", "dump_list": [{"optype_blacklist": [)" + many + "]}]",
       bad_value("101", "dump_list[0].optype_blacklist", "The number of entries exceeds the maximum limit of 100")},
  };
  for (const auto& [members, message] : cases) EXPECT_THAT(errors(parse(members)), ElementsAre(message)) << members;
  EXPECT_THAT(errors(parse(R"("dump_scene": "watcher")")), ElementsAre("E10001: Dump list is empty."));
  EXPECT_TRUE(parse(R"("dump_op_switch": "on", "dump_list": [{"model_name": "", "layer": []}])").plan);
}

TEST_F(Acl, ComplainsOfSteps) {
  const auto step = [&](const std::string& text) {
    return errors(parse(R"("dump_op_switch": "on", "dump_step": ")" + text + "\""));
  };
  const std::string digits = "The value contains non-digit characters,  expected format: 1 or 5-10";
  const std::string format = "The value has invalid format, expected format: 5-10";
  const std::string order = "The value has invalid format, start step must not exceed end step, expected format: 5-10";
  EXPECT_THAT(step("0a"), ElementsAre(bad_value("0a", "dump_step[0]", digits)));
  EXPECT_THAT(step("1|x-2"), ElementsAre(bad_value("x-2", "dump_step[1]", digits)));
  EXPECT_THAT(step("1|"), ElementsAre(bad_value("", "dump_step[1]", digits)));
  EXPECT_THAT(step("1-2-3"), ElementsAre(bad_value("1-2-3", "dump_step[0]", format)));
  EXPECT_THAT(step("3|5-2"), ElementsAre(bad_value("5-2", "dump_step[1]", order)));
  EXPECT_THAT(step("5-2|x"),
              ElementsAre(bad_value("5-2", "dump_step[0]", order), bad_value("x", "dump_step[1]", digits)));
  std::string many = "0";
  for (int i = 1; i < 100; ++i) many += "|" + std::to_string(i);
  EXPECT_THAT(step(many), ElementsAre());
  ASSERT_EQ(step(many + "|100").size(), 1U);
  EXPECT_THAT(step(many + "|100")[0], HasSubstr("The value exceeds the maximum limit of 100 intervals"));
  EXPECT_THAT(step("2-2|02"), ElementsAre());
  EXPECT_THAT(step(""), ElementsAre());
}

TEST_F(Acl, ComplainsOfThePath) {
  const std::string on = R"(, "dump_op_switch": "on")";
  const auto path = [&](const std::string& text) { return errors(bare("\"dump_path\": \"" + text + "\"" + on)); };
  EXPECT_THAT(errors(bare(R"("dump_op_switch": "on")")), ElementsAre(content("dump_path", "item not found")));
  EXPECT_THAT(path(""), ElementsAre(content("dump_path", "The configuration item value is empty")));
  EXPECT_THAT(path("/no/such"), ElementsAre(bad_value("/no/such", "dump_path", "The path does not exist")));
  EXPECT_THAT(path("/no/such:"), ElementsAre(bad_value("/no/such:", "dump_path", "The value is an invalid path")));
  std::ofstream(directory_ / "file") << "x";
  const std::string file = (directory_ / "file").string();
  EXPECT_THAT(path(file), ElementsAre(bad_value(file, "dump_path", "The path is not a directory path")));
  ASSERT_EQ(path("/" + std::string(512, 'x')).size(), 1U);
  EXPECT_THAT(path("/" + std::string(512, 'x'))[0], HasSubstr("exceeds the maximum limit of 512"));
  ASSERT_EQ(path("172.16.0.1:/data").size(), 1U);
  EXPECT_THAT(path("172.16.0.1:/data")[0], HasSubstr("no remote storage"));
}

TEST_F(Acl, ComplainsOfAPathThatMayNotBeWritten) {
  const fs::path closed = directory_ / "closed";
  fs::create_directory(closed);
  fs::permissions(closed, fs::perms::owner_read | fs::perms::owner_exec);
  const uid_t user = ::getuid();
  if (user == 0) {
    ASSERT_EQ(::setreuid(65534, 0), 0);  // access() checks the real user; root may do everything
  }
  const std::string text = closed.string();
  const auto found = errors(bare("\"dump_path\": \"" + text + R"(", "dump_op_switch": "on")"));
  if (user == 0) {
    ASSERT_EQ(::setreuid(0, 0), 0);
  }
  EXPECT_THAT(found,
              ElementsAre(bad_value(text, "dump_path", "The value is a path without read and write permissions")));
}

TEST_F(Acl, TakesARelativePath) {
  const fs::path before = fs::current_path();
  fs::create_directory(directory_ / "out");
  fs::current_path(directory_);
  const PlanResult result = bare(R"("dump_path": "out/", "dump_op_switch": "on")");
  fs::current_path(before);
  ASSERT_TRUE(result.plan);
  EXPECT_EQ(result.plan->path, fs::canonical(directory_) / "out");
}

TEST_F(Acl, ChecksInCannsOrder) {
  // A wrong type hides wrong values, these hide conflicts, and those hide errors in the path.
  const std::string conflicts = R"("dump_path": "/no/such", "dump_scene": "watcher", "dump_debug": "on")";
  EXPECT_THAT(errors(bare(conflicts)), ElementsAre(HasSubstr("EP0005")));
  EXPECT_THAT(errors(bare(conflicts + R"(, "dump_mode": "x")")), ElementsAre(HasSubstr("EP0002")));
  EXPECT_THAT(errors(bare(conflicts + R"(, "dump_mode": "x", "dump_level": 1)")), ElementsAre(HasSubstr("EP0001")));
  // The path is checked before dump_debug's conflict, and that before the steps.
  EXPECT_THAT(errors(bare(R"("dump_path": "/no/such", "dump_debug": "on", "dump_op_switch": "on")")),
              ElementsAre(HasSubstr("does not exist")));
  EXPECT_THAT(errors(parse(R"("dump_debug": "on", "dump_op_switch": "on", "dump_step": "x")")),
              ElementsAre(HasSubstr("EP0005")));
  EXPECT_THAT(errors(parse(R"("dump_debug": "on", "dump_step": "x")")), ElementsAre());
  // All errors of one kind are reported at once, each with its line.
  const PlanResult two = parse("\"dump_mode\": \"x\",\n\"dump_level\": \"y\"");
  ASSERT_EQ(errors(two).size(), 2U);
  EXPECT_EQ(two.diagnostics[1].line, 2U);
  EXPECT_EQ(two.diagnostics[1].key, "dump.dump_level");
}

TEST_F(Acl, TakesExceptionScenesAndTheirPaths) {
  const std::pair<const char*, Scene> scenes[] = {{"lite_exception", Scene::exception_brief},
                                                  {"aic_err_brief_dump", Scene::exception_brief},
                                                  {"aic_err_norm_dump", Scene::exception_norm},
                                                  {"aic_err_detail_dump", Scene::exception_detail}};
  for (const auto& [word, scene] : scenes) {
    const PlanResult result = bare(R"("dump_path": "/no/such", "dump_scene": ")" + std::string(word) + "\"");
    ASSERT_TRUE(result.plan) << word;
    EXPECT_EQ(result.plan->acl.scene, scene);
    EXPECT_EQ(result.plan->op_debug_mode, 4U);
    EXPECT_EQ(result.plan->path, "/no/such");
    EXPECT_TRUE(result.plan->iteration.is_all());
  }
  const auto path = [] { return bare(R"("dump_path": "/d", "dump_scene": "lite_exception")").plan->path; };
  EXPECT_EQ(path(), "/d");
  EXPECT_EQ(bare(R"("dump_scene": "lite_exception")").plan->path, fs::current_path());
  ::setenv("ASCEND_WORK_PATH", "/work/", 1);
  EXPECT_EQ(path(), "/work");
  ::setenv("ASCEND_DUMP_PATH", "/dump", 1);
  EXPECT_EQ(path(), "/dump");
  ::setenv("NPU_COLLECT_PATH", "/collect", 1);
  EXPECT_EQ(path(), "/collect");
}

TEST_F(Acl, TakesASceneFromTheEnvironmentWhereTheFileAsksForNothing) {
  ::setenv("ASCEND_DUMP_SCENE", "aic_err_norm_dump", 1);
  EXPECT_EQ(plan("").acl.scene, Scene::exception_norm);
  EXPECT_EQ(plan(R"("dump_scene": "lite_exception")").acl.scene, Scene::exception_brief);
  const PlanResult other = parse(R"("dump_op_switch": "on")");
  ASSERT_TRUE(other.plan);
  EXPECT_EQ(other.plan->acl.scene, Scene::none);
  EXPECT_THAT(warnings(other), ElementsAre(HasSubstr("ASCEND_DUMP_SCENE: found \"aic_err_norm_dump\"; not used")));
  ::setenv("ASCEND_DUMP_SCENE", "watcher", 1);
  EXPECT_THAT(warnings(parse(R"("dump_scene": "lite_exception")")), ElementsAre());
  EXPECT_THAT(warnings(parse("")), testing::Contains(HasSubstr("allowed: aic_err_brief_dump")));
}

TEST_F(Acl, SucceedsWithNothingToDumpAndSaysSo) {
  for (const std::string text : {R"({"dump": {}})", R"({"other": 1, "dump": {}})"}) {
    const PlanResult result = parse_plan(text, "/cfg/acl.json");
    ASSERT_TRUE(result.plan) << text;
    EXPECT_FALSE(result.plan->nothing.empty());
    EXPECT_THAT(warnings(result), ElementsAre(HasSubstr("nothing is recorded, as with CANN")));
  }
  EXPECT_THAT(plan("").nothing, HasSubstr("dump_list is empty"));
  EXPECT_THAT(plan(R"("dump_kernel_data": "printf,assert")").nothing, HasSubstr("dump_list is empty"));
}

TEST_F(Acl, ExplainsWhatHasNoEffectHere) {
  const auto texts = warnings(parse(R"("dump_op_switch": "on", "dump_kernel_data": "all", "quant_dumpable": "1",
                                      "dump_pth": 1)"));
  EXPECT_THAT(texts, testing::UnorderedElementsAre(
                         HasSubstr("dump.dump_kernel_data: no effect"), HasSubstr("dump.quant_dumpable: no effect"),
                         HasSubstr("dump.dump_pth: unknown key, ignored as CANN does; did you mean 'dump_path'?")));
  EXPECT_THAT(warnings(parse(R"("dump_op_switch": "on", "quant_dumpable": "0")")), ElementsAre());
}

TEST_F(Acl, RefusesWhatIsNestedTooDeep) {
  const auto nested = [](int depth, const std::string& open, const std::string& close) {
    std::string text = R"({"dump": {}, "x": )";
    for (int i = 0; i < depth; ++i) text += open;
    text += "1";
    for (int i = 0; i < depth; ++i) text += close;
    return parse_plan(text + "}", "/cfg/acl.json");
  };
  EXPECT_TRUE(nested(9, "{\"a\":", "}").plan);
  EXPECT_TRUE(nested(10, "[", "]").plan);
  EXPECT_THAT(errors(nested(10, "{\"a\":", "}")), ElementsAre(HasSubstr("EP0004")));
  EXPECT_THAT(errors(nested(11, "[", "]")), ElementsAre(HasSubstr("EP0004")));
}

TEST_F(Acl, MayBeWrittenInAnotherLayout) {
  const PlanResult result =
      parse_plan(R"({"dump": {"dump_path": ")" + directory_.string() +
                     R"(", "dump_op_switch": "on"}, "sonde_settings": {"layout": "mindspore-2.7"}})",
                 "/cfg/acl.json");
  ASSERT_TRUE(result.plan);
  EXPECT_EQ(result.plan->sonde.layout, LayoutKind::mindspore_2_7);
}

}  // namespace
}  // namespace sonde::test
