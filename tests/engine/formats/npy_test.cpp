#include "dump/formats/npy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

namespace sonde {
namespace {

using Sizes = std::vector<std::int64_t>;

std::string header(DType dtype, const std::vector<std::int64_t>& shape, bool raw = false) {
  return npy_header(dtype, shape, raw);
}

TEST(NpyHeader, HasTheBytesThatMindSporeWrites) {
  const std::string text = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,3,), }";
  const std::string expected =
      std::string("\x93NUMPY\x01\x00\x76\x00", 10) + text + std::string(118 - 1 - text.size(), ' ') + "\n";
  EXPECT_EQ(header(DType::float32, {2, 3}), expected);
  EXPECT_EQ(expected.size(), 128U);
}

TEST(NpyHeader, OfAScalarHasAnEmptyShape) {
  const std::string got = header(DType::bool8, {});
  EXPECT_NE(got.find("{'descr': '|b1', 'fortran_order': False, 'shape': (), }"), std::string::npos);
  EXPECT_EQ(got.size(), 128U);
}

TEST(NumpyHeader, HasTheBytesThatNumpyWrites) {
  const auto expected = [](const std::string& text, std::size_t bytes) {
    return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(bytes - 10) + '\0' + text +
           std::string(bytes - 11 - text.size(), ' ') + "\n";
  };
  const std::string start = "{'descr': '<f4', 'fortran_order': False, 'shape': ";
  EXPECT_EQ(numpy_header(DType::float32, {}), expected(start + "(), }", 128));
  EXPECT_EQ(numpy_header(DType::bfloat16, Sizes{3}), expected(start + "(3,), }", 128));
  EXPECT_EQ(numpy_header(DType::float32, Sizes{2, 0, 16}), expected(start + "(2, 0, 16), }", 128));
  // The room to grow, here 20 spaces, fills the second line of 64 bytes.
  const auto bytes_of = [](std::size_t dimensions) {
    return numpy_header(DType::float32, Sizes(dimensions, 1)).size();
  };
  EXPECT_EQ(bytes_of(14), 128U);
  EXPECT_EQ(bytes_of(15), 192U);
  EXPECT_EQ(numpy_header(DType::undefined, Sizes{3}), "");
}

TEST(NpyHeader, IsPaddedByAFullLineWhenAlreadyAligned) {
  // Every further dimension is two characters longer.
  std::vector<std::int64_t> shape = {1};
  std::string got = header(DType::float32, shape);
  while (shape.size() < 40 && (got.find('}') + 2) % 64 != 0) {
    shape.push_back(1);
    got = header(DType::float32, shape);
  }
  ASSERT_EQ((got.find('}') + 2) % 64, 0U);
  EXPECT_EQ(got.size(), got.find('}') + 2 + 64);
}

TEST(NpyHeader, OfManyDimensionsUsesVersionTwo) {
  const std::string got = header(DType::int8, std::vector<std::int64_t>(40000, 1));
  EXPECT_EQ(got.substr(6, 2), std::string("\x02\x00", 2));
  std::uint32_t stored = 0;
  std::memcpy(&stored, got.data() + 8, sizeof stored);
  EXPECT_EQ(stored + 12, got.size());
  EXPECT_EQ(got.size() % 64, 0U);
}

TEST(NpyHeader, SaysTheTypeOfTheFile) {
  EXPECT_NE(header(DType::bfloat16, {3}).find("'<f4'"), std::string::npos);
  EXPECT_NE(header(DType::bfloat16, {3}, true).find("'<E2'"), std::string::npos);
  EXPECT_NE(header(DType::float8_e5m2, {3}).find("'<f4'"), std::string::npos);
  EXPECT_NE(header(DType::complex32, {3}).find("'<c8'"), std::string::npos);
  EXPECT_NE(header(DType::quint8, {3}).find("'|u1'"), std::string::npos);
  EXPECT_EQ(header(DType::undefined, {3}), "");
}

template <typename Code>
std::vector<float> widened(DType dtype, const std::vector<Code>& codes, std::size_t floats_each = 1) {
  std::vector<std::byte> in(codes.size() * sizeof(Code));
  std::memcpy(in.data(), codes.data(), in.size());
  const std::size_t elements = codes.size() / floats_each;
  std::vector<float> out(elements * floats_each);
  widen_for_npy(dtype, in.data(), elements, reinterpret_cast<std::byte*>(out.data()));
  return out;
}

TEST(NpyData, WidensBfloat16Exactly) {
  const auto out = widened<std::uint16_t>(DType::bfloat16, {0x3f8d, 0xc013, 0x7f80, 0x8000});
  EXPECT_EQ(out[0], 1.1015625F);
  EXPECT_EQ(out[1], -2.296875F);
  EXPECT_TRUE(std::isinf(out[2]));
  EXPECT_TRUE(std::signbit(out[3]));
}

TEST(NpyData, WidensEveryKindOfFloat8) {
  EXPECT_EQ(widened<std::uint8_t>(DType::float8_e4m3fn, {0x7e})[0], 448.0F);
  EXPECT_EQ(widened<std::uint8_t>(DType::float8_e5m2, {0x7b})[0], 57344.0F);
  EXPECT_EQ(widened<std::uint8_t>(DType::float8_e4m3fnuz, {0x7f})[0], 240.0F);
  EXPECT_EQ(widened<std::uint8_t>(DType::float8_e5m2fnuz, {0x7f})[0], 57344.0F);
  EXPECT_EQ(widened<std::uint8_t>(DType::float8_e8m0fnu, {0x7f})[0], 1.0F);
  EXPECT_TRUE(std::isnan(widened<std::uint8_t>(DType::float8_e4m3fnuz, {0x80})[0]));
}

TEST(NpyData, WidensBothHalvesOfComplex32) {
  const auto out = widened<std::uint16_t>(DType::complex32, {0x3c00, 0xc000}, 2);
  EXPECT_EQ(out, (std::vector<float>{1.0F, -2.0F}));
}

}  // namespace
}  // namespace sonde
