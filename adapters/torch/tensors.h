// at::Tensor as the engine sees it, without effects on the tensor: no handle is copied, no storage is kept alive,
// copy-on-write stays lazy. The order of checks matters: each was found by a crash (fake, functorch, sparse, resized,
// …).
#pragma once

#include <ATen/core/TensorBase.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/python_stub.h>

#include <cstdint>
#include <vector>

#include "sonde/sonde.h"

namespace sonde_torch {

// A tensor as sonde_tensor describes it, with sizes of its own, so that it outlives the boxed arguments of the start callback.
struct TensorDescriptor {
  sonde_tensor tensor{};
  c10::StorageImpl* storage = nullptr;              // valid while `alive` holds it
  c10::weak_intrusive_ptr<c10::StorageImpl> alive;  // distinguishes it from a storage that died during the op
  bool requires_grad = false;
  std::uint64_t item_bytes = 0;  // of an element
  bool fresh = false;            // its storage is seen for the first time
  // In the memory of a device: for another tensor over the same storage.
  c10::Device device{c10::DeviceType::CPU};
  c10::DispatchKeySet keys;
  caffe2::TypeMeta dtype;

  TensorDescriptor();
  // Never throws: a refusal by PyTorch becomes the reason why the tensor is skipped.
  void describe(const at::TensorBase& t, bool keep_alive_mark);
  // All bytes of a storage.
  void describe_block(c10::StorageImpl& block);
  // It gets the elements of `source`, a tensor of a device, later: they are read there. False: it has others.
  bool read_at(const TensorDescriptor& source);
  // True if the memory still exists in the same place: it is read after the kernel only then.
  bool still_valid() const;
  // Nobody reads memory that no longer exists, not even the number that a constant is.
  void skip_if_released();
  // Nobody has written its bytes yet.
  void set_unwritten();

  // It has all bytes of its storage, or none.
  bool is_whole() const;

  // Points `tensor` at this object's own sizes; after a move or a growing vector.
  const sonde_tensor* get();

 private:
  static constexpr int kInline = 8;
  std::int64_t inline_[2 * kInline];
  std::vector<std::int64_t> heap_;

  const std::int64_t* sizes() const { return tensor.ndim > kInline ? heap_.data() : inline_; }  // strides follow
  void fill(const at::TensorBase& t, bool keep_alive_mark);
  std::int64_t* take_sizes(c10::IntArrayRef sizes);  // at their present address; room for as many strides follows
};

// After the kernel: the op wrote this tensor. The rest of its memory block stays as it was, unless the op allocated it.
void report_write(const struct sonde_api& api, sonde_op* op, TensorDescriptor& written);

// The reason why a tensor of this kind cannot be read; null if it can. Static text.
const char* why_unreadable(const at::TensorBase& t);

// The object of Python that is `t`; null: there is none.
PyObject* python_object(const at::TensorBase& t);

// By address, not by identity: two storages may share one piece of memory.
bool share_memory(const sonde_tensor& a, const sonde_tensor& b);

struct StorageIdentity {
  std::uint64_t id;  // never reused
  bool given_away;
  bool fresh;  // seen for the first time
};
// Holds a weak reference to the storage, which keeps the small object's address from being reused but not its memory.
StorageIdentity storage_identity(c10::StorageImpl* storage);
// From now on others may write to this memory unseen (DLPack).
void give_away(c10::StorageImpl* storage);
// Drops the facts about storages that died, and returns their identities.
std::vector<std::uint64_t> purge_storages();
// True if so many storages are known that some of them will have died.
bool purge_is_due();
// Python has asked for the storage object.
bool has_python_object(const c10::StorageImpl& storage);
// Allocated by torch's own CPU allocator, and not exposed outside operators (through NumPy, DLPack or a file it may
// change without an operator).
bool owned_by_torch(const c10::StorageImpl& storage);

}  // namespace sonde_torch
