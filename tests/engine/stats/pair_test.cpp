// compare_pair: its counts and sums; and kernels, threads and layouts do not change a bit of them.
#include "ground/stats/pair.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <thread>

#include "ground/stats/pair_kernels.h"
#include "tensor/sample_tensors.h"

namespace sonde {
namespace {

using sample::doubles;
using sample::floats;
using sample::Mix;
using sample::Tensor;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

PairSums compared(const Tensor& x, const Tensor& y) { return compare_pair(x.view(), y.view()); }

// Equal to the bit, NaN sums included.
void expect_same(const PairSums& a, const PairSums& b, const std::string& what) {
  const auto same = [](double left, double right) { return left == right || (std::isnan(left) && std::isnan(right)); };
  EXPECT_TRUE(same(a.relative_errors, b.relative_errors)) << what;
  EXPECT_TRUE(same(a.max_nonzero_relative, b.max_nonzero_relative)) << what;
  for (const auto field :
       {&PairSums::sum, &PairSums::golden_sum, &PairSums::squares, &PairSums::golden_squares, &PairSums::products,
        &PairSums::errors, &PairSums::error_squares, &PairSums::min, &PairSums::max, &PairSums::golden_min,
        &PairSums::golden_max, &PairSums::max_error, &PairSums::max_relative}) {
    EXPECT_TRUE(same(a.*field, b.*field)) << what << ": " << a.*field << " " << b.*field;
  }
  EXPECT_EQ(a.worst.index, b.worst.index) << what;
  EXPECT_EQ(a.worst_relative.index, b.worst_relative.index) << what;
  EXPECT_EQ(a.mismatches, b.mismatches) << what;
  EXPECT_EQ(a.finite_pairs, b.finite_pairs) << what;
  EXPECT_EQ(a.equal_non_finite, b.equal_non_finite) << what;
  EXPECT_EQ(a.below_thousandth, b.below_thousandth) << what;
  EXPECT_EQ(a.below_five_thousandths, b.below_five_thousandths) << what;
}

TEST(Pair, SumsOfAFewElements) {
  const PairSums sums = compared(floats({1, 2, -3, 0}), floats({1, 1, -3.003F, 0}));
  EXPECT_EQ(sums.count, 4U);
  EXPECT_EQ(sums.mismatches, 2U);
  EXPECT_EQ(sums.sum, 0);
  EXPECT_EQ(sums.squares, 14);
  EXPECT_EQ(sums.max_error, 1);
  EXPECT_EQ(sums.worst.index, 1U);
  EXPECT_EQ(sums.worst.value, 2);
  EXPECT_EQ(sums.worst.golden, 1);
  EXPECT_EQ(sums.below_thousandth, 3U);
  EXPECT_EQ(sums.min, -3);
  EXPECT_EQ(sums.golden_max, 1);
  EXPECT_NEAR(sums.relative_errors, 1 + 0.003 / 3.003, 1e-6);
}

TEST(Pair, EqualNonFiniteElementsAreEqual) {
  const PairSums same = compared(floats({kNaN, kInf, -kInf, 1}), floats({kNaN, kInf, -kInf, 1}));
  EXPECT_EQ(same.mismatches, 0U);
  EXPECT_EQ(same.equal_non_finite, 3U);
  EXPECT_EQ(same.max_error, 0);
  const PairSums other = compared(floats({kNaN, kInf, 1}), floats({1, -kInf, kNaN}));
  EXPECT_EQ(other.mismatches, 3U);
  EXPECT_EQ(other.different_non_finite(), 3U);
  EXPECT_EQ(other.same_non_finite, 1U);
  EXPECT_EQ(other.golden_non_finite.nan, 1U);
}

TEST(Pair, RelativeErrorsOfZeroFollowTheirDefinitions) {
  const PairSums sums = compared(floats({1, 0}), floats({0, 0}));
  EXPECT_EQ(sums.relative_errors, 0);    // msaccucmp leaves zeros out
  EXPECT_EQ(sums.max_relative, 0x1p52);  // msprobe adds the epsilon of double
  EXPECT_EQ(sums.worst_relative.index, 0U);
  EXPECT_EQ(sums.below_thousandth, 1U);
}

TEST(Pair, OneNaNInTheGoldenTensorDoesNotPoisonRelativeErrors) {
  EXPECT_EQ(compared(floats({1, 2}), floats({kNaN, 1})).relative_errors, 1);
  EXPECT_TRUE(std::isnan(compared(floats({kNaN, 2}), floats({1, 1})).relative_errors));
}

TEST(Pair, NegativeZeroEqualsZero) { EXPECT_EQ(compared(floats({-0.0F}), floats({0.0F})).mismatches, 0U); }

TEST(Pair, MixedTypesAreComparedByValue) {
  const Tensor ints = sample::of<std::int32_t>(DType::int32, {1, 2, 16777217});
  EXPECT_EQ(compared(ints, doubles({1, 2, 16777217})).mismatches, 0U);
  EXPECT_EQ(compared(ints, floats({1, 2, 16777216})).mismatches, 1U);
  const Tensor halves = sample::of<std::uint16_t>(DType::float16, {0x3C00, 0x7C00, 0xFC00, 0x0001});
  EXPECT_EQ(compared(halves, floats({1, kInf, -kInf, 0x1p-24F})).mismatches, 0U);
  const Tensor brain = sample::of<std::uint16_t>(DType::bfloat16, {0x3F80, 0x7F80, 0xC000});
  EXPECT_EQ(compared(brain, doubles({1, static_cast<double>(kInf), -2})).mismatches, 0U);
}

TEST(Pair, Integers64AreToldApartBeyondDouble) {
  const std::int64_t big = (std::int64_t{1} << 53) + 1;
  const Tensor x = sample::of<std::int64_t>(DType::int64, {big, 7}),
               y = sample::of<std::int64_t>(DType::int64, {big - 1, 7});
  EXPECT_EQ(compared(x, y).mismatches, 1U);
}

TEST(Pair, ComplexElementsAreTwo) {
  const Tensor x = sample::of<float>(DType::complex64, {1, 2, 3, 4});
  Tensor left = x;
  left.shape = {2};
  Tensor right = sample::of<float>(DType::complex64, {1, 2, 3, 5});
  right.shape = {2};
  const PairSums both = compare_pair(left.view(), right.view());
  EXPECT_EQ(both.count, 4U);
  EXPECT_EQ(both.mismatches, 1U);
  EXPECT_EQ(compare_pair(left.view(), right.view(), {false, true}).mismatches, 0U);
}

TEST(Pair, AStridedViewIsItsCopy) {
  std::mt19937_64 random(5);
  Tensor strided = sample::contiguous(DType::float32, {600, 700}, Mix::ordinary, random);
  std::swap(strided.shape[0], strided.shape[1]);
  std::swap(strided.strides[0], strided.strides[1]);
  const Tensor copy = sample::naive_copy(strided.view());
  const Tensor other = sample::contiguous(DType::float32, {700, 600}, Mix::ordinary, random);
  EXPECT_EQ(compare_pair(strided.view(), copy.view()).mismatches, 0U);
  expect_same(compare_pair(strided.view(), other.view()), compare_pair(copy.view(), other.view()), "strided");
}

class PairKernels : public testing::TestWithParam<DType> {};

TEST_P(PairKernels, AgreeWithTheScalarOne) {
  std::mt19937_64 random(static_cast<std::uint64_t>(GetParam()));
  for (const Mix mix : {Mix::ordinary, Mix::bits, Mix::denormal, Mix::one_special}) {
    for (const std::int64_t length : {0, 1, 15, 16, 17, 100, 2047, 2048, 2049, 5000}) {
      const Tensor x = sample::contiguous(GetParam(), {length}, mix, random);
      Tensor y = sample::contiguous(GetParam(), {length}, mix, random);
      // The first half is equal, as most of a comparison with itself is.
      std::copy_n(x.memory.begin(), x.memory.size() / 2, y.memory.begin());
      const PairSums expected = compare_pair_with(scalar_pair_kernel(), x.view(), y.view());
      for (const PairKernel& kernel : pair_kernels()) {
        expect_same(compare_pair_with(kernel, x.view(), y.view()), expected,
                    std::string(kernel.name) + " mix " + std::to_string(static_cast<int>(mix)) + " of " +
                        std::to_string(length));
      }
      const PairOptions essential = {.all_sums = false};
      const PairSums fewer = compare_pair_with(scalar_pair_kernel(), x.view(), y.view(), essential);
      for (const PairKernel& kernel : pair_kernels()) {
        expect_same(compare_pair_with(kernel, x.view(), y.view(), essential), fewer, std::string(kernel.name));
      }
      EXPECT_EQ(fewer.mismatches, expected.mismatches);
      EXPECT_EQ(fewer.relative_errors, 0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllTypes, PairKernels, testing::ValuesIn(sample::dtypes_with_statistics()), name_of);

TEST(Pair, ThreadsChangeNothing) {
  std::mt19937_64 random(9);
  const auto length = static_cast<std::int64_t>(3 * kPairChunk + 1234);
  const Tensor x = sample::contiguous(DType::float32, {length}, Mix::ordinary, random);
  const Tensor y = sample::contiguous(DType::float32, {length}, Mix::one_special, random);
  const PairSums expected = compare_pair(x.view(), y.view());
  const double divergence = kl_divergence(x.view(), x.view(), compare_pair(x.view(), x.view()));
  EXPECT_EQ(divergence, 0);
  const ForEach backwards_on_threads = [](std::size_t count, const std::function<void(std::size_t)>& body) {
    std::vector<std::thread> threads;
    for (std::size_t i = count; i-- > 0;) threads.emplace_back([&body, i] { body(i); });
    for (std::thread& thread : threads) thread.join();
  };
  expect_same(compare_pair(x.view(), y.view(), {}, backwards_on_threads), expected, "threads");
}

TEST(Pair, DivergenceIsThatOfTheScaledTensors) {
  const Tensor x = floats({0, 1, 2}), y = floats({0, 2, 2});
  const double low = 0x1p-23, p = low + 0.5 + 1, q = low + 2;
  const double expected = low / p * std::log(low / p / (low / q)) + 0.5 / p * std::log(0.5 / p / (1 / q)) +
                          1 / p * std::log(1 / p / (1 / q));
  EXPECT_NEAR(kl_divergence(x.view(), y.view(), compared(x, y)), expected, 1e-12);
}

}  // namespace
}  // namespace sonde
