#include "ask/unsharded/rank_step.h"

#include <algorithm>

namespace sonde {

const CatalogTensor* tensor_at(const RankStep& rank, const SiteCall& call, const CallSlot& slot) {
  if (!slot.is_input) return rank.side->output(call.last(), slot.number);
  const std::vector<const CompareInput*> inputs = inputs_of(*rank.side, call);
  if (call.ops.size() > 1) return slot.number < inputs.size() ? inputs[slot.number]->tensor : nullptr;
  const auto found =
      std::ranges::find_if(inputs, [&](const CompareInput* input) { return input->tensor->slot == slot.number; });
  return found == inputs.end() ? nullptr : (*found)->tensor;
}

GoldenStep::GoldenStep(const std::vector<RankStep>& ranks) : ranks_(ranks) {
  for (std::uint32_t op = 0; is_sharded() && op < side().ops.size(); ++op) {
    for (const CompareInput& input : side().ops[op].inputs) ops_.emplace(input.tensor, op);
    for (const CatalogTensor* output : side().ops[op].outputs) ops_.emplace(output, op);
  }
}

const std::vector<std::uint32_t>& GoldenStep::ops_of_call(std::uint32_t op) const {
  static const std::vector<std::uint32_t> none;
  const SiteCalls::Address& address = calls().address(op);
  const std::vector<SiteCall>* there = calls().at(address.site);
  return there == nullptr ? none : (*there)[address.number].ops;
}

std::vector<const CompareInput*> GoldenStep::inputs_of_call(std::uint32_t op) const {
  const std::vector<std::uint32_t>& ops = ops_of_call(op);
  if (ops.size() > 1) return inputs_of(side(), SiteCall{ops});
  std::vector<const CompareInput*> inputs;
  for (const CompareInput& input : side().ops[op].inputs) inputs.push_back(&input);
  return inputs;
}

TensorParts GoldenStep::parts_of(const TensorOf& tensor) const {
  const auto known = ops_.find(tensor.tensor);
  TensorParts parts(known == ops_.end() ? 1 : ranks_.size(), 1);
  parts.set(0, 0, tensor);
  if (parts.is_one()) return parts;
  const SiteCalls::Address& address = calls().address(known->second);
  const std::vector<std::uint32_t>& own = ops_of_call(known->second);
  const auto place = static_cast<std::size_t>(std::ranges::find(own, known->second) - own.begin());
  for (std::size_t rank = 1; rank < ranks_.size(); ++rank) {
    const RankStep& of = ranks_[rank];
    const std::vector<SiteCall>* there = of.calls.at(address.site);
    if (there == nullptr || address.number >= there->size()) continue;
    const std::vector<std::uint32_t>& ops = (*there)[address.number].ops;
    if (ops.size() != own.size()) continue;
    const CatalogTensor* other = tensor_at(of, {{ops[place]}}, {tensor.tensor->is_input, tensor.tensor->slot});
    if (other != nullptr && !other->skipped.is_undefined()) parts.set(rank, 0, {of.rank, other});
  }
  return parts;
}

}  // namespace sonde
