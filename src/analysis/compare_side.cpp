#include "analysis/compare_side.h"

#include <algorithm>
#include <unordered_map>

namespace sonde {
namespace {

std::string_view scope_of(std::string_view full_name) {
  const std::size_t slash = full_name.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : full_name.substr(0, slash);
}

CompareOp op_of(const CatalogOp& op, OpFamilies& families) {
  CompareOp out;
  out.op = &op;
  out.family = &families.of(op.op_type);
  out.kind = kind_of(op.op_type);
  out.scope = scope_of(op.full_name);
  for (const CatalogTensor& tensor : op.tensors) {
    if (tensor.is_input) {
      out.inputs.push_back({&tensor});
    } else {
      out.outputs.push_back(&tensor);
    }
  }
  return out;
}

void connect(CompareSide& side) {
  std::unordered_map<std::uint64_t, std::uint32_t> by_sequence;
  for (std::uint32_t i = 0; i < side.ops.size(); ++i) by_sequence.try_emplace(side.ops[i].op->sequence, i);
  for (std::uint32_t i = 0; i < side.ops.size(); ++i) {
    for (CompareInput& input : side.ops[i].inputs) {
      if (input.tensor->source == kNoSequence) continue;
      const auto from = by_sequence.find(input.tensor->source);
      if (from == by_sequence.end() || from->second == i) continue;
      input.from = from->second;
      input.from_slot = input.tensor->source_slot;
      side.has_flow = true;
      std::vector<std::uint32_t>& readers = side.ops[from->second].readers;
      if (readers.empty() || readers.back() != i) readers.push_back(i);
    }
  }
  if (side.has_flow) return;
  // All that is known is the order: each op may have read what the one before it wrote.
  for (std::uint32_t i = 0; i + 1 < side.ops.size(); ++i) side.ops[i].readers.push_back(i + 1);
}

}  // namespace

const CatalogTensor* CompareSide::output(std::uint32_t op, std::uint32_t slot) const {
  for (const CatalogTensor* tensor : ops[op].outputs) {
    if (tensor->slot == slot) return tensor;
  }
  return nullptr;
}

CompareSide side_of(const CatalogRank& rank, const CatalogStep& step, OpFamilies& families) {
  CompareSide side;
  side.rank = &rank;
  side.step = &step;
  for (const CatalogOp& op : step.ops) {
    if (op.is_parameter) {
      side.parameters.push_back(&op);
    } else {
      side.ops.push_back(op_of(op, families));
    }
  }
  connect(side);
  return side;
}

}  // namespace sonde
