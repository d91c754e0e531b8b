#include "ask/relations/parts_of_batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "ask/relations/numbers_apart.h"
#include "ask/relations/roots_of_weights.h"
#include "ask/relations/search.h"
#include "read/measure/values.h"
#include "read/operators/op_nature.h"

namespace sonde {
namespace {

bool is_forward(const Pool& pool, std::uint32_t op) {
  const Phase phase = phase_of(pool.catalog_op(op));
  return phase != Phase::backward && phase != Phase::optimizer;
}

std::optional<std::uint32_t> read_at(const Pool& pool, std::uint32_t op, std::uint32_t slot) {
  const PoolOp& own = pool.ops[op];
  for (std::size_t i = 0; i < own.inputs.size(); ++i) {
    if (own.slots[i] == slot) return own.inputs[i];
  }
  return std::nullopt;
}

// Of classes: it reads scores and labels.
bool is_loss_of_labels(const Pool& pool, std::uint32_t op) {
  return pool.is_type(op, "crossentropyloss") || pool.is_type(op, "nllloss") || pool.is_type(op, "nlllossnd");
}

class PartsOfBatch {
 public:
  PartsOfBatch(const Pool& target, const Pool& golden, const Threads& threads)
      : target_(target), golden_(golden), roots_(roots_of(target, {})), relations_(target.tensors.size()) {
    Search search(target, golden, threads);
    for (std::uint32_t i = 0; i < target.tensors.size(); ++i) {
      const std::uint32_t maker = target.tensors[i].op;
      if (maker == kNoOp || is_forward(target, maker)) relations_[i] = search.find(i);
    }
  }

  // The first operator whose result is in no golden tensor, although what it reads is; or that gives other labels.
  std::optional<NumberApart> find() const {
    for (std::uint32_t op = 0; op < target_.ops.size(); ++op) {
      if (!is_forward(target_, op)) continue;
      if (is_loss_of_labels(target_, op)) {
        if (auto apart = other_labels(op)) return apart;
      } else if (departs(op)) {
        return NumberApart{op, "its result is in no golden tensor, although what it reads is"};
      }
    }
    return std::nullopt;
  }

 private:
  // Single numbers, such as the loss of a part, are none of the golden ones.
  bool departs(std::uint32_t op) const {
    const std::vector<std::uint32_t>&inputs = target_.ops[op].inputs, &outputs = target_.ops[op].outputs;
    const bool reads_data = std::ranges::any_of(inputs, [&](std::uint32_t input) { return is_of_data(input); });
    const bool reads_known = std::ranges::all_of(inputs, [&](std::uint32_t input) {
      return roots_[input] != kNoOp || !target_.tensors[input].has_fractions() || relations_[input];
    });
    return reads_data && reads_known && std::ranges::any_of(outputs, [&](std::uint32_t output) {
             return is_of_network(output) && !relations_[output] && roots_[output] == kNoOp;
           });
  }
  bool is_of_network(std::uint32_t tensor) const {
    const PoolTensor& own = target_.tensors[tensor];
    return own.has_fractions() && own.print.by_values && !own.print.proves_nothing();
  }
  bool is_of_data(std::uint32_t tensor) const {
    return roots_[tensor] == kNoOp && is_of_network(tensor) && relations_[tensor] && !relations_[tensor].weak;
  }

  // The golden loss that reads all scores, of which those of this loss are rows.
  std::optional<std::uint32_t> golden_loss(const Relation& scores) const {
    const RoundedNumbers wanted = rounded_numbers(golden_.tensors[scores.golden()].print);
    for (std::uint32_t op = 0; op < golden_.ops.size(); ++op) {
      if (!is_forward(golden_, op) || !is_loss_of_labels(golden_, op)) continue;
      const auto read = read_at(golden_, op, 0);
      if (read && rounded_numbers(golden_.tensors[*read].print) == wanted) return op;
    }
    return std::nullopt;
  }

  std::optional<NumberApart> other_labels(std::uint32_t loss) const {
    const auto scores = read_at(target_, loss, 0), labels = read_at(target_, loss, 1);
    if (!scores || !labels || relations_[*scores].kind != RelationKind::cut) return std::nullopt;
    const Relation& relation = relations_[*scores];
    const RelationPart& part = relation.parts[0];
    const auto golden = golden_loss(relation);
    if (!golden || (part.axis != 0 && part.axis != kAxisOfRows)) return std::nullopt;
    const auto golden_labels = read_at(golden_, *golden, 1);
    const PoolValues own = target_.values_of(*labels),
                     theirs = golden_labels ? golden_.values_of(*golden_labels) : PoolValues();
    if (!own || !theirs) return std::nullopt;
    const std::vector<double> mine = all_values(own.view()), all = all_values(theirs.view());
    if (mine.size() != static_cast<std::size_t>(part.count)) return std::nullopt;
    for (std::int64_t i = 0; i < part.count; ++i) {
      const std::int64_t row = part.start + i * part.step;
      if (row >= static_cast<std::int64_t>(all.size())) return std::nullopt;
      const double label = mine[static_cast<std::size_t>(i)], wanted = all[static_cast<std::size_t>(row)];
      if (label == wanted) continue;
      const std::uint32_t maker = target_.tensors[*labels].op;
      return NumberApart{maker == kNoOp ? loss : maker,
                         fmt::format("gives row {} of the golden batch the label {}, golden {}", row, label, wanted)};
    }
    return std::nullopt;
  }

  const Pool& target_;
  const Pool& golden_;
  const std::vector<std::uint32_t> roots_;
  std::vector<Relation> relations_;
};

// The record of an operator in a comparison, by its place in the catalog.
const ComparedOp* compared_op(const ComparedStep& step, const CatalogOp& op) {
  for (const ComparedOp& one : step.ops) {
    if (std::ranges::find(one.target, &op) != one.target.end()) return &one;
  }
  return nullptr;
}

}  // namespace

void name_in_parts_of_batch(const Catalog& target, const Catalog& golden, const CompareOptions& options,
                            DumpComparison& comparison) {
  if (comparison.findings.empty() || target.ranks.size() != 1 || golden.ranks.size() != 1) return;
  CompareFinding& finding = comparison.findings.front();
  if (!finding.of_other_batches || !finding.uncertain) return;
  const ComparedStep& step = comparison.steps[finding.step];
  const auto pool_of = [&](const Catalog& catalog, const CompareSide& side) {
    DumpPart part = options.part;
    if (const Result<StepSet> one = parse_steps(std::to_string(side.step->id.number))) part.steps = *one;
    part.graph = side.step->id.graph;
    return Pool(catalog, part, *comparison.families);
  };
  Pool mine = pool_of(target, *step.target), theirs = pool_of(golden, *step.golden);
  const Threads threads(options.threads);
  mine.read(threads);
  theirs.read(threads);
  if (!mine.has_values() || !theirs.has_values()) return;
  const std::optional<NumberApart> apart = PartsOfBatch(mine, theirs, threads).find();
  if (!apart) return;
  const CatalogOp& culprit = mine.catalog_op(apart->op);
  const ComparedOp* op = compared_op(step, culprit);
  if (op == nullptr) return;
  finding.kind = FindingKind::inserted;
  finding.op = op;
  finding.culprit = &culprit;
  finding.place = mine.ops[apart->op].index;
  finding.what = apart->what + "; the optimizer " + finding.what;
}

}  // namespace sonde
