// The statistics kernel before the real NVRTC, where one is (tests/python/test_device_kernel.py says so). No code runs.
#include "ground/device/compiler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "ground/device/library.h"

namespace sonde::device {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class Nvrtc : public testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("SONDE_TEST_NVRTC") == nullptr) GTEST_SKIP() << "left out: SONDE_TEST_NVRTC names no library";
    // In the process, as it is beside PyTorch: compile_kernel finds it there.
    const std::string path[] = {std::getenv("SONDE_TEST_NVRTC")};
    const auto library = Library::open(path);
    ASSERT_TRUE(library) << library.error().message;
  }
};

TEST_F(Nvrtc, CompilesForTheDevicesThatPyTorchSupports) {
  for (const int architecture : {75, 90, 120}) {
    const Result<std::string> code = compile_kernel(Runtime::cuda, architecture);
    ASSERT_TRUE(code) << code.error().message;
    EXPECT_EQ(code->substr(1, 3), "ELF") << architecture;
    EXPECT_NE(code->find("sonde_statistics"), std::string::npos);
  }
}

TEST_F(Nvrtc, GivesPtxForADeviceThatItDoesNotKnow) {
  const Result<std::string> code = compile_kernel(Runtime::cuda, 999);
  ASSERT_TRUE(code) << code.error().message;
  const auto has = [&](const char* text) { return code->find(text) != std::string::npos; };
  EXPECT_TRUE(has(".visible .entry sonde_statistics"));
  EXPECT_TRUE(has(".target sm_1"));
  EXPECT_TRUE(has("mul.rn.f64") && has("mul.rn.f32"));
  EXPECT_FALSE(has("fma.rn.f32"));  // products and sums stay apart
}

TEST_F(Nvrtc, RefusesADeviceThatIsTooOld) {
  const Result<std::string> code = compile_kernel(Runtime::cuda, 30);
  ASSERT_FALSE(code);
  EXPECT_THAT(code.error().message, HasSubstr("and newer, and the device is sm_30"));
}

TEST(Compiler, NamesWhatIsMissing) {
  const Result<std::string> code = compile_kernel(Runtime::rocm, 0);
  ASSERT_FALSE(code);
  EXPECT_THAT(code.error().message,
              StartsWith("cannot open hiprtc, which PyTorch's package for ROCm brings (libhiprtc.so"));
}

}  // namespace
}  // namespace sonde::device
