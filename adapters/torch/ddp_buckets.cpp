#include "ddp_buckets.h"

#include <torch/csrc/autograd/python_variable.h>

#include <exception>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <vector>

// Of reducer.hpp only what is called: that header includes much of PyTorch, and headers that not every build has.
namespace c10d {
class TORCH_API Reducer {
 public:
  std::vector<GradBucket> get_grad_buckets(bool return_zero_tensors) const;
};
}  // namespace c10d

namespace sonde_torch {
namespace {

PyObject* list_of(const std::vector<at::Tensor>& tensors) {
  PyObject* list = PyList_New(0);
  for (const at::Tensor& tensor : tensors) {
    PyObject* one = list != nullptr ? THPVariable_Wrap(tensor) : nullptr;
    if (one == nullptr || PyList_Append(list, one) != 0) Py_CLEAR(list);
    Py_XDECREF(one);
    if (list == nullptr) break;
  }
  return list;
}

}  // namespace

PyObject* buckets_of(PyObject* reducer) {
  // pybind11 keeps the object's address in the first word behind the header.
  const auto* object = *reinterpret_cast<c10d::Reducer**>(reinterpret_cast<char*>(reducer) + sizeof(PyObject));
  PyObject* list = PyList_New(0);
  try {
    for (const c10d::GradBucket& bucket : object->get_grad_buckets(false)) {
      if (!bucket.getBuffer().defined()) continue;  // of sparse gradients
      PyObject* entry = Py_BuildValue("(NN)", THPVariable_Wrap(bucket.getBuffer()), list_of(bucket.getParameters()));
      const bool added = list != nullptr && entry != nullptr && PyList_Append(list, entry) == 0;
      Py_XDECREF(entry);
      if (!added) Py_CLEAR(list);
      if (list == nullptr) break;
    }
  } catch (const std::exception& error) {
    Py_CLEAR(list);
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return list;
}

}  // namespace sonde_torch
