// The part of a difference that rounding explains, where the inputs of both runs are some per cent apart.
#include "ask/unsharded/explained_error.h"

#include <gtest/gtest.h>

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
