// The values of the statistics; neither geometry nor the host's settings change them.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <thread>

#include "ground/stats/finite.h"
#include "ground/stats/host_pool.h"
#include "ground/stats/kernels.h"
#include "tensor/sample_tensors.h"

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace sonde {
namespace {

using sample::bits_of;
using sample::doubles;
using sample::floats;
using sample::Mix;
using sample::Tensor;

constexpr float kInfF = std::numeric_limits<float>::infinity();
constexpr float kNanF = std::numeric_limits<float>::quiet_NaN();

TEST(Summaries, CountEachKindOfElement) {
  const Statistics found = summarize(floats({1, -2, 0, -0.0F, kNanF, kInfF, -kInfF, -kInfF}).view());
  EXPECT_EQ(found.count, 8U);
  EXPECT_EQ(found.nan_count, 1U);
  EXPECT_EQ(found.positive_inf_count, 1U);
  EXPECT_EQ(found.negative_inf_count, 2U);
  EXPECT_EQ(found.positive_count, 2U);
  EXPECT_EQ(found.negative_count, 3U);
  EXPECT_EQ(found.zero_count, 2U);
  EXPECT_EQ(found.max, 1);
  EXPECT_EQ(found.min, -2);
  EXPECT_EQ(found.sum, -1);
  EXPECT_EQ(found.sum_squares, 5);
}

TEST(Summaries, OfAnEmptyTensorCountNothing) { EXPECT_EQ(summarize(floats({}).view()), Statistics()); }

TEST(Summaries, OfAScalarAreItsValue) {
  Tensor tensor = floats({-3.5F});
  tensor.shape = {};
  tensor.strides = {};
  const Statistics found = summarize(tensor.view());
  EXPECT_EQ(found.count, 1U);
  EXPECT_EQ(found.max, -3.5);
  EXPECT_EQ(found.min, -3.5);
  EXPECT_EQ(found.sum, -3.5);
}

TEST(Summaries, OfOnlyInfiniteElementsHaveNoExtremes) {
  const Statistics found = summarize(floats(std::vector<float>(40, kInfF)).view());
  EXPECT_EQ(found.finite_count(), 0U);
  EXPECT_EQ(found.max, 0);
  EXPECT_EQ(found.min, 0);
}

TEST(Summaries, TakeMinusZeroForLessThanZero) {
  for (const std::size_t length : {2U, 100U}) {
    std::vector<float> values(length, 0.0F);
    values[length / 2] = -0.0F;
    const Statistics mixed = summarize(floats(values).view());
    EXPECT_TRUE(std::signbit(mixed.min));
    EXPECT_FALSE(std::signbit(mixed.max));
    const Statistics minus = summarize(floats(std::vector<float>(length, -0.0F)).view());
    EXPECT_TRUE(std::signbit(minus.max));
    EXPECT_FALSE(std::signbit(minus.sum));
  }
}

TEST(Summaries, CountDenormalsAsNotZero) {
  const Statistics found = summarize(floats(std::vector<float>(100, 1e-40F)).view());
  EXPECT_EQ(found.zero_count, 0U);
  EXPECT_EQ(found.positive_count, 100U);
  EXPECT_GT(found.sum, 0);
}

#if defined(__SSE2__) || defined(__aarch64__)
#if defined(__SSE2__)
unsigned host_mode() { return _mm_getcsr(); }
void set_host_mode(unsigned mode) { _mm_setcsr(mode); }
constexpr unsigned kFlushAndRoundDown = 0xA040 | 0x1F80;
#else
unsigned host_mode() {
  std::uint64_t mode;
  asm volatile("mrs %0, fpcr" : "=r"(mode));
  return static_cast<unsigned>(mode);
}
void set_host_mode(std::uint64_t mode) { asm volatile("msr fpcr, %0" : : "r"(mode)); }
constexpr unsigned kFlushAndRoundDown = 1U << 24 | 2U << 22;
#endif

TEST(Summaries, DoNotDependOnTheHostsFlushingOfDenormals) {
  std::mt19937_64 random(7);
  for (const DType dtype : sample::dtypes_with_statistics()) {
    const Tensor tensor = sample::contiguous(dtype, {1000}, Mix::denormal, random);
    const unsigned host = host_mode();
    for (const Kernel& kernel : kernels()) {
      const auto expected = bits_of(summarize_with(kernel, tensor.view()));
      set_host_mode(kFlushAndRoundDown);
      const auto found = bits_of(summarize_with(kernel, tensor.view()));
      const unsigned left = host_mode();
      set_host_mode(host);
      EXPECT_EQ(found, expected) << kernel.name << " " << info(dtype).lower;
      EXPECT_EQ(left, kFlushAndRoundDown) << "the host's setting was not restored";
    }
  }
}
#endif

TEST(Summaries, AreExactForIntegers) {
  std::vector<std::int32_t> values(10000, std::numeric_limits<std::int32_t>::min());
  const Statistics found = summarize(sample::of(DType::int32, values).view());
  EXPECT_EQ(found.sum, -10000 * 2147483648.0);
  EXPECT_EQ(found.sum_squares, 10000 * 0x1p62);
  EXPECT_EQ(found.negative_count, 10000U);
  const std::vector<std::uint64_t> large(100, std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(summarize(sample::of(DType::uint64, large).view()).max, 0x1p64);
  const std::vector<std::uint8_t> bools(1000, 2);  // any byte but 0 is true
  EXPECT_EQ(summarize(sample::of(DType::bool8, bools).view()).sum, 1000);
  EXPECT_EQ(summarize(sample::of(DType::bool8, bools).view()).max, 1);
}

TEST(Summaries, AreCloseToLongDoubleSums) {
  std::mt19937_64 random(8);
  std::normal_distribution<float> normal(0.01F);
  std::vector<float> values(300000);
  long double sum = 0, squares = 0;
  for (float& value : values) {
    value = normal(random);
    sum += value;
    squares += static_cast<long double>(value) * value;
  }
  const Statistics found = summarize(floats(values).view());
  EXPECT_NEAR(found.sum, static_cast<double>(sum), 1e-9 * std::sqrt(300000.0));
  EXPECT_NEAR(found.sum_squares / static_cast<double>(squares), 1, 1e-14);
}

// A view over part of a bigger tensor: columns [0, columns) of rows `pitch` long.
Tensor columns_of(DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t pitch, std::mt19937_64& random) {
  Tensor tensor = sample::contiguous(dtype, {rows, pitch}, Mix::one_special, random);
  tensor.shape = {rows, columns};
  return tensor;
}

// In whatever order the blocks of a large tensor are read.
TEST(Summaries, AddTheSumsOfTheBlocksInTheirOrder) {
  std::mt19937_64 random(5);
  const std::int64_t block = 8192;
  const Tensor tensor = sample::contiguous(DType::float32, {50 * block + 77}, Mix::ordinary, random);
  double sum = 0, squares = 0;
  for (std::int64_t first = 0; first < tensor.shape[0]; first += block) {
    Tensor part = tensor;
    part.offset = static_cast<std::size_t>(first) * sizeof(float);
    part.shape[0] = std::min(block, tensor.shape[0] - first);
    const Statistics found = summarize(part.view());
    sum += found.sum;
    squares += found.sum_squares;
  }
  EXPECT_EQ(summarize(tensor.view()).sum, sum);
  EXPECT_EQ(summarize(tensor.view()).sum_squares, squares);
}

TEST(StridedSummaries, EqualThoseOfTheCopyWhenThereAreGaps) {
  std::mt19937_64 random(9);
  for (const DType dtype : sample::dtypes_with_statistics()) {
    for (const std::int64_t columns : {1, 5, 16, 33, 255, 256, 300, 9000}) {
      const Tensor tensor = columns_of(dtype, 37, columns, columns + 3, random);
      ASSERT_FALSE(tensor.view().is_dense());
      EXPECT_EQ(bits_of(summarize(tensor.view())), bits_of(summarize(sample::naive_copy(tensor.view()).view())))
          << info(dtype).lower << " " << columns;
    }
  }
}

TEST(StridedSummaries, EqualThoseOfTheCopyWhenElementsLieApart) {
  std::mt19937_64 random(10);
  Tensor tensor = sample::contiguous(DType::float32, {50, 60, 7}, Mix::bits, random);
  tensor.shape = {25, 60, 4};  // [::2, :, ::2]
  tensor.strides = {840, 7, 2};
  EXPECT_EQ(bits_of(summarize(tensor.view())), bits_of(summarize(sample::naive_copy(tensor.view()).view())));
}

TEST(StridedSummaries, AreInMemoryOrderWhateverThePermutation) {
  std::mt19937_64 random(14);
  // The queries of an attention with 4 heads of 64: one third of each row, and the same with the heads outside.
  Tensor tensor = sample::contiguous(DType::float32, {2, 100, 768}, Mix::ordinary, random);
  tensor.shape = {2, 100, 256};
  const auto expected = bits_of(summarize(tensor.view()));
  tensor.shape = {2, 4, 100, 64};
  tensor.strides = {76800, 64, 768, 1};
  EXPECT_EQ(bits_of(summarize(tensor.view())), expected);
  tensor.shape = {64, 100, 2, 4};
  tensor.strides = {1, 768, 76800, 64};
  EXPECT_EQ(bits_of(summarize(tensor.view())), expected);
  Tensor copy = tensor;
  copy.memory.resize(tensor.view().bytes());
  EXPECT_EQ(bits_of(summarize_and_copy(tensor.view(), copy.memory.data())), expected);
  EXPECT_EQ(copy.memory, sample::naive_copy(tensor.view()).memory);
}

TEST(StridedSummaries, WalkBackwardsToo) {
  std::mt19937_64 random(11);
  Tensor tensor = sample::contiguous(DType::float64, {1000}, Mix::ordinary, random);
  tensor.offset = 999 * 8;
  tensor.strides = {-1};
  EXPECT_EQ(bits_of(summarize(tensor.view())), bits_of(summarize(sample::naive_copy(tensor.view()).view())));
}

TEST(StridedSummaries, CountExpandedElementsAsOftenAsTheyAppear) {
  Tensor tensor = floats({2, -3, 0});
  tensor.shape = {1000, 3};
  tensor.strides = {0, 1};
  const Statistics found = summarize(tensor.view());
  EXPECT_EQ(found.count, 3000U);
  EXPECT_EQ(found.positive_count, 1000U);
  EXPECT_EQ(found.zero_count, 1000U);
  EXPECT_EQ(found.sum, -1000);
}

TEST(DenseSummaries, AreInMemoryOrderWhateverThePermutation) {
  std::mt19937_64 random(12);
  Tensor tensor = sample::contiguous(DType::float32, {40, 30, 20}, Mix::ordinary, random);
  Tensor flat = tensor;
  flat.shape = {24000};
  flat.strides = {1};
  const auto expected = bits_of(summarize(flat.view()));
  tensor.shape = {20, 40, 30};
  tensor.strides = {1, 600, 20};
  EXPECT_EQ(bits_of(summarize(tensor.view())), expected);
}

TEST(NegativeViews, HaveTheStatisticsOfTheNegatedElements) {
  std::mt19937_64 random(13);
  for (const Mix mix : {Mix::ordinary, Mix::bits}) {
    const Tensor tensor = sample::contiguous(DType::float32, {999}, mix, random);
    TensorView view = tensor.view();
    view.negative = true;
    Tensor negated = tensor;
    copy_c_order(view, negated.memory.data());
    EXPECT_EQ(bits_of(summarize(view)), bits_of(summarize(negated.view())));
  }
}

TEST(SummarizeAndCopy, DoesBothForEveryGeometry) {
  std::mt19937_64 random(14);
  std::vector<Tensor> tensors = {
      sample::contiguous(DType::float32, {20001}, Mix::ordinary, random),
      sample::contiguous(DType::bfloat16, {3, 5, 7}, Mix::bits, random),
      columns_of(DType::float64, 300, 40, 41, random),
      columns_of(DType::uint8, 10, 9000, 9001, random),
      sample::contiguous(DType::complex64, {33}, Mix::ordinary, random),
      floats({}),
  };
  tensors.push_back(sample::contiguous(DType::int32, {100, 200}, Mix::bits, random));
  tensors.back().shape = {200, 100};
  tensors.back().strides = {1, 200};
  for (const Tensor& tensor : tensors) {
    for (const bool negative : {false, true}) {
      TensorView view = tensor.view();
      view.negative = negative;
      std::vector<std::byte> out(view.bytes()), expected(view.bytes());
      copy_c_order(view, expected.data());
      EXPECT_EQ(bits_of(summarize_and_copy(view, out.data())), bits_of(summarize(view)));
      EXPECT_EQ(out, expected);
    }
  }
}

// A host's pool of as many threads as the test wants.
std::uint32_t g_pool_threads = 1;
std::atomic<std::uint32_t> g_pool_pieces = 0;

void run_in_pool(std::uint32_t pieces, void (*piece)(void*, std::uint32_t), void* context) {
  g_pool_pieces += pieces;
  std::vector<std::thread> threads;
  for (std::uint32_t i = 1; i < pieces; ++i) threads.emplace_back(piece, context, i);
  piece(context, 0);
  for (std::thread& thread : threads) thread.join();
}

// One answer for any number of threads: of every type, of lengths that fill no block, of groups of blocks.
TEST(HostPools, ChangeNoBit) {
  std::mt19937_64 random(16);
  for (const DType dtype : {DType::float32, DType::bfloat16, DType::float64, DType::int8}) {
    for (const std::int64_t length : {600'001, 4'300'000}) {
      if (length > 1'000'000 && dtype != DType::int8) continue;  // more blocks than a group has
      const Tensor tensor = sample::contiguous(dtype, {length}, Mix::one_special, random);
      std::vector<std::byte> expected_copy(tensor.view().bytes()), copy(tensor.view().bytes());
      const auto expected = bits_of(summarize_and_copy(tensor.view(), expected_copy.data()));
      EXPECT_EQ(bits_of(summarize(tensor.view())), expected);
      const bool finite = all_finite(tensor.view());
      set_host_pool({.threads = [] { return g_pool_threads; }, .run = run_in_pool});
      for (const std::uint32_t threads : {1U, 2U, 3U, 100U}) {
        g_pool_threads = threads;
        g_pool_pieces = 0;
        EXPECT_EQ(bits_of(summarize(tensor.view())), expected) << threads;
        EXPECT_EQ(bits_of(summarize_and_copy(tensor.view(), copy.data())), expected) << threads;
        EXPECT_EQ(copy, expected_copy);
        EXPECT_EQ(all_finite(tensor.view()), finite) << threads;
        EXPECT_EQ(g_pool_pieces > 0, threads > 1) << threads;
      }
      set_host_pool({});
    }
  }
}

TEST(HostPools, ChangeNoBitOfViewsWithGaps) {
  std::mt19937_64 random(17);
  for (const std::int64_t columns : {256, 40}) {  // read run by run, and through a buffer
    Tensor tensor = sample::contiguous(DType::float32, {9000, columns + 8}, Mix::one_special, random);
    tensor.shape = {9000, columns};
    const auto expected = bits_of(summarize(tensor.view()));
    const bool finite = all_finite(tensor.view());
    set_host_pool({.threads = [] { return g_pool_threads; }, .run = run_in_pool});
    for (const std::uint32_t threads : {1U, 2U, 3U}) {
      g_pool_threads = threads;
      EXPECT_EQ(bits_of(summarize(tensor.view())), expected) << columns << " " << threads;
      EXPECT_EQ(all_finite(tensor.view()), finite) << columns << " " << threads;
    }
    set_host_pool({});
  }
}

TEST(Summaries, AreTheSameOnEveryThread) {
  std::mt19937_64 random(15);
  const Tensor tensor = sample::contiguous(DType::float32, {100001}, Mix::ordinary, random);
  const auto expected = bits_of(summarize(tensor.view()));
  std::vector<std::array<std::uint64_t, 11>> found(4);
  std::vector<std::thread> threads;
  for (auto& one : found) {
    threads.emplace_back([&] { one = bits_of(summarize(tensor.view())); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& one : found) EXPECT_EQ(one, expected);
}

}  // namespace
}  // namespace sonde
