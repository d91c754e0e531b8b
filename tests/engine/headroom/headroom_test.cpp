// The table of types beside the codes of 8 bits; elements that a type loses, counted in tensors and from statistics.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "ask/headroom/magnitudes.h"
#include "read/measure/values.h"

namespace sonde {
namespace {

constexpr DType kOfOneByte[] = {DType::float8_e4m3fn, DType::float8_e5m2, DType::float8_e4m3fnuz,
                                DType::float8_e5m2fnuz};

// All finite numbers above 0 of a type of one byte.
std::vector<double> numbers_of(DType dtype) {
  std::vector<double> all;
  for (unsigned code = 0; code < 256; ++code) {
    const auto byte = static_cast<std::byte>(code);
    TensorView view;
    view.dtype = dtype;
    view.data = &byte;
    const double value = element_value(view, 0);
    if (std::isfinite(value) && value > 0) all.push_back(value);
  }
  std::ranges::sort(all);
  return all;
}

class OfOneByte : public ::testing::TestWithParam<DType> {};

TEST_P(OfOneByte, TheTableHasTheNumbersOfTheCodes) {
  const std::vector<double> numbers = numbers_of(GetParam());
  const NumberFormat& format = *number_format(GetParam());
  EXPECT_EQ(format.largest, numbers.back());
  EXPECT_EQ(format.least, numbers.front());
  // From the smallest normal number on the distances double; below it they are the least number.
  const auto normal = std::ranges::find(numbers, format.normal);
  ASSERT_NE(normal, numbers.end());
  for (auto at = numbers.begin(); at != normal; ++at) EXPECT_EQ(*(at + 1) - *at, format.least);
  EXPECT_EQ(std::log2(format.normal), std::floor(std::log2(format.normal)));
  const double last = numbers.back() - numbers[numbers.size() - 2];
  EXPECT_FALSE(format.overflows(numbers.back() + last / 2 - 1e-9 * last));
  EXPECT_TRUE(format.overflows(numbers.back() + last / 2 + 1e-9 * last));
}

INSTANTIATE_TEST_SUITE_P(Types, OfOneByte, ::testing::ValuesIn(kOfOneByte));

// A matrix, which owns what its view points to.
struct Matrix {
  std::vector<float> values;
  std::vector<std::int64_t> shape, strides{shape[1], 1};

  TensorView view() const {
    TensorView view;
    view.dtype = DType::float32;
    view.data = reinterpret_cast<const std::byte*>(values.data());
    view.shape = shape;
    view.strides = strides;
    return view;
  }
};

const std::vector<const NumberFormat*> kHalf = {number_format("float16")};

TEST(Magnitudes, CountWhatAHalfLoses) {
  const Matrix one = {{0, 1, -65519, 65520, -INFINITY, NAN, 0x1p-25F, 0x1.8p-25F, 0x1p-15F, 0x1p-14F}, {1, 10}};
  const Magnitudes found = magnitudes_of(one.view(), kHalf, HeadroomScale::none);
  EXPECT_EQ(found.infinite_count, 1U);
  EXPECT_EQ(found.largest, 65520.0);
  EXPECT_EQ(found.least, 0x1p-25);
  EXPECT_TRUE(found.as_types[0].overflows);
  EXPECT_EQ(found.as_types[0].overflow_count, 1U);
  EXPECT_EQ(found.as_types[0].underflow_count, 1U);  // the other rounds to the least number
  EXPECT_EQ(found.as_types[0].subnormal_count, 2U);
}

TEST(Magnitudes, AScaleOfABlockIsOfItsOwnRow) {
  // Two rows of 40: with blocks of 32 across their ends, the small numbers would be beside the large ones.
  Matrix two = {std::vector<float>(80, 1e6F), {2, 40}};
  for (std::size_t i = 40; i < 80; ++i) two.values[i] = 1e-9F;
  const Magnitudes apart = magnitudes_of(two.view(), kHalf, HeadroomScale::block);
  EXPECT_EQ(apart.as_types[0].overflow_count, 0U);
  EXPECT_EQ(apart.as_types[0].underflow_count, 0U);
  const Magnitudes together = magnitudes_of(two.view(), kHalf, HeadroomScale::tensor);
  EXPECT_EQ(together.as_types[0].overflow_count, 0U);
  EXPECT_EQ(together.as_types[0].underflow_count, 40U);
}

TEST(Magnitudes, StatisticsSayWhatTheyShowAlone) {
  KnownStatistics statistics;
  statistics.max = 100;
  statistics.min = -3;
  statistics.count = 7;
  Magnitudes found = magnitudes_of(statistics, kHalf, HeadroomScale::none);
  EXPECT_EQ(found.as_types[0].overflow_count, 0U);
  EXPECT_EQ(found.as_types[0].underflow_count, std::nullopt);
  statistics.min = 1e-9;  // all have one sign, and the least is known
  statistics.max = 1e6;
  found = magnitudes_of(statistics, kHalf, HeadroomScale::none);
  EXPECT_TRUE(found.as_types[0].overflows);
  EXPECT_EQ(found.as_types[0].overflow_count, std::nullopt);
  EXPECT_EQ(found.as_types[0].underflow_count, std::nullopt);
  statistics.min = 1;
  found = magnitudes_of(statistics, kHalf, HeadroomScale::none);
  EXPECT_EQ(found.as_types[0].underflow_count, 0U);
}

TEST(Magnitudes, ATensorWithoutElementsLosesNothing) {
  const Matrix none = {{}, {0, 3}};
  const Magnitudes found = magnitudes_of(none.view(), kHalf, HeadroomScale::block);
  EXPECT_EQ(found.largest, std::nullopt);
  EXPECT_EQ(found.as_types[0].underflow_count, 0U);
}

}  // namespace
}  // namespace sonde
