#include "face/server/ask.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "plan/config/nearest.h"
#include "read/index/index_schema.h"

namespace sonde::server {
namespace {

Error no_op(const std::string& name, const Facts& facts) {
  std::vector<std::string_view> known;
  for (const OpName& op : facts.names) known.push_back(op.op_name);
  const std::vector<std::string> near = nearest(name, known, 3);
  return Error{ErrorCode::not_found, fmt::format("there is no op '{}' in these steps{}{}", name,
                                                 near.empty() ? "" : "; nearest: ", fmt::join(near, ", "))};
}

}  // namespace

Result<AskedOp> asked_op(Ask& ask, const Facts& facts) {
  const Where where = Where::of(ask.parameters);
  const std::string name = ask.parameters.required("name");
  if (Status good = ask.parameters.finish(); !good) return good.error();
  for (const std::uint32_t id : facts.ops_named(name)) {
    const OpFact& fact = facts.ops[id];
    const StepPlaceFact& place = facts.steps[fact.step];
    const CatalogRank& rank = ask.snapshot->frame().ranks[place.rank];
    if (!where.takes(rank, rank.steps[place.step])) continue;
    AskedOp asked;
    asked.rank = place.rank;
    asked.step = place.step;
    asked.op_id = id;
    const auto first = std::ranges::lower_bound(facts.ops, fact.step, {}, &OpFact::step);
    asked.number = id - static_cast<std::uint64_t>(first - facts.ops.begin());
    Result<std::shared_ptr<StepPart>> part = ask.snapshot->step(place.rank, place.step);
    if (!part) return part.error();
    asked.part = *part;
    if (asked.number >= asked.part->step().ops.size()) break;
    asked.op = &asked.part->step().ops[asked.number];
    return asked;
  }
  return no_op(name, facts);
}

Result<const CatalogTensor*> tensor_of(const CatalogOp& op, bool is_input, std::uint64_t slot) {
  for (const CatalogTensor& tensor : op.tensors) {
    if (tensor.is_input == is_input && tensor.slot == slot) return &tensor;
  }
  return Error{ErrorCode::not_found, fmt::format("'{}' has no {}.{}", op.op_name, is_input ? "input" : "output", slot)};
}

State state_of(const Facts& facts, const AskedOp& op, std::size_t tensor) {
  return facts.tensors[facts.ops[op.op_id].first_tensor + tensor].state;
}

std::string_view shown_scope(const Facts& facts, const OpFact& op) {
  return (op.flags & kIsParameter) != 0 ? kParameterScope : std::string_view(facts.names[op.name].scope);
}

}  // namespace sonde::server
