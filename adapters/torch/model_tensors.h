// The tensors of a program's models and optimizers, by the names that they have in a dump.
#pragma once

#include <Python.h>

#include <functional>
#include <string>

namespace sonde_torch {

// Calls `visit(name, tensor)` for the tensors in `table` (`_parameters` or `_buffers`) of `root` and of each module below
// it, once, in the order of named_modules(): `features.0.weight`, as UTF-8. Any depth, also with cycles. With the GIL;
// runs no code of the user's classes.
using VisitTensor = std::function<void(const std::string& name, PyObject* tensor)>;
void for_each_tensor(PyObject* root, const char* table, const VisitTensor& visit);

// Reports the names of a model's parameters and buffers to the engine. `writers`: {address of a parameter:
// sonde_tensor.writer + 2³² · number of its model}, of those that several ranks have; None: nobody asks.
void name_model(PyObject* root, PyObject* prefix, PyObject* writers);

// Reports the name of one tensor.
void name_parameter(PyObject* name, PyObject* tensor);

// Reports those of the gradients and states of an optimizer, whose `__dict__` is given, just before it reads them.
// `models`: [(root, prefix)]. A parameter of none of them has a name by its place: `optimizer.0.1`.
void name_optimizer(PyObject* attributes, PyObject* models, PyObject* writers);

}  // namespace sonde_torch
