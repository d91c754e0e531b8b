// Tolerances: an error just below what docs/compare.md allows is rounding, one just above it is not.
#include "ask/compare/tolerance.h"

#include <gtest/gtest.h>

#include <cmath>

namespace sonde {
namespace {

constexpr double kFloat32 = 0x1p-23, kFloat16 = 0x1p-10, kBFloat16 = 0x1p-7, kFloat64 = 0x1p-52;

struct Case {
  std::string name;
  std::string op_type;
  DType dtype = DType::float32, golden_dtype = DType::float32;
  std::vector<std::int64_t> input, other, output;  // shapes; other may be empty
  double bound = 0;                                // allowed root mean square, in units of the golden output's
};

// Values of rms 1 and deviation 1, of which the largest is 4.
TensorDifference of_shape(const std::vector<std::int64_t>& shape, DType dtype, DType golden_dtype) {
  TensorDifference difference;
  difference.by = ComparedBy::values;
  difference.equal = true;
  difference.shape = difference.golden_shape = shape;
  difference.dtype = dtype;
  difference.golden_dtype = golden_dtype;
  difference.rms = difference.deviation = 1;
  difference.max_size = 4;
  return difference;
}

Allowance allowed(const Case& one, const TensorDifference& output, double input_error = 0) {
  std::vector<TensorDifference> read = {of_shape(one.input, one.dtype, one.golden_dtype)};
  if (!one.other.empty()) read.push_back(of_shape(one.other, one.dtype, one.golden_dtype));
  read[0].equal = input_error == 0;
  read[0].rms_error = input_error;
  read[0].max_error = 4 * input_error;
  std::vector<InputError> inputs;
  for (std::uint32_t slot = 0; slot < read.size(); ++slot) inputs.push_back({&read[slot], slot});
  return allowance_of(one.op_type, kind_of(one.op_type), 0, output, inputs, 0, {});
}

bool is_found(const Case& one, double rms_error, double max_error) {
  TensorDifference output = of_shape(one.output, one.dtype, one.golden_dtype);
  output.equal = false;
  output.rms_error = rms_error;
  output.max_error = max_error;
  return is_beyond(output, allowed(one, output).total());
}

class Tolerance : public testing::TestWithParam<Case> {};

TEST_P(Tolerance, AnErrorJustBelowItIsRoundingAndOneJustAboveItIsNot) {
  const Case& one = GetParam();
  EXPECT_FALSE(is_found(one, 0.98 * one.bound, 0.98 * one.bound));
  EXPECT_TRUE(is_found(one, 1.02 * one.bound, 1.02 * one.bound));
}

TEST_P(Tolerance, TheLargestErrorMayBeEightTimesAsLargeAndAsMuchMoreAsTheLargestElement) {
  const Case& one = GetParam();
  const double largest = 8 * 4 * one.bound;
  EXPECT_FALSE(is_found(one, 0.5 * one.bound, 0.98 * largest));
  EXPECT_TRUE(is_found(one, 0.5 * one.bound, 1.02 * largest));
}

const std::vector<std::int64_t> kRow = {64}, kMatrix = {32, 64}, kOther = {64, 16}, kProduct = {32, 16};

std::vector<Case> cases() {
  std::vector<Case> all;
  const auto add = [&](std::string name, std::string type, DType dtype, const std::vector<std::int64_t>& in,
                       const std::vector<std::int64_t>& other, const std::vector<std::int64_t>& out, double bound) {
    all.push_back({std::move(name), std::move(type), dtype, dtype, in, other, out, bound});
  };
  // Four times what docs/compare.md, "How much may differ", has for each kind.
  const struct {
    std::string name;
    DType dtype;
    double u;
  } types[] = {{"float32", DType::float32, kFloat32},
               {"float16", DType::float16, kFloat16},
               {"bfloat16", DType::bfloat16, kBFloat16},
               {"float64", DType::float64, kFloat64}};
  for (const auto& [name, dtype, u] : types) {
    const double w = std::min(u, kFloat32);
    add(name + "_cast", "_to_copy", dtype, kRow, {}, kRow, 4 * u);
    add(name + "_elementwise", "add", dtype, kRow, kRow, kRow, 4 * 2 * u);
    add(name + "_product", "mul", dtype, kRow, kRow, kRow, 4 * 2 * u);
    add(name + "_function", "exp", dtype, kRow, {}, kRow, 4 * 8 * u);
    add(name + "_matmul", "mm", dtype, kMatrix, kOther, kProduct, 4 * (w * 8 * 8 + u));
    add(name + "_sum", "sum", dtype, kMatrix, {}, {32}, 4 * (w * 8 * 8 + u));
    add(name + "_mean", "mean", dtype, kMatrix, {}, {32}, 4 * (w * 8 + u));
    add(name + "_norm", "layer_norm", dtype, kMatrix, {}, kMatrix, 4 * (w * (2 + std::pow(64, 0.25)) + u));
    add(name + "_unknown", "my_own_kernel", dtype, kRow, {}, kRow, 4 * 16 * u);
  }
  all.push_back({"copy_of_another_type", "view", DType::float16, DType::float32, kRow, {}, kRow, 4 * kFloat16});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Kinds, Tolerance, testing::ValuesIn(cases()),
                         [](const testing::TestParamInfo<Case>& one) { return one.param.name; });

TEST(Tolerance, WhatMovesElementsAddsNothing) {
  const Case view = {"view", "view", DType::float32, DType::float32, kRow, {}, kRow, 0};
  EXPECT_TRUE(is_found(view, 1e-12, 1e-12));
}

TEST(Tolerance, WhatAnInputIsApartIsHandedOn) {
  const auto inherited = [](const std::string& type, const std::vector<std::int64_t>& in,
                            const std::vector<std::int64_t>& other, const std::vector<std::int64_t>& out) {
    const Case one = {type, type, DType::float32, DType::float32, in, other, out, 0};
    return allowed(one, of_shape(out, DType::float32, DType::float32), 1e-4).propagated.rms;
  };
  const double e = 1e-4;
  EXPECT_NEAR(inherited("view", kRow, {}, kRow), 4 * e, 1e-9);  // the largest one
  EXPECT_NEAR(inherited("_to_copy", kRow, {}, kRow), 4 * e, 1e-9);
  EXPECT_NEAR(inherited("mul", kRow, kRow, kRow), 4 * 10 * e, 1e-9);
  EXPECT_NEAR(inherited("exp", kRow, {}, kRow), 4 * (2 * e + 2 * e + 2 * e), 1e-9);
  EXPECT_NEAR(inherited("mm", kMatrix, kOther, kProduct), 4 * (64 * e + e), 1e-9);
  EXPECT_NEAR(inherited("sum", kMatrix, {}, {32}), 4 * (64 * e + 4 * e), 1e-9);
  EXPECT_NEAR(inherited("layer_norm", kMatrix, {}, kMatrix), 4 * (10 * e + 2 * e + 2 * e), 1e-9);
}

TEST(Tolerance, BitsReadAsAnotherTypeMayDifferByAnything) {
  for (const char* type : {"view", "BitCast"}) {
    SCOPED_TRACE(type);
    TensorDifference output = of_shape({400}, DType::uint8, DType::uint8);
    const Case one = {"", type, DType::float32, DType::float32, {100}, {}, {400}, 0};
    EXPECT_TRUE(allowed(one, output, 1e-6).anything);
    EXPECT_FALSE(allowed(one, output, 0).anything);
    output = of_shape({400}, DType::float32, DType::float32);
    EXPECT_FALSE(allowed(one, output, 1e-6).anything);
  }
}

TEST(Tolerance, WholeNumbersOfFractionsThatDifferMayBeAny) {
  for (const char* type : {"max", "max_pool2d_with_indices", "_to_copy"}) {
    SCOPED_TRACE(type);
    const Case one = {"", type, DType::float32, DType::float32, kMatrix, {}, {32}, 0};
    const TensorDifference indices = of_shape({32}, DType::int64, DType::int64);
    EXPECT_TRUE(allowed(one, indices, 1e-6).anything);
    EXPECT_FALSE(allowed(one, indices, 0).anything);
    EXPECT_FALSE(allowed(one, of_shape({32}, DType::float32, DType::float32), 1e-6).anything);
  }
}

TEST(Tolerance, AnInputThatIsOnePercentOffExplainsAnything) {
  const Case product = {"mul", "mul", DType::float32, DType::float32, kRow, kRow, kRow, 0};
  const TensorDifference output = of_shape(kRow, DType::float32, DType::float32);
  EXPECT_FALSE(allowed(product, output, 0.0099).anything);
  EXPECT_TRUE(allowed(product, output, 0.0101).anything);
}

TEST(Tolerance, AQuotientIsAsUncertainAsItsSmallestDivisor) {
  TensorDifference divisor = of_shape(kRow, DType::float32, DType::float32);
  const TensorDifference number = divisor, output = divisor;
  divisor.equal = false;
  divisor.rms_error = 1e-9;
  divisor.max_error = 1e-8;
  const auto anything = [&](double least) {
    divisor.sums.golden_min = least;
    divisor.sums.golden_max = 4;
    const InputError inputs[] = {{&number, 0}, {&divisor, 1}};
    return allowance_of("div", kind_of("div"), 0, output, inputs, 0, {}).anything;
  };
  EXPECT_FALSE(anything(1e-5));
  EXPECT_TRUE(anything(1e-7));
  EXPECT_TRUE(anything(-1));  // it may be 0 somewhere
}

TEST(Tolerance, AnInputOfStatisticsMayBeFurtherApartThanTheyShow) {
  const auto inherited = [](ComparedBy by) {
    TensorDifference input = of_shape(kRow, DType::float32, DType::float32);
    const TensorDifference output = input;
    input.by = by;
    input.equal = false;
    input.rms_error = input.max_error = 1e-5;
    const InputError inputs[] = {{&input, 0}};
    return allowance_of("view", OpKind::copy, 0, output, inputs, 0, {}).propagated.rms;
  };
  EXPECT_NEAR(inherited(ComparedBy::values), 1e-5, 1e-12);
  EXPECT_NEAR(inherited(ComparedBy::statistics), 8e-4, 1e-8);
}

TEST(Tolerance, StatisticsOfManyRowsShowLessThanTheRoundingOfAnElement) {
  TensorDifference read = of_shape({64, 256}, DType::bfloat16, DType::bfloat16);
  EXPECT_NEAR(least_error_of_addition(read), 4 * kBFloat16 / 8, 1e-12);
  read.by = ComparedBy::statistics;
  EXPECT_NEAR(least_error_of_addition(read), 4 * kBFloat16 / 8, 1e-12);
  read.max_size = 64;  // one element has a quarter of all squares
  EXPECT_NEAR(least_error_of_addition(read), 4 * kBFloat16 / 2, 1e-12);
  TensorDifference row = of_shape({256}, DType::bfloat16, DType::bfloat16);
  row.by = ComparedBy::statistics;
  EXPECT_NEAR(least_error_of_addition(row), 4 * kBFloat16, 1e-12);
}

TEST(Tolerance, ValuesShowTheErrorThatManyElementsHaveInCommon) {
  TensorDifference read = of_shape({64, 256}, DType::bfloat16, DType::bfloat16);
  read.by = ComparedBy::values;
  read.equal = false;
  const double count = 64 * 256;
  read.sums.finite_pairs = 64 * 256;
  read.sums.golden_squares = read.sums.squares = read.sums.products = count;
  read.rms_error = kBFloat16;  // the rounding of each element by itself
  EXPECT_LT(common_error(read), 1e-12);
  read.sums.products = 1.01 * count;
  read.sums.squares = 1.01 * 1.01 * count;
  EXPECT_NEAR(common_error(read), 0.01, 1e-9);
  EXPECT_LT(least_error_of_addition(read), 0.01);
  read.sums = {};
  read.sums.finite_pairs = 64 * 256;
  read.sums.golden_squares = read.sums.squares = read.sums.products = count;
  read.sums.sum = 0.02 * count;  // each is larger by 0.02
  EXPECT_NEAR(common_error(read), 0.02, 1e-9);
}

TEST(Tolerance, AParameterMayDifferByTheRoundingOfItsType) {
  TensorDifference parameter = of_shape(kRow, DType::float32, DType::float32);
  const double bound = allowance_of_parameter(parameter, 0, {}).rms;
  EXPECT_NEAR(bound, 4 * kFloat32, 1e-12);
  parameter.golden_dtype = DType::float16;
  EXPECT_NEAR(allowance_of_parameter(parameter, 0, {}).rms, kFloat16, 1e-9);
  EXPECT_NEAR(allowance_of_parameter(parameter, 1e-5, {}).rms, kFloat16 + 16e-5, 1e-9);
}

}  // namespace
}  // namespace sonde
