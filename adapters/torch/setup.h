// The recorder of this process: the engine, and the facts about the program from python/sonde/torch.py.
#pragma once

#include <atomic>

#include "frames.h"
#include "sonde/sonde.h"

namespace sonde_torch {

// Functions of python/sonde/torch.py, called with the GIL held, once per new thing and not per operator.
struct PythonSide {
  // (tuple of modules, outermost first) -> "network-Net/conv1-Conv2d"
  PyObject* scope_of = nullptr;
  // (module) -> None: a module nobody called is called for the first time
  PyObject* new_root = nullptr;
  // (file name) -> text of a source that is not a file, or None
  PyObject* source_of = nullptr;
  // () -> bool: an optimizer trains tensors of no module
  PyObject* bare_training = nullptr;
  // () -> bool: a module with parameters exists
  PyObject* parameters_exist = nullptr;
};

// As Python said it when a session began.
struct Setup {
  FrameFacts frames;
  PythonSide python;
};

// One session. Never freed: an operator of another thread may still use the last one's.
struct Recording {
  Setup setup;
  std::atomic<bool> root_seen{false};  // a root with parameters was called

  explicit Recording(const Setup& values) : setup(values) {}
};

// The engine's function table, from the first session on. Null, or why this adapter cannot use `table`.
const char* set_engine(const struct sonde_api& table);
bool has_engine();
const struct sonde_api& api();  // only where has_engine()

// The session that began last, which may have ended; null before the first.
Recording* recording();
void set_recording(Recording* begun);
inline const Setup& setup() { return recording()->setup; }

// True if a session records: not before the first, not after one has ended, not in a forked child.
bool is_inert();
// Gives what it was.
bool set_inert(bool inert);

}  // namespace sonde_torch
