// The questions of the adapter about the program whose operators it sees. Python's interpreter answers them
// (python_program.cpp, place.cpp); for a program without Python, adapters/libtorch does.
#pragma once

#include <ATen/core/TensorBase.h>
#include <ATen/record_function.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace sonde_torch {

// A mark in the stack of Python: frames entered later are above it.
using FrameMark = const void*;
FrameMark current_frame();  // null on threads without Python

// An exception of Python is on its way through this thread.
bool raises_in_python();

// The class of a tensor of Python whose operators call operators on the tensors that it wraps: `DTensor`; `vmap` for a
// transform of functorch. Empty: it has memory of its own, or no values at all (a tracer's).
std::string_view wrapper_class(const at::TensorBase& t);

// How a DTensor is distributed. Equal ones have the same address, and live as long as the process.
struct Layout {
  std::string text;          // `Shard(0) of (16, 8) on tp=2, from (8, 0)`
  std::uint64_t key = 0;     // a hash of the text, not 0
  std::uint32_t writer = 0;  // as in sonde_tensor
};

// This process's part of a DTensor. Nulls: it is none. May take the GIL.
struct LocalPart {
  const c10::TensorImpl* tensor = nullptr;  // lives as long as the DTensor
  const Layout* layout = nullptr;
};
LocalPart local_part(const at::TensorBase& t);

// An operator, or an optimizer's, runs in a process that awaits its first model. True if the recording has begun with it.
bool first_model_runs(const at::RecordFunction& fn);

// The text of a file that data name, a saved program for example, may go into the dump: the program has loaded it.
bool may_read_source(const std::string& file);

// For a wait of this thread: lets go of Python's GIL, if it has it. Null: it had none.
void* release_python();
void take_python(void* released);  // null does nothing

}  // namespace sonde_torch
