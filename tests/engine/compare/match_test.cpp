// Which ops of two steps belong together: by producer, parameter and value before order.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "program.h"

namespace sonde {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

const Values kOne = {1, 2, 3, 4}, kTwo = {5, -6, 7, -8}, kThree = {9, 1, -2, 3};

// The outputs of a split pass through like ops, which run in the order that `order` says; the last op reads them.
void write_views(Program& program, const std::vector<std::size_t>& order, const std::vector<std::size_t>& roles) {
  const auto x = Program::parameter("x", kOne, "(4)");
  std::vector<Program::Ref> parts = {program.add("split", {x}, kOne, "(4)")};
  parts.push_back(program.add_output(kTwo, "(4)"));
  parts.push_back(program.add_output(kThree, "(4)"));
  std::vector<Program::Ref> views(3);
  for (const std::size_t i : order) views[i] = program.add("view", {parts[roles[i]]}, parts[roles[i]].values, "(4)");
  Values sum;
  for (std::size_t i = 0; i < 4; ++i) {
    sum.push_back(views[0].values[i] + 2 * views[1].values[i] + 3 * views[2].values[i]);
  }
  program.add("addcmul", views, sum, "(4)");
}

TEST(Match, ViewsTakenInAnotherOrderBelongToTheOutputsThatTheyRead) {
  Program target, golden;
  write_views(target, {2, 0, 1}, {0, 1, 2});
  write_views(golden, {0, 1, 2}, {0, 1, 2});
  const DumpComparison comparison = compared(target, golden);
  EXPECT_THAT(comparison.findings, IsEmpty());
  for (const ComparedOp& op : comparison.steps[0].ops) EXPECT_EQ(op.verdict, OpVerdict::identical);
}

TEST(Match, ExchangedOutputsStayAFindingInAnyOrder) {
  Program target, golden;
  write_views(target, {0, 1, 2}, {1, 0, 2});
  write_views(golden, {0, 1, 2}, {0, 1, 2});
  const DumpComparison comparison = compared(target, golden);
  ASSERT_FALSE(comparison.findings.empty());
  EXPECT_EQ(comparison.findings[0].kind, FindingKind::wiring);
  EXPECT_FALSE(comparison.findings[0].uncertain);
}

TEST(Match, PartsOfOneTensorAreToldApartByTheCalls) {
  const auto write = [](Program& program, const std::vector<std::int64_t>& order) {
    const auto x = Program::parameter("x", kOne, "(4)");
    std::map<std::int64_t, Program::Ref> parts;
    for (const std::int64_t start : order) {
      parts[start] = program.add("slice", {x}, start == 0 ? Values{1, 2} : Values{3, 4}, "(2)");
      program.call_with(Attribute{"start", AttributeKind::integer, {start}, {}, ""});
    }
    program.add("sub", {parts[0], parts[2]}, {-2, -2}, "(2)");
  };
  Program target, golden;
  write(target, {2, 0});
  write(golden, {0, 2});
  EXPECT_THAT(compared(target, golden).findings, IsEmpty());
}

TEST(Match, DataReadInAnotherOrderIsTheSameData) {
  for (const std::string name : {"", "data-"}) {
    const auto write = [&](Program& program, bool other) {
      const auto data = [&](int number, const Values& values) {
        return Program::parameter(name.empty() ? name : name + std::to_string(number), values, "(4)");
      };
      std::vector<Program::Ref> ends(2);
      for (int i = 0; i < 2; ++i) {
        const bool second = (i == 1) != other;
        const Values& values = second ? kTwo : kOne;
        ends[second ? 1 : 0] = program.add("neg", {data(i, values)}, times(values, -1), "(4)");
      }
      program.add("sub", ends, kThree, "(4)");
    };
    Program target, golden;
    write(target, true);
    write(golden, false);
    EXPECT_THAT(compared(target, golden).findings, IsEmpty());
  }
}

TEST(Match, APairThatRestsOnOrderAloneIsUncertain) {
  const auto write = [](Program& program, float factor) {
    program.add("neg", {Program::parameter("", times(kOne, factor), "(4)")}, times(kOne, -factor), "(4)");
    const auto second = program.add("neg", {Program::parameter("", kTwo, "(4)")}, times(kTwo, -1), "(4)");
    program.add("exp", {second}, kTwo, "(4)");
  };
  Program target, golden;
  write(target, 3);
  write(golden, 1);
  const DumpComparison comparison = compared(target, golden);
  ASSERT_THAT(comparison.findings, SizeIs(1));
  EXPECT_TRUE(comparison.findings[0].uncertain);
  EXPECT_THAT(comparison.findings[0].what, HasSubstr("by their order alone"));
}

// Two layers of one shape; the optimizer updates them in the order of `order`.
class Layers {
 public:
  std::vector<std::string> names;    // by the order of the forward pass
  std::vector<std::size_t> updates;  // in this order
  bool by_lists = false;

  void write(Program& program) const {
    const std::vector<Values> weights = {kOne, kTwo}, gradients = {kThree, kOne};
    Program::Ref x = Program::parameter("data-0", kThree, "(2,2)");
    for (std::size_t i = 0; i < 2; ++i) x = program.add("mm", {x, weight(i, weights)}, times(kThree, 2), "(2,2)");
    std::vector<Program::Ref> made(2);
    for (const std::size_t i : {1U, 0U}) {
      made[i] = program.add("mm", {x, weight(i, weights)}, gradients[i], "(2,2)", "Gradients/Default/net");
      program.last().phase = Phase::backward;
    }
    if (by_lists) {
      const std::vector<Program::Ref> all = {weight(updates[0], weights), weight(updates[1], weights), made[updates[0]],
                                             made[updates[1]]};
      program.add("_foreach_add_", all, times(weights[updates[0]], 0.5F), "(2,2)", "Default/optimizer-SGD");
      program.add_output(times(weights[updates[1]], 0.5F), "(2,2)");
      program.last().phase = Phase::optimizer;
      return;
    }
    for (const std::size_t i : updates) {
      const auto state =
          program.add("zeros_like", {weight(i, weights)}, times(kOne, 0), "(2,2)", "Default/optimizer-SGD");
      program.last().phase = Phase::optimizer;
      const auto sum = program.add("sub", {state, made[i]}, times(gradients[i], -1), "(2,2)", "Default/optimizer-SGD");
      program.last().phase = Phase::optimizer;
      program.add("add_", {weight(i, weights), sum}, times(weights[i], 0.5F), "(2,2)", "Default/optimizer-SGD");
      program.last().phase = Phase::optimizer;
    }
  }

 private:
  Program::Ref weight(std::size_t i, const std::vector<Values>& weights) const {
    return Program::parameter(names[i], weights[i], "(2,2)");
  }
};

TEST(Match, AnOptimizerUpdatesParametersInAnyOrderAndUnderAnyName) {
  for (const bool by_lists : {false, true}) {
    for (const bool other_names : {false, true}) {
      const std::vector<std::string> names = {"a.weight", "b.weight"};
      Program target, golden;
      Layers{other_names ? std::vector<std::string>{"z.weight", "y.weight"} : names, {1, 0}, by_lists}.write(target);
      Layers{names, {0, 1}, by_lists}.write(golden);
      const DumpComparison comparison = compared(target, golden);
      EXPECT_THAT(comparison.findings, IsEmpty()) << by_lists << other_names;
      for (const ComparedOp& op : comparison.steps[0].ops) EXPECT_EQ(op.verdict, OpVerdict::identical);
    }
  }
}

TEST(Match, ParametersWhoseNumbersShiftedAreThoseThatTheForwardPassReads) {
  Program target, golden;
  Layers{{"1.weight", "2.weight"}, {0, 1}, false}.write(target);
  Layers{{"0.weight", "1.weight"}, {0, 1}, false}.write(golden);
  EXPECT_THAT(compared(target, golden).findings, IsEmpty());
}

}  // namespace
}  // namespace sonde
