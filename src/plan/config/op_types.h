// Operator types of other systems (MindSpore, GE) and the ATen base names that do the same work.
#pragma once

#include <span>
#include <string_view>
#include <vector>

namespace sonde {

struct OpTypeAlias {
  std::string_view type;   // in the spelling of MindSpore or GE: `MatMul`
  std::string_view atens;  // ATen base names, separated by one space, without the in-place `_`:
                           // "linear addmm mm"
};

// Sorted by lower-case type. The table is op_types.inc, which names its sources.
std::span<const OpTypeAlias> op_type_aliases();

// The ATen names for a type, case-insensitive; empty if the table lacks it.
std::vector<std::string_view> aten_names(std::string_view type);

// True if `op_type` ("relu", "relu_") is one of those of `type`.
bool is_alias(std::string_view type, std::string_view op_type);

// True if `op_type` is a collective: `allreduce_`, `all_gather_into_tensor`, …; CANN's types beginning with `Hcom`.
bool is_collective(std::string_view op_type);

// True if `op_type` packs the tensors that a collective sends, or unpacks those that it received (FSDP2): `chunk_cat`.
bool packs_for_collective(std::string_view op_type);

// True if `op_type` makes a quantised tensor of another: `quantize_per_tensor`, `fake_quantize_per_channel_affine`, ….
bool is_quantisation(std::string_view op_type);

}  // namespace sonde
