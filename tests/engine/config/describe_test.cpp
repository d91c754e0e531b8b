#include <gtest/gtest.h>

#include "verdict_case.h"

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

TEST(Describe, SaysHowTheSettingsAreUsed) {
  expect_said({"s.step=\"manual\"", "s.when_full=\"drop\"", "s.budget_bytes=2097152"},
              {"sonde.step()", "2 MiB", "tensors are dropped and counted"});
  expect_said({"s.saved_data=\"graph\""}, {"data: none; the graph only"});
}

}  // namespace
}  // namespace sonde::test
