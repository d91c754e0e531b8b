// The parts of device.h that share one table: a read that has begun, and the guards under which our own operators run.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/Event.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "in_flight.h"
#include "leaked.h"
#include "sonde/sonde.h"
#include "synchronized.h"
#include "tensors.h"

namespace sonde_torch {

// device_driver.cpp: what the driver of CUDA or ROCm is asked.

// PyTorch for ROCm has devices of the type CUDA too.
bool is_rocm();
// The driver's own handle of a stream. Nothing: this PyTorch does not give it.
std::optional<void*> native_handle(const c10::Stream& stream);
// Says once that the program must not capture while it is recorded, if nobody can say when this device does.
void warn_of_captures(c10::Device device);

// While a thread captures a graph of CUDA, the driver refuses others what may disturb it, and ends the capture. Nothing
// that this thread asks meanwhile disturbs it.
class BesideCaptures {
 public:
  BesideCaptures();
  ~BesideCaptures();
  BesideCaptures(const BesideCaptures&) = delete;
  BesideCaptures& operator=(const BesideCaptures&) = delete;

 private:
  int before_;
};

// Of this thread.
inline c10::Stream current_stream(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

// Our operators are seen by nobody: no callback, no autograd, no autocast, no mode of Python, no transform.
struct OwnOperators {
  BesideCaptures beside;
  at::RecordFunctionGuard quiet{false};
  c10::impl::ForceDispatchKeyGuard below{c10::DispatchKeySet(c10::DispatchKey::BackendSelect),
                                         c10::autograd_dispatch_keyset_with_ADInplaceOrView |
                                             c10::autocast_dispatch_keyset | c10::python_ks |
                                             c10::DispatchKeySet(c10::DispatchKey::PythonDispatcher)};
};

// Another stream is current on its device.
class OnStream {
 public:
  explicit OnStream(const c10::Stream& stream) : guard_(stream.device_type()), before_(guard_.exchangeStream(stream)) {}
  ~OnStream() { guard_.exchangeStream(before_); }
  OnStream(const OnStream&) = delete;
  OnStream& operator=(const OnStream&) = delete;

 private:
  c10::impl::VirtualGuardImpl guard_;
  c10::Stream before_;
};

// A read that has begun, of one or two parts: a copy of the bytes, and a row of statistics.
struct Reading {
  std::uint64_t ticket = 0;
  std::atomic<int> parts{0};                   // that have not arrived
  Synchronized<sonde_device_result> result{};  // the parts may arrive on two threads
};
using ReadingPtr = std::shared_ptr<Reading>;

// A part has arrived, or never will. Not under a lock of ours.
void arrived(const ReadingPtr& reading, std::uint32_t what);
void failed(const ReadingPtr& reading, const char* why);

// A tensor over the same storage, made without the host's own handle: it takes no GIL, and nothing notices it.
at::Tensor alias_of(const TensorDescriptor& descriptor, const sonde_tensor& view);

inline constexpr const char* kDeviceFailed = "the device failed before it had been read";

// device_copy.cpp. All throw what PyTorch throws.
void begin_copy(const ReadingPtr& reading, const at::Tensor& source, const sonde_device_read& request);
void poll_copies();
void drain_copies();
bool are_copies_under_way();

// device_statistics.cpp
// `tensor` describes `source`.
void begin_statistics(const ReadingPtr& reading, const at::Tensor& source, const sonde_tensor& tensor);

// device_kernel.cpp
// False: the kernel cannot be used for this tensor or device, or at all.
bool begin_kernel(const ReadingPtr& reading, const sonde_tensor& tensor, c10::Device device);
// Launches what waits on this thread.
void launch_queued();

// device_tables.cpp
void fetch_rows();
void poll_rows();
void drain_rows();
bool are_rows_under_way();

// device_pinned.cpp: as in sonde_devices; and the memory as a tensor.
void* take_pinned(std::uint64_t bytes, void** owner, const char** why);
void give_pinned(void* owner);
at::Tensor pinned_tensor(void* owner, c10::IntArrayRef sizes, c10::ScalarType type);

// device_results.cpp
void forget_results();

}  // namespace sonde_torch
