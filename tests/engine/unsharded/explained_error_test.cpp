// The part of a difference that rounding explains, where the inputs of both runs are some per cent apart.
#include "ask/unsharded/explained_error.h"

#include "unsharded/joined_steps.h"

namespace sonde {
namespace {

TensorDifference apart(const Dims& shape, double rms, double error) {
  TensorDifference difference;
  difference.by = ComparedBy::values;
  difference.dtype = difference.golden_dtype = DType::float16;
  difference.shape = difference.golden_shape = shape;
  difference.rms = difference.deviation = rms;
  difference.max_size = 4 * rms;
  difference.rms_error = error;
  difference.max_error = 4 * error;
  return difference;
}

ReadBeside read_at(std::uint32_t slot, const Dims& shape, double rms, double error) {
  ReadBeside read;
  read.slot = slot;
  read.joined.possible = read.joined.fits = true;
  read.joined.difference = apart(shape, rms, error);
  return read;
}

// An op with one result.
class Op {
 public:
  Op(std::string_view type, const Dims& shape) {
    of_catalog_.op_type = type;
    result_.has_shape = true;
    result_.shape = shape;
    op_.op = &of_catalog_;
    op_.outputs.push_back(&result_);
  }
  std::optional<double> explained(OpKind kind, bool is_backward, const TensorDifference& result,
                                  const std::vector<ReadBeside>& inputs) const {
    return explained_error({op_, of_catalog_.op_type, kind, is_backward}, 0, result, inputs, 0, {});
  }

 private:
  CatalogOp of_catalog_;
  CatalogTensor result_;
  CompareOp op_;
};

TEST(ExplainedError, GradientsOfANormsWeightAreSumsOfRowsThatMayCancel) {
  const Op op("native_layer_norm_backward", {64});
  const std::vector<ReadBeside> inputs = {read_at(0, {12, 16, 64}, 3e-5, 1e-6), read_at(1, {12, 16, 64}, 4.4, 0.07)};
  const TensorDifference gradient = apart({64}, 1e-3, 1e-4), far = apart({64}, 1e-3, 1e-2);
  EXPECT_TRUE(op.explained(OpKind::normalization, true, gradient, inputs));
  EXPECT_FALSE(op.explained(OpKind::normalization, true, far, inputs));
  EXPECT_FALSE(op.explained(OpKind::normalization, false, gradient, inputs));  // means and deviations of rows
}

TEST(ExplainedError, WhatOneWeightIsApartIsInAllRowsOfAProduct) {
  const Op linear("linear", {192, 64});
  const std::vector<ReadBeside> inputs = {read_at(0, {192, 256}, 1, 1e-3), read_at(1, {64, 256}, 0.05, 1e-3)};
  EXPECT_TRUE(linear.explained(OpKind::contraction, false, apart({192, 64}, 1, 0.02), inputs));
  EXPECT_FALSE(linear.explained(OpKind::copy, false, apart({192, 64}, 1, 0.02), inputs));
}

TEST(ExplainedError, RoundingOpensAndClosesGatesOfTheBackwardPass) {
  const Op gate("threshold_backward", {64, 64});
  const std::vector<ReadBeside> inputs = {read_at(0, {64, 64}, 1, 1e-3), read_at(1, {64, 64}, 1, 1e-3)};
  EXPECT_TRUE(gate.explained(OpKind::selection, true, apart({64, 64}, 1, 0.1), inputs));
  EXPECT_FALSE(gate.explained(OpKind::selection, true, apart({64, 64}, 1, 0.5), inputs));  // another function's
  EXPECT_FALSE(gate.explained(OpKind::selection, false, apart({64, 64}, 1, 0.1), inputs));
}

TEST(ExplainedError, ADerivativeIsApartByAFewTimesAsMuchAsItsInputs) {
  const Op derivative("silu_backward", {64, 64});
  const std::vector<ReadBeside> inputs = {read_at(0, {64, 64}, 1, 0.02), read_at(1, {64, 64}, 1, 0.02)};
  EXPECT_TRUE(derivative.explained(OpKind::other, true, apart({64, 64}, 1, 0.07), inputs));
  EXPECT_FALSE(derivative.explained(OpKind::other, true, apart({64, 64}, 1, 0.2), inputs));
  EXPECT_FALSE(derivative.explained(OpKind::other, false, apart({64, 64}, 1, 0.07), inputs));
}

// A gradient, and the optimizer's op that reads it. `error`: relative, of the gradient on the ranks.
class GradientAndUpdate {
 public:
  GradientAndUpdate(float error, Phase reader) {
    const Values gradient = numbers(64, 1);
    Values own = gradient;
    for (std::size_t i = 0; i < own.size(); ++i) own[i] *= 1 + (i % 2 == 0 ? error : -error);
    add(steps_.golden(), gradient, reader);
    add(steps_.rank(0), own, reader);
    add(steps_.rank(1), own, reader);
  }

  // As if the optimizer read gradients that are so far apart, relatively.
  bool is_apart_as_made(double relative) {
    const WholeStep& step = steps_.joined();
    ReadBeside read = read_at(0, {8, 8}, 1, relative);
    read.joined.fits = false;
    return sonde::is_apart_as_made(step, 1, step.golden().ops[1].inputs.front(), read.joined);
  }

 private:
  static void add(Program& program, const Values& gradient, Phase reader) {
    const Program::Ref made = program.add("mm", {}, gradient, "(8,8)", "Gradients/Default/net");
    program.last().phase = Phase::backward;
    program.add("mul", {made}, gradient, "(8,8)", reader == Phase::optimizer ? "Default/optimizer-SGD" : "Default/net");
    program.last().phase = reader;
  }

  JoinedSteps steps_;
};

TEST(ExplainedError, TheOptimizerMayReadGradientsAsFarApartAsTheBackwardPassHasLeftThem) {
  GradientAndUpdate near(4e-6F, Phase::optimizer), far(0.1F, Phase::optimizer), forward(4e-6F, Phase::forward);
  EXPECT_TRUE(near.is_apart_as_made(3e-6));
  EXPECT_FALSE(near.is_apart_as_made(1e-5));
  EXPECT_FALSE(far.is_apart_as_made(3e-6));  // their own op made the difference
  EXPECT_FALSE(forward.is_apart_as_made(3e-6));
}

// Two runs' noise is about as large as their difference shows, if that is of many elements.
TEST(ExplainedError, OfManyElementsNoMoreIsExplainedThanTheirDifferenceShows) {
  const Op cast("to", {512});
  const std::vector<ReadBeside> inputs = {read_at(0, {512}, 1, 0.1)};
  TensorDifference difference = apart({512}, 1, 0.01);
  difference.count = 512;
  EXPECT_DOUBLE_EQ(cast.explained(OpKind::cast, false, difference, inputs).value(), 0.01);
  difference.count = 8;
  EXPECT_GT(cast.explained(OpKind::cast, false, difference, inputs).value(), 0.1);
}

TEST(ExplainedError, StatisticsOfWhatDriftedApartDriftInANormToo) {
  const Op norm("layer_norm", {64, 64});
  const auto by_statistics = [](double error) {
    ReadBeside read = read_at(0, {64, 64}, 1, error);
    read.joined.difference.by = ComparedBy::statistics;
    return read;
  };
  const TensorDifference near = by_statistics(3e-3).joined.difference, far = by_statistics(2e-2).joined.difference;
  EXPECT_TRUE(norm.explained(OpKind::normalization, false, near, {by_statistics(2e-3)}));
  EXPECT_FALSE(norm.explained(OpKind::normalization, false, far, {by_statistics(2e-3)}));
}

}  // namespace
}  // namespace sonde
