#include "read/measure/distribution.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "tensor/sample_tensors.h"

namespace sonde {
namespace {

using testing::ElementsAre;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

// In C order.
sample::Tensor shaped(const std::vector<double>& values, std::vector<std::int64_t> shape) {
  sample::Tensor tensor = sample::doubles(values);
  tensor.strides = sample::c_strides(shape);
  tensor.shape = std::move(shape);
  return tensor;
}

sample::Tensor counted(std::vector<std::int64_t> shape) {
  const std::int64_t elements = std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
  std::vector<double> values(static_cast<std::size_t>(elements));
  std::iota(values.begin(), values.end(), 0.0);
  return shaped(values, std::move(shape));
}

std::vector<std::int64_t> places(const Slice& slice) {
  std::vector<std::int64_t> places;
  for (std::int64_t i = 0; i < slice.elements(); ++i) places.push_back(slice.place_of(i));
  return places;
}

TEST(Slice, NumbersRemoveAxesAndRangesKeepThem) {
  const sample::Tensor tensor = counted({2, 3, 4});
  const Result<Slice> slice = slice_of(tensor.view(), "[1, :, 1:3]");
  ASSERT_TRUE(slice) << slice.error().message;
  EXPECT_THAT(slice->shape, ElementsAre(3, 2));
  EXPECT_THAT(places(*slice), ElementsAre(13, 14, 17, 18, 21, 22));
  EXPECT_THAT(places(*slice_of(tensor.view(), "-1,-1,::3")), ElementsAre(20, 23));
  EXPECT_THAT(places(*slice_of(tensor.view(), "0,0")), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(slice_of(tensor.view(), "")->elements(), 24);
  EXPECT_EQ(slice_of(tensor.view(), "0,0,0")->elements(), 1);
}

TEST(Slice, RangesBeyondTheEndAreCutAsInNumpy) {
  const sample::Tensor tensor = counted({4});
  EXPECT_THAT(places(*slice_of(tensor.view(), "2:99")), ElementsAre(2, 3));
  EXPECT_THAT(places(*slice_of(tensor.view(), "-99:1")), ElementsAre(0));
  EXPECT_EQ(slice_of(tensor.view(), "3:1")->elements(), 0);
  EXPECT_EQ(slice_of(tensor.view(), "9:")->elements(), 0);
  EXPECT_THAT(places(*slice_of(tensor.view(), "::9223372036854775807")), ElementsAre(0));
}

TEST(Slice, WrongWordsAreRefusedWithTheirAxis) {
  const sample::Tensor tensor = counted({2, 3});
  const std::pair<const char*, const char*> cases[] = {
      {"2", "axis 0: 2 is outside, it has 2 elements"},
      {"0,-4", "axis 1: -4 is outside, it has 3 elements"},
      {"0,0,0", "more axes than the tensor, which has 2"},
      {"0,x", "axis 1: expected a number or a range such as 1:10, not 'x'"},
      {"0,,", "axis 1: expected"},
      {"::0", "axis 0: expected"},
      {"::-1", "axis 0: expected"},
      {"1:2:3:4", "axis 0: expected"},
      {"[0", "a bracket is missing"},
      {"[", "a bracket is missing"},
      {"99999999999999999999", "axis 0: expected"},
  };
  for (const auto& [text, words] : cases) {
    const Result<Slice> slice = slice_of(tensor.view(), text);
    ASSERT_FALSE(slice) << text;
    EXPECT_THAT(slice.error().message, testing::HasSubstr(words)) << text;
  }
}

TEST(Distribution, EveryElementIsCountedOnce) {
  const sample::Tensor tensor = shaped({-2, -1, 0, 0, 1, 2, 4, kNan, kInf, -kInf}, {10});
  DistributionOptions options;
  options.bins = 3;
  const Distribution all = distribution_of(tensor.view(), options);
  EXPECT_THAT(all.edges, ElementsAre(-2, 0, 2, 4));
  EXPECT_THAT(all.counts, ElementsAre(2, 3, 2));
  EXPECT_THAT(
      (std::vector{all.zero_count, all.non_finite.nan, all.non_finite.positive_inf, all.non_finite.negative_inf}),
      ElementsAre(2, 1, 1, 1));
  options.min = -1;
  options.max = 2;
  const Distribution part = distribution_of(tensor.view(), options);
  EXPECT_THAT(part.edges, ElementsAre(-1, 0, 1, 2));
  EXPECT_THAT(part.counts, ElementsAre(1, 2, 2));
  EXPECT_EQ(part.below, 1);
  EXPECT_EQ(part.above, 1);
}

TEST(Distribution, LogarithmicBinsTakePositiveElements) {
  const sample::Tensor tensor = shaped({-1, 0, 1, 10, 100, 1000}, {6});
  DistributionOptions options;
  options.bins = 3;
  options.scale = BinScale::log;
  const Distribution log = distribution_of(tensor.view(), options);
  ASSERT_EQ(log.edges.size(), 4);
  EXPECT_NEAR(log.edges[1], 10, 1e-9);
  EXPECT_EQ(log.below, 2);
  EXPECT_EQ(log.counts[0] + log.counts[1] + log.counts[2], 4);
  options.scale = BinScale::symlog;
  options.bins = 4;
  const Distribution both = distribution_of(tensor.view(), options);
  EXPECT_EQ(std::accumulate(both.counts.begin(), both.counts.end(), std::uint64_t{0}), 6);
  EXPECT_TRUE(std::ranges::is_sorted(both.edges));
}

TEST(Distribution, WithoutFiniteElementsThereAreNoBins) {
  for (const BinScale scale : {BinScale::linear, BinScale::log, BinScale::symlog}) {
    DistributionOptions options;
    options.scale = scale;
    const Distribution bad = distribution_of(shaped({kNan, kInf}, {2}).view(), options);
    EXPECT_TRUE(bad.edges.empty() && bad.counts.empty());
    EXPECT_EQ(bad.non_finite.nan + bad.non_finite.positive_inf, 2);
    EXPECT_TRUE(distribution_of(shaped({}, {0}).view(), options).counts.empty());
    const Distribution same = distribution_of(shaped({3, 3, 3}, {3}).view(), options);
    EXPECT_THAT(same.counts, ElementsAre(3));
  }
}

TEST(Distribution, LargestDoublesStayFinite) {
  const double largest = std::numeric_limits<double>::max();
  const Distribution all = distribution_of(shaped({-largest, 0, largest}, {3}).view(), {});
  EXPECT_TRUE(std::ranges::all_of(all.edges, [](double edge) { return std::isfinite(edge); }));
  EXPECT_EQ(all.counts.front() + all.counts.back() + all.counts[32], 3);
}

TEST(Picture, NoBadElementIsAveragedAway) {
  std::vector<double> values(10000);
  std::iota(values.begin(), values.end(), 0.0);
  values[5050] = kNan;
  values[5051] = kInf;
  values[0] = -kInf;
  const sample::Tensor tensor = shaped(values, {100, 100});
  const Result<Slice> whole = slice_of(tensor.view(), "");
  const Picture one = picture_of(*whole, 1, 1);
  ASSERT_EQ(one.cells.size(), 1);
  EXPECT_EQ(one.cells[0].bad, 7);
  EXPECT_EQ(one.cells[0].finite, 9997);
  EXPECT_EQ(one.cells[0].min, 1);
  EXPECT_EQ(one.cells[0].max, 9999);
  const Picture four = picture_of(*whole, 2, 2);
  EXPECT_THAT((std::vector{four.cells[0].bad, four.cells[1].bad, four.cells[2].bad, four.cells[3].bad}),
              ElementsAre(4, 0, 0, 3));
  const Picture all = picture_of(*whole, 500, 500);
  EXPECT_EQ(all.rows, 100);
  EXPECT_EQ(all.columns, 100);
  EXPECT_EQ(all.cells[4242].mean, 4242);
}

TEST(Picture, AScalarIsOneCellAndNothingIsNone) {
  const sample::Tensor scalar = shaped({7}, {});
  EXPECT_EQ(picture_of(*slice_of(scalar.view(), ""), 9, 9).cells.at(0).mean, 7);
  const sample::Tensor none = shaped({}, {0, 3});
  EXPECT_TRUE(picture_of(*slice_of(none.view(), ""), 9, 9).cells.empty());
}

}  // namespace
}  // namespace sonde
