// What PyTorch does not give in every version, and the driver of CUDA or ROCm does: whether a stream captures a graph, and
// leave to ask for events while another thread captures one.
#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <mutex>
#include <optional>
#include <type_traits>

#include "device.h"
#include "device_work.h"

namespace sonde_torch {
namespace {

// The functions have the same parameters in both. Null: the driver has none.
struct Driver {
  int (*is_capturing)(void* stream, int* status) = nullptr;
  int (*exchange_mode)(int* mode) = nullptr;  // of the calling thread
};

constexpr int kImplicitCapture = 906;  // the answer about a stream that must wait for one that captures
constexpr int kRelaxed = 2;            // CU_STREAM_CAPTURE_MODE_RELAXED

Driver open_driver() {
  const bool rocm = is_rocm();
  void* library = nullptr;
  for (const char* name : {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so"}) {
    if (rocm && library == nullptr) library = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
  }
  if (!rocm) library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  Driver driver;
  if (library == nullptr) return driver;
  const auto find = [&](const char* name, auto& function) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
  };
  find(rocm ? "hipStreamIsCapturing" : "cuStreamIsCapturing", driver.is_capturing);
  find(rocm ? "hipThreadExchangeStreamCaptureMode" : "cuThreadExchangeStreamCaptureMode", driver.exchange_mode);
  return driver;
}

std::atomic<bool> g_loaded{false};  // a device of CUDA or ROCm was asked for, so its driver is here

const Driver& driver() {
  static const Driver opened = open_driver();
  return opened;
}

template <class Guard>
constexpr bool kSaysCaptures = requires(const Guard& guard, const c10::Stream& stream) {
  guard.isStreamCapturing(stream);
};

template <class Guard>
std::optional<void*> handle_of(const Guard& guard, const c10::Stream& stream) {
  if constexpr (requires { guard.getStreamNativeHandle(stream); }) {
    return guard.getStreamNativeHandle(stream);
  } else {
    return std::nullopt;
  }
}

// The default stream, which has no handle, cannot capture.
bool captures_by_driver(const c10::Stream& stream) {
  if (!stream.device().is_cuda()) return false;
  g_loaded = true;
  const std::optional<void*> handle = native_handle(stream);
  if (!handle || *handle == nullptr || driver().is_capturing == nullptr) return false;
  int status = 0;
  const int code = driver().is_capturing(*handle, &status);
  return code == kImplicitCapture || (code == 0 && status != 0);
}

// In a capture the stream collects its work for later, and an event must not be asked for. PyTorch up to 2.11 cannot say it.
template <class Guard>
bool stream_captures(const Guard& guard, const c10::Stream& stream) {
  if constexpr (kSaysCaptures<Guard>) {
    if (stream.device().is_cuda()) g_loaded = true;
    return guard.isStreamCapturing(stream);
  } else {
    return captures_by_driver(stream);
  }
}

}  // namespace

bool is_rocm() {
  static const bool rocm = [] {
    void* const library = dlopen("libtorch_hip.so", RTLD_LAZY | RTLD_NOLOAD);
    if (library != nullptr) dlclose(library);
    return library != nullptr;
  }();
  return rocm;
}

std::optional<void*> native_handle(const c10::Stream& stream) {
  return handle_of(c10::impl::VirtualGuardImpl(stream.device_type()), stream);
}

// False if the device cannot say, since it is lost: whatever is asked of it next fails.
bool is_capturing(c10::Device device) {
  try {
    return stream_captures(*c10::impl::getDeviceGuardImpl(device.type()), current_stream(device));
  } catch (...) {
    return false;
  }
}

void warn_of_captures(c10::Device device) {
  static std::once_flag once;
  if constexpr (kSaysCaptures<c10::impl::DeviceGuardImplInterface>) return;
  if (device.is_cuda() && native_handle(current_stream(device)) && driver().is_capturing != nullptr) return;
  std::call_once(once, [] {
    std::fputs("sonde: this PyTorch cannot say whether a graph of a device is being captured: do not record then\n",
               stderr);
  });
}

BesideCaptures::BesideCaptures() : before_(kRelaxed) {
  if (!g_loaded.load(std::memory_order_relaxed) || driver().exchange_mode == nullptr) return;
  if (driver().exchange_mode(&before_) != 0) before_ = kRelaxed;
}

BesideCaptures::~BesideCaptures() {
  if (before_ != kRelaxed) driver().exchange_mode(&before_);
}

}  // namespace sonde_torch
