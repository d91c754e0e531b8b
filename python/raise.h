// Turns an error of the engine into the corresponding Python exception.
#pragma once

#include <nanobind/nanobind.h>

#include "sonde/result.h"

inline PyObject* type_of(sonde::ErrorCode code) {
  switch (code) {
    case sonde::ErrorCode::not_found:
      return PyExc_FileNotFoundError;
    case sonde::ErrorCode::invalid_argument:
      return PyExc_ValueError;
    case sonde::ErrorCode::io:
      return PyExc_OSError;
    default:
      return PyExc_RuntimeError;
  }
}

// A message may contain a name that is not UTF-8.
[[noreturn]] inline void raise(const sonde::Error& error) {
  const auto size = static_cast<Py_ssize_t>(error.message.size());
  const nanobind::object text = nanobind::steal(PyUnicode_DecodeUTF8(error.message.data(), size, "backslashreplace"));
  if (text.is_valid()) PyErr_SetObject(type_of(error.code), text.ptr());
  throw nanobind::python_error();
}
