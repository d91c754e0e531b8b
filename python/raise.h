// Turns an error of the engine into the corresponding Python exception.
#pragma once

#include <nanobind/nanobind.h>

#include "sonde/result.h"

[[noreturn]] inline void raise(const sonde::Error& error) {
  switch (error.code) {
    case sonde::ErrorCode::not_found:
      PyErr_SetString(PyExc_FileNotFoundError, error.message.c_str());
      break;
    case sonde::ErrorCode::invalid_argument:
      PyErr_SetString(PyExc_ValueError, error.message.c_str());
      break;
    case sonde::ErrorCode::io:
      PyErr_SetString(PyExc_OSError, error.message.c_str());
      break;
    default:
      PyErr_SetString(PyExc_RuntimeError, error.message.c_str());
  }
  throw nanobind::python_error();
}
