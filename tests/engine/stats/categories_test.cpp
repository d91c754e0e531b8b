#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <limits>

#include "tensor/sample_tensors.h"

namespace sonde {
namespace {

using sample::floats;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::string text(const std::vector<float>& values, Category category) {
  return text_of(summarize(floats(values).view()), category);
}

TEST(Categories, AreFoundByTheirWords) {
  EXPECT_EQ(category_from_word("negative zero count"), Category::negative_zero_count);
  EXPECT_EQ(category_from_word("md5"), Category::md5);
  EXPECT_EQ(category_from_word("hash:md5"), Category::md5);
  EXPECT_EQ(category_from_word("hash"), Category::sha1);
  EXPECT_EQ(category_from_word("hash:sha1"), Category::sha1);
  EXPECT_EQ(category_from_word("Max"), std::nullopt);
  EXPECT_EQ(category_from_word(""), std::nullopt);
}

TEST(Categories, StandInTheirOwnRowOfTheTable) {
  for (std::size_t i = 0; i < kCategories; ++i) {
    EXPECT_EQ(static_cast<std::size_t>(all_categories()[i].category), i);
  }
  EXPECT_EQ(all_categories()[6].column, "NaN Count");
}

TEST(Categories, OnADeviceAreFour) {
  std::string words;
  for (const CategoryInfo& row : all_categories()) {
    if (row.on_device) words += std::string(row.words[0]) + " ";
  }
  EXPECT_EQ(words, "max min avg l2norm ");
}

TEST(CategoryTexts, AreShortAndPlain) {
  const std::vector<float> values = {1, 2, -4, 0};
  EXPECT_EQ(text(values, Category::max), "2");
  EXPECT_EQ(text(values, Category::min), "-4");
  EXPECT_EQ(text(values, Category::avg), "-0.25");
  EXPECT_EQ(text(values, Category::l2norm), "4.58258");
  EXPECT_EQ(text(values, Category::count), "4");
  EXPECT_EQ(text(values, Category::negative_zero_count), "1");
  EXPECT_EQ(text(values, Category::positive_zero_count), "2");
  EXPECT_EQ(text(values, Category::zero_count), "1");
}

// Two tensors that MindSpore 2.0's own debugger measured.
TEST(CategoryTexts, OfVersion20AreOverTheFiniteElements) {
  const auto text = [](const std::vector<float>& values, Category category) {
    return text_of(summarize(floats(values).view()), category, NonFinite::left_out);
  };
  const std::vector<float> one = {1, 2, kNan, kInf};
  EXPECT_EQ(text(one, Category::max), "2");
  EXPECT_EQ(text(one, Category::min), "1");
  EXPECT_EQ(text(one, Category::avg), "1.5");
  EXPECT_EQ(text(one, Category::count), "4");
  EXPECT_EQ(text(one, Category::positive_zero_count), "2");
  EXPECT_EQ(text(one, Category::nan_count), "1");
  EXPECT_EQ(text(one, Category::positive_inf_count), "1");
  const std::vector<float> other = {-kInf, 2, 3, -0.0F};
  EXPECT_EQ(text(other, Category::max), "3");
  EXPECT_EQ(text(other, Category::min), "-0");
  EXPECT_EQ(text(other, Category::avg), "1.66667");
  EXPECT_EQ(text(other, Category::count), "4");
  EXPECT_EQ(text(other, Category::negative_zero_count), "0");
  EXPECT_EQ(text(other, Category::negative_inf_count), "1");
  EXPECT_EQ(text(other, Category::zero_count), "1");
  for (const Category category : {Category::max, Category::min, Category::avg}) {
    EXPECT_EQ(text({kNan, kInf}, category), "null");
  }
  EXPECT_EQ(text({kNan, kInf}, Category::count), "2");
}

TEST(CategoryTexts, OfANanSpreadToAllValuesAndHaveNoSign) {
  const std::vector<float> values = {1, kNan, kInf};
  for (const Category category : {Category::max, Category::min, Category::avg, Category::l2norm}) {
    EXPECT_EQ(text(values, category), "nan");
  }
  EXPECT_EQ(text(values, Category::nan_count), "1");
  EXPECT_EQ(text(values, Category::positive_inf_count), "1");
  EXPECT_EQ(text(values, Category::positive_zero_count), "2");
  EXPECT_EQ(text(values, Category::count), "3");
}

TEST(CategoryTexts, OfInfinitiesTakePart) {
  EXPECT_EQ(text({1, kInf}, Category::max), "inf");
  EXPECT_EQ(text({1, kInf}, Category::min), "1");
  EXPECT_EQ(text({1, kInf}, Category::avg), "inf");
  EXPECT_EQ(text({1, -kInf}, Category::min), "-inf");
  EXPECT_EQ(text({1, -kInf}, Category::avg), "-inf");
  EXPECT_EQ(text({1, -kInf}, Category::l2norm), "inf");
  EXPECT_EQ(text({kInf, -kInf}, Category::avg), "nan");
  EXPECT_EQ(text({-kInf, -kInf}, Category::max), "-inf");
  EXPECT_EQ(text({kInf}, Category::min), "inf");
}

TEST(CategoryTexts, OfAnEmptyTensorAreNan) {
  EXPECT_EQ(text({}, Category::max), "nan");
  EXPECT_EQ(text({}, Category::avg), "nan");
  EXPECT_EQ(text({}, Category::l2norm), "0");
  EXPECT_EQ(text({}, Category::count), "0");
}

TEST(CategoryTexts, OfLargeIntegersGoThroughSixDigits) {
  const auto tensor = sample::of<std::int64_t>(DType::int64, {1234567890123, 1});
  EXPECT_EQ(text_of(summarize(tensor.view()), Category::max), "1.23457e+12");
}

TEST(CategoryTexts, EqualPrintf) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 200000; ++i) {
    const std::uint64_t bits = random();
    double value;
    std::memcpy(&value, &bits, sizeof value);
    if (i % 2 == 0) value = std::ldexp(1 + std::fabs(std::fmod(value, 1)), static_cast<int>(bits % 80) - 40);
    if (i % 3 == 0) value = std::round(value * 1000) / 1000;
    if (std::isnan(value)) continue;
    Statistics one;
    one.count = 1;
    one.max = one.min = value;
    if (std::isinf(value)) (value > 0 ? one.positive_inf_count : one.negative_inf_count) = 1;
    char expected[64];
    std::snprintf(expected, sizeof expected, "%g", value);
    ASSERT_EQ(text_of(one, Category::max), expected);
  }
}

TEST(CategoryValues, EqualTheirDefinitions) {
  const Statistics found = summarize(floats({3, -4}).view());
  EXPECT_EQ(value_of(found, Category::l2norm), 5);
  EXPECT_EQ(value_of(found, Category::avg), -0.5);
  EXPECT_EQ(value_of(found, Category::count), 2);
}

TEST(Categories, OfLowPrecisionAreRoundedToTheTypeOfTheTensor) {
  Statistics of;
  of.count = 3;
  of.sum = 1.0;           // the average is a third
  of.sum_squares = 1e12;  // the norm is a million
  EXPECT_EQ(text_in_type(of, Category::avg, DType::float64), "0.333333");
  EXPECT_EQ(text_in_type(of, Category::avg, DType::float16), "0.333252");
  EXPECT_EQ(text_in_type(of, Category::avg, DType::bfloat16), "0.333984");
  EXPECT_EQ(text_in_type(of, Category::l2norm, DType::float16), "inf");
  EXPECT_EQ(text_in_type(of, Category::l2norm, DType::bfloat16), "999424");
  EXPECT_EQ(text_in_type(of, Category::l2norm, DType::float32), "1e+06");
  EXPECT_EQ(text_in_type(of, Category::max, DType::float16), text_of(of, Category::max));
}

}  // namespace
}  // namespace sonde
