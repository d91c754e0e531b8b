#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "ground/tensor/reformat.h"

namespace sonde {
namespace {

using Shape = std::vector<std::int64_t>;
using testing::ElementsAre;

// The array 0, 1, 2, … of `shape`, cropped to `sizes`.
std::vector<std::uint32_t> cropped(const Shape& shape, const Shape& sizes) {
  const Result<Reformat> plan = plan_crop(shape, sizes);
  EXPECT_TRUE(plan) << plan.error().message;
  std::int64_t elements = 1;
  for (const std::int64_t size : shape) elements *= size;
  std::vector<std::uint32_t> from(elements), to(plan->elements());
  std::iota(from.begin(), from.end(), 0U);
  plan->copy(reinterpret_cast<const std::byte*>(from.data()), reinterpret_cast<std::byte*>(to.data()), 4);
  return to;
}

TEST(Crop, TakesTheFirstElementsOfEachAxis) {
  EXPECT_THAT(cropped({2, 3}, {2, 2}), ElementsAre(0, 1, 3, 4));
  EXPECT_THAT(cropped({2, 2, 2, 2, 2}, {1, 2, 1, 1, 2}), ElementsAre(0, 1, 8, 9));
  EXPECT_EQ(plan_crop(Shape{2, 3}, Shape{2, 2})->shape(), (Shape{2, 2}));
}

TEST(Crop, LeavesEqualShapesAndLinesAsTheyAre) {
  EXPECT_TRUE(plan_crop(Shape{2, 3}, Shape{2, 3})->is_reshape());
  EXPECT_EQ(plan_crop(Shape{1, 6, 1}, Shape{6})->shape(), (Shape{1, 6, 1}));
}

TEST(Crop, DropsOnesWhereTheWantedShapeHasMoreDimensions) {
  EXPECT_EQ(plan_crop(Shape{2, 3}, Shape{1, 2, 1, 3})->shape(), (Shape{2, 3}));
  EXPECT_FALSE(plan_crop(Shape{2, 3}, Shape{1, 3, 1, 2}));
}

TEST(Crop, RefusesMoreThanThereIs) {
  const auto larger = plan_crop(Shape{2, 3}, Shape{3, 3});
  ASSERT_FALSE(larger);
  EXPECT_EQ(larger.error().message, "shape (2,3) cannot be cropped to (3,3)");
}

TEST(Crop, AnAxisAfterTheDecidingOneMayBeSmaller) {
  EXPECT_EQ(plan_crop(Shape{4, 2, 1, 1}, Shape{3, 5, 1, 1})->shape(), (Shape{3, 2, 1, 1}));
}

}  // namespace
}  // namespace sonde
