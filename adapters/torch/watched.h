// Outputs that a watcher reads again and again (acl.json, scene "watcher"): their memory, without keeping them alive.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "sonde/sonde.h"

namespace sonde_torch {

// `name`: the answer of op_watch_id() for the operator that has just made it.
void keep_watched(std::uint32_t name, std::uint32_t slot, const at::Tensor& tensor);
// After `op`: reports all kept tensors to the engine, as they are now; drops those it no longer wants.
void report_watched(sonde_op* op);
void forget_watched();

}  // namespace sonde_torch
