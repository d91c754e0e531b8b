#include "plan/config/selector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sonde {
namespace {

constexpr Selector::Wanted kBoth{true, true};
constexpr Selector::Wanted kNothing{false, false};
constexpr const char* kConv = "Default/network-Net/conv1-Conv2d/conv2d-op0";

Plan plan_of(std::vector<std::string> kernels) {
  Plan plan;
  plan.dump_mode = DumpMode::kernels;
  plan.kernels = std::move(kernels);
  return plan;
}

bool selects(const char* entry, const char* op_name, const char* op_type) {
  return Selector(plan_of({entry})).decide_op(op_name, op_type) == kBoth;
}

TEST(Selector, TakesEverythingUnderDumpModeZero) {
  Plan plan = plan_of({"relu"});
  plan.dump_mode = DumpMode::all;
  Selector selector(plan);
  EXPECT_EQ(selector.decide_op(kConv, "conv2d"), kBoth);
  EXPECT_TRUE(selector.decide_parameter("conv1.weight"));
  EXPECT_TRUE(selector.unused().empty());
}

TEST(Selector, TakesEverythingWhenKernelsIsEmpty) {
  Selector selector(plan_of({}));
  EXPECT_EQ(selector.decide_op(kConv, "conv2d"), kBoth);
  EXPECT_TRUE(selector.decide_parameter("x"));
}

TEST(Selector, TakesANameWithoutScopeWhereTheLayoutNumbersOpsThroughout) {
  Plan plan = plan_of({"conv2d-op0"});
  EXPECT_EQ(Selector(plan).decide_op(kConv, "conv2d"), kNothing);
  plan.sonde.layout = LayoutKind::mindspore_2_0;
  plan.sonde.version = Release::v2_0;
  EXPECT_EQ(Selector(plan).decide_op(kConv, "conv2d"), kBoth);
  EXPECT_EQ(Selector(plan).decide_op("Default/network-Net/conv2d-op1", "conv2d"), kNothing);
  plan.kernels = {kConv};
  EXPECT_EQ(Selector(plan).decide_op(kConv, "conv2d"), kBoth);
}

TEST(Selector, TakesANameAsItStandsInNamesOfFiles) {
  EXPECT_TRUE(selects("Default_network-Net_conv1-Conv2d_conv2d-op0", kConv, "conv2d"));
  EXPECT_TRUE(selects("Default--network-Net--conv1-Conv2d--conv2d-op0", kConv, "conv2d"));
  EXPECT_TRUE(selects("Default_layers_0-Linear_linear-op1", "Default/layers.0-Linear/linear-op1", "linear"));
  EXPECT_FALSE(selects("Default_network-Net_conv1-Conv2d_conv2d-op", kConv, "conv2d"));
  EXPECT_FALSE(selects("Default_network-Net_conv2-Conv2d_conv2d-op0", kConv, "conv2d"));
  EXPECT_TRUE(Selector(plan_of({"conv1_weight"})).decide_parameter("conv1.weight"));
}

TEST(Selector, TakesOnlyFlaggedOpsUnderDumpModeTwo) {
  Plan plan;
  plan.dump_mode = DumpMode::flagged;
  Selector selector(plan);
  EXPECT_EQ(selector.decide_op(kConv, "conv2d"), kNothing);
  EXPECT_EQ(selector.decide_op(kConv, "conv2d", true), kBoth);
  EXPECT_FALSE(selector.decide_parameter("x"));
}

TEST(Selector, TakesNoOpButParametersInExceptionMode) {
  Plan plan;
  plan.op_debug_mode = 4;
  Selector selector(plan);
  EXPECT_EQ(selector.decide_op(kConv, "conv2d"), kNothing);
  EXPECT_TRUE(selector.decide_parameter("x"));
}

TEST(Selector, AsksForTheSidesOfThePlan) {
  Plan plan;
  plan.input_output = Sides::inputs;
  EXPECT_EQ(Selector(plan).decide_op(kConv, "conv2d"), (Selector::Wanted{true, false}));
  EXPECT_FALSE(Selector(plan).decide_parameter("x"));
  plan.input_output = Sides::outputs;
  EXPECT_EQ(Selector(plan).decide_op(kConv, "conv2d"), (Selector::Wanted{false, true}));
  EXPECT_TRUE(Selector(plan).decide_parameter("x"));
}

TEST(Selector, WantsFullNamesExact) {
  EXPECT_TRUE(selects(kConv, kConv, "conv2d"));
  EXPECT_FALSE(selects("default/network-Net/conv1-Conv2d/conv2d-op0", kConv, "conv2d"));
  EXPECT_FALSE(selects("Default/network-Net/conv1-Conv2d", kConv, "conv2d"));
  EXPECT_FALSE(selects("conv2d-op0", kConv, "conv2d"));
}

TEST(Selector, LooksForTypesInTheLastPartBeforeTheLastDash) {
  EXPECT_TRUE(selects("conv2d", kConv, "conv2d"));
  EXPECT_TRUE(selects("CONV", kConv, "conv2d"));
  EXPECT_TRUE(selects("2d", kConv, "conv2d"));
  EXPECT_FALSE(selects("network", kConv, "conv2d"));
  EXPECT_FALSE(selects("op0", kConv, "conv2d"));
  EXPECT_FALSE(selects("conv2d-", kConv, "conv2d"));
  EXPECT_TRUE(selects("add", "add-op0", "add"));
  EXPECT_TRUE(selects("whole", "the whole name", "other"));
}

TEST(Selector, KnowsTheTypesOfOtherSystems) {
  const char* kLinear = "Default/network-Net/fc-Linear/linear-op0";
  for (const char* entry : {"MatMul", "matmul", "BatchMatMul", "BiasAdd"}) {
    const bool expected = std::string_view(entry) != "BatchMatMul";
    EXPECT_EQ(selects(entry, kLinear, "linear"), expected) << entry;
  }
  EXPECT_TRUE(selects("MatMul", "Default/addmm-op0", "addmm"));
  EXPECT_TRUE(selects("ReLU", "Default/relu_-op3", "relu_"));
  EXPECT_TRUE(selects("MaxPool", "Default/max_pool2d-op0", "max_pool2d"));
  EXPECT_TRUE(selects("Conv2DBackpropInput", "Gradients/Default/convolution_backward-op0", "convolution_backward"));
  EXPECT_FALSE(selects("Sub", "Default/linear-op0", "linear"));
  EXPECT_TRUE(selects("TensorAdd", "Default/add-op0", "add"));
  EXPECT_FALSE(selects("TensorAdd", "Default/addmm-op0", "addmm"));  // an alias is the whole type
}

TEST(Selector, WantsPatternsToMatchTheWholeName) {
  EXPECT_TRUE(selects("name-regex(Default/.*)", kConv, "conv2d"));
  EXPECT_TRUE(selects("name-regex(.*-op\\d)", kConv, "conv2d"));
  EXPECT_FALSE(selects("name-regex(conv2d)", kConv, "conv2d"));
  EXPECT_FALSE(selects("name-regex(default/.*)", kConv, "conv2d"));
  EXPECT_FALSE(selects("name-regex()", kConv, "conv2d"));
  EXPECT_FALSE(selects("NAME-REGEX(.*)", kConv, "conv2d"));  // a type that does not exist
  EXPECT_FALSE(selects("name-regex(.*", kConv, "conv2d"));
  EXPECT_FALSE(selects("name-regex([)", kConv, "conv2d"));  // only a plan made in code can contain it
}

TEST(Selector, TestsParametersLikeOps) {
  const auto takes = [](const char* entry, const char* name) {
    return Selector(plan_of({entry})).decide_parameter(name);
  };
  EXPECT_TRUE(takes("conv", "conv1_weight"));
  EXPECT_TRUE(takes("WEIGHT", "conv1.weight"));
  EXPECT_TRUE(takes("conv1.weight", "conv1.weight"));
  EXPECT_TRUE(takes("name-regex(.*weight)", "conv1.weight"));
  EXPECT_FALSE(takes("name-regex(.*weight)", "conv1.bias"));
  EXPECT_TRUE(takes("data", "data-4"));
  EXPECT_FALSE(takes("4", "data-4"));
}

TEST(Selector, APathIsNearNoParameter) {
  Selector selector(plan_of({"Default/Conv-op12"}));
  selector.decide_parameter("conv1.bias");
  selector.decide_op(kConv, "conv2d");
  const std::vector<Selector::UnusedEntry> unused = selector.unused();
  ASSERT_EQ(unused.size(), 1U);
  EXPECT_EQ(unused[0].nearest, std::vector<std::string>{std::string(kConv)});
}

TEST(Selector, ReportsEntriesThatNothingMatchedWithTheNearestNames) {
  Selector selector(
      plan_of({"conv2d", "rellu", "Default/network-Net/conv1-Conv2d/conv2d-op9", "name-regex(.*relu-op7)"}));
  selector.decide_op(kConv, "conv2d");
  selector.decide_op("Default/network-Net/relu-op0", "relu");
  selector.decide_op("Default/network-Net/add-op0", "add");
  selector.decide_op("Default/network-Net/sub-op0", "sub");
  const std::vector<Selector::UnusedEntry> unused = selector.unused();
  ASSERT_EQ(unused.size(), 3U);
  EXPECT_EQ(unused[0].text, "rellu");
  EXPECT_EQ(unused[0].nearest.size(), 3U);
  EXPECT_EQ(unused[0].nearest[0], "relu");
  EXPECT_EQ(unused[1].nearest[0], kConv);
  EXPECT_EQ(unused[2].nearest[0], "Default/network-Net/relu-op0");
}

TEST(Selector, CreditsPatternsBeforeNamesBeforeTypes) {
  Selector selector(plan_of({"conv2d", kConv, "name-regex(.*conv2d.*)"}));
  selector.decide_op(kConv, "conv2d");
  const std::vector<Selector::UnusedEntry> unused = selector.unused();
  ASSERT_EQ(unused.size(), 2U);
  EXPECT_EQ(unused[0].text, "conv2d");
  EXPECT_EQ(unused[1].text, kConv);
}

TEST(Selector, KnowsOnlyFullNamesBefore20AndNoPatternsBefore23) {
  const auto selects_by = [](Release rules, const char* entry) {
    Plan plan = plan_of({entry});
    plan.sonde.rules = rules;
    return Selector(plan).decide_op(kConv, "conv2d").outputs;
  };
  for (const Release rules : {Release::v1_2, Release::v1_3}) {
    EXPECT_TRUE(selects_by(rules, kConv));
    EXPECT_FALSE(selects_by(rules, "conv2d"));
    EXPECT_FALSE(selects_by(rules, "name-regex(.*)"));
  }
  EXPECT_TRUE(selects_by(Release::v2_0, kConv));
  EXPECT_TRUE(selects_by(Release::v2_0, "conv2d"));
  EXPECT_FALSE(selects_by(Release::v2_0, "name-regex(.*)"));
  EXPECT_TRUE(selects_by(Release::v2_3, "name-regex(.*)"));
}

TEST(Selector, AddsWhatFeedsASelectedCollective) {
  constexpr const char* kReduce = "Default/allreduce_-op0";
  Plan plan = plan_of({kReduce});
  const auto asks = [&](Release rules, Sides sides, bool synchronous) {
    plan.sonde.rules = rules;
    plan.input_output = sides;
    plan.e2e = plan.enable = synchronous;
    return Selector(plan).decide_op(kReduce, "allreduce_").producers;
  };
  EXPECT_TRUE(asks(Release::v1_2, Sides::outputs, false));
  EXPECT_TRUE(asks(Release::v2_0, Sides::both, false));
  EXPECT_FALSE(asks(Release::v2_0, Sides::both, true));
  EXPECT_TRUE(asks(Release::v2_3, Sides::inputs, false));
  EXPECT_FALSE(asks(Release::v2_3, Sides::outputs, false));
  EXPECT_FALSE(asks(Release::v2_5, Sides::both, false));

  plan.sonde.rules = Release::v2_0;
  plan.input_output = Sides::both;
  plan.e2e = false;
  Selector selector(plan);
  EXPECT_FALSE(selector.decide_op(kConv, "conv2d").any());
  selector.add_producer(kConv);
  EXPECT_TRUE(selector.decide_op(kConv, "conv2d").any());
  EXPECT_FALSE(selector.decide_op("Default/conv2d-op1", "conv2d").any());
}

// A compiled graph has replaced the op.
TEST(Selector, NamesWhatComputesAnOpThatDoesNotRun) {
  Selector selector(plan_of({"MatMul", "Default/fc-Linear/linear-op12", "relu"}));
  EXPECT_EQ(selector.numbers_named(), (std::vector<std::uint32_t>{0, 12}));
  const auto asked = [](const char* name, const char* type) {
    return Selector::AskedOp{.op_name = name, .op_type = type};
  };
  EXPECT_TRUE(selector.names(asked("Default/linear-op0", "linear"), "mul, sum"));
  EXPECT_TRUE(selector.names(asked("Default/addmm-op0", "addmm"), "mul, sum"));
  EXPECT_TRUE(selector.names(asked("Default/mm-op0", "mm"), "mul"));
  EXPECT_TRUE(selector.names(asked("Default/fc-Linear/linear-op12", "linear"), "mul, sum"));
  EXPECT_FALSE(selector.names(asked("Default/gelu-op0", "gelu"), "erf"));
  EXPECT_TRUE(selector.names(asked("Default/relu-op0", "relu"), {}));  // asked only
  const std::vector<Selector::UnusedEntry> unused = selector.unused();
  ASSERT_EQ(unused.size(), 3U);
  EXPECT_EQ(unused[0].instead, "addmm, linear by mul, sum; mm by mul");
  EXPECT_TRUE(unused[0].nearest.empty());
  EXPECT_EQ(unused[1].instead, "linear by mul, sum");
  EXPECT_EQ(unused[2].instead, "");
  EXPECT_FALSE(Selector(Plan()).names(asked("Default/linear-op0", "linear"), "mul"));  // everything: nobody named it
  EXPECT_TRUE(Selector(Plan()).numbers_named().empty());
}

TEST(Selector, RemembersABoundedNumberOfNames) {
  Selector selector(plan_of({"nothing-op"}));
  for (int i = 0; i < 10'000; ++i) {
    selector.decide_op("Default/scope" + std::to_string(i) + "/add-op0", "add");
  }
  EXPECT_EQ(selector.unused()[0].nearest.size(), 3U);
  EXPECT_TRUE(Selector(plan_of({"x"})).unused()[0].nearest.empty());
}

}  // namespace
}  // namespace sonde
