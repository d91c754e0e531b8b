#include "read/catalog/select_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "catalog/made_run.h"
#include "read/catalog/find_tensor.h"
#include "read/catalog/op_matchers.h"

namespace sonde {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;

// Steps 0, 1 and 2, each of the same two ops.
struct ThreeSteps : MadeRun {
  ThreeSteps() {
    catalog().path = "run7";
    for (int step = 0; step < 3; ++step) {
      if (step > 0) next_step();
      op("exp", {op("matmul", {outside("x")})});
    }
  }
  DumpPart part(const std::string& steps) const { return {*parse_steps(steps), {}, {}, {}}; }
  std::string complaint(const DumpPart& part) {
    const Status there = check_part(catalog(), part);
    return there ? "" : there.error().message;
  }
};

TEST(DumpPart, WhatIsNotThereIsNamedWithWhatIs) {
  ThreeSteps run;
  EXPECT_EQ(run.complaint(run.part("7|9")), "no step 7|9; there is 0-2 in 'run7'");
  EXPECT_EQ(run.complaint({StepSet::all(), 3, {}, {}}), "no graph 3; there is 0 in 'run7'");
  EXPECT_EQ(run.complaint({*parse_steps("9"), 0, {}, {}}), "no step 9 of graph 0; there is 0-2 in 'run7'");
  EXPECT_EQ(run.complaint({StepSet::all(), {}, 4, {}}), "no rank 4; there is 0 in 'run7'");
  EXPECT_EQ(run.complaint(run.part("2|9")), "");
  run.rank().steps.clear();
  EXPECT_EQ(run.complaint(run.part("9")), "") << "nothing was recorded: that is what the analyses say";
}

TEST(DumpPart, ARequestHasTheStepsThatWorkedOnIt) {
  ThreeSteps run;
  const DumpPart part = {StepSet::all(), {}, {}, "r2"};
  EXPECT_EQ(run.complaint(part), "no step of request 'r2'; no step says which requests it worked on in 'run7'");
  std::vector<CatalogStep>& steps = run.rank().steps;
  steps[0].requests = {{.request = "r1", .row = 0, .rows = 4, .position = 0}};
  EXPECT_EQ(run.complaint(part), "no step of request 'r2'; there is r1 in 'run7'");
  steps[2].requests = {{.request = "r1", .row = 0, .rows = 1, .position = 5},
                       {.request = "r2", .row = 1, .rows = 3, .position = 0}};
  EXPECT_EQ(run.complaint(part), "");
  EXPECT_FALSE(part.takes(steps[0]));
  EXPECT_FALSE(part.takes(steps[1]));
  EXPECT_TRUE(part.takes(steps[2]));
  EXPECT_EQ(run.complaint({*parse_steps("1"), {}, {}, "r2"}), "no step 1; there is 2 in 'run7'");
}

TEST(DumpPart, ARequestIsMeantByTheNameThatTheUserKnows) {
  for (const char* request : {"mine", "mine-1f0c23ab", "mine-3-1f0c23ab", "cmpl-mine-0-1f0c23ab",
                              "chatcmpl-mine-1f0c23ab", "embd-mine-0-1f0c23ab"}) {
    EXPECT_TRUE(is_meant(request, "mine")) << request;
  }
  EXPECT_TRUE(is_meant("cmpl-mine-0-1f0c23ab", "cmpl-mine")) << "as the answer of the server has it";
  EXPECT_TRUE(is_meant("0-1f0c23ab", "0"));
  for (const char* request : {"", "yours", "mine2", "mine-1f0c23", "mine-1f0c23ag", "mine-1f0c23abc", "mine2-1f0c23ab",
                              "mine-x-1f0c23ab", "other-mine-1f0c23ab"}) {
    EXPECT_FALSE(is_meant(request, "mine")) << request;
  }
  EXPECT_FALSE(is_meant("-1f0c23ab", "")) << "no name";
}

TEST(DumpPart, StepsAreAList) {
  EXPECT_TRUE(parse_steps("")->is_all());
  EXPECT_TRUE(parse_steps("0-5")->contains(3));
  EXPECT_EQ(parse_steps("one").error().message, "steps 'one': expected a list such as 3, 0-5 or 1|4");
}

TEST(SelectSteps, TakesTheOpsThatAPatternSelectsAndNamesPatternsWithoutAny) {
  ThreeSteps run;
  const StepSelection selected = select_steps(run.catalog(), run.part("1-2"), {"exp", "conv2d"});
  ASSERT_THAT(selected.steps, SizeIs(2));
  EXPECT_EQ(selected.steps[0].step->id.number, 1);
  ASSERT_THAT(selected.steps[0].ops, SizeIs(1));
  EXPECT_EQ(selected.steps[0].ops[0]->op_type, "exp");
  EXPECT_THAT(selected.unmatched, ElementsAre("conv2d"));
  EXPECT_THAT(select_steps(run.catalog(), run.part(""), {}).steps[2].ops, SizeIs(2));
}

TEST(SelectSteps, NearNamesAreThoseOfTypesAndOps) {
  ThreeSteps run;
  const std::vector<SelectedStep> steps = select_steps(run.catalog(), {}, {}).steps;
  EXPECT_THAT(nearest_ops(steps, "matmull"), StartsWith("nearest: matmul"));
  EXPECT_EQ(nearest_ops(steps, "convolution"), "");
}

TEST(FindTensor, ANameIsAnOpOrItsEndWithASlot) {
  ThreeSteps run;
  std::vector<SelectedStep> steps = select_steps(run.catalog(), run.part("1"), {}).steps;
  std::string wrong;
  const FoundTensor found = find_by_name(steps, "exp-op3:input.0", wrong);
  ASSERT_NE(found.tensor, nullptr) << wrong;
  EXPECT_TRUE(found.tensor->is_input);
  EXPECT_EQ(flow_of(steps, found).written_by, "Default/matmul-op2:output.0");
  EXPECT_EQ(find_by_name(steps, "exp-op3:output.4", wrong).tensor, nullptr);
  EXPECT_EQ(wrong, "'Default/exp-op3' does not have this slot; it has input.0, output.0");
  EXPECT_EQ(op_part("exp-op3:input.0"), "exp-op3");
  EXPECT_TRUE(means_op("exp-op3", "Default/exp-op3"));
  EXPECT_FALSE(means_op("xp-op3", "Default/exp-op3"));
}

TEST(OpMatchers, ALineIsNotTheBeginningOfAnother) {
  ThreeSteps run;
  CatalogOp& op = run.rank().steps[0].ops[0];
  op.source_file = "/home/ann/Train2.py";
  op.line = 29;
  const auto matches = [&](const char* text, SourceMatcher::In where) {
    return SourceMatcher(text, where).matches(run.rank(), op);
  };
  using enum SourceMatcher::In;
  for (const SourceMatcher::In where : {place, place_and_code}) {
    EXPECT_TRUE(matches("Train2.py:29", where));
    EXPECT_FALSE(matches("Train2.py:2", where));
    EXPECT_TRUE(matches("Train2", where));
  }
  EXPECT_FALSE(matches("train2.py", place));
  EXPECT_TRUE(matches("train2.py", place_and_code)) << "code is found in lower and in upper case";
  const std::vector<SourceLine> trace = {{"model12.py", "forward", 4}, {"model1.py", "main", 12}};
  op.trace = &trace;
  EXPECT_TRUE(matches("model1.py:12", place)) << "the callers are lines of it too";
  EXPECT_FALSE(matches("model1.py:1", place));
}

TEST(OpMatchers, ARegularExpressionIsSearchedInNames) {
  ThreeSteps run;
  Result<NameMatcher> matcher = NameMatcher::create("exp-op[0-9]$");
  ASSERT_TRUE(matcher);
  EXPECT_FALSE(matcher->matches(run.rank().steps[0].ops[0]));
  EXPECT_TRUE(matcher->matches(run.rank().steps[0].ops[1]));
  EXPECT_THAT(NameMatcher::create("(").error().message, StartsWith("'(' is not a regular expression: "));
}

}  // namespace
}  // namespace sonde
