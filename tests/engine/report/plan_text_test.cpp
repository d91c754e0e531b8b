#include "face/report/plan_text.h"

#include <gtest/gtest.h>

#include "config/verdict_case.h"

namespace sonde::test {
namespace {

void expect_said(const std::vector<std::string>& edits, const std::vector<std::string>& parts) {
  const PlanResult result = parse_edits(edits);
  ASSERT_TRUE(result.plan);
  const std::string text = describe(*result.plan);
  EXPECT_TRUE(text.ends_with('\n'));
  for (const std::string& part : parts) EXPECT_NE(text.find(part), text.npos) << part << "\n" << text;
}

TEST(Describe, SaysWhatIsRecordedAndWhere) {
  expect_said({}, {"operators: all\n", "steps: all\n", "sides: inputs, outputs and parameters",
                   "data: tensors, as npy files\n", "/dump/rank_N/Net/GRAPH/STEP", "devices: 0\n", "1024 MiB"});
}

TEST(Describe, ListsTheColumnsInTheUsersOrder) {
  expect_said({"c.saved_data=\"statistic\"", "c.statistic_category=[\"l2norm\",\"max\"]"},
              {"statistics: L2Norm Value, Max Value\n", "MindSpore refuses them there"});
}

TEST(Describe, SaysWhatEachEntryWouldMatch) {
  expect_said({"c.dump_mode=1", "c.kernels=[\"MatMul\",\"Default/a-op0\",\"name-regex(.*x)\"]", "c.iteration=\"1|3\"",
               "c.input_output=1", "c.initial_iteration=2"},
              {"linear, addmm, mm", "exactly Default/a-op0", "match /.*x/", "steps: 1|3, counted from 2",
               "sides: inputs; no outputs, no parameters"});
}

TEST(Describe, SaysThatNothingCanMatch) {
  expect_said({"c.iteration=\"5-2\""}, {"steps: none"});
  expect_said({"c.dump_mode=1"}, {"kernels is empty"});
  expect_said({"c.kernels=[\"a\"]"}, {"kernels lists 1, not used with dump_mode 0"});
}

TEST(Describe, SaysWhatTheVersionMakesOfAnEmptyKernels) {
  for (const char* version : {"2.0", "2.3"}) {
    expect_said({"c.dump_mode=1", "c.kernels=[\"\"]", std::string("s.version=\"") + version + "\""},
                {"operators: none"});
  }
  for (const char* version : {"2.5", "2.7"}) {
    expect_said({"c.dump_mode=1", "c.kernels=[\"\"]", std::string("s.version=\"") + version + "\""},
                {"operators: all"});
  }
}

TEST(Describe, SaysHowTheSettingsAreUsed) {
  expect_said({"s.step=\"manual\"", "s.when_full=\"drop\"", "s.budget_bytes=2097152"},
              {"sonde.step()", "2 MiB", "tensors are dropped and counted"});
  expect_said({"s.requests=[\"a\",\"b\"]"}, {"steps: all; of an engine, those that work on request a, b\n"});
  expect_said({"s.saved_data=\"graph\""}, {"data: none; the graph only"});
  expect_said({"s.replicas=\"first\""}, {"replicas: of the tensors that several ranks have, the first"});
}

TEST(Describe, SaysWhichTreeAndWhichFiles) {
  const std::pair<std::vector<std::string>, std::vector<std::string>> cases[] = {
      {{"s.version=\"1.2\"", "c.iteration=0"},
       {"/dump/Net/device_N/iteration_STEP", "bytes without a header", "dialect mindspore-1.2"}},
      {{"-e", "c.iteration=0", "async_dump_settings={\"enable\":true,\"op_debug_mode\":0}"},
       {"/dump/device_N/Net_graph_GRAPH/GRAPH/STEP", "one container of CANN's"}},
      {{"s.layout=\"ge\""}, {"/dump/TIME/DEVICE/Net/GRAPH/STEP", "layout ge", "one container of CANN's"}},
      {{"s.layout=\"o0\""}, {"written to: /dump/STEP/TIME/DEVICE/GRAPH\n"}},
      {{"s.layout=\"o2\"", "c.file_format=\"npy\""}, {"/dump/STEP/TIME/DEVICE/Net/GRAPH/0", "as npy files"}},
      {{"s.layout=\"torchair\""}, {"/dump/worldsizeW_global_rankR/TIME/DEVICE"}},
      {{"s.layout=\"mindspore-2.3\""}, {"/dump/rank_N/Net/GRAPH/STEP", "layout mindspore-2.3"}},
  };
  for (const auto& [edits, parts] : cases) expect_said(edits, parts);
}

TEST(Describe, SaysWhoseNamesAndTreeTheDumpHasAndHowToGetAnother) {
  expect_said({}, {"those of MindSpore 2.7, the newest;", "another release (1.2, 1.3, 2.0, 2.3, 2.5)",
                   "\"sonde_settings\": {\"version\": \"2.3\"}"});
  expect_said({"s.version=\"2.3\""}, {"those of MindSpore 2.3;", "(1.2, 1.3, 2.0, 2.5, 2.7)"});
}

TEST(Describe, SaysWhereTheProgramIsEnded) {
  expect_said({"s.stop_after=true", "c.iteration=\"1|3-5\""}, {"the program is ended after step 5\n"});
}

TEST(Describe, SaysWhatBoundsARunThatNeverEnds) {
  expect_said({"s.ring=3", "s.ring_bytes=104857600", "s.ring_writes=2", "s.ring_signal=\"SIGUSR1\""},
              {"ring: the last 3 steps of each graph stay in memory, at most 100 MiB",
               "at most 2 times, 200 MiB of the disk", "SIGTERM or SIGUSR1"});
  expect_said({"s.max_overhead=0.05"}, {"max_overhead: 5 % of the time of a step"});
}

TEST(Describe, SaysThatNothingIsRecorded) {
  expect_said({"s.version=\"1.2\"", "c.iteration=0", "e.enable=false"}, {"records nothing: neither"});
}

TEST(Describe, SaysWhatTheSpecialModesKeep) {
  expect_said({"c.op_debug_mode=3"}, {"operators: all, with NaN or infinity in an output\n"});
  expect_said({"c.op_debug_mode=4"}, {"operators: the one that fails"});
}

void expect_said_of(const std::string& text, const std::vector<std::string>& parts) {
  const PlanResult result = parse_plan(text, "acl.json");
  ASSERT_TRUE(result.plan) << result.diagnostics[0].message;
  const std::string said = describe(*result.plan);
  for (const std::string& part : parts) EXPECT_NE(said.find(part), std::string::npos) << part << "\n" << said;
}

TEST(Describe, SaysWhatADumpListSelects) {
  expect_said_of(R"({"dump": {"dump_path": "/tmp", "dump_level": "op", "dump_step": "0|3-5", "dump_list": [
      {"model_name": "AlexNet", "layer": ["MatMul"], "opname_range": [{"begin": "a", "end": "b"}],
       "optype_blacklist": [{"name": "Conv2D", "pos": ["input0", "output1"]}]}, {}]}})",
                 {"operators: those of dump_list", "in the model AlexNet\n", "MatMul: the operator of that name",
                  "in PyTorch also linear, addmm, mm", "from a to b", "but not input 0, output 1 of Conv2D",
                  "in every model: every operator", "steps: 0|3-5", "sides: outputs", "devices: all",
                  "written to: /tmp/TIME/DEVICE/MODEL/GRAPH/STEP\n  operators outside every module: /tmp/TIME/DEVICE\n",
                  "layout acl, dialect acl\n"});
  expect_said_of(R"({"dump": {"dump_path": "/tmp", "dump_op_switch": "on"}})", {"operators: all\n"});
  expect_said_of(R"({"dump": {"dump_path": "/tmp", "dump_debug": "on"}})", {"operators: those with NaN or infinity"});
  expect_said_of(
      R"({"dump": {"dump_path": "/tmp", "dump_scene": "watcher",
                    "dump_list": [{"layer": ["relu"], "watcher_nodes": ["conv2d"]}]}})",
      {"operators: watched ones", "outputs of these, after themselves\n    conv2d", "again after each of\n    relu"});
  expect_said_of(R"({"dump": {"dump_path": "/d", "dump_scene": "aic_err_norm_dump"}})",
                 {"operators: the one that fails", "written to: /d/extra-info/data-dump/DEVICE\n  layout acl"});
  expect_said_of(R"({"dump": {}})", {"records nothing: "});
  expect_said_of(R"({"dump_config": {"enable_dump": true, "dump_path": "/tmp", "dump_layer": " Add "}})",
                 {"anywhere\n", "Add: the operator of that name", "worldsizeW_global_rankR"});
}

}  // namespace
}  // namespace sonde::test
