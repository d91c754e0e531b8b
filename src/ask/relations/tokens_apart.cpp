#include "ask/relations/tokens_apart.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "ask/relations/rows_apart.h"
#include "ground/base/shape.h"
#include "read/operators/op_nature.h"

namespace sonde {
namespace {

constexpr std::size_t kFewestTokens = 3;

std::uint64_t count_of(const Pool& pool, std::uint32_t tensor) {
  return element_count(pool.tensors[tensor].of.tensor->shape);
}

}  // namespace

bool runs_by_tokens(const Pool& target, const Pool& golden) {
  return target.steps.size() >= kFewestTokens && target.steps.size() > golden.steps.size();
}

std::optional<NumberApart> TokensApart::find() const {
  if (!runs_by_tokens(target_, golden_)) return std::nullopt;
  if (auto apart = does_not_grow()) return apart;
  if (auto apart = only_in_one_step()) return apart;
  if (auto apart = leaves_positions_out()) return apart;
  if (auto apart = reads_part_of_keys()) return apart;
  if (!target_.has_values() || !golden_.has_values()) return std::nullopt;
  return RowsApart(target_, golden_, judgement_).find();
}

// The operators of this name, in the order of the steps.
std::vector<std::uint32_t> TokensApart::calls_of(std::uint32_t op) const {
  std::vector<std::uint32_t> calls;
  for (std::uint32_t i = 0; i < target_.ops.size(); ++i) {
    if (target_.catalog_op(i).op_name == target_.catalog_op(op).op_name) calls.push_back(i);
  }
  return calls;
}

// Its result differs, or only moves on to an operator of which the result differs.
bool TokensApart::leads_to_region(std::uint32_t op) const {
  if (judgement_.target.has[op]) return true;
  const auto leads = [&](std::uint32_t reader) {
    return judgement_.target.has[reader] || (moves_or_casts(target_.op(reader).kind) && leads_to_region(reader));
  };
  return std::ranges::any_of(target_.ops[op].outputs, [&](std::uint32_t output) {
    return std::ranges::any_of(target_.tensors[output].readers, leads);
  });
}

// Each step appends to what the step before had.
std::optional<NumberApart> TokensApart::does_not_grow() const {
  std::set<std::string_view> seen;
  for (std::uint32_t op = 0; op < target_.ops.size(); ++op) {
    if (!target_.is_type(op, "cat") || target_.ops[op].outputs.empty()) continue;
    if (!seen.insert(target_.catalog_op(op).op_name).second) continue;
    const std::vector<std::uint32_t> calls = calls_of(op);
    if (calls.size() + 1 < target_.steps.size() || calls.size() < kFewestTokens) continue;
    const auto size_of = [&](std::uint32_t call) { return count_of(target_, target_.ops[call].outputs[0]); };
    std::vector<std::uint32_t> stopped;
    for (std::size_t i = 1; i < calls.size(); ++i) {
      if (size_of(calls[i]) <= size_of(calls[i - 1])) stopped.push_back(calls[i]);
    }
    // A window has one size from some step on, and other things always have one.
    if (stopped.size() != 1 || !leads_to_region(stopped[0])) continue;
    return NumberApart{stopped[0], "joins no more than in the step before: the cache was not kept"};
  }
  return std::nullopt;
}

std::optional<NumberApart> TokensApart::only_in_one_step() const {
  std::map<LinePlace, std::set<std::uint32_t>> steps_of;
  const auto place_of = [&](std::uint32_t op) { return line_of(target_.catalog_op(op)); };
  for (std::uint32_t op = 0; op < target_.ops.size(); ++op) steps_of[place_of(op)].insert(target_.ops[op].step);
  const auto last = static_cast<std::uint32_t>(target_.steps.size() - 1);
  for (const std::uint32_t op : judgement_.target.ops) {
    const std::uint32_t step = target_.ops[op].step;
    // The first step makes what the others read, and the last one returns it.
    if (step == 0 || step == last || steps_of[place_of(op)].size() > 1) continue;
    return NumberApart{op, "runs in one step alone"};
  }
  return std::nullopt;
}

// A single whole number from outside of the step, which the operator reads.
std::optional<double> TokensApart::position_read(std::uint32_t op, std::uint32_t& from) const {
  for (std::uint32_t input : target_.ops[op].inputs) {
    while (target_.tensors[input].op != kNoOp && moves_or_casts(target_.op(target_.tensors[input].op).kind) &&
           target_.ops[target_.tensors[input].op].inputs.size() == 1) {
      input = target_.ops[target_.tensors[input].op].inputs[0];
    }
    const PoolTensor& tensor = target_.tensors[input];
    if (tensor.has_fractions() || tensor.print.count != 1 || tensor.is_weight()) continue;
    from = input;
    return tensor.print.min;
  }
  return std::nullopt;
}

// The operator of an earlier step that made the tensor: its result has the same numbers.
std::uint32_t TokensApart::maker_before(std::uint32_t tensor) const {
  const PoolTensor& own = target_.tensors[tensor];
  if (own.op != kNoOp) return own.op;
  std::uint32_t maker = kNoOp;
  for (const PoolTensor& other : target_.tensors) {
    if (other.op == kNoOp || other.step >= own.step || other.step + 1 < own.step) continue;
    const bool is_it = other.dtype() == own.dtype() && other.shape == own.shape &&
                       other.print.count == own.print.count && other.print.min == own.print.min;
    if (is_it && (maker == kNoOp || other.op > maker)) maker = other.op;
  }
  return maker;
}

std::optional<NumberApart> TokensApart::leaves_positions_out() const {
  std::set<std::string_view> seen;  // each name once, with its calls in all steps
  for (const std::uint32_t op : judgement_.target.ops) {
    const bool uses_numbers = target_.op(op).kind == OpKind::elementwise || target_.is_type(op, "embedding");
    std::uint32_t from = kNoOp;
    if (!uses_numbers || !position_read(op, from)) continue;
    if (!seen.insert(target_.catalog_op(op).op_name).second) continue;
    std::vector<double> positions;
    std::vector<std::uint32_t> tensors, readers;
    for (const std::uint32_t call : calls_of(op)) {
      const std::optional<double> position = position_read(call, from);
      if (!position) continue;
      positions.push_back(*position);
      tensors.push_back(from);
      readers.push_back(call);
    }
    // Numbers of words jump each time.
    std::vector<std::size_t> jumps;
    for (std::size_t i = 1; i < positions.size(); ++i) {
      if (positions[i] - positions[i - 1] != 1) jumps.push_back(i);
    }
    if (positions.size() <= kFewestTokens || jumps.size() != 1) continue;
    // By tensors, the next position may be golden, and only the last one not.
    const auto differs = [&](std::uint32_t reader) { return judgement_.target.has[reader] != 0; };
    if (std::none_of(readers.begin() + static_cast<std::ptrdiff_t>(jumps[0]), readers.end(), differs)) continue;
    const std::uint32_t maker = maker_before(tensors[jumps[0]]);
    return NumberApart{
        maker == kNoOp ? readers[jumps[0]] : maker,
        fmt::format("gives {} as position, after {} in the step before", positions[jumps[0]], positions[jumps[0] - 1])};
  }
  return std::nullopt;
}

bool TokensApart::golden_attends_to_all() const {
  return std::ranges::any_of(judgement_.golden.ops, [&](std::uint32_t op) {
    if (!golden_.is_type(op, "scaleddotproductattention")) return false;
    for (std::uint32_t input : golden_.ops[op].inputs) {
      const std::uint32_t maker = golden_.tensors[input].op;
      if (maker != kNoOp && golden_.is_type(maker, "slice")) return false;
    }
    return true;
  });
}

bool TokensApart::is_read_by_product(std::uint32_t tensor) const {
  return std::ranges::any_of(target_.tensors[tensor].readers, [&](std::uint32_t reader) {
    if (target_.op(reader).kind == OpKind::contraction) return true;
    if (!moves_or_casts(target_.op(reader).kind) || target_.ops[reader].inputs.size() != 1) return false;
    return std::ranges::any_of(target_.ops[reader].outputs,
                               [&](std::uint32_t output) { return is_read_by_product(output); });
  });
}

std::optional<NumberApart> TokensApart::reads_part_of_keys() const {
  if (!golden_attends_to_all()) return std::nullopt;
  for (std::uint32_t op = 0; op < target_.ops.size(); ++op) {
    const PoolOp& own = target_.ops[op];
    const bool cuts = target_.is_type(op, "slice") || target_.is_type(op, "narrow");
    if (!cuts || own.inputs.size() != 1 || own.outputs.size() != 1) continue;
    const std::uint64_t all = count_of(target_, own.inputs[0]), part = count_of(target_, own.outputs[0]);
    const std::uint32_t maker = target_.tensors[own.inputs[0]].op;
    if (part >= all || maker == kNoOp || !target_.is_type(maker, "cat")) continue;
    if (!is_read_by_product(own.outputs[0]) || !leads_to_region(op)) continue;
    return NumberApart{op, "gives a part of the cache, and the golden attention reads all tokens"};
  }
  return std::nullopt;
}

}  // namespace sonde
