// Any operator on the device: sizes from its meta kernel, elements from its kernel for the CPU, which a stream runs.
#include <ATen/EmptyTensor.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/as_strided.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>
#include <ATen/record_function.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "device.h"
#include "generator.h"
#include "ops.h"

namespace testdev {
namespace {

using IValues = std::vector<c10::IValue>;

// Nothing that is called for the device is recorded, differentiated, cast or shown to modes in Python.
struct Inside {
  at::RecordFunctionGuard unrecorded{false};
  c10::InferenceMode no_inference{false};
  at::AutoDispatchBelowADInplaceOrView below;
  c10::impl::ExcludeDispatchKeyGuard others{
      c10::autocast_dispatch_keyset |
      c10::DispatchKeySet(
          {c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot, c10::DispatchKey::PythonDispatcher})};
};

bool is_ours(const at::Tensor& tensor) { return tensor.defined() && tensor.is_privateuseone(); }

// Calls `use` for every tensor of a value, and returns the value with its results.
template <class Use>
c10::IValue with_tensors(const c10::IValue& value, const Use& use) {
  if (value.isTensor()) return use(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(use(tensor));
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorList().vec()) {
      list.push_back(tensor && tensor->defined() ? std::optional(use(*tensor)) : std::nullopt);
    }
    return list;
  }
  return value;
}

std::vector<at::Tensor> tensors_of(const IValues& values) {
  std::vector<at::Tensor> all;
  for (const c10::IValue& value : values) {
    with_tensors(value, [&](const at::Tensor& tensor) {
      all.push_back(tensor);
      return tensor;
    });
  }
  return all;
}

int device_of_call(const c10::OperatorHandle& op, const IValues& arguments) {
  int found = -1;
  for (const at::Tensor& tensor : tensors_of(arguments)) {
    if (!is_ours(tensor)) continue;
    const int index = tensor.device().index();
    TORCH_CHECK(found < 0 || found == index,
                "Expected all tensors to be on the same device, but found at least two devices, "
                "testdev:",
                found, " and testdev:", index, "! (when checking arguments of ", op.schema().name(), ")");
    found = index;
  }
  if (found >= 0) return found;
  for (const c10::IValue& value : arguments) {
    if (value.isDevice() && value.toDevice().has_index()) return value.toDevice().index();
  }
  return c10::impl::VirtualGuardImpl(c10::DeviceType::PrivateUse1).getDevice().index();
}

// A tensor of the host among those of the device must be a number, or an index.
void check_host_tensors(const c10::OperatorHandle& op, const IValues& arguments) {
  const std::string& name = op.schema().name();
  if (name.rfind("aten::index", 0) == 0 || name.rfind("aten::_index_put", 0) == 0) return;
  for (const at::Tensor& tensor : tensors_of(arguments)) {
    if (!tensor.defined() || is_ours(tensor) || tensor.dim() == 0 || tensor.numel() == 0) continue;
    TORCH_CHECK(!tensor.is_cpu(),
                "Expected all tensors to be on the same device, but found at least two devices, testdev "
                "and cpu! (when checking arguments of ",
                name, ")");
  }
}

at::Tensor meta_of(const at::Tensor& tensor) {
  if (!is_ours(tensor)) return tensor;
  return at::Tensor(at::detail::empty_strided_meta(tensor.sizes(), tensor.strides(), tensor.scalar_type()));
}

// An operand that a kernel reads later: numbers of the host are copied at the launch, as a GPU's are. Not handles of them: a meta
// kernel in Python may have given them a Python object, and the thread of a stream must never need the GIL.
at::Tensor operand_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  if (is_ours(tensor)) return elements_of(tensor);
  at::Tensor copy = tensor.clone();
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) copy.unsafeGetTensorImpl()->set_wrapped_number(true);
  return copy;
}

template <class Use>
IValues with_tensors(const IValues& arguments, c10::DeviceType device, const Use& use) {
  IValues result;
  for (const c10::IValue& value : arguments) {
    result.push_back(value.isDevice() ? c10::IValue(c10::Device(device)) : with_tensors(value, use));
  }
  return result;
}

bool depends_on_values(const c10::OperatorHandle& op) {
  return std::any_of(op.schema().returns().begin(), op.schema().returns().end(), [](const c10::Argument& result) {
    const auto kind = result.real_type()->kind();
    return kind != c10::TypeKind::TensorType && kind != c10::TypeKind::ListType;
  });
}

// The sizes of the results; false where the operator cannot say without values.
bool call_on_meta(const c10::OperatorHandle& op, IValues& stack) {
  try {
    op.callBoxed(stack);
    return true;
  } catch (const std::exception&) {  // also what its kernel for the CPU will say better
    return false;
  }
}

// Each launch that draws numbers gets a generator of its own.
void replace_generator(const c10::OperatorHandle& op, IValues& arguments, int device) {
  const auto& formal = op.schema().arguments();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (formal[i].name() != "generator") continue;
    std::optional<at::Generator> given;
    if (!arguments[i].isNone()) given = arguments[i].toGenerator();
    arguments[i] = next_kernel_generator(given, device);
  }
}

at::Tensor new_result(const at::Tensor& like, c10::Device device) {
  TORCH_CHECK(like.layout() == c10::kStrided && !like.is_quantized(), "testdev: only dense tensors");
  return at::empty_strided(like.sizes(), like.strides(), like.options().device(device));
}

// The results that the program gets: arguments that were written, views of arguments, or new tensors, which are noted
// in `fresh`.
struct Results {
  const std::vector<at::Tensor> arguments, metas;
  const c10::Device device;
  std::vector<at::Tensor> fresh;

  at::Tensor operator()(const at::Tensor& meta) {
    fresh.emplace_back();
    if (!meta.defined()) return meta;
    for (std::size_t i = 0; i < metas.size(); ++i) {
      if (!metas[i].defined() || !is_ours(arguments[i])) continue;
      if (metas[i].is_same(meta)) return arguments[i];
      if (metas[i].is_alias_of(meta)) {
        return at::as_strided(arguments[i], meta.sizes(), meta.strides(),
                              arguments[i].storage_offset() + meta.storage_offset());
      }
    }
    fresh.back() = new_result(meta, device);
    return fresh.back();
  }
};

// Arguments `out` that the operator gave other sizes.
void resize_outputs(const std::vector<at::Tensor>& arguments, const std::vector<at::Tensor>& metas) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (!is_ours(arguments[i]) || arguments[i].sizes() == metas[i].sizes()) continue;
    resize(arguments[i], metas[i].sizes(), metas[i].strides());
  }
}

void run_kernel(const c10::OperatorHandle& op, IValues stack, const std::vector<at::Tensor>& into) {
  const Inside inside;
  op.callBoxed(stack);
  const std::vector<at::Tensor> results = tensors_of(stack);
  for (std::size_t i = 0; i < into.size(); ++i) {
    if (!into[i].defined() || into[i].numel() == 0) continue;  // embedding_bag of the CPU has one that no device has
    if (results[i].numel() ==
        0) {  // the meta kernel knows a result that the CPU's leaves out: batch_norm's in evaluation
      into[i].zero_();
      continue;
    }
    TORCH_CHECK(into[i].sizes() == results[i].sizes(), op.schema().name(), ": result ", i, " has sizes ",
                results[i].sizes(), ", its meta kernel said ", into[i].sizes());
    into[i].copy_(results[i]);
  }
}

// The host waits, computes, and learns the sizes from the results.
void run_and_wait(const c10::OperatorHandle& op, const IValues& arguments, int index, torch::jit::Stack* stack) {
  Stream& stream = current_stream(index);
  wait(stream, stream.now());
  count(index, Counter::kernels);
  IValues operands = with_tensors(arguments, c10::DeviceType::CPU, operand_of);
  const std::vector<at::Tensor> given = tensors_of(arguments), elements = tensors_of(operands);
  op.callBoxed(operands);
  for (const c10::IValue& value : operands) {
    stack->push_back(with_tensors(value, [&](const at::Tensor& result) {
      for (std::size_t i = 0; i < given.size(); ++i) {
        if (result.defined() && is_ours(given[i]) && elements[i].is_same(result)) return given[i];
      }
      if (!result.defined()) return result;
      at::Tensor out = new_result(result, {c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(index)});
      stream.enqueue([to = elements_of(out), result] { run_copy(to, result); });
      return out;
    }));
  }
}

}  // namespace

at::Tensor elements_of(const at::Tensor& tensor) {
  const Inside inside;
  const auto options = at::TensorOptions().dtype(tensor.scalar_type()).device(c10::DeviceType::CPU);
  if (tensor.numel() == 0) return at::empty_strided(tensor.sizes(), tensor.strides(), options);
  char* data = real(tensor.device().index(), tensor.storage().data()) +
               tensor.storage_offset() * static_cast<std::int64_t>(tensor.element_size());
  at::Tensor elements = at::from_blob(data, tensor.sizes(), tensor.strides(), options);
  elements.unsafeGetTensorImpl()->_set_conj(tensor.is_conj());
  elements.unsafeGetTensorImpl()->_set_neg(tensor.is_neg());
  return elements;
}

void run_copy(const at::Tensor& to, const at::Tensor& from) {
  const Inside inside;
  to.copy_(from);
}

void launch(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  const Inside inside;
  IValues arguments = torch::jit::pop(*stack, op.schema().arguments().size());
  const int index = device_of_call(op, arguments);
  check_usable(index);
  check_host_tensors(op, arguments);
  IValues metas = with_tensors(arguments, c10::DeviceType::Meta, meta_of);
  const std::vector<at::Tensor> meta_tensors = tensors_of(metas);
  if (depends_on_values(op) || !call_on_meta(op, metas)) {
    replace_generator(op, arguments, index);
    run_and_wait(op, arguments, index, stack);
    return;
  }
  const std::vector<at::Tensor> given = tensors_of(arguments);
  resize_outputs(given, meta_tensors);
  Results results{given, meta_tensors, {c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(index)}, {}};
  for (const c10::IValue& meta : metas) {
    stack->push_back(with_tensors(meta, [&](const at::Tensor& tensor) { return results(tensor); }));
  }
  std::vector<at::Tensor> into;
  for (const at::Tensor& fresh : results.fresh) into.push_back(fresh.defined() ? elements_of(fresh) : fresh);
  replace_generator(op, arguments, index);
  count(index, Counter::kernels);
  current_stream(index).enqueue([op, operands = with_tensors(arguments, c10::DeviceType::CPU, operand_of),
                                 into = std::move(into)] { run_kernel(op, operands, into); });
}

}  // namespace testdev
