// all_finite compared with the statistics, which count the same elements.
#include "ground/stats/finite.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "ground/stats/statistics.h"

namespace sonde {
namespace {

TensorView view_of(DType dtype, const std::vector<std::byte>& bytes, const std::vector<std::int64_t>& shape,
                   const std::vector<std::int64_t>& strides) {
  TensorView view;
  view.dtype = dtype;
  view.data = bytes.data();
  view.shape = shape;
  view.strides = strides;
  return view;
}

TEST(Finite, AgreesWithTheStatisticsOfEveryTypeAndPlace) {
  const std::array floats = {DType::float16,         DType::bfloat16,        DType::float32,
                             DType::float64,         DType::float8_e4m3fn,   DType::float8_e5m2,
                             DType::float8_e4m3fnuz, DType::float8_e5m2fnuz, DType::float8_e8m0fnu};
  for (const DType dtype : floats) {
    const std::size_t item = info(dtype).item_bytes;
    for (const std::size_t elements : {1U, 7U, 64U, 255U, 5000U, 70001U}) {
      const std::vector<std::int64_t> shape = {static_cast<std::int64_t>(elements)}, strides = {1};
      std::vector<std::byte> bytes(elements * item, std::byte{0x11});
      ASSERT_TRUE(all_finite(view_of(dtype, bytes, shape, strides))) << info(dtype).name << " " << elements;
      for (const std::size_t place : {std::size_t{0}, elements / 2, elements - 1}) {
        for (const int pattern : {0xFF, 0x7C, 0x80, 0x7F}) {
          std::vector<std::byte> one = bytes;
          std::memset(one.data() + place * item, pattern, item);
          if (pattern == 0x7C && item == 2) one[place * item] = std::byte{0};  // float16's infinity
          const TensorView view = view_of(dtype, one, shape, strides);
          EXPECT_EQ(all_finite(view), summarize(view).all_finite())
              << info(dtype).name << " " << elements << " elements, " << place << ", " << pattern;
        }
      }
    }
  }
}

TEST(Finite, LooksAtTheElementsOfAViewAndAtNoOthers) {
  std::vector<float> values(100, 1.0F);
  values[1] = std::numeric_limits<float>::infinity();
  std::vector<std::byte> bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  EXPECT_TRUE(all_finite(view_of(DType::float32, bytes, {50}, {2})));
  EXPECT_FALSE(all_finite(view_of(DType::float32, bytes, {10, 10}, {1, 10})));
  EXPECT_FALSE(all_finite(view_of(DType::float32, bytes, {33}, {1})));
  EXPECT_TRUE(all_finite(view_of(DType::float32, bytes, {1'000'000'000, 1'000'000'000}, {0, 0})));
  EXPECT_FALSE(all_finite(view_of(DType::complex64, bytes, {50}, {1})));
  EXPECT_TRUE(all_finite(view_of(DType::int32, bytes, {100}, {1})));
  EXPECT_TRUE(all_finite(view_of(DType::float32, bytes, {0}, {1})));
}

}  // namespace
}  // namespace sonde
