#include "watched.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "device.h"
#include "leaked.h"
#include "program.h"
#include "setup.h"
#include "synchronized.h"
#include "tensors.h"

namespace sonde_torch {
namespace {

struct Kept {
  std::uint32_t name = 0, slot = 0;
  TensorDescriptor descriptor;
};

Leaked<Synchronized<std::vector<std::unique_ptr<Kept>>>> g_watched;

// True if the engine will need it again.
bool report(sonde_op* op, Kept& kept) {
  TensorDescriptor& descriptor = kept.descriptor;
  const char* gone = nullptr;
  // Keeps the memory alive while it is read, so that another thread cannot free it. For a storage that has a Python
  // object this would take the GIL; the remains of a dead storage still show if it has one.
  c10::intrusive_ptr<c10::StorageImpl> storage;
  if (has_python_object(*descriptor.storage)) {
    gone = "Python's own storage object was asked for";
  } else {
    storage = descriptor.alive.lock();
    if (!storage) gone = "its memory was released";
  }
  if (storage && !descriptor.still_valid()) gone = "its memory was released or moved";
  const char* skip = descriptor.tensor.skip;
  if (gone != nullptr) descriptor.tensor.skip = gone;
  const int goes_on = api().op_watched(op, kept.name, kept.slot, descriptor.get());
  descriptor.tensor.skip = skip;
  return goes_on != 0;
}

}  // namespace

void keep_watched(std::uint32_t name, std::uint32_t slot, const at::Tensor& tensor) {
  auto kept = std::make_unique<Kept>();
  kept->name = name;
  kept->slot = slot;
  kept->descriptor.describe(tensor, true);
  if (kept->descriptor.storage == nullptr || kept->descriptor.tensor.data == nullptr) return;  // nothing to read
  const auto all = g_watched->lock();
  std::erase_if(*all, [&](const auto& old) { return old->name == name && old->slot == slot; });
  all->push_back(std::move(kept));
}

void report_watched(sonde_op* op) {
  // The engine waits for a device here. No thread that has the GIL may then wait for the lock.
  void* python = uses_devices() ? release_python() : nullptr;
  std::erase_if(*g_watched->lock(), [&](const auto& kept) { return !report(op, *kept); });
  take_python(python);
}

void forget_watched() { g_watched.renew(); }

}  // namespace sonde_torch
