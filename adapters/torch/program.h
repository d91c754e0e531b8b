// The questions of the adapter about the program whose operators it sees. Python's interpreter answers them
// (python_program.cpp, place.cpp); for a program without Python, adapters/libtorch does.
#pragma once

#include <string>

namespace sonde_torch {

// A mark in the stack of Python: frames entered later are above it.
using FrameMark = const void*;
FrameMark current_frame();  // null on threads without Python

// An exception of Python is on its way through this thread.
bool raises_in_python();

// The text of a file that data name, a saved program for example, may go into the dump: the program has loaded it.
bool may_read_source(const std::string& file);

// For a wait of this thread: lets go of Python's GIL, if it has it. Null: it had none.
void* release_python();
void take_python(void* released);  // null does nothing

}  // namespace sonde_torch
