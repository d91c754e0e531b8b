#include "sonde/tensor.h"

#include <gtest/gtest.h>

#include <vector>

#include "sample_tensors.h"
#include "sonde/dims.h"

namespace sonde {
namespace {

TensorView view_of(const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& strides) {
  static const std::byte kByte{};
  TensorView view;
  view.dtype = DType::float32;
  view.data = &kByte;
  view.shape = shape;
  view.strides = strides;
  return view;
}

TEST(DTypes, AreFoundByEitherNameInAnyCase) {
  for (const DTypeInfo& row : all_dtypes()) {
    EXPECT_EQ(dtype_from_name(row.name), row.dtype);
    EXPECT_EQ(dtype_from_name(row.lower), row.dtype);
  }
  EXPECT_EQ(dtype_from_name("FLOAT32"), DType::float32);
  EXPECT_EQ(dtype_from_name("float33"), DType::undefined);
  EXPECT_EQ(dtype_from_name(""), DType::undefined);
}

TEST(DTypes, OutsideTheTableAreUndefined) {
  EXPECT_EQ(info(static_cast<DType>(25)).dtype, DType::undefined);
  EXPECT_EQ(info(static_cast<DType>(255)).item_bytes, 0);
}

TEST(DTypes, ThatNumpyLacksAreWidenedInFiles) {
  EXPECT_EQ(info(DType::bfloat16).npy, "<f4");
  EXPECT_EQ(info(DType::bfloat16).item_bytes, 2);
  EXPECT_EQ(info(DType::bfloat16).file_bytes, 4);
  EXPECT_EQ(info(DType::float8_e5m2).file_bytes, 4);
  EXPECT_EQ(info(DType::float16).npy, "<f2");
}

TEST(DimsOfATensor, KeepSixInsideAndMoreOutside) {
  for (std::size_t size = 0; size < 12; ++size) {
    std::vector<std::int64_t> values(size);
    for (std::size_t i = 0; i < size; ++i) values[i] = static_cast<std::int64_t>(i * 7 + 1);
    const Dims dims(values);
    const Dims copy(dims);
    Dims assigned;
    assigned = copy;
    EXPECT_EQ(std::vector<std::int64_t>(assigned.values().begin(), assigned.values().end()), values);
    EXPECT_EQ(assigned, dims);
    const Dims moved(std::move(assigned));
    EXPECT_EQ(moved, dims);
  }
}

TEST(DimsOfATensor, AreEqualWhenTheirValuesAre) {
  const std::vector<std::int64_t> a = {1, 2, 3}, b = {1, 2, 4}, c = {1, 2};
  EXPECT_EQ(Dims(a), Dims(a));
  EXPECT_FALSE(Dims(a) == Dims(b));
  EXPECT_FALSE(Dims(a) == Dims(c));
  EXPECT_EQ(Dims(), Dims(std::vector<std::int64_t>{}));
}

TEST(DimsOfATensor, MayBeAssignedToThemselves) {
  const std::vector<std::int64_t> values = {1, 2, 3, 4, 5, 6, 7, 8};
  Dims dims(values);
  const Dims& same = dims;
  dims = same;
  EXPECT_EQ(dims, Dims(values));
}

TEST(TensorViews, OfAScalarHaveOneElement) {
  const TensorView view = view_of({}, {});
  EXPECT_EQ(view.elements(), 1);
  EXPECT_EQ(view.bytes(), 4U);
  EXPECT_TRUE(view.is_c_contiguous());
  EXPECT_TRUE(view.is_dense());
}

TEST(TensorViews, KnowWhetherTheyAreContiguous) {
  EXPECT_TRUE(view_of({2, 3}, {3, 1}).is_c_contiguous());
  EXPECT_TRUE(view_of({2, 1, 3}, {3, 99, 1}).is_c_contiguous()) << "a stride that is never taken";
  EXPECT_FALSE(view_of({2, 3}, {1, 2}).is_c_contiguous());
  EXPECT_FALSE(view_of({2, 3}, {4, 1}).is_c_contiguous());
  EXPECT_TRUE(view_of({0, 3}, {7, 9}).is_c_contiguous());
}

TEST(TensorViews, KnowWhetherTheyAreDense) {
  EXPECT_TRUE(view_of({2, 3}, {1, 2}).is_dense());
  EXPECT_TRUE(view_of({2, 3, 4, 5}, {60, 1, 15, 3}).is_dense()) << "channels last";
  EXPECT_FALSE(view_of({2, 3}, {4, 1}).is_dense()) << "gaps";
  EXPECT_FALSE(view_of({2, 3}, {0, 1}).is_dense()) << "expanded";
  EXPECT_FALSE(view_of({2, 2}, {1, 1}).is_dense()) << "overlapping";
  EXPECT_FALSE(view_of({3}, {-1}).is_dense());
  EXPECT_TRUE(view_of({1, 1}, {7, 5}).is_dense());
  EXPECT_TRUE(view_of({3, 0}, {0, 0}).is_dense());
}

TEST(ShapeTexts, HaveNoSpaces) {
  EXPECT_EQ(shape_text(std::vector<std::int64_t>{2, 3}, '(', ')'), "(2,3)");
  EXPECT_EQ(shape_text({}, '[', ']'), "[]");
  EXPECT_EQ(shape_text(std::vector<std::int64_t>{3}, '[', ']'), "[3]");
}

}  // namespace
}  // namespace sonde
