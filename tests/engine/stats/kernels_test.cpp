// Every kernel that runs here, compared with the scalar one, which defines the answer, bit for bit.
#include "ground/stats/kernels.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "ground/stats/narrow_values.h"
#include "ground/stats/pair_kernels.h"
#include "tensor/sample_tensors.h"

namespace sonde {
namespace {

using sample::bits_of;
using sample::Mix;
using sample::Tensor;

constexpr Mix kMixes[] = {Mix::ordinary, Mix::bits, Mix::denormal, Mix::one_special};

class Kernels : public testing::TestWithParam<DType> {};

void expect_equal_to_scalar(const Tensor& tensor, Mix mix) {
  const auto expected = bits_of(summarize_with(scalar_kernel(), tensor.view()));
  for (const Kernel& kernel : kernels()) {
    ASSERT_EQ(bits_of(summarize_with(kernel, tensor.view())), expected)
        << kernel.name << " " << info(tensor.dtype).lower << " mix " << static_cast<int>(mix) << " elements "
        << tensor.view().elements() << " at " << tensor.offset;
  }
}

TEST_P(Kernels, AgreeOnEveryShortLength) {
  std::mt19937_64 random(static_cast<std::uint64_t>(GetParam()));
  for (const Mix mix : kMixes) {
    for (std::int64_t length = 0; length <= 200; ++length) {
      expect_equal_to_scalar(sample::contiguous(GetParam(), {length}, mix, random), mix);
    }
  }
}

TEST_P(Kernels, AgreeOnLengthsAroundBlocks) {
  std::mt19937_64 random(1000 + static_cast<std::uint64_t>(GetParam()));
  for (const Mix mix : kMixes) {
    for (const std::int64_t length : {8175, 8191, 8192, 8193, 16384, 16401, 49999}) {
      expect_equal_to_scalar(sample::contiguous(GetParam(), {length}, mix, random), mix);
    }
  }
}

TEST_P(Kernels, AgreeAtAnyAddress) {
  std::mt19937_64 random(2000 + static_cast<std::uint64_t>(GetParam()));
  for (std::size_t offset = 0; offset < 64; ++offset) {
    Tensor tensor = sample::contiguous(GetParam(), {333}, Mix::bits, random);
    tensor.memory.insert(tensor.memory.begin(), offset, std::byte{0xFF});
    tensor.offset = offset;
    expect_equal_to_scalar(tensor, Mix::bits);
  }
}

TEST(KernelList, HasThoseOfThisProcessor) {
#if defined(HWY_COMPILE_ONLY_SCALAR)
  EXPECT_EQ(kernels().size(), 1U);
  EXPECT_EQ(pair_kernels().size(), 1U);
#elif defined(__x86_64__) || defined(__aarch64__)
  EXPECT_GT(kernels().size(), 1U);
  EXPECT_GT(pair_kernels().size(), 1U);
#endif
  EXPECT_EQ(kernels().back().name, "scalar");
}

class NarrowKernels : public testing::TestWithParam<DType> {};

TEST_P(NarrowKernels, AgreeOnEveryCode) {
  Tensor tensor;
  tensor.dtype = GetParam();
  const std::size_t item_bytes = info(tensor.dtype).item_bytes;
  constexpr std::size_t kElements = kGroupElements;  // so that vector kernels take them
  tensor.shape = {kElements};
  tensor.strides = {1};
  tensor.memory.resize(kElements * item_bytes);
  for (std::uint32_t code = 0; code < 1U << (8 * item_bytes); ++code) {
    for (std::size_t i = 0; i < kElements; ++i) {
      std::memcpy(tensor.memory.data() + i * item_bytes, &code, item_bytes);
    }
    expect_equal_to_scalar(tensor, Mix::bits);
    if (HasFatalFailure()) return;
  }
}

TEST_P(NarrowKernels, AgreeOnEveryCodeAmongOthers) {
  std::mt19937_64 random(11);
  const std::size_t item_bytes = info(GetParam()).item_bytes;
  const Tensor ordinary = sample::contiguous(GetParam(), {2 * kGroupElements}, Mix::ordinary, random);
  for (std::uint32_t code = 0; code < 1U << (8 * item_bytes); code += item_bytes == 1 ? 1 : 251) {
    Tensor tensor = ordinary;
    std::memcpy(tensor.memory.data() + random() % (2 * kGroupElements) * item_bytes, &code, item_bytes);
    expect_equal_to_scalar(tensor, Mix::ordinary);
    if (HasFatalFailure()) return;
  }
}

TEST_P(NarrowKernels, AgreeOnZeros) {
  std::mt19937_64 random(12);
  for (const std::size_t period : {1U, 2U, 5U, 16U, 32U, 250U}) {  // every so many elements are not zero
    Tensor tensor = sample::contiguous(GetParam(), {3 * kGroupElements + 5}, Mix::ordinary, random);
    const std::size_t item_bytes = info(tensor.dtype).item_bytes;
    for (std::size_t i = 0; i < 3 * kGroupElements; ++i) {
      if (i % period != 1 || i < kGroupElements) std::memset(tensor.memory.data() + i * item_bytes, 0, item_bytes);
    }
    expect_equal_to_scalar(tensor, Mix::ordinary);
  }
}

// Groups of bfloat16 whose squares are too small or too large for a float, in all lanes, in some, and between others.
TEST(GroupedKernels, AgreeWhereSquaresLeaveTheRangeOfFloats) {
  const auto code_of = [](float value) {
    return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
  };
  std::mt19937_64 random(7);
  std::uniform_real_distribution<float> digits(1.0F, 2.0F);
  for (const float scale : {0.0F, 0x1p-130F, 0x1p-90F, 0x1p-41F, 0x1p-39F, 0x1p59F, 0x1p61F, 0x1p126F}) {
    for (const std::size_t period : {1U, 7U, 16U, 300U}) {
      std::vector<std::uint16_t> codes(2000);
      double sum = 0, squares = 0;
      for (std::size_t i = 0; i < codes.size(); ++i) {
        codes[i] = code_of(digits(random) * (i % period == 0 ? scale : 1.0F) * (i % 3 == 0 ? -1.0F : 1.0F));
        const double value = bfloat16_value(codes[i]);
        sum += value;
        squares += value * value;
      }
      const Tensor tensor = sample::of(DType::bfloat16, codes);
      expect_equal_to_scalar(tensor, Mix::ordinary);
      const Statistics found = summarize(tensor.view());
      EXPECT_NEAR(found.sum_squares, squares, squares * 1e-6) << scale << " " << period;
      EXPECT_NEAR(found.sum, sum, 1e-6 * std::sqrt(squares * 2000)) << scale << " " << period;
    }
  }
}

std::vector<DType> narrow_dtypes() {
  std::vector<DType> dtypes = sample::dtypes_with_statistics();
  std::erase_if(dtypes, [](DType dtype) { return info(dtype).item_bytes > 2; });
  return dtypes;
}

INSTANTIATE_TEST_SUITE_P(AllDTypes, Kernels, testing::ValuesIn(sample::dtypes_with_statistics()), name_of);
INSTANTIATE_TEST_SUITE_P(OneOrTwoBytes, NarrowKernels, testing::ValuesIn(narrow_dtypes()), name_of);

TEST(KernelList, EndsWithTheScalarOne) {
  EXPECT_EQ(kernels().back().name, "scalar");
  EXPECT_EQ(kernels().back().add, scalar_kernel().add);
}

TEST(KernelList, HasEveryTypeInEveryKernel) {
  for (const Kernel& kernel : kernels()) {
    for (const DTypeInfo& row : all_dtypes()) {
      EXPECT_EQ(kernel.add[static_cast<std::size_t>(row.dtype)] != nullptr, row.has_statistics)
          << kernel.name << " " << row.name;
    }
  }
}

TEST(KernelList, HasTheOneInUse) { EXPECT_EQ(kernel_name(), chosen_kernel().name); }

// Doubles whose squares, or whose sums, overflow although all of them are finite.
TEST(Kernels64, AgreeWhenSumsOverflow) {
  std::vector<double> values(1000, 1e308);
  expect_equal_to_scalar(sample::doubles(values), Mix::ordinary);
  for (std::size_t i = 0; i < values.size(); i += 2) values[i] = -1e308;
  expect_equal_to_scalar(sample::doubles(values), Mix::ordinary);
  values.assign(20000, 1e200);
  const Statistics found = summarize(sample::doubles(values).view());
  EXPECT_EQ(found.max, 1e200);
  EXPECT_TRUE(found.all_finite());
  EXPECT_EQ(found.sum_squares, std::numeric_limits<double>::infinity());
}

// A block with one NaN is computed again in the slow way, the others are not: the place must not matter.
TEST(Kernels32, AgreeWhereverTheNanIs) {
  std::vector<float> values(3 * 8192 + 5);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 977) - 400.25F;
  for (std::size_t at = 0; at < values.size(); at += 1234) {
    std::vector<float> with_nan = values;
    with_nan[at] = std::numeric_limits<float>::quiet_NaN();
    const Tensor tensor = sample::floats(with_nan);
    expect_equal_to_scalar(tensor, Mix::ordinary);
    EXPECT_EQ(summarize(tensor.view()).nan_count, 1U);
  }
}

}  // namespace
}  // namespace sonde
