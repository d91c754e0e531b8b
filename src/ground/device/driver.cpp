#include "ground/device/driver.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ground/base/mutex.h"
#include "ground/device/compiler.h"
#include "ground/device/library.h"

namespace sonde::device {
namespace {

// The functions of libcuda and libamdhip64 that have the same parameters.
struct Common {
  int (*load)(void** module, const void* code);
  int (*function)(void** function, void* module, const char* name);
  int (*launch)(void* function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z, unsigned int block_x,
                unsigned int block_y, unsigned int block_z, unsigned int shared_bytes, void* stream, void** parameters,
                void** extra);
};

struct Cuda {
  int (*device)(int* device, int number);
  int (*attribute)(int* value, int attribute, int device);
  int (*retain_context)(void** context, int device);  // the one of the CUDA runtime, so PyTorch's
  int (*push_context)(void* context);
  int (*pop_context)(void** context);
  int (*error_text)(int code, const char** text);
};

struct Rocm {
  int (*current_device)(int* number);
  int (*set_device)(int number);
  const char* (*error_text)(int code);
};

constexpr int kComputeCapabilityMajor = 75;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
constexpr int kComputeCapabilityMinor = 76;

struct Driver {
  Runtime runtime;
  Common common{};
  Cuda cuda{};
  Rocm rocm{};

  Error failure(const char* function, int code) const;
};

Error Driver::failure(const char* function, int code) const {
  const char* text = nullptr;
  if (runtime == Runtime::cuda) {
    cuda.error_text(code, &text);
  } else {
    text = rocm.error_text(code);
  }
  return {ErrorCode::unsupported,
          std::string(function) + " failed: " + (text != nullptr ? text : "error " + std::to_string(code))};
}

// Finds functions one after the other; the first that is missing ends it.
struct Finder {
  const Library& library;
  Status status = {};

  template <typename Function>
  void operator()(const char* name, Function*& function) {
    if (status) status = library.find(name, function);
  }
};

Result<Driver> open_driver(Runtime runtime) {
  const bool cuda = runtime == Runtime::cuda;
  std::vector<std::string> names = loaded_libraries(cuda ? "libcuda.so" : "libamdhip64.so");
  if (cuda) {
    names.insert(names.end(), {"libcuda.so.1"});
  } else {
    names.insert(names.end(), {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so"});
  }
  const auto library = Library::open(names);
  if (!library) return Error{library.error().code, "cannot open the driver (" + library.error().message + ")"};
  Driver driver{.runtime = runtime};
  Finder find{*library};
  if (cuda) {
    find("cuModuleLoadData", driver.common.load);
    find("cuModuleGetFunction", driver.common.function);
    find("cuLaunchKernel", driver.common.launch);
    find("cuDeviceGet", driver.cuda.device);
    find("cuDeviceGetAttribute", driver.cuda.attribute);
    find("cuDevicePrimaryCtxRetain", driver.cuda.retain_context);
    find("cuCtxPushCurrent_v2", driver.cuda.push_context);
    find("cuCtxPopCurrent_v2", driver.cuda.pop_context);
    find("cuGetErrorString", driver.cuda.error_text);
  } else {
    find("hipModuleLoadData", driver.common.load);
    find("hipModuleGetFunction", driver.common.function);
    find("hipModuleLaunchKernel", driver.common.launch);
    find("hipGetDevice", driver.rocm.current_device);
    find("hipSetDevice", driver.rocm.set_device);
    find("hipGetErrorString", driver.rocm.error_text);
  }
  if (!find.status) return find.status.error();
  return driver;
}

// Makes a device the current one of this thread; the destructor restores the previous one.
class CurrentDevice {
 public:
  CurrentDevice(const Driver& driver, int number, void* context);
  ~CurrentDevice();
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

  const Status& status() const { return status_; }

 private:
  const Driver& driver_;
  int previous_ = -1;
  bool changed_ = false;
  Status status_;
};

CurrentDevice::CurrentDevice(const Driver& driver, int number, void* context) : driver_(driver) {
  if (driver.runtime == Runtime::cuda) {
    const int code = driver.cuda.push_context(context);
    if (code != 0) status_ = driver.failure("cuCtxPushCurrent", code);
    changed_ = code == 0;
    return;
  }
  int code = driver.rocm.current_device(&previous_);
  if (code == 0 && previous_ != number) {
    code = driver.rocm.set_device(number);
    changed_ = code == 0;
  }
  if (code != 0) status_ = driver.failure("hipSetDevice", code);
}

CurrentDevice::~CurrentDevice() {
  if (!changed_) return;
  void* context = nullptr;
  if (driver_.runtime == Runtime::cuda) {
    driver_.cuda.pop_context(&context);
  } else {
    driver_.rocm.set_device(previous_);
  }
}

// The kernel on one device.
struct Loaded {
  const Driver* driver = nullptr;
  void* context = nullptr;  // CUDA's
  void* function = nullptr;
  std::shared_ptr<const std::string> code = nullptr;  // some drivers read it later
};

// Sets the context of the device, and returns its compute capability.
Result<int> prepare_cuda(Loaded& loaded, int number) {
  const Driver& driver = *loaded.driver;
  int device = 0, major = 0, minor = 0;
  if (const int code = driver.cuda.device(&device, number)) return driver.failure("cuDeviceGet", code);
  int code = driver.cuda.attribute(&major, kComputeCapabilityMajor, device);
  if (code == 0) code = driver.cuda.attribute(&minor, kComputeCapabilityMinor, device);
  if (code != 0) return driver.failure("cuDeviceGetAttribute", code);
  code = driver.cuda.retain_context(&loaded.context, device);
  if (code != 0) return driver.failure("cuDevicePrimaryCtxRetain", code);
  return 10 * major + minor;
}

Result<Loaded> load(const Driver& driver, int number) {
  Loaded loaded{.driver = &driver};
  int architecture = 0;
  if (driver.runtime == Runtime::cuda) {
    const Result<int> found = prepare_cuda(loaded, number);
    if (!found) return found.error();
    architecture = *found;
  }
  const CurrentDevice current(driver, number, loaded.context);
  if (!current.status()) return current.status().error();
  Result<std::string> code = compile_kernel(driver.runtime, architecture);
  if (!code) return code.error();
  loaded.code = std::make_shared<const std::string>(*std::move(code));
  void* module = nullptr;
  if (const int error = driver.common.load(&module, loaded.code->data()))
    return driver.failure("loading the kernel", error);
  if (const int error = driver.common.function(&loaded.function, module, kKernelName)) {
    return driver.failure("finding the kernel", error);
  }
  return loaded;
}

// The kernel of a device: loaded once, or the reason why it cannot be. Leaked: threads may launch while the process ends.
class Kernels {
 public:
  const Result<Loaded>& of(Runtime runtime, int number);

 private:
  const Result<Driver>& driver(Runtime runtime) REQUIRES(mutex_);

  Mutex mutex_;
  std::optional<Result<Driver>> drivers_[2] GUARDED_BY_MUTEX;
  std::map<std::pair<Runtime, int>, Result<Loaded>> loaded_ GUARDED_BY_MUTEX;
};

const Result<Driver>& Kernels::driver(Runtime runtime) {
  auto& slot = drivers_[static_cast<std::size_t>(runtime)];
  if (!slot) slot.emplace(open_driver(runtime));
  return *slot;
}

const Result<Loaded>& Kernels::of(Runtime runtime, int number) {
  const Lock lock(mutex_);
  const std::pair key(runtime, number);
  if (const auto known = loaded_.find(key); known != loaded_.end()) return known->second;
  const Result<Driver>& found = driver(runtime);
  Result<Loaded> result = found ? load(*found, number) : Result<Loaded>(found.error());
  if (!result) {
    result = Error{result.error().code, std::string("cannot use the statistics kernel on ") + runtime_name(runtime) +
                                            " device " + std::to_string(number) + ": " + result.error().message};
  }
  return loaded_.emplace(key, std::move(result)).first->second;
}

Kernels& kernels() {
  static auto* const all = new Kernels;
  return *all;
}

}  // namespace

Status launch_kernel(const Queue& queue, const Batch& batch, std::uint32_t blocks, Record* records) {
  const Result<Loaded>& loaded = kernels().of(queue.runtime, queue.device);
  if (!loaded) return loaded.error();
  const Driver& driver = *loaded->driver;
  const CurrentDevice current(driver, queue.device, loaded->context);
  if (!current.status()) return current.status().error();
  void* parameters[] = {const_cast<Batch*>(&batch), static_cast<void*>(&records)};
  const int code =
      driver.common.launch(loaded->function, blocks, 1, 1, kThreads, 1, 1, 0, queue.stream, parameters, nullptr);
  if (code == 0) return {};
  return Error{ErrorCode::unsupported, std::string("cannot launch the statistics kernel on ") +
                                           runtime_name(queue.runtime) + " device " + std::to_string(queue.device) +
                                           ": " + driver.failure("the launch", code).message};
}

}  // namespace sonde::device
