// The operators that the boxed launch cannot run: those that make tensors, move them between memories, look at one
// element, or are written for devices.
#include "ops.h"

#include <ATen/EmptyTensor.h>
#include <ATen/autocast_mode.h>
#include <ATen/native/Resize.h>
#include <ATen/native/TensorShape.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/_sparse_coo_tensor_with_dims_and_tensors_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/bernoulli.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <ATen/quantized/Quantizer.h>
#include <torch/library.h>

#include "device.h"
#include "memory.h"

namespace testdev {
namespace {

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

at::Tensor empty(c10::IntArrayRef sizes, std::optional<c10::ScalarType> type, std::optional<c10::Layout>,
                 std::optional<c10::Device> device, std::optional<bool>, std::optional<c10::MemoryFormat> format) {
  const c10::DeviceGuard guard(device.value_or(c10::DeviceType::PrivateUse1));
  return at::Tensor(at::detail::empty_generic(sizes, &device_allocator(), kKeys, c10::dtype_or_default(type), format));
}

at::Tensor empty_strided(c10::IntArrayRef sizes, c10::IntArrayRef strides, std::optional<c10::ScalarType> type,
                         std::optional<c10::Layout>, std::optional<c10::Device> device, std::optional<bool>) {
  const c10::DeviceGuard guard(device.value_or(c10::DeviceType::PrivateUse1));
  return at::Tensor(
      at::detail::empty_strided_generic(sizes, strides, &device_allocator(), kKeys, c10::dtype_or_default(type)));
}

// --- copies ----------------------------------------------------------------------------------------------------------

void copy_to_host(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  const int index = from.device().index();
  Stream& stream = current_stream(index);
  const void* memory = to.storage().data();
  count(index, Counter::copies_to_host);
  count(index, Counter::bytes_to_host, to.nbytes());
  // Over the memory, and without a handle: the program may free its tensor before the copy is done.
  at::Tensor alias = at::from_blob(to.data_ptr(), to.sizes(), to.strides(), to.options());
  const Position done = stream.enqueue([to = std::move(alias), from = elements_of(from)] { run_copy(to, from); });
  if (is_pinned(memory)) {
    record_pinned_use(memory, stream);
    if (non_blocking) return;
  }
  wait(stream, done);
}

void copy_to_device(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  const int index = to.device().index();
  Stream& stream = current_stream(index);
  const void* memory = from.storage().data();
  count(index, Counter::copies_to_device);
  count(index, Counter::bytes_to_device, from.nbytes());
  const bool pinned = from.numel() > 0 && is_pinned(memory);
  // Memory that is not pinned goes through a buffer of the driver at once; pinned memory is read when the copy runs.
  const at::Tensor source =
      pinned ? at::from_blob(from.data_ptr(), from.sizes(), from.strides(), from.options()) : from.clone();
  const Position done = stream.enqueue([to = elements_of(to), from = source] { run_copy(to, from); });
  if (pinned) record_pinned_use(memory, stream);
  if (!non_blocking) wait(stream, done);
}

void copy_on_device(const at::Tensor& from, const at::Tensor& to) {
  Stream& source = current_stream(from.device().index());
  Stream& destination = current_stream(to.device().index());
  count(source.device, Counter::copies_on_device);
  count(source.device, Counter::bytes_on_device, to.nbytes());
  source.wait_for(destination.now());
  const Position done = source.enqueue([to = elements_of(to), from = elements_of(from)] { run_copy(to, from); });
  destination.wait_for(done);
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  if (to.numel() == 0) return to;
  if (to.is_privateuseone()) {
    from.is_privateuseone() ? copy_on_device(from, to) : copy_to_device(from, to, non_blocking);
  } else {
    copy_to_host(from, to, non_blocking);
  }
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  to.resize_(from.sizes());
  return copy_from(from, to, false);
}

at::Scalar local_scalar_dense(const at::Tensor& tensor) {
  const int index = tensor.device().index();
  Stream& stream = current_stream(index);
  wait(stream, stream.now());
  count(index, Counter::copies_to_host);
  count(index, Counter::bytes_to_host, tensor.element_size());
  return elements_of(tensor).item();
}

// --- sizes and storages ----------------------------------------------------------------------------------------------

const at::Tensor& resize_(const at::Tensor& tensor, c10::IntArrayRef sizes, std::optional<c10::MemoryFormat> format) {
  TORCH_CHECK(!format || *format == c10::MemoryFormat::Contiguous, "testdev: resize_ to another memory format");
  resize(tensor, sizes, c10::contiguous_strides(sizes));
  return tensor;
}

at::Tensor& set_storage(at::Tensor& tensor, c10::Storage storage, std::int64_t offset, c10::IntArrayRef sizes,
                        c10::IntArrayRef strides) {
  at::native::checkSetStorage(tensor, std::move(storage), offset, sizes, strides);
  tensor.unsafeGetTensorImpl()->set_storage_offset(offset);
  const c10::DimVector contiguous = c10::contiguous_strides(sizes);
  resize(tensor, sizes, strides.empty() ? c10::IntArrayRef(contiguous) : strides);
  return tensor;
}

at::Tensor& set_whole_storage(at::Tensor& tensor, c10::Storage storage) {
  const auto elements = static_cast<std::int64_t>(storage.nbytes() / tensor.element_size());
  return set_storage(tensor, std::move(storage), 0, elements, 1);
}

at::Tensor& set_tensor(at::Tensor& tensor, const at::Tensor& source) {
  return set_storage(tensor, source.storage(), source.storage_offset(), source.sizes(), source.strides());
}

at::Tensor& set_nothing(at::Tensor& tensor) {
  const c10::DeviceGuard guard(tensor.device());
  c10::Storage storage(c10::Storage::use_byte_size_t(), 0, device_allocator().allocate(0), &device_allocator(), true);
  return set_storage(tensor, std::move(storage), 0, 0, {});
}

void record_stream(at::Tensor& tensor, c10::Stream stream) {
  record_use(tensor.storage().data_ptr(), stream_of(stream));
}

// --- operators that PyTorch has for devices alone --------------------------------------------------------------------

std::tuple<at::Tensor, at::Tensor> native_dropout(const at::Tensor& input, double p, std::optional<bool> train) {
  if (train == false) return {input, at::ones_like(input, input.options().dtype(c10::kBool))};
  const at::Tensor kept = at::empty_like(input).bernoulli_(1 - p);
  return {(input * kept).mul_(p == 1 ? 0. : 1 / (1 - p)), kept.to(c10::kBool)};
}

c10::OperatorHandle op_named(const char* name, const char* overload = "") {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, overload);
}

void convolution(const c10::OperatorHandle&, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  static const c10::OperatorHandle op = op_named("aten::convolution");
  launch(op, keys, stack);
}

void convolution_backward(const c10::OperatorHandle&, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  static const c10::OperatorHandle op = op_named("aten::convolution_backward");
  constexpr std::size_t kArguments = 10, kWeight = 2, kTransposed = 6, kGroups = 8, kBiasSizes = 3;
  const auto arguments = stack->end() - kArguments;
  const std::int64_t rows = arguments[kWeight].toTensor().size(arguments[kTransposed].toBool() ? 1 : 0);
  const std::int64_t bias = arguments[kTransposed].toBool() ? rows * arguments[kGroups].toInt() : rows;
  stack->insert(arguments + kBiasSizes, c10::IValue(std::vector<std::int64_t>{bias}));
  launch(op, keys, stack);
}

// The codes, with a scale. No kernel reads them.
at::Tensor make_quantized(const at::Tensor& codes, double scale, std::int64_t zero_point) {
  const c10::ScalarType type = c10::toQIntType(codes.scalar_type());
  at::Tensor made = at::new_qtensor(codes.sizes(), codes.options().dtype(type),
                                    at::make_per_tensor_affine_quantizer(scale, zero_point, type));
  const int index = codes.device().index();
  current_stream(index).enqueue([to = real(index, made.data_ptr()), from = elements_of(codes), bytes = codes.nbytes()] {
    std::memcpy(to, from.const_data_ptr(), bytes);
  });
  return made;
}

template <void (*kernel)(const c10::OperatorHandle&, c10::DispatchKeySet, torch::jit::Stack*)>
torch::CppFunction boxed() {
  return torch::CppFunction::makeFromBoxedFunction<kernel>();
}

void register_own(torch::Library& m) {
  m.impl("empty.memory_format", &empty);
  m.impl("empty_strided", &empty_strided);
  m.impl("_copy_from", &copy_from);
  m.impl("_copy_from_and_resize", &copy_from_and_resize);
  m.impl("_local_scalar_dense", &local_scalar_dense);
  m.impl("resize_", &resize_);
  m.impl("set_.source_Storage_storage_offset", &set_storage);
  m.impl("set_.source_Storage", &set_whole_storage);
  m.impl("set_.source_Tensor", &set_tensor);
  m.impl("set_", &set_nothing);
  m.impl("record_stream", &record_stream);
  m.impl("view", [](const at::Tensor& t, c10::IntArrayRef sizes) { return at::native::view(t, sizes); });
  m.impl("as_strided",
         [](const at::Tensor& t, c10::IntArrayRef sizes, c10::IntArrayRef strides, std::optional<std::int64_t> offset) {
           return at::native::as_strided_tensorimpl(t, sizes, strides, offset);
         });
  m.impl("_reshape_alias", [](const at::Tensor& t, c10::IntArrayRef sizes, c10::IntArrayRef strides) {
    return at::native::_reshape_alias(t, sizes, strides);
  });
  m.impl("unfold", &at::native::unfold);
  m.impl("view_as_real", &at::native::view_as_real);
  m.impl("view_as_complex", &at::native::view_as_complex);
  m.impl("native_dropout", &native_dropout);
  m.impl("_make_per_tensor_quantized_tensor", &make_quantized);
  m.impl("convolution_overrideable", boxed<&convolution>());
  m.impl("convolution_backward_overrideable", boxed<&convolution_backward>());
}

bool has_kernel(const c10::OperatorName& name, c10::DispatchKey key) {
  const auto op = c10::Dispatcher::singleton().findOp(name);
  return op && op->hasKernelForDispatchKey(key);
}

// Every operator that has a kernel of its own for the CPU has one here, as on a GPU; also those on lists.
void register_others(torch::Library& m) {
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    const bool is_aten = name.name.rfind("aten::", 0) == 0, on_lists = name.name.rfind("aten::_foreach_", 0) == 0;
    if (!is_aten || has_kernel(name, c10::DispatchKey::PrivateUse1)) continue;
    if (!on_lists && !has_kernel(name, c10::DispatchKey::CPU)) continue;
    const std::string short_name = name.name.substr(6) + (name.overload_name.empty() ? "" : "." + name.overload_name);
    m.impl(short_name.c_str(), boxed<&launch>());
  }
}

#define LOWER_PRECISION(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define FULL_PRECISION(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
#define WIDEST(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)

void register_autocast(torch::Library& m) {
  AT_FORALL_LOWER_PRECISION_FP(LOWER_PRECISION)
  AT_FORALL_FP32(FULL_PRECISION)
  AT_FORALL_PROMOTE(WIDEST)
}

}  // namespace

void resize_storage(c10::StorageImpl* storage, std::size_t bytes) {
  const c10::DeviceGuard guard(storage->device());
  const int index = storage->device().index();
  c10::DataPtr larger = device_allocator().allocate(bytes);
  const std::size_t kept = std::min(bytes, storage->nbytes());
  if (kept > 0) {
    current_stream(index).enqueue(
        [to = real(index, larger.get()), from = real(index, storage->data()), kept] { std::memcpy(to, from, kept); });
  }
  storage->set_data_ptr_noswap(std::move(larger));
  storage->set_nbytes(bytes);
}

void resize(const at::Tensor& tensor, c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  const auto offset = static_cast<std::size_t>(impl->storage_offset());
  const std::size_t bytes = at::detail::computeStorageNbytes(sizes, strides, impl->itemsize(), offset);
  c10::StorageImpl* storage = impl->unsafe_storage().unsafeGetStorageImpl();
  if (bytes > storage->nbytes()) resize_storage(storage, bytes);
  impl->set_sizes_and_strides(sizes, strides);
}

void register_ops() {
  using c10::DispatchKey;
  using torch::Library;
  // Never destroyed: that would unregister the kernels.
  auto* ours = new Library(Library::IMPL, "aten", DispatchKey::PrivateUse1, __FILE__, __LINE__);
  register_own(*ours);
  register_others(*ours);
  auto* rest = new Library(Library::IMPL, "_", DispatchKey::PrivateUse1, __FILE__, __LINE__);
  rest->fallback(boxed<&launch>());
  for (const DispatchKey bit : {DispatchKey::Conjugate, DispatchKey::Negative}) {  // copies know these bits
    auto* lazy = new Library(Library::IMPL, "aten", bit, __FILE__, __LINE__);
    lazy->impl("_copy_from", torch::CppFunction::makeFallthrough());
  }
  auto* sparse = new Library(Library::IMPL, "aten", DispatchKey::SparsePrivateUse1, __FILE__, __LINE__);
  sparse->impl("_sparse_coo_tensor_with_dims_and_tensors", &at::native::new_with_dims_and_tensor_sparse_symint);
  auto* cast = new Library(Library::IMPL, "aten", DispatchKey::AutocastPrivateUse1, __FILE__, __LINE__);
  register_autocast(*cast);
  auto* uncast = new Library(Library::IMPL, "_", DispatchKey::AutocastPrivateUse1, __FILE__, __LINE__);
  uncast->fallback(torch::CppFunction::makeFallthrough());
}

}  // namespace testdev
