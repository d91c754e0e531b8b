// The statistics kernel of devices, run on the CPU, against the statistics of the CPU, bit for bit.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <tuple>
#include <vector>

#include "device/emulated_grid.h"
#include "ground/device/batch.h"
#include "ground/stats/kernels.h"
#include "tensor/sample_tensors.h"

namespace sonde::device {
namespace {

using sample::bits_of;
using sample::Mix;
using sample::Tensor;

constexpr Mix kMixes[] = {Mix::ordinary, Mix::bits, Mix::denormal, Mix::one_special};

struct Outcome {
  std::vector<Statistics> statistics;
  std::size_t launches = 0;
};

Outcome run(const std::vector<TensorView>& views, ThreadOrder order = ThreadOrder::shuffled) {
  std::vector<std::uint64_t> counts;
  std::size_t all = 0;
  for (const TensorView& view : views) all += counts.emplace_back(*count_records(view));
  std::vector<Record> records(all);
  for (Record& record : records) std::memset(static_cast<void*>(&record), 0xA5, sizeof record);  // not zeroed
  Outcome outcome;
  const Status status = launch_batches(views, [&](const Batch& batch, std::uint32_t blocks, std::uint64_t first) {
    run_grid(batch, blocks, records.data() + first, order);
    ++outcome.launches;
    return Status();
  });
  EXPECT_TRUE(status);
  std::span<const Record> rest = records;
  for (std::size_t i = 0; i < views.size(); ++i) {
    const auto elements = static_cast<std::uint64_t>(views[i].elements());
    outcome.statistics.push_back(fold(rest.first(counts[i]), elements, views[i].negative));
    rest = rest.subspan(counts[i]);
  }
  return outcome;
}

void expect_equal_to_cpu(const TensorView& view, const std::string& label) {
  const Statistics expected = summarize_with(scalar_kernel(), view);
  for (const ThreadOrder order : {ThreadOrder::ascending, ThreadOrder::descending, ThreadOrder::shuffled}) {
    ASSERT_EQ(bits_of(run({view}, order).statistics[0]), bits_of(expected)) << info(view.dtype).lower << " " << label;
  }
}

class EmulatedTypes : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Types, EmulatedTypes, testing::ValuesIn(sample::dtypes_with_statistics()), name_of);

TEST_P(EmulatedTypes, HasTheBitsOfTheCpu) {
  std::mt19937_64 random(static_cast<std::uint64_t>(GetParam()));
  for (const Mix mix : kMixes) {
    for (const std::int64_t length : {0, 1, 31, 32, 33, 255, 256, 257, 2047, 2048, 2049, 8191, 8192, 8193, 49999}) {
      const Tensor tensor = sample::contiguous(GetParam(), {length}, mix, random);
      expect_equal_to_cpu(tensor.view(),
                          std::to_string(length) + " elements, mix " + std::to_string(static_cast<int>(mix)));
    }
  }
}

// Groups of narrow floats are added as floats where their squares fit one, as doubles elsewhere.
TEST(EmulatedKernel, AddsGroupsOfEveryMagnitude) {
  std::mt19937_64 random(1);
  for (std::uint32_t exponent = 1; exponent < 245; ++exponent) {
    std::vector<std::uint16_t> codes(600);
    for (std::uint16_t& code : codes)
      code = static_cast<std::uint16_t>((exponent + random() % 10) << 7 | (random() & 0x807F));
    expect_equal_to_cpu(sample::of(DType::bfloat16, codes).view(), "exponent " + std::to_string(exponent));
  }
}

// Narrow floats are counted two at a time, and their extremes are those of codes.
template <class Code>
void expect_signs_as_on_the_cpu(DType dtype) {
  constexpr auto sign = static_cast<Code>(Code{1} << (8 * sizeof(Code) - 1));
  const auto some = static_cast<Code>(sign / 3), tiny = Code{1};
  const std::vector<std::vector<Code>> choices = {
      {0},
      {sign},
      {0, sign},
      {some, tiny},
      {0, some},
      {sign, some},
      {0, sign, 1},
      {static_cast<Code>(sign | some), static_cast<Code>(sign | tiny)},
      {sign, static_cast<Code>(sign | tiny)},
      {0, static_cast<Code>(sign | some)},
      {some, 0, static_cast<Code>(sign | some), sign, tiny},
  };
  std::mt19937_64 random(7);
  for (std::size_t i = 0; i < choices.size(); ++i) {
    std::vector<Code> codes(9000);
    for (Code& code : codes) code = choices[i][random() % choices[i].size()];
    expect_equal_to_cpu(sample::of(dtype, codes).view(), "choice " + std::to_string(i));
  }
}

TEST(EmulatedKernel, CountsSignsAndZerosOfNarrowFloats) {
  for (const DType dtype : {DType::bfloat16, DType::float16}) expect_signs_as_on_the_cpu<std::uint16_t>(dtype);
  for (const DType dtype : {DType::float8_e4m3fn, DType::float8_e5m2, DType::float8_e4m3fnuz, DType::float8_e5m2fnuz})
    expect_signs_as_on_the_cpu<std::uint8_t>(dtype);
}

TEST(EmulatedKernel, ReadsAMillionElements) {
  std::mt19937_64 random(2);
  for (const DType dtype : {DType::float32, DType::bfloat16}) {
    const Tensor tensor = sample::contiguous(dtype, {1000, 1000}, Mix::ordinary, random);
    EXPECT_EQ(bits_of(run({tensor.view()}).statistics[0]), bits_of(summarize(tensor.view())));
  }
}

TEST(EmulatedKernel, ReadsViewsInTheOrderOfMemory) {
  struct View {
    std::vector<std::int64_t> shape, strides;
    std::size_t offset;  // elements
  };
  const View views[] = {
      {{90, 100}, {1, 90}, 0},                      // transposed: its memory is one run
      {{90, 50}, {100, 2}, 1},                      // every other column
      {{7, 30, 41}, {1, 7 * 41, 7}, 3},             // permuted
      {{5, 6, 7, 8}, {8 * 7 * 6, 8 * 7, 8, 1}, 0},  // dense
      {{300, 40}, {0, 1}, 9},                       // expanded
      {{2, 3, 2, 3, 2, 3}, {1000, 300, 90, 25, 8, 2}, 2},
      {{9000}, {1}, 11},
      {{}, {}, 5},
  };
  std::mt19937_64 random(3);
  for (const DType dtype : {DType::float32, DType::bfloat16, DType::float16, DType::float8_e4m3fn, DType::float8_e5m2,
                            DType::float64, DType::uint8}) {
    for (const View& view : views) {
      Tensor tensor = sample::contiguous(dtype, {10000}, Mix::one_special, random);
      tensor.shape = view.shape;
      tensor.strides = view.strides;
      tensor.offset = view.offset * info(dtype).item_bytes;
      expect_equal_to_cpu(tensor.view(), "rank " + std::to_string(view.shape.size()));
    }
  }
}

TEST(EmulatedKernel, NegatesAsTheCpu) {
  std::mt19937_64 random(4);
  const Tensor tensor = sample::contiguous(DType::float32, {9000}, Mix::bits, random);
  TensorView view = tensor.view();
  view.negative = true;
  expect_equal_to_cpu(view, "negated");
}

TEST(EmulatedKernel, TakesManyTensorsInOneLaunch) {
  std::mt19937_64 random(5);
  std::vector<Tensor> tensors;
  for (std::int64_t i = 0; i < 120; ++i) {
    const DType dtype = sample::dtypes_with_statistics()[static_cast<std::size_t>(i) % 21];
    tensors.push_back(sample::contiguous(dtype, {i % 7 == 3 ? 0 : i * 211}, Mix::one_special, random));
  }
  std::vector<TensorView> views;
  for (const Tensor& tensor : tensors) views.push_back(tensor.view());
  const Outcome outcome = run(views);
  EXPECT_EQ(outcome.launches, 1U);
  for (std::size_t i = 0; i < views.size(); ++i) {
    EXPECT_EQ(bits_of(outcome.statistics[i]), bits_of(summarize(views[i]))) << i;
  }
}

TEST(EmulatedKernel, TakesAnotherLaunchWhereABatchIsFull) {
  std::mt19937_64 random(6);
  const Tensor dense = sample::contiguous(DType::float32, {10}, Mix::ordinary, random);
  Tensor strided = sample::contiguous(DType::float32, {50}, Mix::ordinary, random);
  strided.shape = {4, 5};
  strided.strides = {11, 2};
  for (const auto& [tensor, count, launches] :
       {std::tuple{&dense, 128, 1U}, {&dense, 129, 2U}, {&strided, 28, 1U}, {&strided, 29, 2U}}) {
    const Outcome outcome = run(std::vector<TensorView>(static_cast<std::size_t>(count), tensor->view()));
    EXPECT_EQ(outcome.launches, launches) << count;
    for (const Statistics& found : outcome.statistics) EXPECT_EQ(bits_of(found), bits_of(summarize(tensor->view())));
  }
}

TEST(Batches, RefuseWhatTheKernelCannotRead) {
  Tensor tensor = sample::floats({1, 2, 3});
  const auto message = [&](const TensorView& view) {
    const auto no_launch = [](const Batch&, std::uint32_t, std::uint64_t) -> Status {
      ADD_FAILURE() << "launched";
      return {};
    };
    EXPECT_FALSE(launch_batches(std::vector<TensorView>{tensor.view(), view}, no_launch));
    return count_records(view).error().message;
  };
  TensorView view = tensor.view();
  view.data += 2;
  EXPECT_EQ(message(view),
            "cannot read a tensor of type float32 with the statistics kernel: its address is not a multiple "
            "of the size of an element");
  view = tensor.view();
  view.dtype = DType::complex64;
  EXPECT_EQ(message(view),
            "cannot read a tensor of type complex64 with the statistics kernel: the type has no statistics");
  view = tensor.view();
  view.data = nullptr;
  EXPECT_EQ(message(view), "cannot read a tensor of type float32 with the statistics kernel: it has no memory");
  const std::vector<std::int64_t> shape = {1LL << 45}, strides = {0};
  view = tensor.view();
  view.shape = shape;
  view.strides = strides;
  EXPECT_EQ(message(view),
            "cannot read a tensor of type float32 with the statistics kernel: it has more than 2^44 elements");
}

}  // namespace
}  // namespace sonde::device
