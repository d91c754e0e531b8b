// Findings that matter, healthy ones, and the op to blame: from data flow alone.
#include "ask/first_bad/first_bad.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ask/first_bad/next_config.h"
#include "ask/stomp/memory_stomp.h"
#include "catalog/dump_files.h"
#include "catalog/made_run.h"
#include "read/operators/op_nature.h"

namespace sonde {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr Bad kNan = {.nan = 2};
constexpr Bad kMasked = {.negative_inf = 3};
constexpr Bad kHuge = {.positive_inf = 1};

std::string first_op(const FirstBad& report) {
  return report.findings.empty() ? "" : report.findings.front().tensor.op_name;
}

TEST(FirstBad, IsTheProducerAndNotWhoPassesItOn) {
  MadeRun run;
  const Made x = run.op("linear", {run.outside("data-0"), run.outside("weight")});
  const Made bad = run.op("log", {x}, kNan);
  run.loss("mse_loss", {run.op("add", {bad, x}, kNan)}, kNan);
  const FirstBad report = first_bad(run.catalog());
  EXPECT_EQ(first_op(report), "Default/log-op1");
  EXPECT_EQ(report.reaches, "the loss");
  EXPECT_THAT(report.path, ElementsAre("Default/log-op1", "Default/add-op2", "Default/mse_loss-op3"));
}

TEST(FirstBad, FollowsTheDataAndNotTheOrder) {
  MadeRun run;
  const Made x = run.op("linear", {run.outside("data-0")});
  const Made mask = run.op("masked_fill", {x}, kMasked);
  const Made softmax = run.op("softmax", {mask});
  const Made bad = run.op("sqrt", {x}, kNan);
  run.loss("mse_loss", {run.op("add", {softmax, bad}, kNan)}, kNan);
  const FirstBad report = first_bad(run.catalog());
  EXPECT_EQ(first_op(report), "Default/sqrt-op3");
  ASSERT_THAT(report.healthy, SizeIs(1));
  EXPECT_EQ(report.healthy[0].tensor.op_name, "Default/masked_fill-op1");
  EXPECT_THAT(report.healthy[0].absorbed_by, ElementsAre("Default/softmax-op2"));
}

TEST(FirstBad, FindsNothingWhereMasksAreAbsorbedOnEveryWay) {
  MadeRun run;
  const Made mask = run.op("full", {}, kMasked);
  const Made scores = run.op("add", {run.op("matmul", {run.outside("x")}), mask}, kMasked);
  run.op("softmax", {scores});
  run.op("exp", {run.op("log_softmax", {scores}, kMasked)});
  run.op("maximum", {run.op("linear", {run.outside("x")}), mask});
  const FirstBad report = first_bad(run.catalog());
  EXPECT_THAT(report.findings, IsEmpty());
  EXPECT_THAT(report.healthy, SizeIs(1));
}

TEST(FirstBad, AMaskBesideANaNStaysHealthy) {
  MadeRun run;
  const Made mask = run.outside("mask", kMasked);
  const Made bad = run.op("log", {run.outside("x")}, kNan);
  const Made scores = run.op("add", {bad, mask}, {.nan = 2, .negative_inf = 3});
  run.loss("cross_entropy_loss", {run.op("softmax", {scores}, kNan)}, kNan);
  const FirstBad report = first_bad(run.catalog());
  EXPECT_THAT(report.findings, SizeIs(1));
  EXPECT_EQ(first_op(report), "Default/log-op0");
  ASSERT_THAT(report.healthy, SizeIs(1));
  EXPECT_EQ(report.healthy[0].tensor.parameter, "mask");
}

TEST(FirstBad, OfAMaskThatBecomesNaNTheOpThatMakesItIsToBlame) {
  MadeRun run;
  const Made masked = run.op("masked_fill", {run.op("matmul", {run.outside("x")})}, kMasked);
  run.loss("mse_loss", {run.op("softmax", {masked}, kNan)}, kNan);
  const FirstBad report = first_bad(run.catalog());
  EXPECT_EQ(first_op(report), "Default/softmax-op2");
  EXPECT_THAT(report.findings[0].evidence, Contains(HasSubstr("masked_fill-op1")));
}

TEST(FirstBad, AnInfinityThatWasComputedIsToBlameForTheNaNItBecomes) {
  MadeRun run;
  const Made huge = run.op("exp", {run.outside("x")}, kHuge);
  run.loss("mse_loss", {run.op("sub", {huge, huge}, kNan)}, kNan);
  EXPECT_EQ(first_op(first_bad(run.catalog())), "Default/exp-op0");
}

TEST(FirstBad, AComputedInfinityThatIsAbsorbedIsHealthy) {
  MadeRun run;
  const Made huge = run.op("exp", {run.outside("x")}, kHuge);
  run.loss("mse_loss", {run.op("reciprocal", {run.op("add", {huge}, kHuge)})});
  EXPECT_THAT(first_bad(run.catalog()).findings, IsEmpty());
}

TEST(FirstBad, NaNIsHealthyOnlyWhereItIsMaskedOut) {
  MadeRun run;
  const Made bad = run.op("log", {run.outside("x")}, kNan);
  run.loss("mse_loss", {run.op("where", {run.outside("keep"), bad, run.outside("x")})});
  EXPECT_THAT(first_bad(run.catalog()).findings, IsEmpty());
  run.op("gt", {bad});
  run.last_output().dtype = DType::bool8;
  EXPECT_EQ(first_op(first_bad(run.catalog())), "Default/log-op0");
}

TEST(FirstBad, NaNThatNobodyReadsMattersAndAPlacedInfinityDoesNot) {
  MadeRun run;
  run.op("full", {}, kMasked);
  EXPECT_THAT(first_bad(run.catalog()).findings, IsEmpty());
  run.op("div", {run.outside("x")}, kNan);
  EXPECT_EQ(first_op(first_bad(run.catalog())), "Default/div-op1");
}

TEST(FirstBad, ABadGradientMattersThoughTheForwardIsFine) {
  MadeRun run;
  const Made root = run.op("sqrt", {run.outside("x")});
  run.loss("sum", {run.op("where", {root})});
  run.phase(Phase::backward);
  run.op("div", {root}, kNan);
  const FirstBad report = first_bad(run.catalog());
  EXPECT_EQ(first_op(report), "Default/div-op3");
  EXPECT_THAT(report.findings[0].tags, Contains("backward_only"));
  EXPECT_EQ(report.reaches, "a gradient");
}

TEST(FirstBad, AnOverflowThatTheScalerSkippedIsExpected) {
  MadeRun run;
  const Made loss = run.loss("mse_loss", {run.outside("x")});
  run.phase(Phase::backward);
  const Made gradient = run.op("mul", {loss}, kHuge);
  run.phase(Phase::outside);
  run.op("_amp_foreach_non_finite_check_and_unscale_", {gradient, run.outside("found_inf")}, kHuge);
  FirstBad report = first_bad(run.catalog());
  EXPECT_THAT(report.findings, IsEmpty());
  EXPECT_THAT(report.expected, SizeIs(1));
  run.phase(Phase::optimizer);
  run.op("add_", {run.outside("weight"), gradient}, kHuge);
  report = first_bad(run.catalog());
  EXPECT_EQ(first_op(report), "Default/mul-op1") << "the optimizer ran all the same";
}

TEST(FirstBad, BadInputComesFromOutside) {
  MadeRun run;
  run.loss("mse_loss", {run.op("linear", {run.outside("data-0", kNan)}, kNan)}, kNan);
  const FirstBad report = first_bad(run.catalog());
  ASSERT_THAT(report.findings, SizeIs(1));
  EXPECT_EQ(report.findings[0].kind, WrongKind::bad_input);
  EXPECT_EQ(report.findings[0].tensor.parameter, "data-0");
}

TEST(FirstBad, ABadParameterIsLookedForInTheStepBefore) {
  MadeRun run;
  run.loss("mse_loss", {run.op("linear", {run.outside("fc.weight")})});
  run.next_step();
  run.loss("mse_loss", {run.op("linear", {run.outside("fc.weight", kNan)}, kNan)}, kNan);
  const FirstBad report = first_bad(run.catalog());
  ASSERT_THAT(report.findings, SizeIs(1));
  EXPECT_EQ(report.findings[0].kind, WrongKind::bad_parameter);
  EXPECT_EQ(report.findings[0].step, 1U);
  EXPECT_THAT(report.findings[0].evidence, Contains(HasSubstr("in step 0 it contained only finite numbers")));
}

TEST(FirstBad, ReportsMemoryThatWasOverwritten) {
  MadeRun run;
  const Made x = run.op("linear", {run.outside("data-0")});
  run.op("mul", {x});
  run.loss("mse_loss", {run.op_reading("relu", x, kNan, kNan)}, kNan);
  const FirstBad report = first_bad(run.catalog());
  ASSERT_THAT(report.findings, SizeIs(1));
  EXPECT_EQ(report.findings[0].kind, WrongKind::memory_overwritten);
  EXPECT_THAT(report.findings[0].why, HasSubstr("Default/linear-op0 wrote only finite numbers"));
  EXPECT_THAT(report.findings[0].evidence, Contains(HasSubstr("ran in between: Default/mul-op1")));
}

// The recorded input of an operator that works in place is then its own result.
TEST(FirstBad, BlamesNoWriterOfInputsThatWereReadAfterTheirOperator) {
  MadeRun run;
  const Made x = run.op("linear", {run.outside("data-0")});
  run.loss("mse_loss", {run.op_reading("log", x, kNan, kNan)}, kNan);
  EXPECT_EQ(first_bad(run.catalog()).findings.at(0).kind, WrongKind::memory_overwritten);
  run.rank().runs[0].settings.inputs_after = true;
  EXPECT_EQ(first_bad(run.catalog()).findings.at(0).kind, WrongKind::operator_);
}

TEST(FirstBad, KnowsThatOnlyOverflowsWereKeptInOneOfSeveralRuns) {
  MadeRun run;
  run.op("linear", {run.outside("data-0")});
  run.rank().runs.emplace_back();
  EXPECT_FALSE(first_bad(run.catalog()).only_overflows);
  run.rank().runs[1].settings.only_overflows = true;
  EXPECT_TRUE(first_bad(run.catalog()).only_overflows);
}

TEST(FirstBad, AsksForNoRereadWhereTheValuesExplainTheResult) {
  MadeRun run;
  const Made x = run.op("linear", {run.outside("data-0")});
  run.loss("mse_loss", {run.op("log", {x}, kNan)}, kNan);  // of a negative number
  run.rank().steps[0].ops[1].tensors[0].content = run.rank().steps[0].ops[0].tensors[1].content;
  EXPECT_THAT(first_bad(run.catalog()).findings.at(0).limits, testing::Not(Contains(HasSubstr("not read again"))));
}

TEST(FirstBad, AsksForNoRereadWhereItWasDone) {
  for (const bool reread : {false, true}) {
    MadeRun run;
    const Made x = run.op("linear", {run.outside("data-0")});
    run.loss("mse_loss", {run.op("custom", {x}, kNan)}, kNan);
    run.rank().steps[0].ops[1].tensors[0].content = run.rank().steps[0].ops[0].tensors[1].content;  // equal by identity
    run.rank().runs[0].settings.reread = reread;
    const FirstBad report = first_bad(run.catalog());
    ASSERT_THAT(report.findings, SizeIs(1));
    const auto asks = Contains(HasSubstr("\"reread\": true"));
    if (reread) {
      EXPECT_THAT(report.findings[0].limits, testing::Not(asks));
    } else {
      EXPECT_THAT(report.findings[0].limits, asks);
    }
  }
}

TEST(FirstBad, AnOpThatOnlyMovesNumbersIsNotBelieved) {
  MadeRun run;
  const Made x = run.op("linear", {run.outside("data-0")});
  run.loss("mse_loss", {run.op("relu", {x}, kNan)}, kNan);
  run.rank().steps[0].ops[1].tensors[0].content = run.rank().steps[0].ops[0].tensors[1].content;  // saved by identity
  const FirstBad report = first_bad(run.catalog());
  EXPECT_EQ(first_op(report), "Default/relu-op1");
  EXPECT_EQ(report.findings[0].kind, WrongKind::memory_overwritten);
  EXPECT_THAT(report.findings[0].limits, Contains(HasSubstr("not read again")));
}

TEST(FirstBad, ListsGoElementByElement) {
  MadeRun run;
  const Made good = run.op("mm", {run.outside("x")});
  const Made masked = run.op("full", {}, kMasked);
  run.op("_foreach_neg", {good, masked});  // two lists of one: the second result is missing
  EXPECT_THAT(first_bad(run.catalog()).findings, IsEmpty());
}

TEST(FirstBad, ReadsPastWhatIsOnlyOverwrittenOrMeasured) {
  MadeRun run;
  const Made garbage = run.op("empty", {}, kNan);
  run.op("fill_", {garbage});
  const Made bad = run.op("mul", {run.outside("x")}, kHuge);
  run.op("zeros_like", {bad});
  const FirstBad report = first_bad(run.catalog());
  EXPECT_THAT(report.findings, SizeIs(1)) << "an op that only uses the shape reads nothing";
  EXPECT_EQ(first_op(report), "Default/mul-op2");
}

TEST(FirstBad, WithoutEdgesEqualValuesStandInForThem) {
  MadeRun run;
  run.op("linear", {run.outside("x")});
  run.op("masked_fill", {run.outside("")}, kMasked);
  run.op("softmax", {run.outside("", kMasked)});
  run.op("log", {run.outside("")}, kNan);
  run.op("add", {run.outside("", kNan)}, kNan);
  const FirstBad report = first_bad(run.catalog());
  EXPECT_EQ(first_op(report), "Default/log-op3");
  EXPECT_THAT(report.notes, Contains(HasSubstr("records no complete data flow")));
  EXPECT_THAT(report.healthy, SizeIs(1));
}

TEST(FirstBad, NamesTheNormThatGrewFirst) {
  MadeRun run;
  for (int step = 0; step < 4; ++step) {
    if (step > 0) run.next_step();
    const double grown = step < 2 ? 1 : 50;
    const Made x = run.op("linear", {run.outside("x")});
    run.last_output().statistics->l2norm = 1;
    const Made y = run.op("mul", {x});
    run.last_output().statistics->l2norm = grown;
    const Bad bad = step == 3 ? kHuge : Bad();
    const Made z = run.op("exp", {y}, bad);
    run.last_input(0).statistics->max = step == 3 ? 90 : 1;
    run.loss("mse_loss", {z}, bad);
  }
  // Names are the same from step to step.
  for (CatalogStep& step : run.rank().steps) {
    for (std::size_t i = 0; i < step.ops.size(); ++i) step.ops[i].op_name = run.rank().steps[0].ops[i].op_name;
  }
  const FirstBad report = first_bad(run.catalog());
  ASSERT_TRUE(report.growth);
  EXPECT_EQ(report.growth->tensor.op_type, "mul");
  EXPECT_EQ(report.growth->step, 2U);
  EXPECT_EQ(report.growth->before, 1);
  EXPECT_EQ(report.growth->now, 50);
}

// The gradients of the first steps differ by much; and no log of a negative number follows from that.
std::optional<Growth> growth_to_a_log(const std::vector<double>& norms) {
  MadeRun run;
  for (const double& norm : norms) {
    if (&norm != norms.data()) run.next_step();
    const Bad bad = &norm == &norms.back() ? kNan : Bad();
    run.op("linear", {run.outside("x")});
    run.last_output().statistics->l2norm = norm;
    run.loss("mse_loss", {run.op("log", {run.outside("y")}, bad)}, bad);
  }
  for (CatalogStep& step : run.rank().steps) {
    for (std::size_t i = 0; i < step.ops.size(); ++i) step.ops[i].op_name = run.rank().steps[0].ops[i].op_name;
  }
  return first_bad(run.catalog()).growth;
}

TEST(FirstBad, ANormThatRoseOnceInTheFirstStepsLeadsToNothing) {
  EXPECT_FALSE(growth_to_a_log({0.03, 0.5, 0.6}));
  EXPECT_TRUE(growth_to_a_log({0.03, 0.5, 6})) << "it goes on";
  EXPECT_TRUE(growth_to_a_log({0.03, 0.02, 0.03, 0.02, 0.5, 0.6})) << "it was steady before";
}

void all_zero(MadeRun& run) { run.last_output().statistics->max = run.last_output().statistics->min = 0; }

// gradient / norm, where the norm is made by `power` and divides as `quotient` does.
FirstBad clipped_by(const std::string& power, const std::string& quotient, const std::string& product) {
  MadeRun run;
  run.loss("mse_loss", {run.op("linear", {run.outside("x")})});
  run.phase(Phase::backward);
  const Made gradient = run.op("mm", {run.outside("x")});
  run.phase(Phase::outside);
  const Made norm = run.op(power, {gradient}, kHuge);
  const Made factor = quotient.empty() ? norm : run.op(quotient, {norm});
  if (!quotient.empty()) all_zero(run);
  run.op(product, {gradient, factor});
  all_zero(run);
  return first_bad(run.catalog());
}

TEST(FirstBad, AnInfiniteNormThatMakesZerosOfGradientsMatters) {
  for (const char* power : {"norm",
                            "linalg_vector_norm",
                            "linalg_norm",
                            "linalg_matrix_norm",
                            "frobenius_norm",
                            "nuclear_norm",
                            "pow",
                            "square",
                            "mul",
                            "sum",
                            "mean",
                            "nansum",
                            "cumsum",
                            "prod",
                            "cumprod",
                            "add",
                            "addcmul",
                            "dot",
                            "vdot",
                            "inner",
                            "outer",
                            "mv",
                            "mm",
                            "bmm",
                            "addmm",
                            "addmv",
                            "baddbmm",
                            "matmul",
                            "linear",
                            "einsum",
                            "var",
                            "std",
                            "var_mean",
                            "std_mean",
                            "cdist",
                            "dist",
                            "pdist",
                            "mse_loss",
                            "trace",
                            "tensordot",
                            "_foreach_norm",
                            "_foreach_mul",
                            "LpNorm",
                            "ReduceSum",
                            "ReduceMean",
                            "Muls",
                            "SquareSumAll",
                            "_foreach_pow",
                            "power",
                            "multiply",
                            "index_add",
                            "scatter_add",
                            "AddN",
                            "nanmean"}) {
    const FirstBad report = clipped_by(power, "reciprocal", "mul");
    EXPECT_THAT(first_op(report), HasSubstr(power)) << power;
    EXPECT_EQ(report.reaches, "a gradient") << power;
  }
}

// Each rank's part fits its type, and their sum does not.
TEST(FirstBad, ASumOverTheRanksThatMakesZerosOfGradientsMatters) {
  for (const char* sum : {"allreduce_", "all_reduce", "reduce_scatter_tensor"}) {
    EXPECT_THAT(first_op(clipped_by(sum, "reciprocal", "mul")), HasSubstr(sum)) << sum;
  }
}

TEST(FirstBad, EveryQuotientMakesZerosOfAnInfinity) {
  for (const char* quotient : {"reciprocal", "Inv", "rsqrt", "pow", "Power", "_foreach_reciprocal", "_foreach_rsqrt"}) {
    EXPECT_EQ(first_op(clipped_by("norm", quotient, "mul")), "Default/norm-op3") << quotient;
  }
  for (const char* product : {"div", "divide", "true_divide", "RealDiv", "DivNoNan", "div_", "_foreach_div_"}) {
    EXPECT_EQ(first_op(clipped_by("norm", "", product)), "Default/norm-op3") << product;
  }
  for (const char* pole : {"exp", "div", "log", "rsqrt", "reciprocal", "expm1", "cosh"}) {
    EXPECT_THAT(clipped_by(pole, "reciprocal", "mul").findings, IsEmpty()) << pole << ": 1 / inf is 0 for good reasons";
  }
}

// A scaler halves its scale at each skip; a division by 0 stays infinite.
FirstBad skipped(const std::string& type, double divisor, std::size_t steps) {
  MadeRun run;
  for (std::size_t step = 0; step < steps; ++step) {
    if (step > 0) run.next_step();
    run.phase(Phase::forward);
    const Made loss = run.loss("mse_loss", {run.outside("x")});
    run.phase(Phase::backward);
    const Made gradient = run.op(type, {loss, run.op("relu", {run.outside("y")})}, kHuge);
    run.last_input(1).statistics->min = run.last_input(1).statistics->max = divisor;
    run.phase(Phase::outside);
    run.op("_amp_foreach_non_finite_check_and_unscale_", {gradient, run.outside("found_inf"), run.outside("inverse")},
           kHuge);
    run.last_input(2).shape = {};
    run.last_input(2).statistics->max = run.last_input(2).statistics->min =
        std::ldexp(1.0, static_cast<int>(step) - 16);
  }
  return first_bad(run.catalog());
}

TEST(FirstBad, NoScaleRemovesADivisionByZero) {
  EXPECT_THAT(first_op(skipped("div", 0, 1)), HasSubstr("div"));
  EXPECT_THAT(skipped("div", 2, 1).findings, IsEmpty());
}

TEST(FirstBad, AGradientThatAStageSendsMayOverflowWhereTheScalerSkips) {
  MadeRun run;
  const Made loss = run.loss("mse_loss", {run.outside("x")});
  run.phase(Phase::backward);
  const Made gradient = run.op("mul", {loss, run.op("relu", {run.outside("y")})}, kHuge);
  run.phase(Phase::outside);
  run.op("send", {gradient}, kHuge);
  run.op("_amp_foreach_non_finite_check_and_unscale_", {gradient, run.outside("found_inf"), run.outside("inverse")},
         kHuge);
  const FirstBad report = first_bad(run.catalog());
  EXPECT_THAT(report.findings, IsEmpty());
  EXPECT_THAT(report.expected, SizeIs(1));
}

TEST(FirstBad, AScalerThatSkipsEveryStepIsStuck) {
  EXPECT_THAT(skipped("custom_backward", 1, 5).findings, IsEmpty()) << "it begins too high, on purpose";
  EXPECT_THAT(skipped("custom_backward", 1, 5).expected, SizeIs(5));
  const FirstBad report = skipped("custom_backward", 1, 9);
  ASSERT_THAT(report.findings, SizeIs(1));
  EXPECT_EQ(report.findings[0].step, 6U) << "the scale is 1024";
  EXPECT_THAT(report.findings[0].tags, Contains("uncertain"));
}

TEST(FirstBad, ARecordingThatAnErrorStoppedIsNotComplete) {
  MadeRun run;
  run.op("linear", {run.outside("x")});
  run.rank().runs[0].finished = true;
  EXPECT_TRUE(first_bad(run.catalog()).complete);
  run.rank().runs[0].error = "cannot write 'x': no space left on device";
  const FirstBad report = first_bad(run.catalog());
  EXPECT_FALSE(report.complete);
  ASSERT_THAT(report.unfinished, SizeIs(1));
  EXPECT_THAT(report.unfinished[0].reason, HasSubstr("no space"));
}

// The bounds of docs/first-bad.md, "What statistics decide".
TEST(FirstBad, ABoundIsCalledABound) {
  const auto of = [](const std::string& type, double a, double b_min, double b_max) {
    MadeRun run;
    run.loss("mse_loss", {run.op(type, {run.outside("x"), run.outside("y")}, kHuge)}, kHuge);
    CatalogOp& op = run.rank().steps[0].ops[0];
    op.tensors[0].statistics->max = a;
    op.tensors[1].statistics->max = b_max;
    op.tensors[1].statistics->min = b_min;
    return first_bad(run.catalog()).findings.at(0);
  };
  const auto named = [](const std::string& name) { return Contains(testing::Field(&NamedValue<double>::name, name)); };
  for (const Finding& bound : {of("mul", 1e20, -1, 1e20), of("add", 3e38, -1, 3e38), of("sub", 3e38, -3e38, 1),
                               of("matmul", 1e20, -1, 1e20), of("mse_loss", 1e20, -1e20, 1)}) {
    EXPECT_THAT(bound.numbers, named("at most")) << bound.tensor.op_type;
    EXPECT_THAT(bound.numbers, testing::Not(named("true value"))) << bound.tensor.op_type;
    EXPECT_EQ(bound.kind, WrongKind::overflow) << bound.tensor.op_type;
  }
  EXPECT_THAT(of("mul", 1e20, 1e20, 1e20).numbers, named("true value")) << "by one number";
}

TEST(FirstBad, CollectivesOfEveryName) {
  for (const char* name : {"all_gather_into_tensor",
                           "all_gather_into_tensor_coalesced",
                           "all_gather_into_tensor_out",
                           "all_reduce",
                           "all_reduce_",
                           "all_reduce_coalesced",
                           "all_reduce_coalesced_",
                           "all_to_all_single",
                           "batch_p2p_ops",
                           "broadcast_",
                           "irecv",
                           "isend",
                           "reduce_scatter_tensor",
                           "reduce_scatter_tensor_coalesced",
                           "reduce_scatter_tensor_out",
                           "wait_tensor",
                           "_allgather_base_",
                           "_reduce_scatter_base_",
                           "allgather_",
                           "allgather_coalesced_",
                           "allgather_into_tensor_coalesced_",
                           "allreduce_",
                           "allreduce_coalesced_",
                           "alltoall_",
                           "alltoall_base_",
                           "barrier",
                           "gather_",
                           "monitored_barrier_",
                           "recv_",
                           "recv_any_source_",
                           "reduce_",
                           "reduce_scatter_",
                           "reduce_scatter_tensor_coalesced_",
                           "scatter_",
                           "send",
                           "c10d::scatter_"}) {
    MadeRun run;
    run.op(name, {run.outside("x"), run.outside("y")}, kNan);
    EXPECT_TRUE(nature_of(run.rank().steps[0].ops[0]).collective) << name;
  }
  MadeRun run;  // scatter_ of one tensor, by an index
  run.op("scatter_", {run.outside("x"), run.outside("index"), run.outside("y")});
  run.last_input(1).dtype = DType::int64;
  EXPECT_FALSE(nature_of(run.rank().steps[0].ops[0]).collective);
  EXPECT_FALSE(nature_of("scatter").collective);
  EXPECT_FALSE(nature_of("gather").collective);
}

// The second moments of Adam begin at zero.
TEST(FirstBad, NoStateOfAnOptimizerGrewFirst) {
  MadeRun run;
  for (int step = 0; step < 4; ++step) {
    if (step > 0) run.next_step();
    const Bad bad = step == 3 ? kHuge : Bad();
    run.loss("mse_loss", {run.op("exp", {run.outside("x")}, bad)}, bad);
    run.phase(Phase::optimizer);
    run.op("addcmul_", {run.outside("exp_avg_sq.weight")});
    run.last_output().statistics->l2norm = step == 0 ? 1e-6 : step;
    run.phase(Phase::forward);
  }
  for (CatalogStep& step : run.rank().steps) {
    for (std::size_t i = 0; i < step.ops.size(); ++i) step.ops[i].op_name = run.rank().steps[0].ops[i].op_name;
    step.ops[2].op_name = "Default/optimizer-Adam/addcmul_-op0";
  }
  EXPECT_FALSE(first_bad(run.catalog()).growth);
}

TEST(FirstBad, AStepBeforeHundredsOfOthersIsNoMeasureOfGrowth) {
  MadeRun run;
  for (int step = 0; step < 40; ++step) {
    if (step > 0) run.next_step();
    const Bad bad = step == 39 ? kHuge : Bad();
    const Made y = run.op("linear", {run.outside("x")});
    run.last_output().statistics->l2norm = step == 0 ? 0.01 : 1;  // the first update makes it what it is
    run.loss("mse_loss", {run.op("exp", {y}, bad)}, bad);
  }
  for (CatalogStep& step : run.rank().steps) {
    for (std::size_t i = 0; i < step.ops.size(); ++i) step.ops[i].op_name = run.rank().steps[0].ops[i].op_name;
  }
  EXPECT_FALSE(first_bad(run.catalog()).growth);
}

TEST(FirstBad, EachRankHasAFindingOfItsOwn) {
  const auto train = [](MadeRun& run, const std::string& op, Bad made, std::uint32_t rank) {
    const Made x = run.op(op, {run.outside("x")}, made);
    run.loss("mse_loss", {run.op("allreduce_", {x}, kNan)}, kNan);
    run.rank().rank = rank;
  };
  MadeRun log, div, victim;
  train(log, "log", kNan, 0);
  train(div, "div", kNan, 1);
  train(victim, "exp", {}, 2);
  log.catalog().ranks.push_back(std::move(div.rank()));
  log.catalog().ranks.push_back(std::move(victim.rank()));
  const FirstBad report = first_bad(log.catalog());
  ASSERT_THAT(report.by_rank, SizeIs(2)) << "rank 2 only received them";
  EXPECT_EQ(report.by_rank[0].tensor.op_name, first_op(report));
  EXPECT_EQ(report.by_rank[1].tensor.op_name, "Default/div-op0");
  EXPECT_EQ(report.by_rank[1].rank, 1U);
}

TEST(FirstBad, OfRanksTheOneThatGaveACollectiveSomethingBad) {
  MadeRun good, bad;
  const auto train = [](MadeRun& run, Bad made) {
    const Made x = run.op("log", {run.outside("x")}, made);
    const Made sum = run.op("allreduce_", {x}, kNan);
    run.loss("mse_loss", {sum}, kNan);
  };
  train(good, {});
  train(bad, kNan);
  bad.rank().rank = 1;
  good.catalog().ranks.push_back(std::move(bad.rank()));
  const FirstBad report = first_bad(good.catalog());
  ASSERT_FALSE(report.findings.empty());
  EXPECT_EQ(report.findings[0].rank, 1U);
  EXPECT_EQ(first_op(report), "Default/log-op0");
  EXPECT_THAT(report.findings[0].tags, Contains("one_rank_only"));
  EXPECT_THAT(report.findings[0].evidence, Contains(HasSubstr("allreduce_-op1 spread it to rank 0")));
}

// The rank with the bad value was recorded from a later call on: the order in the step would join the wrong calls.
TEST(FirstBad, NumbersOfCallsSayWhichMeet) {
  const std::vector<Attribute> called = {{"called_by", AttributeKind::text, {}, {}, "DDP bucket 1: fc.weight"}};
  MadeRun good, bad;
  const auto sum = [&](MadeRun& run, std::uint64_t number, Bad given, Bad got) {
    const Made made = run.op("allreduce_", {run.op("log", {run.outside("x")}, given)}, got);
    CatalogOp& op = run.rank().steps.back().ops.back();
    op.call_number = number;
    op.attributes = &called;
    return made;
  };
  sum(good, 7, {}, {});
  good.loss("mse_loss", {sum(good, 8, {}, kNan)}, kNan);
  bad.loss("mse_loss", {sum(bad, 8, kNan, kNan)}, kNan);
  bad.rank().rank = 1;
  good.catalog().ranks.push_back(std::move(bad.rank()));
  const FirstBad report = first_bad(good.catalog());
  ASSERT_FALSE(report.findings.empty());
  EXPECT_EQ(report.findings[0].rank, 1U);
  EXPECT_THAT(report.findings[0].evidence,
              Contains(HasSubstr("allreduce_-op1 (DDP bucket 1: fc.weight) spread it to rank 0")));
}

// A pipeline's second stage receives the first micro-batch of a step before its forward pass begins: in the step before.
TEST(FirstBad, AReceiveIsMetByItsSendInWhateverStep) {
  const std::vector<Attribute> to = {{"dst", AttributeKind::integer, {1}, {}, ""}};
  const std::vector<Attribute> from = {{"src", AttributeKind::integer, {0}, {}, ""}};
  const std::vector<Attribute> elsewhere = {{"src", AttributeKind::integer, {0}, {}, ""},
                                            {"tag", AttributeKind::integer, {7}, {}, ""}};
  MadeRun first, second;
  const auto pass_on = [](MadeRun& run, const char* type, const std::vector<Made>& inputs, Bad bad,
                          const std::vector<Attribute>& attributes) {
    const Made made = run.op(type, inputs, bad);
    run.rank().steps.back().ops.back().attributes = &attributes;
    return made;
  };
  pass_on(first, "send", {first.op("log", {first.outside("x")})}, {}, to);
  first.next_step();
  pass_on(first, "send", {first.op("log", {first.outside("x")}, kNan)}, kNan, to);

  pass_on(second, "recv_", {second.outside("buffer")}, {}, elsewhere);
  second.loss("mse_loss", {pass_on(second, "recv_", {second.outside("buffer")}, {}, from)});
  const Made early = pass_on(second, "recv_", {second.outside("buffer")}, kNan, from);
  second.next_step();
  second.loss("mse_loss", {early}, kNan);
  second.rank().rank = 1;
  first.catalog().ranks.push_back(std::move(second.rank()));
  const FirstBad report = first_bad(first.catalog());
  ASSERT_FALSE(report.findings.empty());
  EXPECT_EQ(report.findings[0].rank, 0U);
  EXPECT_EQ(report.findings[0].step, 1U);
  EXPECT_EQ(first_op(report), "Default/log-op2");
  EXPECT_THAT(report.findings[0].evidence, Contains("Default/send-op3 sent it to rank 1"));
  EXPECT_THAT(report.by_rank, SizeIs(1)) << "rank 1 only received them";
}

// The stage's backward needs the input of its last op alone: on that rank nothing else reads the result.
TEST(FirstBad, WhatAStageSendsIsNoAsideOfItsTraining) {
  const std::vector<Attribute> to = {{"dst", AttributeKind::integer, {1}, {}, ""}};
  for (const char* type : {"send", "isend"}) {
    MadeRun run;
    const Made x = run.op("linear", {run.outside("x")});
    run.op(type, {run.op("detach", {run.op("log", {x}, kNan)}, kNan)}, kNan);
    run.rank().steps.back().ops.back().attributes = &to;
    run.loss("mse_loss", {x});
    const Made gradient = run.op("recv_", {run.outside("buffer")}, kNan);
    run.phase(Phase::backward);
    run.op("mm", {gradient}, kNan);
    const FirstBad report = first_bad(run.catalog());
    ASSERT_FALSE(report.findings.empty()) << type;
    EXPECT_EQ(report.findings[0].op_type, "log");
    EXPECT_THAT(report.asides, IsEmpty());
  }
}

TEST(FirstBad, WritesAConfigurationForTheStepBeforeAndTheStep) {
  MadeRun run;
  run.next_step();
  const Made x = run.op("linear", {run.outside("x")});
  run.loss("mse_loss", {run.op("log", {x}, kNan)}, kNan);
  const FirstBad report = first_bad(run.catalog());
  const std::string json = next_config(run.catalog(), report);
  EXPECT_THAT(json, HasSubstr("\"iteration\": \"0|1\""));
  EXPECT_THAT(json, HasSubstr("Default/linear-op0"));
  EXPECT_THAT(json, HasSubstr("Default/log-op1"));
  EXPECT_EQ(next_config(run.catalog(), FirstBad()), "");
}

// A convolution with these files and attributes; padding {0}, stride {1} unless they contain others.
FirstBad of_convolution(const std::string& bias_shape, const std::vector<Attribute>& given) {
  const TemporaryDirectory files;
  files.write("x.npy", npy("<f4", "(1, 1, 4)", bytes_of({1, 1, 1, 1})));
  files.write("w.npy", npy("<f4", "(1, 1, 1)", bytes_of({1})));
  files.write("bias.npy", npy("<f4", bias_shape, bytes_of({1})));
  files.write("y.npy", npy("<f4", "(1, 1, 4)", bytes_of({1, 1, 1, std::numeric_limits<float>::quiet_NaN()})));
  std::vector<Attribute> attributes = given;
  attributes.push_back({"stride", AttributeKind::integers, {1}, {}, ""});
  attributes.push_back({"padding", AttributeKind::integers, {0}, {}, ""});
  MadeRun run;
  run.op("conv1d", {run.outside("x"), run.outside("w"), run.outside("bias")}, kNan);
  run.rank().directory = files.path();
  run.last_input(0).file = "x.npy";
  run.last_input(1).file = "w.npy";
  run.last_input(2).file = "bias.npy";
  run.last_output().file = "y.npy";
  run.rank().steps.back().ops.back().attributes = &attributes;
  return first_bad(run.catalog());
}

TEST(FirstBad, AConvolutionIsComputedAgain) {
  const FirstBad report = of_convolution("(1,)", {});
  ASSERT_THAT(report.findings, SizeIs(1));
  EXPECT_THAT(report.findings[0].why, HasSubstr("the sum of 1 products at [0,0,3], with the bias, is 2"));
}

// Under sanitizers: numbers beyond every integer, and a place outside the file.
TEST(FirstBad, AConvolutionWhoseFilesContradictItHasAnAnswer) {
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
  const std::vector<Attribute> damaged = {{"groups", AttributeKind::real, {}, {1e300}, ""},
                                          {"groups", AttributeKind::real, {}, {std::nan("")}, ""},
                                          {"groups", AttributeKind::integer, {kLeast}, {}, ""},
                                          {"stride", AttributeKind::integers, {kLeast}, {}, ""},
                                          {"padding", AttributeKind::integers, {kLeast}, {}, ""}};
  for (const Attribute& attribute : damaged) {
    EXPECT_THAT(of_convolution("(1,)", {attribute}).findings, SizeIs(1)) << text_of(attribute);
  }
  EXPECT_THAT(of_convolution("(1, 1)", {}).findings, SizeIs(1));
}

TEST(Stomp, NamesTheOpsBetweenWhichATensorChanged) {
  MadeRun run;
  const Made x = run.op("linear", {run.outside("x")});
  run.op("mul", {x});
  run.op("sigmoid", {x});
  run.last_input(0).statistics->max = 50;
  const StompReport report = memory_stomp(run.catalog());
  ASSERT_THAT(report.findings, SizeIs(1));
  EXPECT_EQ(report.compared, 2U);
  EXPECT_EQ(report.findings[0].tensor.op_name, "Default/linear-op0");
  EXPECT_THAT(report.findings[0].why, HasSubstr("changed between Default/mul-op1 and Default/sigmoid-op2"));
  EXPECT_THAT(report.findings[0].evidence, Contains(HasSubstr("max was 1 and became 50")));
}

TEST(Stomp, AReadThatWasSavedIsNotObservable) {
  MadeRun run;
  const Made x = run.op("linear", {run.outside("x")});
  const std::uint64_t content = run.last_output().content;
  run.op("mul", {x});
  run.last_input(0).content = content;
  const StompReport report = memory_stomp(run.catalog());
  EXPECT_THAT(report.findings, IsEmpty());
  EXPECT_EQ(report.not_observable, 1U);
  EXPECT_EQ(report.compared, 0U);
}

TEST(Stomp, AViewOfMemoryThatAnotherViewWroteIsNotCompared) {
  MadeRun run;
  const Made x = run.op("linear", {run.outside("x")});
  const Made left = run.op("narrow", {x});
  const Made written = run.op("mul_", {left});
  run.op("add", {written});  // it reads the other half: the same shape, and the same memory wrote it last
  run.last_input(0).statistics->max = 0.5;
  EXPECT_THAT(memory_stomp(run.catalog()).findings, SizeIs(0));
}

TEST(FirstBad, PartsOfABucketHaveACauseEach) {
  MadeRun run;
  const Made loss = run.loss("mse_loss", {run.outside("x")});
  run.phase(Phase::backward);
  const Made huge = run.op("exp", {loss}, kHuge);
  const Made bad = run.op("log", {loss}, kNan);
  const Made bucket = run.op("empty", {});
  run.last_output().shape = {64};
  const Made first = run.op("copy_", {bucket, huge}, kHuge);
  const Made second = run.op("copy_", {first, bad}, kNan);
  run.op("allreduce_", {second}, {.nan = 2, .positive_inf = 1});
  run.last_output().shape = run.last_input(0).shape = {64};
  run.last_input(0).statistics = run.last_output().statistics;
  const FirstBad report = first_bad(run.catalog());
  std::vector<std::string> types;
  for (const Finding& finding : report.findings) types.emplace_back(finding.tensor.op_type);
  EXPECT_THAT(types, ElementsAre("exp", "log"));
}

TEST(FirstBad, ANumberThatIsOnlyPrintedBesideATrainingIsAside) {
  MadeRun run;
  const Made y = run.op("linear", {run.outside("x")});
  run.loss("mse_loss", {y});
  const Made ratio = run.loss("div", {run.outside("count")}, kNan);
  run.op("item", {ratio});
  run.phase(Phase::backward);
  run.op("mm", {y});
  const FirstBad report = first_bad(run.catalog());
  EXPECT_THAT(report.findings, IsEmpty());
  ASSERT_THAT(report.asides, SizeIs(1));
  EXPECT_EQ(report.asides[0].tensor.op_name, "Default/div-op2");
}

TEST(FirstBad, TheSearchGoesOnBehindANumberThatIsOnlyPrinted) {
  MadeRun run;
  const Made y = run.op("linear", {run.outside("x")});
  run.loss("div", {run.outside("count")}, kNan);
  run.phase(Phase::backward);
  run.op("mm", {y});
  run.next_step();
  run.phase(Phase::forward);
  run.loss("mse_loss", {run.op("log", {run.outside("x")}, kNan)}, kNan);
  const FirstBad report = first_bad(run.catalog());
  ASSERT_THAT(report.findings, SizeIs(1));
  EXPECT_EQ(report.findings[0].tensor.op_type, "log");
  EXPECT_EQ(report.findings[0].step, 1U);
}

TEST(FirstBad, ALossThatOnlyItsGuardReadsMatters) {
  MadeRun run;
  const Made loss = run.loss("mean", {run.op("sqrt", {run.outside("x")}, kNan)}, kNan);
  run.op("isnan", {loss});
  run.last_output().dtype = DType::bool8;
  const FirstBad report = first_bad(run.catalog());
  EXPECT_EQ(first_op(report), "Default/sqrt-op0");
  EXPECT_EQ(report.reaches, "the loss");
}

TEST(FirstBad, AMaskThatIsMultipliedUnderAnotherNameIsToBlameWhereItWasWritten) {
  MadeRun run;
  const Made h = run.op("linear", {run.outside("x")});
  const Made masked = run.op("masked_fill_", {h}, kMasked);
  run.loss("mse_loss", {run.op("linear", {masked}, kNan)}, kNan);
  const FirstBad report = first_bad(run.catalog());
  EXPECT_EQ(first_op(report), "Default/masked_fill_-op1");
  EXPECT_THAT(report.findings[0].why, HasSubstr("where an infinity is not a mask"));
}

TEST(FirstBad, WhatIsNamedFirstIsNotListedAsHealthyToo) {
  MadeRun run;
  const Made both = run.op("div", {run.outside("x")}, {.nan = 1, .positive_inf = 2});
  run.loss("mse_loss", {run.op("mm", {both}, kNan)}, kNan);
  const FirstBad report = first_bad(run.catalog());
  EXPECT_EQ(first_op(report), "Default/div-op0");
  EXPECT_THAT(report.healthy, IsEmpty());
}

TEST(FirstBad, OfMemoryThatNobodyWroteTheOpThatGaveItIsNamed) {
  MadeRun run;
  const Made memory = run.op("empty");
  const Made sum = run.op("add", {run.outside("x"), memory}, kNan);
  CatalogTensor& read = run.last_input(1);
  read.statistics.reset();
  read.skipped = std::string_view("uninitialised memory");
  run.rank().steps[0].ops[0].tensors[0].statistics.reset();
  run.loss("mse_loss", {sum}, kNan);
  const FirstBad report = first_bad(run.catalog());
  EXPECT_EQ(first_op(report), "Default/empty-op0");
  EXPECT_EQ(report.findings[0].kind, WrongKind::bad_input);
  EXPECT_THAT(report.findings[0].evidence, Contains(HasSubstr("first read by Default/add-op1")));
}

TEST(FirstBad, DropoutThatScalesBeyondItsTypeIsNoOverwrittenMemory) {
  MadeRun run;
  run.loss("mse_loss", {run.op("dropout", {run.outside("x")}, kHuge)}, kNan);
  EXPECT_EQ(first_bad(run.catalog()).findings[0].kind, WrongKind::operator_);
}

TEST(FirstBad, WhatCouldNotBeReadIsAProblem) {
  MadeRun run;
  run.loss("mse_loss", {run.op("log", {run.outside("x")})});
  CatalogTensor& output = run.rank().steps[0].ops[0].tensors[1];
  output.statistics.reset();
  output.file = "nothing.npy";
  EXPECT_THAT(first_bad(run.catalog()).problems, SizeIs(1));
}

}  // namespace
}  // namespace sonde
