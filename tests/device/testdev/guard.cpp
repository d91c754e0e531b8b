// The questions that PyTorch asks of a device: which is current, streams, events, pinned memory, random numbers.
#include <ATen/Context.h>
#include <ATen/core/Generator.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <cstring>

#include "device.h"
#include "generator.h"
#include "memory.h"
#include "ops.h"
#include "streams.h"

namespace testdev {
namespace {

thread_local c10::DeviceIndex current_device = 0;

c10::Device device_at(c10::DeviceIndex index) { return {c10::DeviceType::PrivateUse1, index}; }

c10::DeviceIndex index_of(c10::Device device) { return device.has_index() ? device.index() : current_device; }

c10::DeviceIndex checked(c10::DeviceIndex index) {
  TORCH_CHECK(index >= 0 && index < kDevices, "testdev: invalid device ordinal ", static_cast<int>(index));
  return index;
}

void check_events() { TORCH_CHECK(switches().has_events, "testdev backend doesn't support events."); }

void check_may_wait(Stream& stream) {
  check_usable(stream.device);
  TORCH_CHECK(!stream.is_capturing(), "testdev: operation not permitted when stream is capturing");
}

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return c10::DeviceType::PrivateUse1; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device previous = getDevice();
    setDevice(device);
    return previous;
  }
  c10::Device getDevice() const override { return device_at(current_device); }
  void setDevice(c10::Device device) const override { current_device = checked(index_of(device)); }
  void uncheckedSetDevice(c10::Device device) const noexcept override { current_device = index_of(device); }
  c10::DeviceIndex deviceCount() const noexcept override { return kDevices; }

  c10::Stream getStream(c10::Device device) const noexcept override { return packed(current_stream(index_of(device))); }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::UNSAFE, device_at(index_of(device)), 0);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    return packed(pooled_stream(index_of(device)));
  }
  c10::Stream getNewStream(c10::Device device, int) const override { return packed(new_stream(index_of(device))); }
  c10::Stream exchangeStream(c10::Stream stream) const noexcept override { return exchange_current(stream); }
  bool queryStream(const c10::Stream& stream) const override {
    Stream& asked = stream_of(stream);
    check_may_wait(asked);
    count(asked.device, Counter::queries);
    return asked.end().is_reached();
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    Stream& awaited = stream_of(stream);
    check_may_wait(awaited);
    wait(awaited, awaited.end());
  }
  // No `override`: PyTorch up to 2.11 does not ask for it.
  bool isStreamCapturing(const c10::Stream& stream) const {
    check_usable(stream.device_index());
    return stream_of(stream).is_capturing();
  }
  void synchronizeDevice(const c10::DeviceIndex index) const override {
    check_usable(index);
    count(index, Counter::waits);
    wait_for_device(index);
    check_usable(index);
    throw_kernel_error();
  }
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override {
    record_use(data, stream_of(stream));
  }

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex, const c10::EventFlag) const override {
    check_events();
    Stream& on = stream_of(stream);
    const Position position = on.now();
    if (*event == nullptr) *event = new Event;
    static_cast<Event*>(*event)->position = position;
    count(on.device, Counter::events);
  }
  void block(void* event, const c10::Stream& stream) const override {
    check_events();
    if (event != nullptr) stream_of(stream).wait_for(static_cast<Event*>(event)->position);
  }
  bool queryEvent(void* event) const override {
    check_events();
    if (event == nullptr) return true;
    const Position& position = static_cast<Event*>(event)->position;
    if (position.stream == nullptr) return true;
    check_may_wait(*position.stream);
    count(position.stream->device, Counter::queries);
    return position.is_reached();
  }
  void synchronizeEvent(void* event) const override {
    check_events();
    if (event == nullptr) return;
    const Position& position = static_cast<Event*>(event)->position;
    if (position.stream == nullptr) return;
    check_may_wait(*position.stream);
    wait(*position.stream, position);
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override { delete static_cast<Event*>(event); }
};

struct Hooks final : at::PrivateUse1HooksInterface {
  // No `override`: PyTorch 2.6 does not ask.
  bool isBuilt() const { return true; }
  bool isAvailable() const { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return kDevices; }
  c10::DeviceIndex getCurrentDevice() const override { return current_device; }
  void setCurrentDevice(c10::DeviceIndex index) const override { current_device = checked(index); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override {
    return std::exchange(current_device, checked(index));
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override {
    return index < 0 ? current_device : exchangeDevice(index);
  }
  at::Device getDeviceFromPtr(void* data) const override {
    return device_at(static_cast<c10::DeviceIndex>(device_of(data)));
  }
  bool isPinnedPtr(const void* data) const override { return is_pinned(data); }
  c10::Allocator* getPinnedMemoryAllocator() const override { return &pinned_allocator(); }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override {
    return default_generator(index < 0 ? current_device : checked(index));
  }
  at::Generator getNewGenerator(c10::DeviceIndex index) const override {
    return new_generator(index < 0 ? current_device : checked(index));
  }
  void resizePrivateUse1Bytes(const c10::Storage& storage, std::size_t bytes) const override {
    resize_storage(storage.unsafeGetStorageImpl(), bytes);
  }
};

}  // namespace

void wait(Stream& stream, const Position& position) {
  count(stream.device, Counter::waits);
  position.wait();
  check_usable(stream.device);
  throw_kernel_error();
}

void register_guard() {
  c10::SetAllocator(c10::DeviceType::PrivateUse1, &device_allocator());
  static const auto* guard = new Guard;
  c10::impl::device_guard_impl_registry[static_cast<std::size_t>(c10::DeviceType::PrivateUse1)].store(guard);
  at::RegisterPrivateUse1HooksInterface(new Hooks);
}

}  // namespace testdev
