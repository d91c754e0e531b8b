#include <gtest/gtest.h>

#include <algorithm>
#include <complex>
#include <limits>
#include <numeric>

#include "ground/tensor/small_floats.h"
#include "ground/tensor/walk.h"
#include "sample_tensors.h"

namespace sonde {
namespace {

using sample::Mix;
using sample::Tensor;

std::vector<std::byte> copied(const TensorView& view) {
  std::vector<std::byte> out(view.bytes());
  copy_c_order(view, out.data());
  return out;
}

// A random view: dimensions permuted, sliced with steps, expanded, some of them in reverse order.
Tensor random_view(DType dtype, std::mt19937_64& random) {
  const std::size_t rank = random() % 5;
  std::vector<std::int64_t> base_shape(rank);
  for (auto& size : base_shape) size = static_cast<std::int64_t>(random() % (rank > 2 ? 9 : 40)) + 1;
  Tensor tensor = sample::contiguous(dtype, base_shape, Mix::bits, random);
  std::vector<std::size_t> order(rank);
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::shuffle(order, random);
  std::vector<std::int64_t> shape, strides;
  for (const std::size_t d : order) {
    const std::int64_t step = static_cast<std::int64_t>(random() % 8 == 0 ? 2 : 1);
    std::int64_t size = (tensor.shape[d] + step - 1) / step;
    std::int64_t stride = tensor.strides[d] * step;
    if (random() % 10 == 0) stride = 0;
    if (random() % 16 == 0) {
      tensor.offset += static_cast<std::size_t>((size - 1) * stride) * info(dtype).item_bytes;
      stride = -stride;
    }
    shape.push_back(size);
    strides.push_back(stride);
  }
  tensor.shape = shape;
  tensor.strides = strides;
  return tensor;
}

TEST(CopyInCOrder, EqualsTheNaiveCopy) {
  std::mt19937_64 random(1);
  for (const DType dtype : {DType::uint8, DType::bfloat16, DType::float32, DType::float64, DType::complex128}) {
    for (int round = 0; round < 400; ++round) {
      const Tensor tensor = random_view(dtype, random);
      ASSERT_EQ(copied(tensor.view()), sample::naive_copy(tensor.view()).memory)
          << info(dtype).lower << shape_text(tensor.shape, '(', ')') << shape_text(tensor.strides, '(', ')');
    }
  }
}

TEST(CopyInCOrder, TransposesLargerThanATile) {
  std::mt19937_64 random(2);
  Tensor tensor = sample::contiguous(DType::float32, {3, 70, 45}, Mix::bits, random);
  tensor.shape = {45, 3, 70};
  tensor.strides = {1, 3150, 45};
  EXPECT_EQ(copied(tensor.view()), sample::naive_copy(tensor.view()).memory);
}

TEST(CopyInCOrder, OfAnEmptyTensorTouchesNothing) {
  TensorView view;
  const std::int64_t shape[] = {3, 0};
  const std::int64_t strides[] = {0, 1};
  view.dtype = DType::float32;
  view.shape = shape;
  view.strides = strides;
  copy_c_order(view, nullptr);
  EXPECT_EQ(view.bytes(), 0U);
}

TEST(CopyInCOrder, ResolvesConjugateAndNegativeOfComplexNumbers) {
  using Complex = std::complex<float>;
  const Tensor tensor = sample::of<Complex>(DType::complex64, {{1, 2}, {-3, -4}});
  const auto resolved = [&](bool conjugate, bool negative) {
    TensorView view = tensor.view();
    view.conjugate = conjugate;
    view.negative = negative;
    std::vector<Complex> out(2);
    copy_c_order(view, reinterpret_cast<std::byte*>(out.data()));
    return out;
  };
  EXPECT_EQ(resolved(true, false), (std::vector<Complex>{{1, -2}, {-3, 4}}));
  EXPECT_EQ(resolved(false, true), (std::vector<Complex>{{-1, -2}, {3, 4}}));
  EXPECT_EQ(resolved(true, true), (std::vector<Complex>{{-1, 2}, {3, -4}}));
}

TEST(CopyInCOrder, ResolvesNegativeOfRealNumbers) {
  TensorView view;
  const Tensor reals = sample::floats({1, -2, 0});
  view = reals.view();
  view.negative = true;
  std::vector<float> out(3);
  copy_c_order(view, reinterpret_cast<std::byte*>(out.data()));
  EXPECT_EQ(out, (std::vector<float>{-1, 2, 0}));
  EXPECT_TRUE(std::signbit(out[2]));

  const Tensor integers = sample::of<std::int16_t>(DType::int16, {5, -6, std::numeric_limits<std::int16_t>::min()});
  view = integers.view();
  view.negative = true;
  std::vector<std::int16_t> negated(3);
  copy_c_order(view, reinterpret_cast<std::byte*>(negated.data()));
  EXPECT_EQ(negated, (std::vector<std::int16_t>{-5, 6, std::numeric_limits<std::int16_t>::min()}));
}

TEST(CopyInCOrder, LeavesTheNanOfFormatsWithoutNegativeZero) {
  const Tensor tensor = sample::of<std::uint8_t>(DType::float8_e4m3fnuz, {0x80, 0x00, 0x01});
  TensorView view = tensor.view();
  view.negative = true;
  EXPECT_EQ(copied(view), (std::vector<std::byte>{std::byte{0x80}, std::byte{0x00}, std::byte{0x81}}));
}

TEST(Cursors, GiveTheSameElementsWhateverThePiece) {
  std::mt19937_64 random(3);
  for (const std::size_t piece : {1U, 3U, 16U, 1000U}) {
    const Tensor tensor = random_view(DType::int32, random);
    const std::vector<std::byte> expected = sample::naive_copy(tensor.view()).memory;
    std::vector<std::byte> out(expected.size() + 4 * piece);
    Cursor cursor(tensor.view());
    std::size_t done = 0;
    while (const std::size_t count = cursor.read(out.data() + 4 * done, piece)) done += count;
    out.resize(4 * done);
    EXPECT_EQ(out, expected);
  }
}

TEST(SmallFloats, HaveTheValuesOfTheirFormats) {
  EXPECT_EQ(float16_to_float(0x3C00), 1.0F);
  EXPECT_EQ(float16_to_float(0x0001), 0x1p-24F);
  EXPECT_EQ(float16_to_float(0xFBFF), -65504.0F);
  EXPECT_EQ(float16_to_float(0x7C00), std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(float16_to_float(0x7C01)));
  EXPECT_TRUE(std::signbit(float16_to_float(0x8000)));
  EXPECT_EQ(bfloat16_to_float(0x3F80), 1.0F);
  EXPECT_EQ(kFloat8Values<DType::float8_e4m3fn>[0x7E], 448.0F);
  EXPECT_TRUE(std::isnan(kFloat8Values<DType::float8_e4m3fn>[0xFF]));
  EXPECT_EQ(kFloat8Values<DType::float8_e4m3fn>[0x01], 0x1p-9F);
  EXPECT_EQ(kFloat8Values<DType::float8_e5m2>[0x7B], 57344.0F);
  EXPECT_EQ(kFloat8Values<DType::float8_e5m2>[0xFC], -std::numeric_limits<float>::infinity());
  EXPECT_EQ(kFloat8Values<DType::float8_e5m2>[0x01], 0x1p-16F);
  EXPECT_EQ(kFloat8Values<DType::float8_e4m3fnuz>[0x7F], 240.0F);
  EXPECT_TRUE(std::isnan(kFloat8Values<DType::float8_e4m3fnuz>[0x80]));
  EXPECT_EQ(kFloat8Values<DType::float8_e5m2fnuz>[0x7F], 57344.0F);
  EXPECT_EQ(kFloat8Values<DType::float8_e5m2fnuz>[0x01], 0x1p-17F);
  EXPECT_EQ(kFloat8Values<DType::float8_e8m0fnu>[127], 1.0F);
  EXPECT_EQ(kFloat8Values<DType::float8_e8m0fnu>[0], 0x1p-127F);
  EXPECT_TRUE(std::isnan(kFloat8Values<DType::float8_e8m0fnu>[255]));
}

}  // namespace
}  // namespace sonde
