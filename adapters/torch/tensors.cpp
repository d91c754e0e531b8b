#include "tensors.h"

#include <ATen/core/Tensor.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/TensorImpl.h>

#include <algorithm>
#include <array>
#include <atomic>

#include "device.h"
#include "leaked.h"
#include "storage_table.h"
#include "synchronized.h"

namespace sonde_torch {
namespace {

struct ElementType {
  c10::ScalarType torch;
  sonde_dtype ours;
};
constexpr ElementType kElementTypes[] = {
    {c10::ScalarType::Bool, SONDE_DTYPE_BOOL8},
    {c10::ScalarType::Char, SONDE_DTYPE_INT8},
    {c10::ScalarType::Short, SONDE_DTYPE_INT16},
    {c10::ScalarType::Int, SONDE_DTYPE_INT32},
    {c10::ScalarType::Long, SONDE_DTYPE_INT64},
    {c10::ScalarType::Byte, SONDE_DTYPE_UINT8},
    {c10::ScalarType::UInt16, SONDE_DTYPE_UINT16},
    {c10::ScalarType::UInt32, SONDE_DTYPE_UINT32},
    {c10::ScalarType::UInt64, SONDE_DTYPE_UINT64},
    {c10::ScalarType::Half, SONDE_DTYPE_FLOAT16},
    {c10::ScalarType::Float, SONDE_DTYPE_FLOAT32},
    {c10::ScalarType::Double, SONDE_DTYPE_FLOAT64},
    {c10::ScalarType::BFloat16, SONDE_DTYPE_BFLOAT16},
    {c10::ScalarType::Float8_e4m3fn, SONDE_DTYPE_FLOAT8_E4M3FN},
    {c10::ScalarType::Float8_e5m2, SONDE_DTYPE_FLOAT8_E5M2},
    {c10::ScalarType::Float8_e4m3fnuz, SONDE_DTYPE_FLOAT8_E4M3FNUZ},
    {c10::ScalarType::Float8_e5m2fnuz, SONDE_DTYPE_FLOAT8_E5M2FNUZ},
#if __has_include(<c10/util/Float8_e8m0fnu.h>)  // PyTorch since 2.7
    {c10::ScalarType::Float8_e8m0fnu, SONDE_DTYPE_FLOAT8_E8M0FNU},
#endif
    {c10::ScalarType::ComplexHalf, SONDE_DTYPE_COMPLEX32},
    {c10::ScalarType::ComplexFloat, SONDE_DTYPE_COMPLEX64},
    {c10::ScalarType::ComplexDouble, SONDE_DTYPE_COMPLEX128},
    {c10::ScalarType::QInt8, SONDE_DTYPE_QINT8},
    {c10::ScalarType::QUInt8, SONDE_DTYPE_QUINT8},
    {c10::ScalarType::QInt32, SONDE_DTYPE_QINT32},
};

using ElementTypeTable = std::array<sonde_dtype, static_cast<std::size_t>(c10::ScalarType::NumOptions)>;
constexpr ElementTypeTable kDtypeOf = [] {
  ElementTypeTable table{};  // the others: undefined
  for (const ElementType& type : kElementTypes) table[static_cast<std::size_t>(type.torch)] = type.ours;
  return table;
}();

sonde_dtype dtype_of(c10::ScalarType type) {
  const auto number = static_cast<std::size_t>(type);
  return number < kDtypeOf.size() ? kDtypeOf[number] : SONDE_DTYPE_UNDEFINED;
}

// Purged when its size has doubled, so that it follows the number of living storages, and stays in the cache.
constexpr std::size_t kLeastPurge = 1024;

struct Storages {
  StorageTable known;
  std::uint64_t next = 1;
};

struct Registry {
  std::atomic<std::size_t> count{0}, purge_at{kLeastPurge};
  Synchronized<Storages> storages;
  bool is_locked() { return storages.is_locked(); }
};

Registry& registry() { return table_of_process<Registry>(); }

c10::weak_intrusive_ptr<c10::StorageImpl> weak_of(c10::StorageImpl* storage) {
  // A weak reference made without a strong one in between: a strong copy may take the GIL (torch 2.13).
  c10::raw::weak_intrusive_ptr::incref(storage);
  return c10::weak_intrusive_ptr<c10::StorageImpl>::reclaim(storage);
}

using K = c10::DispatchKey;
constexpr c10::DispatchKeySet kOfPython{K::Python, K::PythonTLSSnapshot};
constexpr c10::DispatchKeySet kOfFunctorch{K::FuncTorchBatched, K::FuncTorchGradWrapper, K::Functionalize, K::Batched,
                                           K::BatchedNestedTensor};

// Kinds that cannot be read, but whose sizes are plain numbers, available without running the user's code.
bool has_plain_sizes(const at::TensorBase& t) {
  const c10::TensorImpl* impl = t.unsafeGetTensorImpl();
  return !impl->key_set().has_any(kOfPython | kOfFunctorch) && !t.is_nested() && !impl->has_symbolic_sizes_strides();
}

// PyTorch up to 2.9 has another name for it. A template, since `requires` with an unknown name is an error elsewhere.
template <class Slot>
PyObject* python_object(const Slot* slot) {
  if constexpr (requires { slot->load_pyobj(); }) {
    return slot->load_pyobj();
  } else {
    return slot->_unchecked_untagged_pyobj();
  }
}

}  // namespace

const char* why_unreadable(const at::TensorBase& t) {
  const c10::TensorImpl* impl = t.unsafeGetTensorImpl();
  const c10::DispatchKeySet keys = impl->key_set();
  if (keys.has_any(kOfPython)) return "tensor subclass or fake tensor";
  if (keys.has_any(kOfFunctorch)) return "functorch wrapper";
  if (t.is_sparse()) return "sparse tensor";
  if (impl->is_sparse_compressed()) return "compressed sparse tensor";  // CSR, CSC, BSR, BSC
  if (t.is_mkldnn()) return "opaque MKLDNN tensor";
  if (t.is_nested()) return "nested tensor";
  if (impl->has_symbolic_sizes_strides()) return "symbolic sizes";
  if (t.is_meta()) return "meta tensor";
  if (!t.device().is_cpu()) {
    if (const char* why = why_unreadable_device(t.device())) return why;
  }
  if (dtype_of(t.scalar_type()) == SONDE_DTYPE_UNDEFINED) return "element type not supported";
  return nullptr;
}

bool share_memory(const sonde_tensor& a, const sonde_tensor& b) {
  const char* first = static_cast<const char*>(a.storage_data);
  const char* second = static_cast<const char*>(b.storage_data);
  if (first == nullptr || second == nullptr) return a.storage != 0 && a.storage == b.storage;
  return first < second + b.storage_bytes && second < first + a.storage_bytes;
}

void report_write(const struct sonde_api& api, sonde_op* op, TensorDescriptor& written) {
  if (written.tensor.skip != nullptr || written.is_whole() || !written.still_valid()) {
    api.op_mutated(op, written.tensor.storage);
  } else {
    api.op_wrote_part(op, written.get());
  }
}

StorageIdentity storage_identity(c10::StorageImpl* storage) {
  Registry& r = registry();
  const auto storages = r.storages.lock();
  const StorageTable::Known& known = storages->known.find(storage);
  if (known.storage != nullptr) return {known.id, known.given_away, false};
  const std::uint64_t id = storages->next++;
  storages->known.add({storage, id, false, weak_of(storage)});
  r.count.store(storages->known.size(), std::memory_order_relaxed);
  return {id, false, true};
}

void give_away(c10::StorageImpl* storage) {
  storage_identity(storage);
  registry().storages.lock()->known.find(storage).given_away = true;
}

std::vector<std::uint64_t> purge_storages() {
  Registry& r = registry();
  std::vector<std::uint64_t> ids;
  std::vector<StorageTable::Weak> dead;  // destroyed after the lock
  const auto storages = r.storages.lock();
  storages->known.purge(ids, dead);
  const std::size_t alive = storages->known.size();
  r.purge_at.store(std::max(kLeastPurge, 2 * alive), std::memory_order_relaxed);
  r.count.store(alive, std::memory_order_relaxed);
  return ids;
}

bool purge_is_due() {
  const Registry& r = registry();
  return r.count.load(std::memory_order_relaxed) >= r.purge_at.load(std::memory_order_relaxed);
}

PyObject* python_object(const at::TensorBase& t) { return python_object(t.unsafeGetTensorImpl()->pyobj_slot()); }

bool has_python_object(const c10::StorageImpl& storage) { return python_object(storage.pyobj_slot()) != nullptr; }

namespace {

// The deleter of memory of the device's own allocator. Others (DLPack, another process) have deleters of their own.
c10::DeleterFnPtr deleter_of(c10::DeviceType type) {
  static std::array<std::atomic<c10::DeleterFnPtr>, static_cast<std::size_t>(c10::COMPILE_TIME_MAX_DEVICE_TYPES)>
      known{};
  auto& deleter = known.at(static_cast<std::size_t>(type));
  if (deleter.load(std::memory_order_relaxed) == nullptr) {
    deleter = c10::GetAllocator(type)->allocate(0).get_deleter();
  }
  return deleter.load(std::memory_order_relaxed);
}

// Not given to others, as far as the storage shows: Tensor.numpy() makes it unresizable.
bool allocated_by_torch(const c10::StorageImpl& storage) {
  static const c10::DeleterFnPtr raw = c10::GetDefaultCPUAllocator()->raw_deleter();
  const c10::DeviceType type = storage.device_type();
  const c10::DeleterFnPtr own = type == c10::DeviceType::CPU ? raw : deleter_of(type);
  return storage.data_ptr().get_deleter() == own && storage.resizable();
}

}  // namespace

// Python's storage object, once requested, stays with the storage: it exposes the storage's elements and address.
bool owned_by_torch(const c10::StorageImpl& storage) {
  return allocated_by_torch(storage) && !has_python_object(storage);
}

TensorDescriptor::TensorDescriptor() : alive(c10::weak_intrusive_ptr<c10::StorageImpl>::reclaim(nullptr)) {
  tensor.size = sizeof(sonde_tensor);
}

void TensorDescriptor::describe(const at::TensorBase& t, bool keep_alive_mark) {
  tensor = {};
  tensor.size = sizeof(sonde_tensor);
  storage = nullptr;
  fresh = false;
  device = c10::Device(c10::DeviceType::CPU);
  alive.reset();
  try {
    fill(t, keep_alive_mark);
  } catch (...) {  // a kind of tensor that throws
    tensor.skip = "PyTorch refuses to describe it";
    tensor.data = nullptr;
  }
}

std::int64_t* TensorDescriptor::take_sizes(c10::IntArrayRef sizes) {
  const std::size_t n = sizes.size();
  std::int64_t* out = inline_;
  if (n > kInline) {
    heap_.resize(2 * n);
    out = heap_.data();
  }
  std::copy(sizes.begin(), sizes.end(), out);
  std::fill(out + n, out + 2 * n, 0);
  tensor.ndim = static_cast<std::uint32_t>(n);
  return out;
}

void TensorDescriptor::fill(const at::TensorBase& t, bool keep_alive_mark) {
  requires_grad = t.requires_grad();
  tensor.object = reinterpret_cast<std::uint64_t>(t.unsafeGetTensorImpl());
  tensor.dtype = dtype_of(t.scalar_type());
  const c10::TensorImpl* impl = t.unsafeGetTensorImpl();
  tensor.skip = why_unreadable(t);
  if (tensor.skip != nullptr) {
    if (has_plain_sizes(t)) take_sizes(impl->sizes());
    return;
  }
  const auto sizes = impl->sizes();
  const auto strides = impl->strides();
  const std::size_t n = sizes.size();
  std::copy(strides.begin(), strides.end(), take_sizes(sizes) + n);
  tensor.flags = (impl->is_wrapped_number() ? SONDE_TENSOR_CONSTANT : 0u) |
                 (t.is_conj() ? SONDE_TENSOR_CONJUGATE : 0u) | (t.is_neg() ? SONDE_TENSOR_NEGATIVE : 0u);
  if (!impl->has_storage()) {
    tensor.skip = "tensor without storage";
    return;
  }
  storage = impl->unsafe_storage().unsafeGetStorageImpl();
  if (!t.device().is_cpu()) {
    device = t.device();
    keys = impl->key_set();
    dtype = impl->dtype();
    if (t.is_quantized()) {  // it is read as its codes
      keys = keys.remove(c10::DispatchKey::Quantized).add(c10::DispatchKey::Dense);
      dtype = c10::scalarTypeToTypeMeta(c10::toUnderlying(t.scalar_type()));
    }
    tensor.device = device.is_cuda() ? SONDE_DEVICE_CUDA : SONDE_DEVICE_OTHER;
  }
  const StorageIdentity identity = storage_identity(storage);
  tensor.storage = identity.id;
  fresh = identity.fresh;
  if (identity.given_away || !owned_by_torch(*storage)) {
    tensor.flags |= SONDE_TENSOR_FOREIGN;
    // FSDP requests the object in order to allocate: that alone is not a write.
    if (!identity.given_away && allocated_by_torch(*storage)) tensor.flags |= SONDE_TENSOR_OBSERVED;
  }
  tensor.storage_data = storage->data();  // const: does not materialise copy-on-write
  tensor.storage_bytes = storage->sym_nbytes().maybe_as_int().value_or(0);
  if (impl->numel() == 0) return;  // valid, nothing to read
  std::int64_t last = impl->storage_offset();
  for (std::size_t d = 0; d < n; ++d) last += (sizes[d] - 1) * strides[d];
  const auto item = static_cast<std::int64_t>(impl->itemsize());
  item_bytes = impl->itemsize();
  if (tensor.storage_data == nullptr || static_cast<std::uint64_t>((last + 1) * item) > tensor.storage_bytes) {
    tensor.skip = "storage resized to less than the tensor needs";
    return;
  }
  tensor.data = static_cast<const char*>(tensor.storage_data) + impl->storage_offset() * item;
  if (keep_alive_mark) alive = weak_of(storage);
}

void TensorDescriptor::describe_block(c10::StorageImpl& block) {
  tensor.dtype = SONDE_DTYPE_UINT8;
  tensor.storage = storage_identity(&block).id;
  tensor.data = tensor.storage_data = block.data();
  tensor.storage_bytes = block.sym_nbytes().maybe_as_int().value_or(0);
  std::int64_t* sizes = take_sizes({static_cast<std::int64_t>(tensor.storage_bytes)});
  sizes[1] = 1;
}

bool TensorDescriptor::read_at(const TensorDescriptor& source) {
  constexpr std::uint32_t kForms = SONDE_TENSOR_CONJUGATE | SONDE_TENSOR_NEGATIVE;
  const sonde_tensor& from = source.tensor;
  const std::int64_t* sizes = source.sizes();
  if (from.skip != nullptr || !source.still_valid() || from.dtype != tensor.dtype ||
      ((from.flags ^ tensor.flags) & kForms) != 0 ||
      !std::equal(sizes, sizes + from.ndim, this->sizes(), this->sizes() + tensor.ndim)) {
    return false;
  }
  std::copy(sizes, sizes + 2 * from.ndim, take_sizes({sizes, from.ndim}));
  tensor.data = from.data;
  tensor.storage_data = from.storage_data;
  tensor.storage_bytes = from.storage_bytes;
  tensor.device = from.device;
  storage = source.storage;
  device = source.device;
  keys = source.keys;
  dtype = source.dtype;
  return true;
}

bool TensorDescriptor::still_valid() const {
  if (tensor.data == nullptr) return true;
  if (alive.expired()) return false;
  return storage->data() == tensor.storage_data &&
         storage->sym_nbytes().maybe_as_int().value_or(0) >= static_cast<std::int64_t>(tensor.storage_bytes);
}

void TensorDescriptor::set_unwritten() {
  tensor.skip = "uninitialised memory";
  tensor.flags |= SONDE_TENSOR_UNINITIALISED;
}

void TensorDescriptor::skip_if_released() {
  if (still_valid()) return;
  tensor.skip = "its memory was released before it could be read";
  tensor.data = nullptr;
}

bool TensorDescriptor::is_whole() const {
  if (tensor.data == nullptr) return true;
  std::uint64_t elements = 1;
  for (std::uint32_t d = 0; d < tensor.ndim; ++d) elements *= static_cast<std::uint64_t>(sizes()[d]);
  return tensor.data == tensor.storage_data && elements * item_bytes >= tensor.storage_bytes;
}

const sonde_tensor* TensorDescriptor::get() {
  tensor.shape = sizes();
  tensor.strides = sizes() + tensor.ndim;
  tensor.handle = device.is_cpu() ? nullptr : this;
  return &tensor;
}

}  // namespace sonde_torch
