// The recorder of this process: the engine, and the facts about the program from python/sonde/torch.py.
#pragma once

#include <atomic>

#include "frames.h"
#include "sonde/sonde.h"

namespace sonde_torch {

// Functions of python/sonde/torch.py, called with the GIL, once per new thing and not per operator.
struct PythonSide {
  // (tuple of modules, outermost first) -> "network-Net/conv1-Conv2d"
  PyObject* scope_of = nullptr;
  // (module) -> None: a module that no other module called is called for the first time
  PyObject* new_root = nullptr;
  // (file name) -> text of a source without a file, or None
  PyObject* source_of = nullptr;
  // () -> bool: an optimizer trains tensors of no module
  PyObject* bare_training = nullptr;
  // () -> bool: a module with parameters exists
  PyObject* parameters_exist = nullptr;
};

// From Python, when a session began.
struct Setup {
  FrameFacts frames;
  PythonSide python;
};

// One session. Never freed: an operator of another thread may still use the previous one.
struct Recording {
  Setup setup;
  std::atomic<bool> root_seen{false};  // a root with parameters was called

  explicit Recording(const Setup& values) : setup(values) {}
};

// The engine's function table, from the first session on. Null, or the reason why this adapter cannot use `table`.
const char* set_engine(const struct sonde_api& table);
bool has_engine();
const struct sonde_api& api();  // only if has_engine()

// The session that began last, which may have ended; null before the first.
Recording* recording();
void set_recording(Recording* begun);
inline const Setup& setup() { return recording()->setup; }

// True if a session records: not before the first, not after one has ended, not in a forked child.
bool is_inert();
// Returns the previous value.
bool set_inert(bool inert);

}  // namespace sonde_torch
