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
    const DumpComparison comparison = compared(target, golden);
    EXPECT_THAT(comparison.findings, IsEmpty()) << name << comparison.findings[0].what;
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

// The optimizer reads the gradient of a batch of `rows` rows.
void write_batch(Program& program, const std::string& rows, const Values& data, const Values& gradient) {
  program.add("relu", {Program::parameter("data-0", data, rows)}, data, rows);
  program.add("add_", {Program::parameter("w", kOne, "(4)"), Program::parameter("w.grad", gradient, "(4)")}, kOne,
              "(4)", "Default/optimizer-SGD");
  program.last().phase = Phase::optimizer;
}

TEST(Match, BatchesCutInAnotherWayAreComparedByTheGradientsThatTheOptimizerReads) {
  for (const bool by_statistics : {false, true}) {
    for (const float factor : {4.0F, 1.0F}) {
      Program target, golden;
      write_batch(target, "(2)", {1, 2}, times(kTwo, factor));
      write_batch(golden, "(3)", {1, 2, 3}, kTwo);
      if (by_statistics) target.forget_values();
      if (by_statistics) golden.forget_values();
      const DumpComparison comparison = compared(target, golden);
      EXPECT_TRUE(comparison.complete);
      if (factor == 1) {
        EXPECT_THAT(comparison.findings, IsEmpty());
        continue;
      }
      ASSERT_THAT(comparison.findings, SizeIs(1));
      EXPECT_THAT(comparison.findings[0].what, HasSubstr("4.000 times the golden gradient"));
      EXPECT_EQ(comparison.findings[0].what.find("about") != std::string::npos, by_statistics);
      ASSERT_TRUE(comparison.findings[0].factor);
      EXPECT_NEAR(*comparison.findings[0].factor, 4, 1e-6);
    }
  }
}

TEST(Match, AFactorIsSaidOnlyWhereAllElementsHaveIt) {
  const auto factor_of = [](Values values) {
    Program target, golden;
    target.add("exp", {Program::parameter("x", kOne, "(4)")}, values, "(4)");
    golden.add("exp", {Program::parameter("x", kOne, "(4)")}, kTwo, "(4)");
    return compared(target, golden).findings.at(0).factor;
  };
  EXPECT_NEAR(factor_of(times(kTwo, -0.5F)).value_or(0), -0.5, 1e-6);
  EXPECT_FALSE(factor_of({10, -12, 14, -17}));
}

TEST(Match, TwoPartsOfOneDumpMayBeCompared) {
  Program program;
  write_batch(program, "(2)", {1, 2}, kOne);
  CompareOptions options;
  options.part.graph = 0;
  options.golden_part = options.part;
  EXPECT_THAT(compared(program, program, options).findings, IsEmpty());
  options.golden_part->graph = 3;
  const Result<DumpComparison> none = compare_dumps(program.catalog(), program.catalog(), options);
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message, HasSubstr("no graph 3; there is 0"));
}

TEST(Match, DumpsWithNothingInCommonAreNoAnswer) {
  Program target, golden;
  target.add("exp", {Program::parameter("", kOne, "(4)")}, kTwo, "(4)");
  golden.add("cumsum", {Program::parameter("", {1, 2}, "(2)")}, {1, 3}, "(2)");
  const DumpComparison comparison = compared(target, golden);
  EXPECT_FALSE(comparison.complete);
  EXPECT_THAT(comparison.findings, IsEmpty());
  ASSERT_THAT(comparison.left_out, SizeIs(1));
  EXPECT_THAT(comparison.left_out[0], HasSubstr("nothing corresponds: no type of operator and no parameter"));
}

}  // namespace
}  // namespace sonde
