#include "ask/compare/loss_parts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "ask/compare/compare_passes.h"
#include "ask/compare/compare_words.h"
#include "ground/base/shape.h"
#include "read/operators/op_nature.h"

namespace sonde {
namespace {

// The number by which the operator multiplies a single number; nothing: it does something else.
std::optional<double> factor_in(const CompareOp& op) {
  if (op.outputs.size() != 1 || element_count(op.outputs[0]->shape) != 1) return std::nullopt;
  return number_multiplied_by(op);
}

// Of the first input that an op made; kNoOp: none.
std::uint32_t maker_of_input(const CompareOp& op) {
  const auto made = std::ranges::find_if(op.inputs, [](const auto& one) { return one.from != kNoOp; });
  return made == op.inputs.end() ? kNoOp : made->from;
}

// A loss, the number of elements whose mean it is, and what its gradient is multiplied by.
struct LossPart {
  std::uint32_t op = kNoOp;
  double value = 0, count = 0, factor = 1;
};

bool is_number(const CatalogTensor* tensor) {
  return tensor != nullptr && tensor->recorded() && element_count(tensor->shape) == 1;
}

// The elements that count: targets that are ignored do not. The backward pass of such a loss reads their weight.
double counted_elements(const CompareFacts& facts, bool in_golden, std::uint32_t at) {
  const CompareSide& side = facts.side(in_golden);
  const CompareOp& loss = side.ops[at];
  for (const std::uint32_t reader : loss.readers) {
    if (phase_of(*side.ops[reader].op) != Phase::backward) continue;
    for (const CompareInput& input : side.ops[reader].inputs) {
      const bool is_weight = input.from == at && input.from_slot > 0 && is_number(input.tensor);
      if (is_weight) return facts.rms_of(in_golden, input.tensor);
    }
  }
  double least = 0;
  for (std::size_t slot = 0; slot < std::min<std::size_t>(loss.inputs.size(), 2); ++slot) {
    const auto count = static_cast<double>(element_count(loss.inputs[slot].tensor->shape));
    least = slot == 0 ? count : std::min(least, count);
  }
  return least;
}

std::optional<LossPart> part_of(const CompareFacts& facts, bool in_golden, std::uint32_t begin) {
  const CompareSide& side = facts.side(in_golden);
  LossPart part;
  part.op = side.ops[begin].inputs.empty() ? kNoOp : side.ops[begin].inputs[0].from;
  while (part.op != kNoOp) {
    const CompareOp& op = side.ops[part.op];
    const std::optional<double> factor = factor_in(op);
    if (!factor) break;
    part.factor *= *factor;
    part.op = maker_of_input(op);
  }
  if (part.op == kNoOp || side.ops[part.op].outputs.empty() || !is_number(side.ops[part.op].outputs[0])) return {};
  part.value = facts.rms_of(in_golden, side.ops[part.op].outputs[0]);
  part.count = counted_elements(facts, in_golden, part.op);
  return part;
}

// The losses of one side; none: one of them is not known, or they have factors of their own.
std::vector<LossPart> parts_of_loss(const CompareFacts& facts, bool in_golden) {
  std::vector<LossPart> parts;
  for (const std::uint32_t begin : begins_of_backward(facts.side(in_golden))) {
    const std::optional<LossPart> part = part_of(facts, in_golden, begin);
    if (!part || (!parts.empty() && part->factor != parts.front().factor)) return {};
    parts.push_back(*part);
  }
  return parts;
}

struct Means {
  double count = 0, of_elements = 0, of_parts = 0;
};

Means means_of(const std::vector<LossPart>& parts) {
  Means means;
  for (const LossPart& part : parts) {
    means.count += part.count;
    means.of_elements += part.value * part.count;
    means.of_parts += part.value;
  }
  means.of_elements /= means.count;
  means.of_parts /= static_cast<double>(parts.size());
  return means;
}

bool has_uneven_parts(const std::vector<LossPart>& parts) {
  return std::ranges::any_of(parts, [&](const LossPart& part) { return part.count != parts.front().count; });
}

std::string counts_text(const std::vector<LossPart>& parts) {
  constexpr std::size_t kMostShown = 4;
  std::vector<std::string> counts;
  for (const LossPart& part : parts) counts.push_back(fmt::format("{:g}", part.count));
  if (counts.size() > kMostShown) {
    counts.resize(kMostShown);
    return fmt::format("{} …", fmt::join(counts, ", "));
  }
  const std::string last = counts.back();
  counts.pop_back();
  return fmt::format("{} and {}", fmt::join(counts, ", "), last);
}

}  // namespace

std::uint32_t scaled_loss(const CompareSide& side, std::uint32_t loss, double factor) {
  const std::uint32_t last = loss != kNoOp && factor_in(side.ops[loss]) ? loss : kNoOp;
  for (std::uint32_t at = last; at != kNoOp;) {
    const std::optional<double> own = factor_in(side.ops[at]);
    if (!own) break;
    if (std::abs(*own - factor) <= 2e-3 * std::abs(factor)) return at;
    at = maker_of_input(side.ops[at]);
  }
  return last;
}

std::vector<std::uint32_t> begins_of_backward(const CompareSide& side) {
  std::vector<std::uint32_t> begins;
  for (const CompareOp& op : side.ops) {
    if (phase_of(*op.op) != Phase::backward) continue;
    for (const CompareInput& input : op.inputs) {
      if (input.from == kNoOp || !nature_of(*side.ops[input.from].op).shape_only) continue;
      const CompareOp& seed = side.ops[input.from];
      if (seed.outputs.size() != 1 || element_count(seed.outputs[0]->shape) != 1) continue;
      if (std::ranges::find(begins, input.from) == begins.end()) begins.push_back(input.from);
    }
  }
  return begins;
}

bool is_begin_of_backward(const CompareSide& side, std::uint32_t op) {
  const std::vector<std::uint32_t> begins = begins_of_backward(side);
  return std::ranges::find(begins, op) != begins.end();
}

bool report_uneven_parts(const CompareFacts& facts, StepFindings& findings, std::string_view gradient) {
  constexpr double kRounding = 1e-3;  // of losses in float32 that are summed in another order, and then some
  const std::vector<LossPart> mine = parts_of_loss(facts, false), theirs = parts_of_loss(facts, true);
  if (mine.empty() || theirs.empty() || mine.size() == theirs.size()) return false;
  const bool in_golden = !has_uneven_parts(mine);
  const std::vector<LossPart>& parts = in_golden ? theirs : mine;
  if (!has_uneven_parts(parts)) return false;
  const Means own = means_of(mine), golden = means_of(theirs);
  const auto agree = [&](double a, double b) { return std::abs(a - b) <= kRounding * std::abs(golden.of_elements); };
  if (own.count != golden.count || !agree(own.of_elements, golden.of_elements)) return false;
  const Means& means = in_golden ? golden : own;
  if (agree(means.of_parts, means.of_elements)) return false;
  const std::uint32_t op = parts.front().op;
  const ComparedOp* compared = facts.pairs.of(in_golden, op);
  if (compared == nullptr) return false;
  CompareFinding& finding = findings.add(
      FindingKind::changed, *compared, facts.side(in_golden).ops[op].op, in_golden, nullptr,
      fmt::format("is {}the mean of one part of the batch: each part weighs the same, although they count {} elements; "
                  "the optimizer {}",
                  in_golden ? "in the golden run " : "", counts_text(parts), gradient));
  finding.place = in_golden ? facts.pairs.place_of_golden(op) : op;
  finding.of_other_batches = true;
  return true;
}

}  // namespace sonde
