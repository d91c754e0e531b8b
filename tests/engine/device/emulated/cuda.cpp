// A libcuda.so.1 that runs the statistics kernel on the CPU, in host memory: the functions that src/ground/device/driver.cpp calls,
// with what CUDA's documentation says of them. CUDA's own driver needs a GPU.
#include "device/emulated/cuda.h"

#include <cstdint>
#include <cstring>
#include <vector>

#include "device/emulated_grid.h"

using sonde::device::Batch;
using sonde::device::EmulatedCuda;
using sonde::device::Record;

namespace {

enum : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kNoImage = 209,
  kInvalidDevice = 101,
  kInvalidContext = 201,
  kLaunchFailed = 719
};

EmulatedCuda state;
thread_local std::vector<void*> contexts;
int devices[EmulatedCuda::kDevices];

}  // namespace

#define EMULATED extern "C" __attribute__((visibility("default")))

EMULATED EmulatedCuda* emulated_cuda() {
  state.contexts = contexts.size();
  return &state;
}

EMULATED int cuGetErrorString(int code, const char** text) {
  *text = code == kInvalidDevice  ? "invalid device ordinal"
          : code == kNoImage      ? "no kernel image is available for execution on the device"
          : code == kLaunchFailed ? "unspecified launch failure"
                                  : nullptr;
  return *text == nullptr ? kInvalidValue : kSuccess;
}

EMULATED int cuDeviceGet(int* device, int number) {
  ++state.calls;
  *device = number;
  return number < EmulatedCuda::kDevices ? kSuccess : kInvalidDevice;
}

EMULATED int cuDeviceGetAttribute(int* value, int attribute, int /*device*/) {
  ++state.calls;
  if (attribute != 75 && attribute != 76) return kInvalidValue;
  *value = attribute == 75 ? 9 : 0;
  return kSuccess;
}

EMULATED int cuDevicePrimaryCtxRetain(void** context, int device) {
  ++state.calls;
  *context = &devices[device];
  return kSuccess;
}

EMULATED int cuCtxPushCurrent_v2(void* context) {
  ++state.calls;
  contexts.push_back(context);
  return kSuccess;
}

EMULATED int cuCtxPopCurrent_v2(void** context) {
  ++state.calls;
  if (contexts.empty()) return kInvalidContext;
  *context = contexts.back();
  contexts.pop_back();
  return kSuccess;
}

EMULATED int cuModuleLoadData(void** module, const void* code) {
  ++state.calls;
  if (contexts.empty()) return kInvalidContext;
  if (contexts.back() == &devices[EmulatedCuda::kWithoutImage]) return kNoImage;
  *module = const_cast<void*>(code);
  return kSuccess;
}

EMULATED int cuModuleGetFunction(void** function, void* module, const char* name) {
  ++state.calls;
  *function = module;  // as the emulated NVRTC leaves it: the text
  return std::strstr(static_cast<const char*>(module), name) != nullptr ? kSuccess : kNoImage;
}

EMULATED int cuLaunchKernel(void* /*function*/, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                            unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared_bytes,
                            void* stream, void** parameters, void** extra) {
  ++state.calls;
  if (contexts.empty()) return kInvalidContext;
  if (contexts.back() == &devices[EmulatedCuda::kWithoutLaunch]) return kLaunchFailed;
  if (grid_y != 1 || grid_z != 1 || block_x != sonde::device::kThreads || block_y != 1 || block_z != 1)
    return kInvalidValue;
  if (shared_bytes != 0 || extra != nullptr || grid_x == 0) return kInvalidValue;
  ++state.launches;
  state.stream = stream;
  sonde::device::run_grid(*static_cast<const Batch*>(parameters[0]), grid_x, *static_cast<Record**>(parameters[1]));
  return kSuccess;
}
