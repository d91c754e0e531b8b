// Reads the interpreter's stack without the GIL: the modules being called, and the user's line that called them.
//
// Safe because the calling thread's own frames cannot change while it is inside C++. One CPython minor per build.
#pragma once

#include <Python.h>

#include <cstdint>
#include <string>
#include <vector>

#include "program.h"
#include "script.h"

namespace sonde_torch {

// Facts about the running interpreter, set once by python/sonde/torch.py.
struct FrameFacts {
  PyCodeObject* module_call = nullptr;     // nn.Module._wrapped_call_impl: its slot 0 is the module
  PyCodeObject* optimizer_step = nullptr;  // the wrapper around every Optimizer.step
  PyTypeObject* module = nullptr;          // nn.Module
  std::string skipped_prefixes[4];         // directories of torch, the standard library and Sonde
};

inline constexpr int kMaxModules = 64;

struct Walk {
  PyObject*
      modules[kMaxModules];  // innermost first; borrowed; of a deeper chain those just below the root are left out
  int module_count = 0;
  PyCodeObject* code = nullptr;        // the innermost frame of the user's; null when there is none
  int instruction = 0;                 // byte offset in it
  PyObject* graph_module = nullptr;    // whose code it is; null: unknown
  PyCodeObject* graph_code = nullptr;  // generated code of an FX graph, in the innermost module; null: none
  int graph_instruction = 0;
  bool inside_step = false;  // it ended at Optimizer.step, with some frame of the user's or a module within
  bool flagged = false;      // set_dump was called for a module or a function in it
  bool recomputes = false;   // of a walk to a mark: torch.utils.checkpoint runs a forward again
  ScriptPlace script;        // inside the innermost of them, which is a ScriptModule
  std::uint64_t hash = 0;    // of modules, code and instruction, and of those that called it
};

enum class Until { root, optimizer_step };

// Walks from the current frame outwards, to `mark` (exclusive) if it is found, or to the optimizer's wrapper.
void walk_frames(const FrameFacts& facts, FrameMark mark, Until until, Walk& out);

// One frame of the user's code.
struct CodePlace {
  PyCodeObject* code = nullptr;
  int instruction = 0;  // byte offset in it
};
// The callers: from the frame that `walk` found, outwards to `mark`; at most `most`.
std::vector<CodePlace> trace_frames(const FrameFacts& facts, FrameMark mark, const Walk& walk, std::size_t most);

// The outermost frame inside `mark`; null code: there is none.
CodePlace outermost_frame(FrameMark mark);
// Whether a function that runs inside `mark` has a module as its first argument, as the hooks of FullyShardedDataParallel.
bool works_on_module(const FrameFacts& facts, FrameMark mark);

// All frames of this thread, innermost first.
std::vector<CodePlace> all_frames();

// The modules being called, innermost first; borrowed.
std::vector<PyObject*> modules_on_stack(const FrameFacts& facts);
// The outermost module call on the stack, null if there is none; and the number of module calls.
PyObject* outermost_module(const FrameFacts& facts, int& depth);

}  // namespace sonde_torch
