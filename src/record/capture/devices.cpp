#include "record/capture/devices.h"

#include <atomic>
#include <deque>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "ground/base/mutex.h"
#include "record/capture/abi.h"

namespace sonde {
namespace {

std::atomic<const sonde_devices*> g_devices{nullptr};

struct Expected {
  Mutex mutex;
  std::unordered_map<std::uint64_t, std::shared_ptr<LateReading>> readings GUARDED_BY(mutex);
  std::uint64_t next GUARDED_BY(mutex) = 1;
};

Expected& expected() {
  static auto* leaked = new Expected;  // host threads may outlive static destruction
  return *leaked;
}

}  // namespace

// The old table is kept: another thread may be using it. A host registers once.
void set_devices(const sonde_devices& devices) {
  static std::mutex mutex;
  static auto& tables = *new std::deque<sonde_devices>;  // never destroyed: threads may outlive the statics
  const std::lock_guard lock(mutex);
  g_devices.store(devices.read != nullptr ? &tables.emplace_back(devices) : nullptr, std::memory_order_release);
}

bool reads_devices() { return g_devices.load(std::memory_order_acquire) != nullptr; }

std::uint32_t read_on_device(sonde_device_read& request) {
  request.size = sizeof request;
  return g_devices.load(std::memory_order_acquire)->read(&request);
}

BlockPtr take_device_block(BlockPool& blocks, std::uint64_t bytes, const char*& why) {
  const sonde_devices& devices = *g_devices.load(std::memory_order_acquire);
  void* owner = nullptr;
  void* memory = devices.take(bytes, &owner, &why);
  if (memory == nullptr) return nullptr;
  return blocks.adopt(static_cast<std::byte*>(memory), bytes, devices.release, owner);
}

void drain_devices() {
  if (const sonde_devices* devices = g_devices.load(std::memory_order_acquire)) devices->drain();
}

std::uint64_t expect_reading(const std::shared_ptr<LateReading>& reading) {
  Expected& all = expected();
  const Lock lock(all.mutex);
  all.readings.emplace(all.next, reading);
  return all.next++;
}

std::shared_ptr<LateReading> take_expected(std::uint64_t ticket) {
  Expected& all = expected();
  const Lock lock(all.mutex);
  const auto found = all.readings.find(ticket);
  if (found == all.readings.end()) return nullptr;
  std::shared_ptr<LateReading> reading = std::move(found->second);
  all.readings.erase(found);
  return reading;
}

void forget_expected() {
  Expected& all = expected();
  std::unordered_map<std::uint64_t, std::shared_ptr<LateReading>> dropped;  // destroyed after the lock
  const Lock lock(all.mutex);
  dropped.swap(all.readings);
}

void deliver(LateReading& reading, const sonde_device_result& result) {
  if ((result.has & SONDE_READ_STATISTICS) != 0) {
    Statistics& to = reading.statistics;
    to.count = static_cast<std::uint64_t>(reading.elements);
    for_each_count([](std::uint64_t& count, std::uint64_t from) { count = from; }, to, result);
    to.max = result.max;
    to.min = result.min;
    to.sum = result.sum;
    to.sum_squares = result.sum_squares;
    reading.has_statistics = true;
  }
  reading.has_bytes = (result.has & SONDE_READ_BYTES) != 0;
  if (!reading.has_bytes) reading.bytes.reset();
  const bool nothing = !reading.has_statistics && !reading.has_bytes;
  reading.failed = result.failed;
  if (nothing && reading.failed == nullptr) reading.failed = "the device gave no result";
  reading.arrived.store(true, std::memory_order_release);
}

bool begin_reading(const std::shared_ptr<LateReading>& reading, sonde_device_read request, const HostTensor& tensor,
                   const TensorView& view, const char*& why) {
  const sonde_tensor described = tensor_on_device(tensor, view);
  request.ticket = expect_reading(reading);
  request.tensor = &described;
  request.item_bytes = info(reading->dtype).item_bytes;
  if (reading->bytes != nullptr) {
    request.wants |= SONDE_READ_BYTES;
    request.bytes = reading->bytes->data;
    request.owner = reading->bytes->owner;
  }
  const std::uint32_t begun = read_on_device(request);
  if (request.why != nullptr) why = request.why;
  if (begun == 0) static_cast<void>(take_expected(request.ticket));
  return begun != 0;
}

BlockPtr fetch_from_device(BlockPool& blocks, const HostTensor& tensor, const char*& why) {
  const auto reading = std::make_shared<LateReading>();
  reading->dtype = tensor.view.dtype;
  reading->elements = tensor.view.elements();
  reading->bytes = take_device_block(blocks, tensor.view.bytes(), why);
  if (reading->bytes == nullptr || !begin_reading(reading, {}, tensor, tensor.view, why)) return nullptr;
  drain_devices();
  if (!reading->arrived.load(std::memory_order_acquire)) {
    why = "the device gave no result";
    return nullptr;
  }
  if (!reading->has_bytes && reading->failed != nullptr) why = reading->failed;
  return std::move(reading->bytes);
}

}  // namespace sonde
