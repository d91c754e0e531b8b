#include "ground/tensor/visit.h"

#include <gtest/gtest.h>

#include <concepts>

namespace sonde {
namespace {

// The bytes of an element; 0 without a number.
std::size_t bytes_of(DType dtype) {
  return visit(dtype, []<typename Element>(Element) -> std::size_t {
    if constexpr (std::same_as<Element, NoNumber>) {
      return 0;
    } else {
      return sizeof(typename Element::Stored);
    }
  });
}

TEST(Visit, KnowsTheBytesOfEveryTypeWithNumbers) {
  for (const DTypeInfo& row : all_dtypes()) {
    if (!row.has_statistics) continue;
    EXPECT_EQ(bytes_of(row.dtype), row.item_bytes) << row.lower;
  }
}

TEST(Visit, SeesTheTwoPartsOfAComplexType) {
  for (const DType dtype : {DType::complex32, DType::complex64, DType::complex128}) {
    EXPECT_EQ(bytes_of(dtype), 0U);
    EXPECT_EQ(2 * bytes_of(part_of(dtype)), info(dtype).item_bytes);
  }
}

}  // namespace
}  // namespace sonde
