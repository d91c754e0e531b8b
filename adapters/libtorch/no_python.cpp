// program.h for a program without Python.
#include "program.h"

namespace sonde_torch {

FrameMark current_frame() { return nullptr; }
bool raises_in_python() { return false; }

std::string_view wrapper_class(const at::TensorBase&) { return {}; }

LocalPart local_part(const at::TensorBase&) { return {}; }
bool first_model_runs(const at::RecordFunction&) { return false; }
bool may_read_source(const std::string&) { return false; }
void* release_python() { return nullptr; }
void take_python(void*) {}

}  // namespace sonde_torch
