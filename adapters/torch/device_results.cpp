// Memory of the host to which a device still copies: `copy_` and `to` with non_blocking=True return before it is complete.
#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <atomic>
#include <map>
#include <optional>

#include "device.h"
#include "device_work.h"
#include "synchronized.h"

namespace sonde_torch {
namespace {

// By the identity of a storage: reached when its elements are there. No event: that cannot be known.
struct Results {
  Synchronized<std::map<std::uint64_t, std::optional<c10::Event>>> on_their_way;
  std::atomic<std::size_t> count{0};
};

Leaked<Results> g_results;

bool has_come(const std::optional<c10::Event>& event) {
  try {
    const BesideCaptures beside;
    return event && event->query();
  } catch (...) {  // the device is lost
    return false;
  }
}

std::optional<c10::Event> event_now(c10::Device device) {
  try {
    if (is_capturing(device)) return std::nullopt;
    c10::Event event(device.type());
    event.record(current_stream(device));
    return event;
  } catch (...) {  // a device without events
    return std::nullopt;
  }
}

void add_host_storage(const c10::IValue& value, std::vector<std::uint64_t>& storages) {
  if (value.isTensor() && value.toTensor().defined()) {
    const c10::TensorImpl& impl = *value.toTensor().unsafeGetTensorImpl();
    if (!impl.is_cpu() || !impl.has_storage()) return;
    storages.push_back(storage_identity(impl.unsafe_storage().unsafeGetStorageImpl()).id);
  } else if (value.isList()) {
    for (const c10::IValue& one : value.toListRef()) add_host_storage(one, storages);
  }
}

std::optional<c10::Device> device_of(const c10::IValue& value) {
  if (value.isTensor() && value.toTensor().defined() && !value.toTensor().is_cpu()) return value.toTensor().device();
  if (!value.isList()) return std::nullopt;
  for (const c10::IValue& one : value.toListRef()) {
    if (const auto found = device_of(one)) return found;
  }
  return std::nullopt;
}

// The first that is not the host's.
std::optional<c10::Device> device_among(c10::ArrayRef<const c10::IValue> values) {
  for (const c10::IValue& value : values) {
    if (const auto found = device_of(value)) return found;
  }
  return std::nullopt;
}

}  // namespace

std::unique_ptr<EarlyReturn> early_return(const OpInfo& info, c10::ArrayRef<const c10::IValue> values) {
  const auto place = static_cast<std::size_t>(info.non_blocking);
  if (info.non_blocking < 0 || place >= values.size() || !values[place].isBool() || !values[place].toBool()) return {};
  const auto device = device_among(values);
  if (!device) return {};
  auto early = std::make_unique<EarlyReturn>(EarlyReturn{*device, {}});
  for (std::size_t i = 0; i < info.arguments.size() && i < values.size(); ++i) {
    if (info.arguments[i].written) add_host_storage(values[i], early->storages);
  }
  return early;
}

void results_come_later(EarlyReturn& early, c10::ArrayRef<const c10::IValue> results) {
  for (const c10::IValue& result : results) add_host_storage(result, early.storages);
  if (early.storages.empty()) return;
  Results& all = *g_results;
  const auto on_their_way = all.on_their_way.lock();
  std::erase_if(*on_their_way, [](const auto& one) { return has_come(one.second); });
  for (const std::uint64_t storage : early.storages) (*on_their_way)[storage] = event_now(early.device);
  all.count = on_their_way->size();
}

bool is_on_its_way(std::uint64_t storage) {
  Results& all = *g_results;
  if (all.count.load(std::memory_order_relaxed) == 0) return false;
  const auto on_their_way = all.on_their_way.lock();
  const auto found = on_their_way->find(storage);
  if (found == on_their_way->end()) return false;
  if (!has_come(found->second)) return true;
  on_their_way->erase(found);
  all.count = on_their_way->size();
  return false;
}

void forget_results() { g_results.renew(); }

}  // namespace sonde_torch
