// The buckets in which DistributedDataParallel joins the gradients of several parameters.
#pragma once

#include <Python.h>

namespace sonde_torch {

// [(the memory of a bucket, [its parameters])] of a torch.distributed.Reducer, in the order in which they are joined. The
// buckets are made anew after the first backward. Null: a Python error.
PyObject* buckets_of(PyObject* reducer);

}  // namespace sonde_torch
