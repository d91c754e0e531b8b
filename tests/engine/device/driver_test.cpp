// The way of a tensor through the driver and back, before emulated libraries: no CUDA and no GPU took part.
#include "ground/device/driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "device/emulated/cuda.h"
#include "ground/device/library.h"
#include "ground/device/statistics.h"
#include "tensor/sample_tensors.h"

namespace sonde::device {
namespace {

using sample::bits_of;
using sample::Mix;
using sample::Tensor;

class EmulatedDriver : public testing::Test {
 protected:
  void SetUp() override {
    for (const std::string path : {SONDE_EMULATED_CUDA, SONDE_EMULATED_NVRTC}) {
      const auto library = Library::open(std::span(&path, 1));
      ASSERT_TRUE(library) << library.error().message;
      if (cuda_ == nullptr) {
        ASSERT_TRUE(library->find("emulated_cuda", cuda_));
      }
    }
  }

  const EmulatedCuda& cuda() const { return *cuda_(); }

  std::string failure(Runtime runtime, int device) {
    const Tensor tensor = sample::floats({1, 2, 3});
    std::vector<Record> records(1);
    const Status status = enqueue_statistics({.runtime = runtime, .device = device},
                                             std::vector<TensorView>{tensor.view()}, records.data());
    return status ? "it succeeded" : status.error().message;
  }

 private:
  EmulatedCuda* (*cuda_)() = nullptr;
};

TEST_F(EmulatedDriver, GivesTheStatisticsOfTheCpu) {
  std::mt19937_64 random(1);
  std::vector<Tensor> tensors;
  for (std::int64_t i = 0; i < 150; ++i) {
    tensors.push_back(
        sample::contiguous(i % 2 == 0 ? DType::float32 : DType::bfloat16, {i * 401}, Mix::one_special, random));
  }
  std::vector<TensorView> views;
  std::uint64_t count = 0;
  for (const Tensor& tensor : tensors) count += *count_records(views.emplace_back(tensor.view()));
  std::vector<Record> records(count);
  int stream = 0;
  const std::size_t launches = cuda().launches;
  ASSERT_TRUE(enqueue_statistics({.runtime = Runtime::cuda, .device = 0, .stream = &stream}, views, records.data()));
  EXPECT_EQ(cuda().launches, launches + 2);  // a launch takes 128 tensors
  EXPECT_EQ(cuda().stream, &stream);
  EXPECT_EQ(cuda().contexts, 0U) << "the thread's current device has changed";
  std::span<const Record> rest = records;
  for (const TensorView& view : views) {
    const std::uint64_t own = *count_records(view);
    const auto elements = static_cast<std::uint64_t>(view.elements());
    ASSERT_EQ(bits_of(fold(rest.first(own), elements, false)), bits_of(summarize(view))) << elements;
    rest = rest.subspan(own);
  }
}

TEST_F(EmulatedDriver, CompilesOncePerDevice) {
  const Tensor tensor = sample::floats({1, 2, 3});
  std::vector<Record> records(1);
  const auto calls = [&] {
    const std::size_t before = cuda().calls;
    EXPECT_TRUE(enqueue_statistics({.device = 0}, std::vector<TensorView>{tensor.view()}, records.data()));
    return cuda().calls - before;
  };
  calls();
  EXPECT_EQ(calls(), 3U);  // push, launch, pop
}

TEST_F(EmulatedDriver, SaysOnceAndForAllWhyItDoesNotWork) {
  const std::string message = failure(Runtime::cuda, 7);
  EXPECT_EQ(message, "cannot use the statistics kernel on CUDA device 7: cuDeviceGet failed: invalid device ordinal");
  const std::size_t calls = cuda().calls;
  EXPECT_EQ(failure(Runtime::cuda, 7), message);
  EXPECT_EQ(cuda().calls, calls);
  EXPECT_EQ(
      failure(Runtime::cuda, EmulatedCuda::kWithoutImage),
      "cannot use the statistics kernel on CUDA device 1: loading the kernel failed: no kernel image is available for "
      "execution on the device");
  EXPECT_EQ(cuda().contexts, 0U);
}

TEST_F(EmulatedDriver, NamesALaunchThatFails) {
  EXPECT_EQ(failure(Runtime::cuda, EmulatedCuda::kWithoutLaunch),
            "cannot launch the statistics kernel on CUDA device 2: the launch failed: unspecified launch failure");
  EXPECT_EQ(cuda().contexts, 0U);
}

TEST_F(EmulatedDriver, NamesADriverThatIsMissing) {
  EXPECT_THAT(
      failure(Runtime::rocm, 0),
      testing::StartsWith("cannot use the statistics kernel on ROCm device 0: cannot open the driver (libamdhip64"));
}

}  // namespace
}  // namespace sonde::device
