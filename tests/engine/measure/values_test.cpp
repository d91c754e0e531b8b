#include "read/measure/values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

namespace sonde {
namespace {

using testing::ElementsAre;

template <typename T>
struct Tensor {
  DType dtype;
  std::vector<T> data;
  std::vector<std::int64_t> shape, strides;

  TensorView view() const {
    TensorView view;
    view.dtype = dtype;
    view.data = reinterpret_cast<const std::byte*>(data.data());
    view.shape = shape;
    view.strides = strides;
    return view;
  }
};

TEST(Values, WholeNumbersAreWrittenInFull) {
  const Tensor<std::int64_t> tensor{
      DType::int64, {std::numeric_limits<std::int64_t>::min(), 9007199254740993}, {2}, {1}};
  EXPECT_EQ(element_text(tensor.view(), 0), "-9223372036854775808");
  EXPECT_EQ(element_text(tensor.view(), 1), "9007199254740993");
  const Tensor<std::int32_t> small{DType::int32, {-123456789}, {1}, {1}};
  EXPECT_EQ(element_text(small.view(), 0), "-123456789");
}

TEST(Values, SmallFloatsAreWidened) {
  const Tensor<std::uint16_t> half{DType::float16, {0x3C00, 0xFC00}, {2}, {1}};
  EXPECT_EQ(element_text(half.view(), 0), "1");
  EXPECT_EQ(element_text(half.view(), 1), "-inf");
  const Tensor<std::uint16_t> brain{DType::bfloat16, {0x3F8D}, {1}, {1}};
  EXPECT_EQ(element_value(brain.view(), 0), 1.1015625);
}

TEST(Values, ComplexNumbersShowBothParts) {
  const Tensor<float> tensor{DType::complex64, {1, -2, 0, std::nanf("")}, {2}, {1}};
  EXPECT_EQ(element_text(tensor.view(), 0), "1-2j");
  EXPECT_EQ(element_text(tensor.view(), 1), "0+nanj");
}

TEST(Values, AReaderGivesThemInCOrderSomeAtATime) {
  const auto read = [](const TensorView& view) {
    ValueReader reader(view);
    std::vector<double> all, some(2);
    while (const std::size_t count = reader.read(some)) all.insert(all.end(), some.begin(), some.begin() + count);
    return all;
  };
  const Tensor<float> turned{DType::float32, {1, 2, 3, 4, 5, 6}, {3, 2}, {1, 3}};
  EXPECT_THAT(read(turned.view()), ElementsAre(1, 4, 2, 5, 3, 6));
  const Tensor<float> repeated{DType::float32, {7, 8}, {2, 2}, {0, 1}};
  EXPECT_THAT(read(repeated.view()), ElementsAre(7, 8, 7, 8));
  const Tensor<std::uint16_t> half{DType::float16, {0x3C00, 0xFC00, 0x4000}, {3}, {1}};
  EXPECT_THAT(read(half.view()), ElementsAre(1, -std::numeric_limits<double>::infinity(), 2));
  const Tensor<float> complex{DType::complex64, {1, -2, 3, 4, 5, 6}, {3}, {1}};
  EXPECT_THAT(read(complex.view()), ElementsAre(1, 3, 5));
}

TEST(Corner, ShowsTheFirstOfTheLastTwoDimensions) {
  Tensor<float> tensor{DType::float32, std::vector<float>(24), {2, 3, 4}, {12, 4, 1}};
  std::iota(tensor.data.begin(), tensor.data.end(), 0.F);
  const Corner corner = corner_of(tensor.view(), 2, 3);
  EXPECT_EQ(corner.title, "[0, :2, :3]");
  ASSERT_EQ(corner.values.size(), 2);
  EXPECT_THAT(corner.values[1], ElementsAre("4", "5", "6"));
  EXPECT_TRUE(corner.more_rows);
  EXPECT_TRUE(corner.more_columns);
}

TEST(Corner, OfAVectorAScalarAndNothing) {
  const Tensor<float> vector{DType::float32, {1, 2}, {2}, {1}};
  EXPECT_EQ(corner_of(vector.view(), 5, 5).title, "[:2]");
  EXPECT_FALSE(corner_of(vector.view(), 5, 5).more_columns);
  const Tensor<float> scalar{DType::float32, {7}, {}, {}};
  EXPECT_THAT(corner_of(scalar.view(), 5, 5).values.at(0), ElementsAre("7"));
  const Tensor<float> empty{DType::float32, {}, {0, 3}, {3, 1}};
  EXPECT_TRUE(corner_of(empty.view(), 5, 5).values.empty());
}

TEST(Histogram, CountsFiniteElementsInEqualBins) {
  const Tensor<float> tensor{DType::float32, {0, 1, 2, 3, 4, INFINITY, std::nanf("")}, {7}, {1}};
  const Histogram histogram = histogram_of(tensor.view(), 2);
  EXPECT_EQ(histogram.min, 0);
  EXPECT_EQ(histogram.max, 4);
  EXPECT_THAT(histogram.counts, ElementsAre(2, 3));
}

TEST(Histogram, SpansTheWholeRangeOfDoubles) {
  const double most = std::numeric_limits<double>::max();
  const Tensor<double> tensor{DType::float64, {-most, 0, most}, {3}, {1}};
  EXPECT_THAT(histogram_of(tensor.view(), 4).counts, ElementsAre(1, 0, 1, 1));
}

TEST(Histogram, OfEqualElementsHasOneBin) {
  const Tensor<float> tensor{DType::float32, {5, 5}, {2}, {1}};
  EXPECT_THAT(histogram_of(tensor.view(), 16).counts, ElementsAre(2));
  const Tensor<float> nan{DType::float32, {std::nanf("")}, {1}, {1}};
  EXPECT_TRUE(histogram_of(nan.view(), 16).counts.empty());
}

}  // namespace
}  // namespace sonde
