// The names of callers of collectives, where the program's own line is not the caller: a wrapper with the parameters that
// it works for, a pipeline with its stage and micro-batch.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <string>

namespace sonde_torch {

// Collectives that this thread calls from now on are called by `text`; empty: by the program. Returns the text before.
std::string set_caller(std::string text);

// The same for collectives on this tensor's memory, on any thread, while it lives.
void name_memory_of_caller(const at::TensorBase& tensor, std::string text);

// Of a collective with these arguments, on this thread; empty: the program itself.
std::string caller_of(c10::ArrayRef<const c10::IValue> values);

}  // namespace sonde_torch
