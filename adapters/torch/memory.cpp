#include "memory.h"

#include <c10/core/ScalarType.h>
#include <torch/csrc/autograd/python_variable.h>

#include <cstring>
#include <string>

#include "device_work.h"
#include "tensors.h"

namespace sonde_torch {
namespace {

std::string text_of(const std::int64_t* numbers, std::size_t count) {
  std::string text = "(";
  for (std::size_t i = 0; i < count; ++i) text += (i > 0 ? "," : "") + std::to_string(numbers[i]);
  return text + ")";
}

std::string description_of(const at::TensorBase& tensor, const sonde_tensor& described) {
  std::string text(c10::getDtypeNames(tensor.scalar_type()).first);
  text += " " + text_of(described.shape, described.ndim);
  if (!tensor.is_contiguous()) text += " strides " + text_of(described.strides, described.ndim);
  if ((described.flags & SONDE_TENSOR_CONJUGATE) != 0) text += " conjugated";
  if ((described.flags & SONDE_TENSOR_NEGATIVE) != 0) text += " negated";
  return text;
}

// Elements in C order, one by one: for tensors with gaps or overlaps, which are rare.
char* gather(const sonde_tensor& tensor, std::size_t item, std::uint32_t dimension, const char* from, char* to) {
  if (dimension == tensor.ndim) {
    std::memcpy(to, from, item);
    return to + item;
  }
  const std::ptrdiff_t stride = tensor.strides[dimension] * static_cast<std::ptrdiff_t>(item);
  for (std::int64_t i = 0; i < tensor.shape[dimension]; ++i)
    to = gather(tensor, item, dimension + 1, from + i * stride, to);
  return to;
}

// Takes ownership of `bytes`.
PyObject* pair(const std::string& text, PyObject* bytes) {
  if (bytes == nullptr) return nullptr;
  return Py_BuildValue("(sN)", text.c_str(), bytes);
}

PyObject* bytes_of(const at::TensorBase& tensor, const sonde_tensor& described) {
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  const std::size_t item = impl->itemsize();
  const auto size = static_cast<Py_ssize_t>(impl->numel() * static_cast<std::int64_t>(item));
  if (size == 0) return PyBytes_FromStringAndSize(nullptr, 0);
  const char* data = static_cast<const char*>(described.data);
  if (tensor.is_non_overlapping_and_dense()) return PyMemoryView_FromMemory(const_cast<char*>(data), size, PyBUF_READ);
  PyObject* copy = PyBytes_FromStringAndSize(nullptr, size);
  if (copy != nullptr) gather(described, item, 0, data, PyBytes_AS_STRING(copy));
  return copy;
}

// A copy in C order; the program waits for the device.
PyObject* bytes_on_device(const TensorDescriptor& descriptor, const sonde_tensor& described) {
  try {
    const OwnOperators guard;
    at::Tensor host = alias_of(descriptor, described).contiguous().to(at::kCPU).resolve_conj().resolve_neg();
    const auto size = static_cast<Py_ssize_t>(host.nbytes());
    return PyBytes_FromStringAndSize(static_cast<const char*>(host.const_data_ptr()), size);
  } catch (const std::exception&) {
    return Py_NewRef(Py_None);
  }
}

}  // namespace

PyObject* memory_of(PyObject* tensor) {
  if (!THPVariable_Check(tensor)) {
    PyErr_SetString(PyExc_TypeError, "memory_of wants a tensor");
    return nullptr;
  }
  const at::Tensor& value = THPVariable_Unpack(tensor);
  if (!value.defined()) return pair("undefined tensor", Py_NewRef(Py_None));
  TensorDescriptor descriptor;
  descriptor.describe(value, false);
  const sonde_tensor& facts = *descriptor.get();
  if (facts.skip != nullptr) return pair(facts.skip, Py_NewRef(Py_None));
  if (facts.handle != nullptr) return pair(description_of(value, facts), bytes_on_device(descriptor, facts));
  return pair(description_of(value, facts), bytes_of(value, facts));
}

}  // namespace sonde_torch
