// Data that an operator of an earlier step of the dump made: between the optimizer and the next forward pass programs
// count tokens, join what the ranks have, and receive from other ranks. And buffers and parameters that an operator of one
// side alone wrote there, which changed nothing in that step.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "ask/compare/compare_words.h"
#include "ask/compare/maker_of_data.h"

namespace sonde {
namespace {

struct Maker {
  ComparedOp* op = nullptr;
  FindingKind kind = FindingKind::number;
  std::string what;
};

// One side of the earlier step.
class MakersBefore {
 public:
  MakersBefore(ComparedStep& step, bool in_golden)
      : step_(step), side_(step.side(in_golden)), in_golden_(in_golden), compared_(side_.ops.size(), nullptr) {
    for (ComparedOp& op : step.ops) {
      const std::uint32_t at = in_golden ? op.golden_index : op.target_index;
      if (at != kNoOp) compared_[at] = &op;
    }
  }

  // Of the ops that lead to `last` by values that differ, the first without a counterpart.
  std::optional<Maker> without_counterpart(std::uint32_t last, bool other_is_shown) const {
    for (const std::uint32_t at : differing_before(last)) {
      ComparedOp& op = *compared_[at];
      if (!op.is_alone() || only_passes_data_on(op, other_is_shown)) continue;
      if (in_golden_) return Maker{&op, FindingKind::missing, "has no counterpart in the target, which changes"};
      return Maker{&op, FindingKind::inserted, "has no counterpart in the golden dump, and changes"};
    }
    return std::nullopt;
  }

  // The op that wrote this state last, if the other side lacks it. `writer`: the op that made what is read later; the step
  // does not name a state that it does not read.
  std::optional<Maker> wrote_alone(std::string_view name, std::uint32_t writer) const {
    const auto last = side_.written.find(name);
    const std::uint32_t at = last == side_.written.end() ? writer : last->second.op;
    ComparedOp* op = at == kNoOp ? nullptr : compared_[at];
    if (op == nullptr || !op->is_alone()) return std::nullopt;
    if (in_golden_) return Maker{op, FindingKind::missing, "has no counterpart in the target, and writes"};
    return Maker{op, FindingKind::inserted, "has no counterpart in the golden dump, and writes"};
  }

  // Of the golden run: the op that wrote this state last, if its counterpart writes another one.
  std::optional<Maker> wrote_another(std::string_view name, const CompareSide& target) const {
    const auto last = side_.written.find(name);
    if (last == side_.written.end() || target.written.contains(name)) return std::nullopt;
    ComparedOp* op = compared_[last->second.op];
    if (op == nullptr || op->is_alone()) return std::nullopt;
    const std::vector<std::string_view>& states = target.ops[op->target_index].states;
    const auto other = std::ranges::find_if(states, [](std::string_view state) { return !state.empty(); });
    if (other == states.end()) return std::nullopt;
    return Maker{op, FindingKind::wiring, fmt::format("writes {}, the golden op", *other)};
  }

  // The op that wrote it, if it is called in another way: the momentum of a norm.
  std::optional<Maker> wrote_otherwise(std::uint32_t writer) const {
    ComparedOp* op = writer == kNoOp ? nullptr : compared_[writer];
    return op == nullptr ? std::nullopt : called_with_another(*op, "writes");
  }

  // The first that is called in another way.
  std::optional<Maker> called_otherwise(std::uint32_t last) const {
    for (const std::uint32_t at : differing_before(last)) {
      if (std::optional<Maker> found = called_with_another(*compared_[at], "changes")) return found;
    }
    return std::nullopt;
  }

  // The first that reads the same tensors in another order.
  std::optional<Maker> reads_exchanged(std::uint32_t last) const {
    for (const std::uint32_t at : differing_before(last)) {
      ComparedOp& op = *compared_[at];
      for (std::size_t i = 0; i < op.inputs.size(); ++i) {
        for (std::size_t j = i + 1; j < op.inputs.size(); ++j) {
          if (op.is_alone() || !are_exchanged(op.inputs[i], op.inputs[j])) continue;
          return Maker{&op, FindingKind::wiring,
                       fmt::format("reads input.{} and input.{} exchanged, and changes", op.inputs[i].target->slot,
                                   op.inputs[j].target->slot)};
        }
      }
    }
    return std::nullopt;
  }

 private:
  // `effect`: what it does to what is read later.
  static std::optional<Maker> called_with_another(ComparedOp& op, std::string_view effect) {
    if (op.is_alone()) return std::nullopt;
    const std::vector<std::string> apart = attributes_apart(*op.target.back(), *op.golden.back());
    if (apart.empty()) return std::nullopt;
    return Maker{&op, FindingKind::number, fmt::format("is called with {}, and {}", apart.front(), effect)};
  }

  bool differs(std::uint32_t at) const {
    return compared_[at] != nullptr && compared_[at]->verdict != OpVerdict::identical;
  }

  std::set<std::uint32_t> differing_before(std::uint32_t last) const {
    std::set<std::uint32_t> found;
    std::vector<std::uint32_t> border = {last};
    while (!border.empty()) {
      const std::uint32_t at = border.back();
      border.pop_back();
      if (at == kNoOp || !differs(at) || !found.insert(at).second) continue;
      for (const CompareInput& input : side_.ops[at].inputs) border.push_back(input.from);
    }
    return found;
  }

  // Each of the two inputs is the other one in the golden run.
  bool are_exchanged(const ComparedTensor& one, const ComparedTensor& other) const {
    if (one.golden == nullptr || other.golden == nullptr || one.difference->equal || other.difference->equal)
      return false;
    const auto is = [&](const ComparedTensor& mine, const ComparedTensor& theirs) {
      return step_.differences->of({step_.target->rank, mine.target}, {step_.golden->rank, theirs.golden}).equal;
    };
    return is(one, other) && is(other, one);
  }

  ComparedStep& step_;
  const CompareSide& side_;
  bool in_golden_;
  std::vector<ComparedOp*> compared_;
};

std::optional<Maker> maker_in(ComparedStep& step, const ComparedTensor& data) {
  MakersBefore target(step, false), golden(step, true);
  const std::uint32_t mine = op_with(*step.target, data.target->source);
  const std::uint32_t theirs = data.golden == nullptr ? kNoOp : op_with(*step.golden, data.golden->source);
  std::optional<Maker> found = target.without_counterpart(mine, shows_how_it_is_made(*step.golden, theirs));
  if (!found) found = golden.without_counterpart(theirs, shows_how_it_is_made(*step.target, mine));
  if (!found) found = target.called_otherwise(mine);
  return found ? found : target.reads_exchanged(mine);
}

std::optional<Maker> writer_in(ComparedStep& step, const ComparedTensor& state) {
  const std::uint32_t mine = op_with(*step.target, state.target->source);
  std::optional<Maker> found = MakersBefore(step, false).wrote_alone(state.target->parameter, mine);
  if (found || state.golden == nullptr) return found;
  const MakersBefore golden(step, true);
  const std::uint32_t theirs = op_with(*step.golden, state.golden->source);
  found = golden.wrote_alone(state.golden->parameter, theirs);
  if (!found) found = golden.wrote_another(state.golden->parameter, *step.target);
  return found ? found : golden.wrote_otherwise(theirs);
}

// Steps of one run of one rank.
bool are_of_one_run(const ComparedStep& a, const ComparedStep& b) {
  return a.target->rank == b.target->rank && a.target->step->run == b.target->step->run &&
         a.golden->rank == b.golden->rank && a.golden->step->run == b.golden->step->run;
}

// In the order of the target's ops; of a golden op alone, where its counterpart would be.
std::uint32_t place_of(const ComparedStep& step, const ComparedOp& op) {
  if (op.target_index != kNoOp) return op.target_index;
  std::uint32_t place = 0, last = 0;
  for (const ComparedOp& other : step.ops) {
    if (other.target_index == kNoOp || other.golden_index == kNoOp || other.golden_index > op.golden_index) continue;
    if (other.golden_index < last) continue;
    last = other.golden_index;
    place = other.target_index;
  }
  return place;
}

std::optional<CompareFinding> made_before(DumpComparison& comparison, const CompareFinding& data) {
  const ComparedStep& read = comparison.steps[data.step];
  for (std::size_t index = data.step; index-- > 0;) {
    ComparedStep& step = comparison.steps[index];
    if (!are_of_one_run(step, read)) continue;
    const bool is_state = data.kind == FindingKind::parameter;
    const std::optional<Maker> maker = is_state ? writer_in(step, *data.tensor) : maker_in(step, *data.tensor);
    if (!maker) continue;
    if (maker->op->is_alone()) maker->op->verdict = OpVerdict::unmatched;  // also where its own step showed no effect
    CompareFinding finding;
    finding.step = index;
    finding.op = maker->op;
    finding.kind = maker->kind;
    finding.in_golden = maker->kind == FindingKind::missing;
    finding.culprit = finding.in_golden ? maker->op->golden.front() : maker->op->target.front();
    finding.place = place_of(step, *maker->op);
    finding.factor = data.factor;
    const StepId& id = read.target->step->id;
    finding.what = fmt::format("{} {}input.{} of {} in step {}{}: {}", maker->what,
                               is_state ? fmt::format("{}, ", data.tensor->target->parameter) : "",
                               data.tensor->target->slot, data.op->target.front()->op_name, id.number,
                               id.graph == 0 ? "" : fmt::format(" of graph {}", id.graph),
                               difference_text(FindingKind::data, *data.tensor));
    return finding;
  }
  return std::nullopt;
}

}  // namespace

void blame_makers_before(DumpComparison& comparison) {
  std::set<std::pair<const CatalogOp*, FindingKind>> known;
  std::vector<CompareFinding> kept;
  for (CompareFinding& finding : comparison.findings) {
    const bool is_read = finding.kind == FindingKind::data || finding.kind == FindingKind::parameter;
    const bool is_data =
        is_read && finding.tensor != nullptr && finding.tensor->target != nullptr && !finding.op->target.empty();
    std::optional<CompareFinding> made = is_data ? made_before(comparison, finding) : std::nullopt;
    if (made && !known.emplace(made->culprit, made->kind).second) continue;
    kept.push_back(made ? std::move(*made) : std::move(finding));
  }
  comparison.findings = std::move(kept);
}

}  // namespace sonde
