#include "callers.h"

#include <c10/core/StorageImpl.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "leaked.h"
#include "synchronized.h"

namespace sonde_torch {
namespace {

struct NamedMemory {
  c10::weak_intrusive_ptr<c10::StorageImpl> alive;  // without it the address could be another storage's
  std::string text;
};

struct CallersByMemory {
  std::unordered_map<const c10::StorageImpl*, NamedMemory> all;
  std::size_t purge_at = 64;
};

Synchronized<CallersByMemory>& callers_by_memory() { return table_of_process<Synchronized<CallersByMemory>>(); }

std::string& caller_of_thread() {
  thread_local std::string text;
  return text;
}

c10::StorageImpl* storage_of(const at::TensorBase& tensor) {
  return tensor.defined() && tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl() : nullptr;
}

// Micro-batches are sent from new memory each time.
void purge(CallersByMemory& known) {
  if (known.all.size() < known.purge_at) return;
  std::erase_if(known.all, [](const auto& one) { return one.second.alive.expired(); });
  known.purge_at = std::max<std::size_t>(64, 2 * known.all.size());
}

std::string by_memory(const CallersByMemory& known, c10::ArrayRef<const c10::IValue> values) {
  for (const c10::IValue& value : values) {
    std::string found;
    if (value.isTensor()) {
      const auto at = known.all.find(storage_of(value.toTensor()));
      if (at != known.all.end() && !at->second.alive.expired()) found = at->second.text;
    } else if (value.isList()) {
      found = by_memory(known, value.toListRef());
    }
    if (!found.empty()) return found;
  }
  return {};
}

}  // namespace

std::string set_caller(std::string text) { return std::exchange(caller_of_thread(), std::move(text)); }

void name_memory_of_caller(const at::TensorBase& tensor, std::string text) {
  c10::StorageImpl* const storage = storage_of(tensor);
  if (storage == nullptr) return;
  c10::raw::weak_intrusive_ptr::incref(storage);
  auto alive = c10::weak_intrusive_ptr<c10::StorageImpl>::reclaim(storage);
  const auto known = callers_by_memory().lock();
  purge(*known);
  known->all.insert_or_assign(storage, NamedMemory{std::move(alive), std::move(text)});
}

std::string caller_of(c10::ArrayRef<const c10::IValue> values) {
  const std::string& around = caller_of_thread();
  std::string text;
  {
    const auto known = callers_by_memory().lock();
    if (!known->all.empty()) text = by_memory(*known, values);
  }
  if (text.empty() || around.empty()) return text.empty() ? around : text;
  return text + ", in " + around;
}

}  // namespace sonde_torch
