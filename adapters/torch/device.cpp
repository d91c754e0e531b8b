#include "device.h"

#include <algorithm>
#include <map>
#include <set>

#include "device_work.h"
#include "program.h"
#include "setup.h"
#include "synchronized.h"

namespace sonde_torch {
namespace {

std::atomic<bool> g_used{false};          // some tensor of a device was asked for
std::atomic<bool> g_lost_by_fork{false};  // by the process that this one is a child of

using DeviceKey = std::pair<c10::DeviceType, c10::DeviceIndex>;

Leaked<Synchronized<std::set<DeviceKey>>> g_devices;

// Null: its streams can be ordered by events.
const char* probe_device(c10::Device device) {
  try {
    const c10::impl::VirtualGuardImpl guard(device.type());
    c10::Event event(device.type());
    event.record(guard.getStream(device));
    static_cast<void>(event.query());
    static_cast<void>(guard.getNewStream(device));
    return nullptr;
  } catch (...) {
    return "on a device without streams and events";
  }
}

// Nothing is asked of a device, and no stream waits, while the program captures a graph: that would end the capture.
bool may_ask_devices() {
  const auto used = g_devices->lock();
  return std::ranges::none_of(*used, [](const auto& one) { return is_capturing(c10::Device(one.first, one.second)); });
}

const TensorDescriptor& descriptor_of(const sonde_tensor& tensor) {
  return *static_cast<const TensorDescriptor*>(tensor.handle);
}

void use(c10::Device device) {
  const auto used = g_devices->lock();
  used->insert({device.type(), device.index()});  // emplace() would allocate for one that is known
  g_used = true;
}

void finish_part(const ReadingPtr& reading) {
  if (reading->parts.fetch_sub(1) != 1) return;
  sonde_device_result result = *reading->result.lock();
  result.size = sizeof result;
  api().device_read_done(reading->ticket, &result);
}

// Tries one part; returns why it cannot be had.
template <typename Begin>
const char* try_part(Begin begin, const char* no_memory) {
  try {
    begin();
    return nullptr;
  } catch (const c10::OutOfMemoryError&) {
    return no_memory;
  } catch (...) {
    return "the device refused to be read";
  }
}

// The tensor to read: all of the described one, or its first elements, one-dimensional.
struct Source {
  at::Tensor tensor;
  std::int64_t elements, stride = 1;
  sonde_tensor described;

  explicit Source(const sonde_device_read& request)
      : tensor(alias_of(descriptor_of(*request.tensor), *request.tensor)),
        elements(static_cast<std::int64_t>(request.elements)),
        described(*request.tensor) {
    if (elements == 0) return;
    tensor = tensor.reshape({-1}).narrow(0, 0, elements);
    described.data = tensor.const_data_ptr();
    described.shape = &elements;
    described.strides = &stride;
    described.ndim = 1;
    described.flags = (tensor.is_conj() ? SONDE_TENSOR_CONJUGATE : 0U) | (tensor.is_neg() ? SONDE_TENSOR_NEGATIVE : 0U);
  }
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;
};

// SONDE_READ_* of what has begun. Statistics come instead of bytes that cannot be had.
std::uint32_t begin_reads(const ReadingPtr& reading, sonde_device_read& request) {
  const c10::Device device = descriptor_of(*request.tensor).device;
  use(device);
  // Statistics of a whole tensor, which most reads are, need no operator of PyTorch.
  const bool summarises_all = request.wants == SONDE_READ_STATISTICS && request.elements == 0;
  if (summarises_all && begin_kernel(reading, *request.tensor, device)) return SONDE_READ_STATISTICS;
  const OwnOperators guard;
  const Source source(request);
  std::uint32_t begun = 0;
  if ((request.wants & SONDE_READ_BYTES) != 0) {
    request.why = try_part([&] { begin_copy(reading, source.tensor, request); },
                           "statistics only: the device had no memory for a copy");
    if (request.why == nullptr) begun |= SONDE_READ_BYTES;
  }
  const bool instead = request.why != nullptr && !source.tensor.is_complex();
  if ((request.wants & SONDE_READ_STATISTICS) != 0 || instead) {
    const char* none = try_part([&] { begin_statistics(reading, source.tensor, source.described); },
                                "the device had no memory for its statistics");
    if (none != nullptr) request.why = none;
    if (none == nullptr) begun |= SONDE_READ_STATISTICS;
  }
  return begun;
}

std::uint32_t read_device(sonde_device_read* request) {
  const auto reading = std::make_shared<Reading>();
  reading->ticket = request->ticket;
  reading->parts = 1;  // ours, until all parts have begun
  std::uint32_t begun = 0;
  const auto begin = [&] {
    if (is_capturing(descriptor_of(*request->tensor).device)) {
      request->why = "a graph of the device is being captured";
    } else {
      begun = begin_reads(reading, *request);
    }
  };
  if (const char* why = try_part(begin, "the device had no memory to read it")) request->why = why;
  if (begun != 0) finish_part(reading);
  return begun;
}

}  // namespace

void arrived(const ReadingPtr& reading, std::uint32_t what) {
  reading->result.lock()->has |= what;
  finish_part(reading);
}

void failed(const ReadingPtr& reading, const char* why) {
  reading->result.lock()->failed = why;
  finish_part(reading);
}

at::Tensor alias_of(const TensorDescriptor& descriptor, const sonde_tensor& view) {
  c10::Storage storage(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(descriptor.storage));
  at::Tensor alias = at::detail::make_tensor<c10::TensorImpl>(c10::TensorImpl::VIEW, std::move(storage),
                                                              descriptor.keys, descriptor.dtype);
  c10::TensorImpl& impl = *alias.unsafeGetTensorImpl();
  const auto* from = static_cast<const char*>(view.storage_data);
  const auto offset = static_cast<const char*>(view.data) - from;
  impl.set_storage_offset(offset / static_cast<std::ptrdiff_t>(descriptor.dtype.itemsize()));
  impl.set_sizes_and_strides(c10::IntArrayRef(view.shape, view.ndim), c10::IntArrayRef(view.strides, view.ndim));
  return alias;
}

void lend_devices() {
  sonde_devices devices{};
  devices.size = sizeof devices;
  devices.read = read_device;
  devices.take = take_pinned;
  devices.release = give_pinned;
  devices.drain = drain_devices;
  api().set_devices(&devices);
}

const char* why_unreadable_device(c10::Device device) {
  static auto* why_not = new Synchronized<std::map<DeviceKey, const char*>>;
  const c10::DeviceType type = device.type();
  if (type != c10::DeviceType::CUDA && type != c10::DeviceType::HIP && type != c10::DeviceType::XPU &&
      type != c10::DeviceType::MPS && type != c10::DeviceType::PrivateUse1) {
    return "not in host memory";
  }
  if (g_lost_by_fork) return "in a forked child, which has no device";
  const auto known = why_not->lock();
  const auto found = known->find({type, device.index()});
  if (found != known->end()) return found->second;
  if (is_capturing(device)) return "a graph of the device is being captured";
  const char* why = probe_device(device);
  if (why == nullptr) warn_of_captures(device);
  return (*known)[{type, device.index()}] = why;
}

bool uses_devices() { return g_used.load(std::memory_order_relaxed); }

void poll_devices() {
  if (!uses_devices() || (!are_copies_under_way() && !are_rows_under_way()) || !may_ask_devices()) return;
  const BesideCaptures beside;
  poll_copies();
  poll_rows();
}

void fetch_statistics() {
  if (!uses_devices() || !may_ask_devices()) return;
  const BesideCaptures beside;
  fetch_rows();
  poll_devices();
}

void drain_devices() {
  if (!uses_devices() || !may_ask_devices()) return;
  const BesideCaptures beside;
  void* python = release_python();  // a thread of the program that works for the device may need it
  drain_rows();
  drain_copies();
  take_python(python);
}

// The tables stay as they are: their locks may have been another thread's, and nothing uses them again.
void forget_devices() {
  if (g_used.exchange(false)) g_lost_by_fork = true;
  forget_results();
}

}  // namespace sonde_torch
