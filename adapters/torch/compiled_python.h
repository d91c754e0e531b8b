// The functions of `_sonde_torch` for compiled graphs; python/sonde/library.py describes them.
#pragma once

#include <Python.h>

namespace sonde_torch {

PyObject* modules(PyObject*, PyObject*);
PyObject* tracing(PyObject*, PyObject* change);
PyObject* records_graph(PyObject*, PyObject* args);
PyObject* site(PyObject*, PyObject* args);
PyObject* site_wants(PyObject*, PyObject* args);
PyObject* op_replaced(PyObject*, PyObject* args);
PyObject* define_graph(PyObject*, PyObject* nodes);
PyObject* begin_run_of(PyObject*, PyObject* args);
PyObject* end_run_of(PyObject*, PyObject*);
PyObject* memory_changed(PyObject*, PyObject*);
PyObject* optimizer_end(PyObject*, PyObject*);

}  // namespace sonde_torch
