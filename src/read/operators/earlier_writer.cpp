#include "read/operators/earlier_writer.h"

#include <fmt/format.h>

#include <algorithm>

#include "read/catalog/data_flow.h"
#include "read/operators/op_nature.h"

namespace sonde {
namespace {

constexpr std::size_t kLongestWay = 1000;

std::size_t outputs_of(const CatalogOp& op) {
  return static_cast<std::size_t>(
      std::ranges::count_if(op.tensors, [](const CatalogTensor& tensor) { return !tensor.is_input; }));
}

// The op writes the memory of this input.
bool writes(const CatalogOp& op, const OpNature& nature, const CatalogTensor& input) {
  if (input.slot >= nature.most_inputs || input.slot < nature.first_input) return true;
  if (input.slot == nature.first_state || input.slot == nature.first_state + std::uint64_t{1}) return true;
  if (bare_type(op.op_type).starts_with("fused")) return true;  // all lists of an optimizer
  if (!nature.in_place && !nature.overwrites) return false;
  return nature.is_list ? input.slot < std::max<std::size_t>(outputs_of(op), 1) : input.slot == 0;
}

bool writes(const CatalogOp& op, const TensorName& name) {
  const auto has_name = [&](const CatalogTensor& tensor) { return tensor.is_input && tensor.parameter == name; };
  if (op.is_parameter || std::ranges::none_of(op.tensors, has_name)) return false;
  const OpNature nature = nature_of(op);
  return std::ranges::any_of(
      op.tensors, [&](const CatalogTensor& tensor) { return has_name(tensor) && writes(op, nature, tensor); });
}

const CatalogOp* writer_in(const CatalogRank& rank, const CatalogStep& step, const CatalogTensor& input) {
  if (input.source != kNoSequence) {
    const std::optional<DataFlow::Maker> maker = DataFlow(rank, step).maker(input);
    return maker ? maker->op : nullptr;
  }
  for (std::size_t op = step.ops.size(); op-- > 0;) {
    if (writes(step.ops[op], input.parameter)) return &step.ops[op];
  }
  return nullptr;
}

// The maker of the first tensor that is not finite and that this op read, in its step or in an earlier one.
std::optional<EarlierWriter> bad_maker(const CatalogRank& rank, const EarlierWriter& of, const StepWithOps& step_at) {
  const CatalogStep* step = step_at(of.step);
  if (step == nullptr) return std::nullopt;
  const DataFlow flow(rank, *step);
  for (const CatalogTensor& input : of.op->tensors) {
    if (!input.is_input || !is_not_finite(*of.op, input)) continue;
    const std::optional<DataFlow::Maker> maker = flow.maker(input);
    if (maker && maker->op < of.op) return EarlierWriter{of.step, maker->op};
    if (maker) continue;  // it does not run backwards
    if (const auto before = writer_before(rank, of.step, input, step_at)) return before;
  }
  return std::nullopt;
}

// A run without gradients in the middle of a step (a reference model, a target network) is a step of its own that began
// later.
std::optional<EarlierWriter> writer_within(const CatalogRank& rank, std::size_t step, const CatalogTensor& input,
                                           const StepWithOps& step_at) {
  constexpr std::size_t kMostWithin = 64;
  const std::size_t end = std::min(rank.steps.size(), step + 1 + kMostWithin);
  for (std::size_t within = step + 1; within < end; ++within) {
    if (rank.steps[within].run != rank.steps[step].run || rank.steps[within].id.graph == rank.steps[step].id.graph)
      continue;
    const CatalogStep* with_ops = step_at(within);
    const CatalogOp* op = with_ops == nullptr ? nullptr : writer_in(rank, *with_ops, input);
    if (op != nullptr) return EarlierWriter{within, op};
  }
  return std::nullopt;
}

}  // namespace

bool comes_from_before(const CatalogTensor& input) {
  return input.is_input && !input.constant && (input.source != kNoSequence || input.parameter.is_parameter());
}

std::optional<EarlierWriter> writer_before(const CatalogRank& rank, std::size_t step, const CatalogTensor& input,
                                           const StepWithOps& step_at) {
  if (!comes_from_before(input)) return std::nullopt;
  for (std::size_t earlier = step; earlier-- > 0;) {
    if (rank.steps[earlier].run != rank.steps[step].run) continue;
    const CatalogStep* with_ops = step_at(earlier);
    if (with_ops == nullptr) continue;
    if (const CatalogOp* op = writer_in(rank, *with_ops, input)) return EarlierWriter{earlier, op};
  }
  return input.source == kNoSequence ? std::nullopt : writer_within(rank, step, input, step_at);
}

std::vector<EarlierWriter> way_before(const CatalogRank& rank, std::size_t step, const CatalogTensor& input,
                                      const StepWithOps& step_at) {
  std::vector<EarlierWriter> way;
  std::optional<EarlierWriter> at = writer_before(rank, step, input, step_at);
  while (at && way.size() < kLongestWay) {
    way.push_back(*at);
    at = bad_maker(rank, *at, step_at);
  }
  std::ranges::reverse(way);
  return way;
}

std::string no_writer_text(const CatalogRank& rank, std::size_t step, const CatalogTensor& input) {
  const StepId& id = rank.steps[step].id;
  const std::string what = input.parameter.empty() ? "it" : std::string(input.parameter);
  std::string text = fmt::format("no recorded operator wrote {} before step {}", what, id.number);
  const auto is_before = [&](const CatalogStep& one) {
    return one.run == rank.steps[step].run && one.id.graph == id.graph && one.id.number + 1 == id.number;
  };
  if (id.number == 0 || std::ranges::any_of(rank.steps, is_before)) return text;
  return text + fmt::format("; step {} is not in the dump: record again with --iteration {}-{}", id.number - 1,
                            id.number - 1, id.number);
}

}  // namespace sonde
