#include "read/catalog/data_flow.h"

namespace sonde {

DataFlow::DataFlow(const CatalogRank& rank, const CatalogStep& step) : DataFlow(rank) {
  for (const CatalogOp& op : step.ops) {
    if (!op.is_parameter) add(op);
  }
}

std::uint32_t DataFlow::add(const CatalogOp& op) {
  const auto number = static_cast<std::uint32_t>(ops_.size());
  ops_.push_back(&op);
  by_sequence_.emplace(op.sequence, number);
  return number;
}

std::optional<DataFlow::Maker> DataFlow::maker(const CatalogTensor& input) const {
  if (!input.is_input || input.source == kNoSequence) return std::nullopt;
  const auto found = by_sequence_.find(input.source);
  if (found == by_sequence_.end()) return std::nullopt;
  const FlowEvidence evidence = input.source_is_likely ? FlowEvidence::equal_values
                                : by_graph_            ? FlowEvidence::framework_graph
                                                       : FlowEvidence::recorded;
  return Maker{found->second, ops_[found->second], input.source_slot, evidence};
}

bool DataFlow::same_origin(const CatalogTensor& a, const CatalogTensor& b) {
  return a.is_input && b.is_input && a.source != kNoSequence && a.source == b.source && a.source_slot == b.source_slot;
}

const CatalogTensor* DataFlow::output(const Maker& maker) {
  for (const CatalogTensor& tensor : maker.op->tensors) {
    if (!tensor.is_input && tensor.slot == maker.slot) return &tensor;
  }
  return nullptr;
}

}  // namespace sonde
