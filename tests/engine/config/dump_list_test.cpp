// The ops that the dump_list of an acl.json selects.
#include "plan/config/dump_list.h"

#include <gtest/gtest.h>

#include "plan/config/op_types.h"
#include "plan/config/selector.h"

namespace sonde::test {
namespace {

using Asked = Selector::AskedOp;

constexpr const char* kScope = "network-AlexNet/conv1-Conv2d";
const Asked kConvolution = {
    .op_name = "Default/network-AlexNet/conv1-Conv2d/conv2d-op0", .op_type = "conv2d", .scope = kScope};
const Asked kRelu = {.op_name = "Default/network-AlexNet/relu-op0", .op_type = "relu_", .scope = "network-AlexNet"};
const Asked kAdd = {.op_name = "Default/network1-Head/add-op0", .op_type = "add", .scope = "network1-Head"};
const Asked kStep = {.op_name = "Default/optimizer-SGD/add-op0", .op_type = "add_", .scope = "optimizer-SGD"};
const Asked kLoose = {.op_name = "Default/mul-op0", .op_type = "mul", .scope = ""};

Plan plan_of(std::vector<DumpListEntry> entries, bool single_ops = false) {
  Plan plan;
  plan.acl.in_use = true;
  plan.acl.single_ops = single_ops;
  plan.acl.dump_list = std::move(entries);
  plan.input_output = Sides::both;
  return plan;
}

// One letter for each selected op: c, r, a, s, l.
std::string taken(const Plan& plan) {
  Selector selector(plan);
  std::string letters;
  for (const auto& [letter, op] :
       {std::pair{'c', kConvolution}, {'r', kRelu}, {'a', kAdd}, {'s', kStep}, {'l', kLoose}}) {
    if (selector.decide_op(op).any()) letters += letter;
  }
  return letters;
}

TEST(DumpList, TakesModelsByClassByScopeAndByNumber) {
  EXPECT_EQ(taken(plan_of({{.model_name = "AlexNet"}})), "cr");
  EXPECT_EQ(taken(plan_of({{.model_name = "network1-Head"}})), "a");
  EXPECT_EQ(taken(plan_of({{.model_name = "graph_2"}})), "a");
  EXPECT_EQ(taken(plan_of({{.model_name = "alexnet"}})), "");
  EXPECT_EQ(taken(plan_of({{.model_name = "AlexNet"}, {.model_name = "Head"}})), "cra");
  EXPECT_EQ(taken(plan_of({{}})), "cra");  // no name: every model
}

TEST(DumpList, LeavesWhatIsOutsideEveryModuleToTheSingleOperatorSwitch) {
  EXPECT_EQ(taken(plan_of({}, true)), "crasl");
  EXPECT_EQ(taken(plan_of({{.model_name = "AlexNet"}}, true)), "crsl");
  Plan anywhere = plan_of({{.layer = {"Add"}}});
  EXPECT_EQ(taken(anywhere), "a");
  anywhere.acl.anywhere = true;
  EXPECT_EQ(taken(anywhere), "as");
  Asked marked = kRelu;
  marked.flagged = true;  // inside a scope of TorchAir
  EXPECT_TRUE(Selector(anywhere).decide_op(marked).any());
}

TEST(DumpList, TakesLayersByNameAndByTypeOfAnySystem) {
  for (const char* layer :
       {"Default/network-AlexNet/conv1-Conv2d/conv2d-op0", "Conv2D", "conv2d",
        "Default_network_AlexNet_conv1_Conv2d_conv2d_op0", "Default/network_AlexNet/conv1_Conv2d/conv2d_op0"}) {
    EXPECT_EQ(taken(plan_of({{.layer = {layer}}})), "c") << layer;
  }
  EXPECT_EQ(taken(plan_of({{.layer = {"ReLU"}}})), "r");
  EXPECT_EQ(taken(plan_of({{.layer = {"relu"}}})), "r");
  EXPECT_EQ(taken(plan_of({{.layer = {"conv"}}})), "");  // a type is the whole type
  EXPECT_EQ(taken(plan_of({{.layer = {"Default-network-AlexNet-relu-op0"}}})), "");
  EXPECT_EQ(taken(plan_of({{.model_name = "Head", .layer = {"Conv2D"}}})), "");
}

TEST(DumpList, TakesLayersByTheirNamesInFiles) {
  EXPECT_EQ(taken(plan_of({{.layer = {"Default_network-AlexNet_conv1-Conv2d_conv2d-op0"}}})), "c");
  EXPECT_EQ(taken(plan_of({{.layer = {"Default_network-AlexNet_conv2-Conv2d_conv2d-op0"}}})), "");
}

TEST(DumpList, RecordsTheSidesOfThePlan) {
  Plan plan = plan_of({{}});
  plan.input_output = Sides::outputs;
  EXPECT_EQ(Selector(plan).decide_op(kConvolution), (Selector::Wanted{.outputs = true}));
  EXPECT_TRUE(Selector(plan).decide_parameter("conv1.weight"));
  plan.input_output = Sides::inputs;
  EXPECT_EQ(Selector(plan).decide_op(kConvolution), (Selector::Wanted{.inputs = true}));
  EXPECT_FALSE(Selector(plan).decide_parameter("conv1.weight"));
  EXPECT_TRUE(Selector(plan).parameters_follow_ops());
}

// GE's graphs have a node of the type Data for each; no selected op need read them.
TEST(DumpList, TakesParametersAndDataByName) {
  Selector named(plan_of({{.model_name = "AlexNet", .layer = {"data-1", "conv1_weight"}}}));
  EXPECT_TRUE(named.names_parameter("data-1"));
  EXPECT_FALSE(named.names_parameter("data-0"));
  EXPECT_TRUE(named.decide_parameter_by_name("conv1.weight", kScope));
  EXPECT_FALSE(named.decide_parameter_by_name("data-1", "network1-Head"));  // read by another model
  ASSERT_EQ(named.unused().size(), 1U);
  EXPECT_TRUE(named.decide_parameter_by_name("data-1", kScope));
  EXPECT_TRUE(named.unused().empty());
  EXPECT_TRUE(Selector(plan_of({{.layer = {"Data"}}})).names_parameter("fc.bias"));
  EXPECT_FALSE(Selector(plan_of({{.layer = {"conv2d"}}})).names_parameter("fc.bias"));
  Plan inputs = plan_of({{.layer = {"Data"}}});
  inputs.input_output = Sides::inputs;
  EXPECT_FALSE(Selector(inputs).names_parameter("fc.bias"));
}

TEST(DumpList, NamesWhatComputesAnOpThatDoesNotRun) {
  Selector selector(plan_of({{.layer = {"Conv2D", "Add"}}}));
  EXPECT_TRUE(selector.names(kConvolution, "mul, sum"));
  EXPECT_FALSE(selector.names(kRelu, "maximum"));
  ASSERT_EQ(selector.unused().size(), 2U);
  EXPECT_EQ(selector.unused()[0].instead, "conv2d by mul, sum");
  EXPECT_EQ(selector.unused()[1].instead, "");
}

TEST(DumpList, TakesSlotsOutByOperatorAndByType) {
  const DumpListEntry entry = {.optype_blacklist = {{"Conv2D", {{true, 1}, {true, 2}}}, {"ReLU", {{false, 0}}}},
                               .opname_blacklist = {{kConvolution.op_name.data(), {{false, 0}}}}};
  Selector selector(plan_of({entry}));
  const Selector::Wanted conv = selector.decide_op(kConvolution);  // the list of names is checked first
  EXPECT_TRUE(conv.slot(true, 1));
  EXPECT_FALSE(conv.slot(false, 0));
  EXPECT_TRUE(conv.slot(false, 1));
  const Selector::Wanted relu = selector.decide_op(kRelu);
  EXPECT_TRUE(relu.slot(true, 0));
  EXPECT_FALSE(relu.slot(false, 0));
  EXPECT_EQ(selector.decide_op(kAdd).except, nullptr);
}

// One letter for each op of "abcdefg" (types a … g in that order) that the ranges select, for each of the steps.
std::vector<std::string> in_range(const std::vector<OpRange>& ranges, const std::vector<std::string>& steps) {
  Selector selector(plan_of({{.opname_range = ranges}}));
  EXPECT_TRUE(selector.in_order());
  std::vector<std::string> result;
  for (const std::string& step : steps) {
    selector.begin_step(0);
    std::string& letters = result.emplace_back();
    for (const char c : step) {
      const std::string type(1, c), name = "Default/network-Net/" + type + "-op0";
      if (selector.decide_op({.op_name = name, .op_type = type, .scope = "network-Net"}).any()) letters += c;
    }
  }
  return result;
}

TEST(DumpList, FollowsARangeInTheOrderInWhichOpsRun) {
  const auto one = [](const OpRange& range, const std::string& ops) { return in_range({range}, {ops})[0]; };
  EXPECT_EQ(one({"c", "e"}, "abcdefg"), "cde");
  EXPECT_EQ(one({"c", "c"}, "abcdefg"), "c");
  EXPECT_EQ(one({"e", "c"}, "abcdefg"), "");       // the end comes first: the range is wrong, nothing is added
  EXPECT_EQ(one({"c", "z"}, "abcdefg"), "cdefg");  // it has no end in this step
  EXPECT_EQ(one({"z", "c"}, "abdefg"), "");
  EXPECT_EQ(one({"b", "d"}, "abcdebxd"), "bcd");  // begins again: nothing more
  EXPECT_EQ(one({"b", "d"}, "abcbdbd"), "bcbd");  // inside, its begin is one op among others
  EXPECT_EQ(one({"Default/network-Net/b-op0", "c"}, "abcd"), "bc");
}

TEST(DumpList, BeginsARangeAgainWithEachStepAndGraph) {
  EXPECT_EQ(in_range({{"b", "c"}}, {"abcd", "ab", "xcd", "abcd"}), (std::vector<std::string>{"bc", "b", "", "bc"}));
  EXPECT_EQ(in_range({{"b", "c"}, {"d", "e"}}, {"abcxde"}), (std::vector<std::string>{"bcde"}));
  Selector selector(plan_of({{.opname_range = {{"b", "c"}}}}));
  const auto takes = [&](const char* type, std::uint32_t graph) {
    return selector.decide_op({.op_name = type, .op_type = type, .scope = "network-Net", .graph = graph}).any();
  };
  selector.begin_step(0);
  EXPECT_TRUE(takes("b", 0));
  selector.begin_step(1);
  selector.begin_step(2);
  EXPECT_FALSE(takes("x", 1));  // an evaluation within a training step has its own range
  EXPECT_FALSE(takes("x", 2));  // and a reference model
  EXPECT_FALSE(takes("x", 70));
  EXPECT_TRUE(takes("x", 0));
  EXPECT_TRUE(takes("c", 0));
  EXPECT_FALSE(takes("x", 0));
}

TEST(DumpList, WatchesOpsAndNamesThoseAfterWhichToLook) {
  Plan plan = plan_of({{.layer = {"relu", "conv2d"}, .watcher_nodes = {"conv2d"}}});
  plan.acl.scene = Scene::watcher;
  plan.input_output = Sides::outputs;
  Selector selector(plan);
  EXPECT_EQ(selector.decide_op(kConvolution), (Selector::Wanted{.outputs = true, .watched = true}));
  EXPECT_EQ(selector.decide_op(kRelu), (Selector::Wanted{.checks = true}));
  EXPECT_EQ(selector.decide_op(kAdd), Selector::Wanted());
  EXPECT_FALSE(selector.decide_parameter("conv1.weight"));
  plan.acl.dump_list[0].layer.clear();  // after every op
  Selector every(plan);
  EXPECT_TRUE(every.decide_op(kAdd).checks);
  EXPECT_TRUE(every.decide_op(kLoose).checks);  // the op that overwrites memory may be outside every module
  const Asked reduce = {.op_name = "Default/network-AlexNet/allreduce_-op0", .op_type = "allreduce_", .scope = kScope};
  EXPECT_FALSE(every.decide_op(reduce).checks);
}

TEST(DumpList, ReportsWhatNothingMatched) {
  Selector selector(plan_of({{.model_name = "AlexNet",
                              .layer = {"conv2d", "rellu"},
                              .optype_blacklist = {{"MaxPool", {}}},
                              .opname_range = {{"relu", "Default/network-AlexNet/relu-op9"}}},
                             {.model_name = "AlexNett", .layer = {"x"}}}));
  for (const Asked& op : {kConvolution, kRelu, kAdd}) selector.decide_op(op);
  std::vector<std::string> reported;
  for (const auto& entry : selector.unused()) reported.push_back(entry.key + " " + entry.text + " " + entry.nearest[0]);
  EXPECT_EQ(reported,
            (std::vector<std::string>{
                "dump_list[0].layer rellu relu_",
                "dump_list[0].opname_range Default/network-AlexNet/relu-op9 Default/network-AlexNet/relu-op0",
                "dump_list[0].optype_blacklist MaxPool add", "dump_list[1].model_name AlexNett network-AlexNet"}));
}

TEST(OpTypes, KnowCollectives) {
  for (const char* type : {"allreduce_", "all_reduce", "all_gather_into_tensor", "_reduce_scatter_base_", "send"}) {
    EXPECT_TRUE(is_collective(type)) << type;
  }
  for (const char* type : {"scatter_", "gather", "sum", ""}) EXPECT_FALSE(is_collective(type)) << type;
  for (const char* type : {"all_gather_copy_in", "chunk_cat", "split_with_sizes_copy"}) {
    EXPECT_TRUE(packs_for_collective(type)) << type;
  }
  for (const char* type : {"cat", "copy_", "chunk", ""}) EXPECT_FALSE(packs_for_collective(type)) << type;
}

}  // namespace
}  // namespace sonde::test
