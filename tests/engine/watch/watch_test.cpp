#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ask/watch/watch_judge.h"
#include "ask/watch/watch_values.h"
#include "ask/watch/watchpoints.h"
#include "catalog/dump_files.h"
#include "read/catalog/overflow_records.h"
#include "read/catalog/run_history.h"
#include "read/operators/node_category.h"

namespace sonde {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

WatchCondition condition(std::string_view text) {
  const Result<WatchCondition> parsed = parse_condition(text);
  EXPECT_TRUE(parsed) << parsed.error().message;
  return parsed ? *parsed : WatchCondition{find_condition("has_nan"), {}};
}

std::string complaint(std::string_view text) {
  const Result<WatchCondition> parsed = parse_condition(text);
  return parsed ? "" : parsed.error().message;
}

template <typename T>
struct Tensor {
  DType dtype;
  std::vector<T> data;
  std::vector<std::int64_t> shape = {static_cast<std::int64_t>(data.size())}, strides = {1};

  TensorView view() const {
    TensorView view;
    view.dtype = dtype;
    view.data = reinterpret_cast<const std::byte*>(data.data());
    view.shape = shape;
    view.strides = strides;
    return view;
  }
};

Tensor<double> doubles(std::vector<double> values) { return {DType::float64, std::move(values)}; }

Judgement judged(std::string_view text, const Tensor<double>& tensor) {
  const WatchCondition asked = condition(text);
  std::vector<ValueRange> ranges;
  if (const auto range = range_of(asked)) ranges.push_back(*range);
  const ValueSummary values = summarize_values(tensor.view(), ranges);
  return judge(asked, facts_of(values, ranges), true);
}
bool fires(std::string_view text, std::vector<double> values) {
  return judged(text, doubles(std::move(values))).kind == Judgement::Kind::hit;
}

bool change_fires(std::string_view text, std::vector<double> current, std::vector<double> previous) {
  const WatchCondition asked = condition(text);
  const std::vector<Tolerance> tolerances = {tolerance_of(asked)};
  const Tensor<double> now = doubles(std::move(current)), before = doubles(std::move(previous));
  const ValueSummary values = summarize_values(now.view(), {});
  const PairSummary pair = compare_values(now.view(), before.view(), tolerances);
  WatchFacts facts = facts_of(values, {});
  facts.pair = &pair;
  facts.tolerances = tolerances;
  return judge(asked, facts, true).kind == Judgement::Kind::hit;
}

// --- conditions

TEST(Conditions, DefaultsAreFilledIn) {
  EXPECT_EQ(condition("tensor_all_zero").value("zero_percentage_ge"), 100);
  EXPECT_EQ(condition("weight_change_too_large").value("abs_mean_update_ratio_gt"), 0.1);
  EXPECT_EQ(condition("weight_change_too_small").value("epsilon"), 1e-9);
  EXPECT_EQ(condition("weight_not_changed:rtol=0.5").value("atol"), 1e-8);
  // A chosen check replaces the default of another.
  EXPECT_EQ(condition("weight_initialization:max_gt=1").value("zero_percentage_ge"), std::nullopt);
}

TEST(Conditions, HiddenParametersCanBeSet) {
  EXPECT_EQ(condition("weight_not_changed:atol=0.25,rtol=0").value("atol"), 0.25);
  EXPECT_EQ(condition("weight_change_too_large:epsilon=0").value("epsilon"), 0);
}

TEST(Conditions, ClassNamesTakeSeveralChecks) {
  EXPECT_EQ(condition("TensorTooLarge:max_gt=1,mean_gt=2").parameters.size(), 2);
  EXPECT_THAT(complaint("tensor_too_large:max_gt=1,mean_gt=2"), HasSubstr("Multiple check params."));
  EXPECT_EQ(condition("TensorUnchanged").info->check, WatchCheck::not_changed);
  EXPECT_EQ(condition("TensorChangeBelowThreshold:abs_mean_update_ratio_lt=1").info->check,
            WatchCheck::change_too_small);
  EXPECT_THAT(complaint("TensorChangeBelowThreshold"), HasSubstr("Number param should be given."));
  EXPECT_EQ(find_condition("WeightOverflow"), nullptr);
}

TEST(Conditions, LimitsIncludeTheirEnds) {
  EXPECT_EQ(complaint("tensor_all_zero:zero_percentage_ge=0"), "");
  EXPECT_EQ(complaint("tensor_all_zero:zero_percentage_ge=100"), "");
  EXPECT_THAT(complaint("tensor_all_zero:zero_percentage_ge=-0.5"), HasSubstr("expected 0 to 100"));
  EXPECT_THAT(complaint("tensor_range:max_min_lt=0"), HasSubstr("above 0"));
  EXPECT_EQ(complaint("tensor_range:max_min_gt=0"), "");
  EXPECT_THAT(complaint("tensor_too_large:max_gt=inf"), HasSubstr("finite"));
}

TEST(Conditions, ARangeNeedsBothEndsInTheirOrder) {
  EXPECT_THAT(complaint("tensor_range:range_percentage_lt=5,range_start_inclusive=0"),
              HasSubstr("Invalid support params."));
  EXPECT_THAT(complaint("tensor_range:max_min_gt=5,range_start_inclusive=0"), HasSubstr("Invalid support params."));
  EXPECT_THAT(complaint("tensor_range:range_percentage_lt=5,range_start_inclusive=1,range_end_inclusive=0"),
              HasSubstr("is above range_end_inclusive"));
  EXPECT_EQ(complaint("tensor_range:range_percentage_lt=5,range_start_inclusive=1,range_end_inclusive=1"), "");
}

TEST(Conditions, TheirTextReadsBack) {
  for (const char* text :
       {"tensor_overflow", "tensor_range:range_start_inclusive=-1,range_end_inclusive=1,range_percentage_gt=99.9",
        "weight_not_changed:rtol=1e-05"}) {
    EXPECT_EQ(text_of(condition(text)), text);
  }
}

// --- checks

TEST(Judge, ComparesStrictlyButForGe) {
  EXPECT_FALSE(fires("tensor_too_large:max_gt=3", {1, 3}));
  EXPECT_TRUE(fires("tensor_too_large:max_gt=2.999999", {1, 3}));
  EXPECT_FALSE(fires("tensor_too_small:min_lt=1", {1, 3}));
  EXPECT_TRUE(fires("tensor_all_zero:zero_percentage_ge=50", {0, 1, -0.0, 1}));
  EXPECT_FALSE(fires("tensor_all_zero:zero_percentage_ge=50.1", {0, 1, 0, 1}));
  EXPECT_FALSE(fires("mean_gt:param=0.1", std::vector<double>(10, 0.1)));
}

TEST(Judge, CountsTheEndsOfARangeIn) {
  const std::string range = "tensor_range:range_start_inclusive=-1,range_end_inclusive=1,";
  EXPECT_FALSE(fires(range + "range_percentage_lt=75", {-1, 0, 1, 1.5}));
  EXPECT_TRUE(fires(range + "range_percentage_lt=75.1", {-1, 0, 1, 1.5}));
  EXPECT_FALSE(fires(range + "range_percentage_gt=75", {-1, 0, 1, 1.5}));
}

TEST(Judge, ReportsNanAndInfinityInsteadOfAHit) {
  for (const char* text : {"tensor_too_large:max_gt=0", "tensor_all_zero:zero_percentage_ge=0", "sd_gt:param=0"}) {
    const Judgement judgement = judged(text, doubles({5, kNan, -kInf}));
    EXPECT_EQ(judgement.kind, Judgement::Kind::error) << text;
    EXPECT_EQ(judgement.error_code, kWatchNan | kWatchInf);
  }
  EXPECT_EQ(judged("tensor_overflow", doubles({5, kNan})).kind, Judgement::Kind::hit);
  EXPECT_EQ(judged("has_inf", doubles({5, kNan})).kind, Judgement::Kind::quiet);
  EXPECT_EQ(judged("has_inf", doubles({-kInf})).error_code, 0);
}

TEST(Judge, SeesChangesRelativeToTheStepBefore) {
  EXPECT_TRUE(change_fires("weight_change_too_large", {1.2}, {1}));
  EXPECT_FALSE(change_fires("weight_change_too_large:abs_mean_update_ratio_gt=0.25,epsilon=0", {1.25}, {1}));
  EXPECT_TRUE(change_fires("weight_change_too_small", {1}, {1}));
  EXPECT_TRUE(change_fires("weight_change_too_large", {1}, {0}));
  EXPECT_TRUE(change_fires("weight_not_changed:rtol=0,atol=0.5", {1, 2.5}, {1, 3}));
  EXPECT_FALSE(change_fires("weight_not_changed:rtol=0.5,atol=0", {1, 2}, {1, 1}));
  EXPECT_TRUE(change_fires("weight_not_changed:rtol=1,atol=0", {1, 2}, {1, 1}));
}

TEST(Judge, NothingFiresOnATensorWithoutElements) {
  EXPECT_FALSE(fires("tensor_all_zero", {}));
  EXPECT_FALSE(fires("tensor_overflow", {}));
  EXPECT_FALSE(change_fires("weight_not_changed", {}, {}));
}

TEST(Judge, AsksForTheValuesWhereATableIsTooCoarse) {
  KnownStatistics table;
  table.max = 0.376355;  // %g of something near
  table.min = -1;
  table.avg = 0;
  table.nan_count = table.positive_inf_count = table.negative_inf_count = 0;
  const WatchFacts facts = facts_of(table, false);
  const auto kind = [&](const char* text, bool final_word) { return judge(condition(text), facts, final_word).kind; };
  EXPECT_EQ(kind("tensor_too_large:max_gt=0.376355", false), Judgement::Kind::unknown);
  EXPECT_EQ(kind("tensor_too_large:max_gt=0.376355", true), Judgement::Kind::quiet);
  EXPECT_EQ(kind("tensor_too_large:max_gt=0.376", false), Judgement::Kind::hit);
  EXPECT_EQ(kind("tensor_too_large:abs_mean_gt=0.1", true), Judgement::Kind::unknown);
}

TEST(Judge, NanInATableWithoutCountsIsSeen) {
  KnownStatistics table;
  table.max = table.min = table.avg = kNan;
  EXPECT_EQ(judge(condition("tensor_overflow"), facts_of(table, false), true).kind, Judgement::Kind::hit);
  EXPECT_EQ(judge(condition("tensor_too_large:max_gt=1"), facts_of(table, false), true).error_code, kWatchNan);
  table.max = table.min = table.avg = 1;
  EXPECT_EQ(judge(condition("tensor_overflow"), facts_of(table, false), true).kind, Judgement::Kind::quiet);
}

// --- values

TEST(WatchValues, SmallFloatsAndIntegersAreWidened) {
  const Tensor<std::uint16_t> brain{DType::bfloat16, {0x3F80, 0xC000, 0x7FC0, 0xFF80}};  // 1, -2, NaN, -inf
  ValueSummary summary = summarize_values(brain.view(), {});
  EXPECT_EQ(summary.max, 1);
  EXPECT_EQ(summary.min, -2);
  EXPECT_EQ(summary.nan_count, 1);
  EXPECT_EQ(summary.inf_count, 1);
  const Tensor<std::uint8_t> eight{DType::float8_e5m2, {0x3C, 0x7C, 0x7F}};  // 1, inf, NaN
  summary = summarize_values(eight.view(), {});
  EXPECT_EQ(summary.max, 1);
  EXPECT_EQ(summary.nan_count + summary.inf_count, 2);
  const Tensor<std::int64_t> whole{DType::int64, {-3, 5}};
  EXPECT_EQ(summarize_values(whole.view(), {}).abs_mean, 4);
  EXPECT_FALSE(can_watch(DType::complex64));
}

TEST(WatchValues, TheSpreadOfValuesFarFromZeroIsNotLost) {
  std::vector<double> values(10000, 1e9);
  for (std::size_t i = 0; i < values.size(); i += 2) values[i] += 1;
  const ValueSummary summary = summarize_values(doubles(values).view(), {});
  EXPECT_NEAR(summary.sd, 0.5 * std::sqrt(10000.0 / 9999), 1e-9);
  EXPECT_EQ(summarize_values(doubles({7}).view(), {}).sd, 0);
}

TEST(WatchValues, MeanOfTheLargestDoublesIsFinite) {
  const double most = std::numeric_limits<double>::max();
  EXPECT_EQ(summarize_values(doubles(std::vector<double>(3000, most / 2048)).view(), {}).mean, most / 2048);
}

TEST(WatchValues, TheOrderInMemoryDoesNotMatter) {
  Tensor<float> rows{DType::float32, {1, 2, 3, 4, 5, 6}, {2, 3}, {3, 1}};
  const Tensor<float> columns{DType::float32, {1, 4, 2, 5, 3, 6}, {2, 3}, {1, 2}};
  const PairSummary same = compare_values(rows.view(), columns.view(), std::vector<Tolerance>{{0, 0, false}});
  EXPECT_EQ(same.abs_difference_mean, 0);
  EXPECT_THAT(same.all_close, ElementsAre(true));
}

// --- a whole dump

struct Dump {
  TemporaryDirectory directory;

  void add(int step, const std::string& name, std::string_view descr, std::string_view shape, std::string_view data) {
    const std::string file = "rank_0/Net/0/" + std::to_string(step) + "/" + name;
    directory.write(file, npy(descr, shape, data));
  }
  void add_floats(int step, const std::string& op, const std::vector<float>& values) {
    add(step, op + ".0.0.170000000000000" + std::to_string(step) + ".output.0.DefaultFormat.npy", "<f4",
        "(" + std::to_string(values.size()) + ",)", bytes_of(values));
  }
  Catalog open() const { return std::move(*open_catalog(directory.path())); }
};

WatchReport check(const Catalog& catalog, const std::string& text, WatchOptions options = {}) {
  std::vector<Watchpoint> watchpoints(1);
  watchpoints[0].condition = condition(text);
  WatchSelection selection;
  selection.category = watchpoints[0].condition.info->target;
  watchpoints[0].tensors = select_watched(catalog, selection);
  return check_watchpoints(catalog, watchpoints, options);
}

TEST(Watch, AConditionWatchesItsOwnCategoryOfTheChosenTensors) {
  Dump dump;
  for (const int step : {0, 1}) dump.add_floats(step, "Parameter.w_bias", {1, 2});
  dump.add_floats(0, "Add.Default_Add-op0", {1, 2});
  const Catalog catalog = dump.open();
  const std::vector<std::string> texts = {"weight_not_changed", "tensor_overflow", "gradient_exploding"};
  const std::vector<WatchCondition> conditions = *parse_conditions(texts);
  WatchSelection selection;
  selection.takes_tensor = [](const TensorPlace& place) { return place.step == 0; };
  std::vector<std::string> notes;
  const auto watchpoints = make_watchpoints(catalog, conditions, false, selection, notes);
  ASSERT_TRUE(watchpoints);
  ASSERT_EQ(watchpoints->size(), 3);
  EXPECT_EQ((*watchpoints)[0].tensors.size(), 1) << "of step 0 alone";
  EXPECT_EQ((*watchpoints)[1].tensors.size(), 2);
  EXPECT_THAT((*watchpoints)[2].tensors, IsEmpty());
  EXPECT_THAT(notes, ElementsAre("condition 'gradient_exploding' has nothing to watch: no output of these nodes was "
                                 "recorded, or none is of category gradient"));
  EXPECT_GT(make_watchpoints(catalog, conditions, true, selection, notes)->size(), 3) << "the recommended ones too";
  selection.category = NodeCategory::activation;
  EXPECT_EQ(make_watchpoints(catalog, conditions, false, selection, notes).error().message,
            "condition 'weight_not_changed' watches nodes of category weight, not activation");
}

TEST(Watch, WhatCannotBeHeldAgainstAConditionIsReported) {
  Dump dump;
  dump.add(0, "Cast.Default_Cast-op0.0.0.1700000000000000.output.0.DefaultFormat.npy", "<c8", "(1,)",
           std::string(8, '\0'));
  dump.directory.write("rank_0/Net/0/0/Add.Default_Add-op0.0.0.1700000000000001.output.0.DefaultFormat.npy", "no npy");
  const Catalog catalog = dump.open();
  const WatchReport report = check(catalog, "tensor_overflow");
  EXPECT_THAT(report.hits, IsEmpty());
  ASSERT_EQ(report.gaps.size(), 2);
  EXPECT_THAT(report.gaps[0].reason, HasSubstr("complex64"));
  EXPECT_THAT(report.gaps[1].reason, HasSubstr("Add.Default_Add-op0"));
}

TEST(Watch, AnotherShapeInTheStepBeforeIsSaid) {
  Dump dump;
  dump.add_floats(0, "Parameter.w_bias", {1, 2});
  dump.add_floats(1, "Parameter.w_bias", {1, 2, 3});
  const WatchReport report = check(dump.open(), "weight_not_changed");
  ASSERT_EQ(report.gaps.size(), 1);
  EXPECT_EQ(report.gaps[0].reason, "the step before has (2), this one (3)");
}

TEST(Watch, TensorsBeyondTheMemoryLimitAreErrors) {
  Dump dump;
  dump.add_floats(0, "Parameter.w_bias", std::vector<float>(100, 1));
  WatchOptions options;
  options.most_bytes = 399;
  const WatchReport report = check(dump.open(), "sd_gt:param=1", options);
  ASSERT_EQ(report.hits.size(), 1);
  EXPECT_EQ(report.hits[0].error_code, kWatchTooLarge);
  EXPECT_THAT(error_messages(report.hits[0].error_code), ElementsAre("The tensor size exceeds the memory limit."));
}

TEST(Watch, TheHistoryNamesTheStepBefore) {
  Dump dump;
  for (const int step : {2, 4, 5}) dump.add_floats(step, "Parameter.w_bias", {1, 2});
  dump.directory.write("rank_0/execution_order/ms_global_execution_order_graph_0.csv", "2\n3\n4\n5\n");
  const WatchReport report = check(dump.open(), "weight_not_changed");
  ASSERT_EQ(report.hits.size(), 3);
  EXPECT_EQ(report.hits[0].error_code, kWatchNoPrevious);  // the first
  EXPECT_EQ(report.hits[1].error_code, kWatchNoPrevious);  // step 3 ran, and was not dumped
  EXPECT_EQ(report.hits[1].previous_step, 3);
  EXPECT_TRUE(report.hits[2].hit);
  EXPECT_EQ(report.hits[2].previous_step, 4);
}

TEST(Watch, AnOverflowRecordNamesItsOperatorByTaskAndStream) {
  Dump dump;
  dump.add(0, "Add.Default_Add-op0.7.2.1700000000000001.output.0.DefaultFormat.npy", "<f4", "(1,)", bytes_of({1}));
  dump.add(0, "Mul.Default_Mul-op0.65544.2.1700000000000002.output.0.DefaultFormat.npy", "<f4", "(1,)", bytes_of({1}));
  dump.add(0, "Sub.Default_Sub-op0.7.3.1700000000000003.output.0.DefaultFormat.npy", "<f4", "(1,)", bytes_of({1}));
  const std::string idle = R"("DHA Atomic Add":{"status":0,"stream_id":0,"task_id":0})";
  const auto record = [&](int task) {
    return "{\"AI Core\":{\"status\":32,\"stream_id\":2,\"task_id\":" + std::to_string(task) + "}," + idle + "}";
  };
  dump.directory.write("rank_0/Net/0/0/Opdebug.Node_OpDebug.1.2.1700000000000009.output.0.json", record(7));
  dump.directory.write("rank_0/Net/0/0/Opdebug.Node_OpDebug.2.2.1700000000000009.output.0.json", record(8));
  const Catalog catalog = dump.open();
  const WatchReport report = check(catalog, "operator_overflow");
  std::vector<std::string_view> ops;
  for (const WatchHit& hit : report.hits) ops.push_back(catalog.ranks[0].steps[0].ops[hit.tensor.op].op_type);
  EXPECT_THAT(ops, ElementsAre("Add", "Mul"));
  EXPECT_THAT(report.notes, IsEmpty());
}

TEST(Watch, WithoutRecordsItSaysThatOverflowsAreUnknown) {
  Dump dump;
  dump.add_floats(0, "Add.Default_Add-op0", {1});
  EXPECT_THAT(check(dump.open(), "operator_overflow").notes, ElementsAre(HasSubstr("op_debug_mode 3")));
}

TEST(Watch, InADumpOfOverflowsAloneTheValuesDecide) {
  Dump dump;
  dump.directory.write("rank_0/.dump_metadata/data_dump.json", R"({"common_dump_settings":{"op_debug_mode":3}})");
  dump.add_floats(0, "Add.Default_Add-op0", {1, INFINITY});
  dump.add_floats(0, "Mul.Default_Mul-op0", {1});
  EXPECT_EQ(check(dump.open(), "operator_overflow").hits.size(), 1);
}

// --- categories

CatalogOp op(std::string_view op_name, std::string_view op_type, Phase phase = Phase::forward) {
  CatalogOp made;
  made.op_name = op_name;
  made.op_type = op_type;
  made.is_parameter = op_type == "Parameter";
  made.phase = phase;
  return made;
}

TEST(Categories, WeightsAreParametersByName) {
  using enum NodeCategory;
  EXPECT_TRUE(is_of(weight, op("conv1.weight", "Parameter")));
  EXPECT_TRUE(is_of(weight, op("Default/Network/FC.Bias", "Parameter")));
  EXPECT_TRUE(is_of(weight, op("attn.in_proj_weight", "Parameter")));
  EXPECT_FALSE(is_of(weight, op("conv1.weight.grad", "Parameter")));
  EXPECT_FALSE(is_of(weight, op("exp_avg.conv1.weight", "Parameter")));
  EXPECT_FALSE(is_of(weight, op("moments_conv1_weight", "Parameter")));
  EXPECT_TRUE(is_of(weight, op("conv1_weight", "Parameter")));
  EXPECT_FALSE(is_of(weight, op("Default/optimizer-Momentum/moments.conv1.weight", "Parameter")));
  EXPECT_FALSE(is_of(weight, op("Default/conv1.weight", "Load")));
}

TEST(Categories, WeightsOfMsprobeAreInputsOfTheirModule) {
  CatalogOp module = op("Module.fc.Linear.forward.0", "Linear");
  module.is_module = true;
  CatalogTensor weight;
  weight.is_input = true;
  weight.parameter = std::string_view("fc.weight");
  EXPECT_TRUE(is_weight_of_module(module, weight));
  weight.parameter = {};
  EXPECT_FALSE(is_weight_of_module(module, weight));
}

TEST(Categories, GradientsAndActivations) {
  using enum NodeCategory;
  EXPECT_TRUE(is_of(gradient, op("Gradients/Default/network/Grad_MatMul/MatMul-op1", "MatMul", Phase::backward)));
  EXPECT_TRUE(is_of(gradient, op("gradients/x", "Mul")));
  EXPECT_TRUE(is_of(gradient, op("fc.weight.grad", "Parameter")));
  EXPECT_FALSE(is_of(gradient, op("gradients/x", "Const")));
  for (const char* type : {"ReLU", "relu_", "_softmax", "LeakyReLU", "leaky_relu", "GeLU", "silu", "ReLUV2"}) {
    EXPECT_TRUE(is_of(activation, op("Default/x", type))) << type;
  }
  EXPECT_FALSE(is_of(activation, op("Gradients/Default/x", "Tanh", Phase::backward)));
  EXPECT_FALSE(is_of(activation, op("Default/x", "threshold_backward")));
}

}  // namespace
}  // namespace sonde
