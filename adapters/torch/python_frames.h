// The frames of the interpreter, one layout per minor version of CPython, all with the same functions:
//
//   for (const PythonFrame* frame = top_frame(); frame != nullptr; frame = previous(frame)) use(code_of(frame));
//
// The layouts are those of Include/internal/pycore_frame.h (3.10: Include/cpython/frameobject.h); they are not public. The
// adapter's self-test (python/sonde/self_test.py) compares this walk with sys._getframe.
#pragma once

#include <Python.h>

#if PY_VERSION_HEX < 0x030A0000 || PY_VERSION_HEX >= 0x030F0000
#error "sonde's torch adapter reads the frames of CPython 3.10 to 3.14; this interpreter is of another minor version"
#endif
#ifdef Py_GIL_DISABLED
#error "sonde's torch adapter does not know the free-threaded builds of CPython"
#endif
#if PY_VERSION_HEX < 0x030B0000
#include <frameobject.h>
#endif

#include <cstdint>

namespace sonde_torch {

#if PY_VERSION_HEX < 0x030B0000

using PythonFrame = PyFrameObject;

inline PythonFrame* newest_frame(PyThreadState* state) { return state->frame; }
inline PythonFrame* older_frame(const PythonFrame* frame) { return frame->f_back; }
inline PyCodeObject* code_of(const PythonFrame* frame) { return frame->f_code; }
inline PyObject* first_argument(const PythonFrame* frame) { return frame->f_localsplus[0]; }
inline int offset_of(const PythonFrame* frame) { return frame->f_lasti * static_cast<int>(sizeof(_Py_CODEUNIT)); }

#else

struct PythonFrame {
#if PY_VERSION_HEX < 0x030C0000
  PyObject *f_func, *f_globals, *f_builtins, *f_locals;
  PyCodeObject* f_code;
  PyObject* frame_obj;
  PythonFrame* previous;
  std::uint16_t* instruction;
  int stacktop;
  bool is_entry;
  char owner;
  PyObject* localsplus[1];
#else
  std::uintptr_t executable;  // a code object, None or empty; in 3.14 the two lowest bits are a tag
  PythonFrame* previous;
  std::uintptr_t f_func;
  PyObject *f_globals, *f_builtins, *f_locals, *frame_obj;
  std::uint16_t* instruction;
#if PY_VERSION_HEX < 0x030E0000
  int stacktop;
#else
  void* stackpointer;
#endif
  std::uint16_t return_offset;
  char owner;
#if PY_VERSION_HEX >= 0x030E0000
  std::uint8_t visited;
#endif
  std::uintptr_t localsplus[1];
#endif
};

inline PythonFrame* newest_frame(PyThreadState* state) {
#if PY_VERSION_HEX < 0x030D0000
  return state->cframe != nullptr ? reinterpret_cast<PythonFrame*>(state->cframe->current_frame) : nullptr;
#else
  return reinterpret_cast<PythonFrame*>(state->current_frame);
#endif
}

inline PythonFrame* older_frame(const PythonFrame* frame) { return frame->previous; }

// Null for the frames that the interpreter inserts between two of its own calls (owner 3, since 3.12).
inline PyCodeObject* code_of(const PythonFrame* frame) {
#if PY_VERSION_HEX < 0x030C0000
  return frame->f_code;
#else
  constexpr char kOwnedByInterpreter = 3;
  if (frame->owner >= kOwnedByInterpreter) return nullptr;
  auto* code = reinterpret_cast<PyObject*>(frame->executable & ~std::uintptr_t{3});
  return code != nullptr && PyCode_Check(code) ? reinterpret_cast<PyCodeObject*>(code) : nullptr;
#endif
}

inline PyObject* first_argument(const PythonFrame* frame) {
#if PY_VERSION_HEX < 0x030C0000
  return frame->localsplus[0];
#else
  return reinterpret_cast<PyObject*>(frame->localsplus[0] & ~std::uintptr_t{3});
#endif
}

// In bytes, as in PyCode_Addr2Line.
inline int offset_of(const PythonFrame* frame) {
  return static_cast<int>(reinterpret_cast<const char*>(frame->instruction) - code_of(frame)->co_code_adaptive);
}

#endif

inline PythonFrame* with_code(PythonFrame* frame) {
  while (frame != nullptr && code_of(frame) == nullptr) frame = older_frame(frame);
  return frame;
}

// The newest frame of this thread that runs Python code; null on a thread without Python.
inline PythonFrame* top_frame() {
  // Not _PyThreadState_UncheckedGet: it returns the state of the thread that has the GIL.
  PyThreadState* state = PyGILState_GetThisThreadState();
  return state != nullptr ? with_code(newest_frame(state)) : nullptr;
}

// The caller's frame, without the interpreter's own frames.
inline PythonFrame* previous(const PythonFrame* frame) { return with_code(older_frame(frame)); }

}  // namespace sonde_torch
