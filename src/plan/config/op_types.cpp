#include "plan/config/op_types.h"

#include <algorithm>

#include "ground/base/text.h"

namespace sonde {
namespace {

constexpr OpTypeAlias kAliases[] = {
#define OP(type, atens) {type, atens},
#include "plan/config/op_types.inc"
#undef OP
};

bool less_ignoring_case(std::string_view a, std::string_view b) {
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(),
                                      [](char x, char y) { return lower(x) < lower(y); });
}

// From torch.distributed (c10d and _c10d_functional), without `scatter_`, which is also an op on one tensor.
constexpr std::string_view kCollectives[] = {
    "_allgather_base_",
    "_reduce_scatter_base_",
    "all_gather_into_tensor",
    "all_gather_into_tensor_coalesced",
    "all_gather_into_tensor_out",
    "all_reduce",
    "all_reduce_",
    "all_reduce_coalesced",
    "all_reduce_coalesced_",
    "all_to_all_single",
    "allgather_",
    "allgather_coalesced_",
    "allgather_into_tensor_coalesced_",
    "allreduce_",
    "allreduce_coalesced_",
    "alltoall_",
    "alltoall_base_",
    "barrier",
    "batch_p2p_ops",
    "broadcast",
    "broadcast_",
    "gather_",
    "irecv",
    "isend",
    "monitored_barrier_",
    "recv_",
    "recv_any_source_",
    "reduce_",
    "reduce_scatter_",
    "reduce_scatter_tensor",
    "reduce_scatter_tensor_coalesced",
    "reduce_scatter_tensor_coalesced_",
    "reduce_scatter_tensor_out",
    "send",
};

}  // namespace

std::span<const OpTypeAlias> op_type_aliases() { return kAliases; }

std::vector<std::string_view> aten_names(std::string_view type) {
  const auto found = std::lower_bound(
      std::begin(kAliases), std::end(kAliases), type,
      [](const OpTypeAlias& alias, std::string_view wanted) { return less_ignoring_case(alias.type, wanted); });
  if (found == std::end(kAliases) || less_ignoring_case(type, found->type)) return {};
  return split(found->atens, ' ');
}

bool is_alias(std::string_view type, std::string_view op_type) {
  if (op_type.ends_with('_') && !op_type.ends_with("__")) op_type.remove_suffix(1);
  const std::vector<std::string_view> names = aten_names(type);
  return std::find(names.begin(), names.end(), op_type) != names.end();
}

bool is_collective(std::string_view op_type) {
  return std::binary_search(std::begin(kCollectives), std::end(kCollectives), op_type);
}

bool packs_for_collective(std::string_view op_type) {
  return op_type == "all_gather_copy_in" || op_type == "chunk_cat" || op_type == "split_with_sizes_copy";
}

bool is_quantisation(std::string_view op_type) {
  return op_type.starts_with("quantize_per_") || op_type.starts_with("fake_quantize_per_");
}

}  // namespace sonde
