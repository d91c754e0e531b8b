// Arguments of an op that are not tensors: a hash of them for every call, and their names and values for the first call
// with that hash.
#pragma once

#include <ATen/core/ivalue.h>

#include <cstdint>
#include <string_view>

#include "ops.h"
#include "sonde/sonde.h"

namespace sonde_torch {

// Equal for calls of one op with equal arguments; never 0. `values` are the op's arguments, in the schema's order.
std::uint64_t attributes_hash(const OpInfo& info, c10::ArrayRef<const c10::IValue> values);

// `layouts`: of the DTensors that an operator around it has; `caller`: who calls a collective. Empty: none.
void report_attributes(const struct sonde_api& api, struct sonde_op* op, const OpInfo& info,
                       c10::ArrayRef<const c10::IValue> values, std::string_view layouts, std::string_view caller);

}  // namespace sonde_torch
