// Bounds of the difference of two tensors that their statistics prove, whatever the tensors are.
#include "read/measure/tensor_difference.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace sonde {
namespace {

using Values = std::vector<double>;

KnownStatistics statistics_of(const Values& values) {
  KnownStatistics out;
  double sum = 0, squares = 0;
  std::uint64_t positive = 0, negative = 0, zero = 0;
  for (const double value : values) {
    sum += value;
    squares += value * value;
    ++(value > 0 ? positive : value < 0 ? negative : zero);
  }
  out.max = *std::ranges::max_element(values);
  out.min = *std::ranges::min_element(values);
  out.avg = sum / static_cast<double>(values.size());
  out.l2norm = std::sqrt(squares);
  out.positive_count = positive;
  out.negative_count = negative;
  out.zero_count = zero;
  return out;
}

TensorDifference by_statistics(const Values& target, const Values& golden, bool has_journal = true) {
  CatalogRank rank;
  rank.has_journal = has_journal;
  CatalogTensor tensors[2];
  for (const Values* values : {&target, &golden}) {
    CatalogTensor& tensor = tensors[values == &golden];
    tensor.dtype = DType::float64;
    const std::vector<std::int64_t> shape = {static_cast<std::int64_t>(values->size())};
    tensor.set_shape(shape);
    tensor.statistics = statistics_of(*values);
  }
  return difference_of({&rank, &tensors[0]}, {&rank, &tensors[1]}, {}, in_order);
}

double true_rms(const Values& a, const Values& b) {
  double squares = 0;
  for (std::size_t i = 0; i < a.size(); ++i) squares += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(squares / static_cast<double>(a.size()));
}

double true_max(const Values& a, const Values& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

// Of the kinds that programs have: far from zero, of one value, with many zeros, with few elements.
Values random_values(std::mt19937_64& random, std::size_t size) {
  std::normal_distribution<double> normal;
  const double mean = std::pow(10.0, static_cast<double>(random() % 7) - 3) * static_cast<double>(random() % 3);
  const double spread = random() % 5 == 0 ? 0 : std::pow(10.0, static_cast<double>(random() % 5) - 3);
  const bool has_zeros = random() % 4 == 0;
  Values values;
  for (std::size_t i = 0; i < size; ++i)
    values.push_back(has_zeros && random() % 2 ? 0 : mean + spread * normal(random));
  return values;
}

TEST(TensorDifference, StatisticsNeverShowMoreThanTheTrueError) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 20000; ++round) {
    const std::size_t size = 1 + random() % (round % 2 == 0 ? 4 : 100);
    const Values golden = random_values(random, size);
    Values target = random() % 3 == 0 ? random_values(random, size) : golden;
    if (random() % 2 == 0) target[random() % size] += std::pow(10.0, static_cast<double>(random() % 9) - 6);
    if (random() % 4 == 0) {
      for (double& value : target) value *= 1.001;
    }
    const TensorDifference shown = by_statistics(target, golden);
    const double rounding = 1e-12 * (shown.rms + shown.max_size + true_max(target, golden));
    ASSERT_LE(shown.rms_error, true_rms(target, golden) + rounding) << "round " << round;
    ASSERT_LE(shown.max_error, true_max(target, golden) + rounding) << "round " << round;
  }
}

TEST(TensorDifference, StatisticsOfTheSameElementsInAnotherOrderAreEqual) {
  std::mt19937_64 random(8);
  for (int round = 0; round < 200; ++round) {
    Values golden;  // sums of whole numbers are the same in any order
    for (int i = 0; i < 50; ++i) golden.push_back(static_cast<double>(random() % 64) - 32);
    Values target = golden;
    std::ranges::shuffle(target, random);
    EXPECT_TRUE(by_statistics(target, golden).equal);
  }
}

TEST(TensorDifference, MeanAndDeviationTogetherProveMoreThanEach) {
  const Values golden = {0, 2, 0, 2}, target = {2, 8, 2, 8};  // the mean moves by 4, the deviation by 2
  const TensorDifference shown = by_statistics(target, golden);
  EXPECT_NEAR(shown.rms_error, std::sqrt(20.0), 1e-6);
  EXPECT_NEAR(true_rms(target, golden), std::sqrt(20.0), 1e-12);
}

TEST(TensorDifference, OneElementIsAsFarAsItsMaximum) { EXPECT_DOUBLE_EQ(by_statistics({3}, {1}).rms_error, 2); }

TEST(TensorDifference, LargestAndSmallestTogetherProveMoreThanEach) {
  const TensorDifference shown = by_statistics({-4, 0, 0, 4}, {-1, 0, 0, 1});
  EXPECT_NEAR(shown.rms_error, std::sqrt(18.0 / 4), 1e-9);
}

TEST(TensorDifference, OtherSignsAreADifference) {
  const Values golden = {3, -3, 4, -4, 5, -5, 0, 0}, target = {3, -3, 4, -4, 5, -5, 1e-9, -1e-9};
  const TensorDifference shown = by_statistics(target, golden);
  EXPECT_FALSE(shown.equal);
  EXPECT_LE(shown.rms_error, true_rms(target, golden));
}

TEST(TensorDifference, SixDigitsOfATableProveNoDeviation) {
  const Values golden = {1000, 1000.001}, target = {1000, 1000.002};
  EXPECT_LE(by_statistics(target, golden, false).rms_error, true_rms(target, golden));
}

}  // namespace
}  // namespace sonde
