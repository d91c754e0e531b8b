// The C ABI's functions for the statistics kernel of devices, before the emulated driver.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "record/capture/api.h"
#include "record/capture/device_kernel.h"
#include "tensor/sample_tensors.h"

namespace sonde {
namespace {

sonde_tensor described(const sample::Tensor& tensor) {
  sonde_tensor out{};
  out.size = sizeof out;
  out.dtype = static_cast<std::uint32_t>(tensor.dtype);
  out.data = tensor.view().data;
  out.shape = tensor.shape.data();
  out.strides = tensor.strides.data();
  out.ndim = static_cast<std::uint32_t>(tensor.shape.size());
  out.device = SONDE_DEVICE_CUDA;
  return out;
}

class DeviceKernel : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* path : {SONDE_EMULATED_CUDA, SONDE_EMULATED_NVRTC}) {
      ASSERT_NE(::dlopen(path, RTLD_NOW | RTLD_LOCAL), nullptr) << ::dlerror();
    }
  }

  std::string failure(const sonde_tensor& tensor) {
    std::array<char, 200> message{};
    const sonde_tensor* const tensors[] = {&tensor};
    std::vector<double> records(64);
    const int code = api.device_statistics(&queue, tensors, 1, records.data(), message.data(), message.size());
    return code == 0 ? "it succeeded" : message.data();
  }

  const struct sonde_api& api = *api_table();
  sonde_device_queue queue = {
      .size = sizeof(sonde_device_queue), .runtime = SONDE_RUNTIME_CUDA, .stream = nullptr, .device = 0};
};

TEST_F(DeviceKernel, GivesTheStatisticsOfTheCpu) {
  std::mt19937_64 random(1);
  const sample::Tensor a = sample::contiguous(DType::float32, {30, 1000}, sample::Mix::bits, random);
  const sample::Tensor b = sample::contiguous(DType::bfloat16, {5}, sample::Mix::one_special, random);
  sonde_tensor first = described(a), second = described(b);
  second.flags = SONDE_TENSOR_NEGATIVE;
  ASSERT_EQ(api.device_record_bytes(&first), 4 * 48);
  ASSERT_EQ(api.device_record_bytes(&second), 48);
  std::vector<double> records(5 * 48 / sizeof(double));
  const sonde_tensor* const tensors[] = {&first, &second};
  ASSERT_EQ(api.device_statistics(&queue, tensors, 2, records.data(), nullptr, 0), 0);
  sonde_device_result result{};
  api.device_fold(records.data(), 30000, first.flags, &result);
  const Statistics expected = summarize(a.view());
  EXPECT_EQ(result.nan_count, expected.nan_count);
  EXPECT_EQ(result.positive_inf_count, expected.positive_inf_count);
  EXPECT_EQ(result.positive_count, expected.positive_count);
  EXPECT_EQ(result.max, expected.max);
  EXPECT_EQ(result.sum, expected.sum);
  EXPECT_EQ(result.sum_squares, expected.sum_squares);
  api.device_fold(records.data() + 4 * 48 / sizeof(double), 5, second.flags, &result);
  TensorView negated = b.view();
  negated.negative = true;
  EXPECT_EQ(result.negative_count, summarize(negated).negative_count);
  EXPECT_EQ(result.zero_count, summarize(negated).zero_count);
  EXPECT_EQ(result.min, summarize(negated).min);
}

TEST_F(DeviceKernel, RefusesInOneLine) {
  const sample::Tensor tensor = sample::floats({1, 2, 3});
  sonde_tensor given = described(tensor);
  EXPECT_EQ(failure(given), "it succeeded");
  given.dtype = SONDE_DTYPE_COMPLEX64;
  EXPECT_EQ(api.device_record_bytes(&given), -1);
  EXPECT_EQ(failure(given),
            "cannot read a tensor of type complex64 with the statistics kernel: the type has no statistics");
  given = described(tensor);
  queue.runtime = 3;
  EXPECT_EQ(failure(given), "no statistics kernel for runtime 3; there is one for CUDA (1) and ROCm (2)");
  queue.size = 4;
  EXPECT_THAT(failure(given), testing::HasSubstr("struct sonde_device_queue"));
}

}  // namespace
}  // namespace sonde
