// The operators of the device: the CPU's kernels, run by streams.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstddef>

#include "streams.h"

namespace testdev {

// Launches the CPU's kernel of `op`: the host learns sizes from the operator on meta tensors and goes on. Where sizes
// or results depend on values, it waits.
void launch(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

// The tensor of the CPU over the elements of a tensor of the device; for the threads of streams.
at::Tensor elements_of(const at::Tensor& tensor);
void run_copy(const at::Tensor& to, const at::Tensor& from);  // of elements

void resize_storage(c10::StorageImpl* storage, std::size_t bytes);
void resize(const at::Tensor& tensor, c10::IntArrayRef sizes, c10::IntArrayRef strides);

// The host waits for a position, and gets the error of a kernel that failed.
void wait(Stream& stream, const Position& position);

void register_guard();
void register_ops();

}  // namespace testdev
