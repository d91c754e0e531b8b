#include "ask/compare/maker_of_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "ask/compare/compare_words.h"
#include "read/operators/op_nature.h"
#include "read/operators/op_questions.h"

namespace sonde {
namespace {

constexpr std::size_t kMostOpsBefore = 256;

const CatalogTensor* input_of(const CatalogOp& op, std::uint32_t slot) {
  for (const CatalogTensor& tensor : op.tensors) {
    if (tensor.is_input && tensor.slot == slot) return &tensor;
  }
  return nullptr;
}

// Ops of the step that lead to this one, itself among them; none: there is no such op.
std::set<std::uint32_t> makers_of(const CompareSide& side, std::uint32_t last) {
  if (last == kNoOp) return {};
  std::set<std::uint32_t> makers = {last};
  std::vector<std::uint32_t> border = {last};
  while (!border.empty() && makers.size() < kMostOpsBefore) {
    const std::uint32_t op = border.back();
    border.pop_back();
    for (const CompareInput& input : side.ops[op].inputs) {
      if (input.from != kNoOp && makers.insert(input.from).second) border.push_back(input.from);
    }
  }
  return makers;
}

class MakerSearch {
 public:
  MakerSearch(DumpComparison& comparison, std::size_t finding) : comparison_(comparison), at_(finding) {}

  void run() {
    const CompareFinding& data = comparison_.findings[at_];
    if (data.op->target.empty() || data.tensor == nullptr || data.tensor->target == nullptr) return;
    if (const std::optional<std::size_t> made = step_of_other_graph(data)) return search_in(*made, data);
    const ComparedStep* next = step_after(data);
    if (next == nullptr) return;
    const ComparedStep& step = comparison_.steps[data.step];
    const std::uint32_t mine =
        maker(*step.target, *next->target, data.op->target.front()->op_name, data.tensor->target->slot);
    mine_ = makers_of(*step.target, mine);
    is_shown_ = shows_how_it_is_made(*step.target, mine);
    if (data.tensor->golden != nullptr && !data.op->golden.empty()) {
      const std::uint32_t theirs =
          maker(*step.golden, *next->golden, data.op->golden.front()->op_name, data.tensor->golden->slot);
      theirs_ = makers_of(*step.golden, theirs);
      golden_is_shown_ = shows_how_it_is_made(*step.golden, theirs);
    }
    if (mine_.empty() && theirs_.empty()) return;
    if (!take_known()) take_other(step);
  }

 private:
  // A step of another graph that makes the data on both sides, as an inference in the middle of a training step.
  std::optional<std::size_t> step_of_other_graph(const CompareFinding& data) const {
    if (data.tensor->golden == nullptr) return std::nullopt;
    const CompareSide& reader = *comparison_.steps[data.step].target;
    for (std::size_t i = 0; i < comparison_.steps.size(); ++i) {
      const CompareSide &target = *comparison_.steps[i].target, &golden = *comparison_.steps[i].golden;
      if (target.rank != reader.rank || target.step->id.graph == reader.step->id.graph) continue;
      const bool is_made = op_with(target, data.tensor->target->source) != kNoOp &&
                           op_with(golden, data.tensor->golden->source) != kNoOp;
      if (is_made) return i;
    }
    return std::nullopt;
  }

  void search_in(std::size_t number, const CompareFinding& data) {
    const ComparedStep& step = comparison_.steps[number];
    mine_ = makers_of(*step.target, op_with(*step.target, data.tensor->target->source));
    theirs_ = makers_of(*step.golden, op_with(*step.golden, data.tensor->golden->source));
    is_shown_ = golden_is_shown_ = true;
    other_step_ = number;
    const auto is_known = [&](const CompareFinding& one) { return one.step == number && is_maker(*one.op); };
    if (std::ranges::none_of(comparison_.findings, is_known)) take_other(step);
  }

  const ComparedStep* step_after(const CompareFinding& data) const {
    const CatalogStep& of = *comparison_.steps[data.step].target->step;
    const CatalogRank* rank = comparison_.steps[data.step].target->rank;
    for (const ComparedStep& step : comparison_.steps) {
      const StepId& id = step.target->step->id;
      if (step.target->rank == rank && id.graph == of.id.graph && id.number == of.id.number + 1) return &step;
    }
    return nullptr;
  }

  // The op of the step that makes what the op of this name reads in the next one.
  static std::uint32_t maker(const CompareSide& side, const CompareSide& next, std::string_view reader,
                             std::uint32_t slot) {
    for (const CompareOp& op : next.ops) {
      if (op.op->op_name != reader) continue;
      const CatalogTensor* read = input_of(*op.op, slot);
      return read == nullptr ? kNoOp : op_with(side, read->source);
    }
    return kNoOp;
  }

  bool is_maker(const ComparedOp& op) const {
    return (op.target_index != kNoOp && mine_.contains(op.target_index)) ||
           (op.target_index == kNoOp && op.golden_index != kNoOp && theirs_.contains(op.golden_index));
  }

  void put_first(CompareFinding finding) {
    std::vector<CompareFinding>& all = comparison_.findings;
    const CompareFinding& data = all[at_];
    finding.place = data.place;
    finding.what += fmt::format("; {} was made in the same way before the recording began",
                                data.tensor->target->parameter.or_if_empty("the data of this step"));
    all.insert(all.begin() + static_cast<std::ptrdiff_t>(at_), std::move(finding));
  }

  // A finding about one of the makers.
  bool take_known() {
    std::vector<CompareFinding>& all = comparison_.findings;
    const std::size_t step = all[at_].step;
    const auto known = std::ranges::find_if(all, [&](const CompareFinding& one) {
      return &one != &all[at_] && one.step == step && one.kind != FindingKind::data && is_maker(*one.op);
    });
    if (known == all.end()) return false;
    CompareFinding finding = std::move(*known);
    const auto place = static_cast<std::size_t>(known - all.begin());
    all.erase(known);
    if (place < at_) --at_;
    put_first(std::move(finding));
    return true;
  }

  // Or the first of them that has no counterpart, or is called with other numbers.
  void take_other(const ComparedStep& step) {
    for (const bool alone : {true, false}) {
      for (const ComparedOp& op : step.ops) {
        if (!is_maker(op)) continue;
        const bool is_alone = op.is_alone();
        if (alone != is_alone) continue;
        const std::vector<std::string> apart =
            is_alone ? std::vector<std::string>() : attributes_apart(*op.target.back(), *op.golden.back());
        if (!is_alone && apart.empty()) continue;
        if (is_alone && only_passes_data_on(op, op.target.empty() ? is_shown_ : golden_is_shown_)) continue;
        CompareFinding finding;
        finding.step = other_step_.value_or(comparison_.findings[at_].step);
        finding.op = &op;
        finding.in_golden = op.target.empty();
        finding.culprit = finding.in_golden ? op.golden.front() : op.target.front();
        finding.kind = !is_alone           ? FindingKind::number
                       : finding.in_golden ? FindingKind::missing
                                           : FindingKind::inserted;
        const std::string reader =
            other_step_ ? fmt::format("what {} reads", name_of_reader()) : "data of the next step";
        finding.what = is_alone
                           ? fmt::format("has no counterpart in the {}, and makes {}, which {}",
                                         name_of_other(finding.in_golden), reader, other_step_ ? "differs" : "differ")
                           : fmt::format("is called with {}, and makes {}", apart.front(), reader);
        if (!other_step_) return put_first(std::move(finding));
        // sort_findings() puts it before its reader.
        finding.place = finding.in_golden ? place_of_golden(step, op) : op.target_index;
        comparison_.findings.push_back(std::move(finding));
        return;
      }
    }
  }

  std::string name_of_reader() const { return std::string(comparison_.findings[at_].op->target.front()->op_name); }

  // Where the golden op would run in the target: before what it makes there.
  std::uint32_t place_of_golden(const ComparedStep& step, const ComparedOp& op) const {
    std::uint32_t place = 0;
    for (const ComparedOp& other : step.ops) {
      if (other.target_index == kNoOp || other.golden_index == kNoOp || other.golden_index > op.golden_index) continue;
      place = std::max(place, other.target_index);
    }
    return place;
  }

  DumpComparison& comparison_;
  std::size_t at_;
  std::optional<std::size_t> other_step_;
  std::set<std::uint32_t> mine_, theirs_;
  bool is_shown_ = false, golden_is_shown_ = false;
};

}  // namespace

bool takes_memory(const CatalogOp& op) { return bare_type(op.op_type) == "set"; }

bool takes_memory(const ComparedOp& op) { return takes_memory(*(op.target.empty() ? op.golden : op.target).front()); }

bool shows_how_it_is_made(const CompareSide& side, std::uint32_t last) {
  return last != kNoOp &&
         std::ranges::none_of(makers_of(side, last), [&](std::uint32_t op) { return takes_memory(*side.ops[op].op); });
}

bool only_passes_data_on(const ComparedOp& op, bool other_is_shown) {
  if (takes_memory(op)) return true;
  if (!moves_or_casts(op.kind)) return false;
  const std::string_view type = (op.target.empty() ? op.golden : op.target).front()->op_type;
  return !other_is_shown || !arranges_elements(bare_type(type));
}

std::uint32_t op_with(const CompareSide& side, std::uint64_t sequence) {
  const auto at = std::ranges::find_if(side.ops, [&](const CompareOp& one) { return one.op->sequence == sequence; });
  return at == side.ops.end() || sequence == kNoSequence ? kNoOp : static_cast<std::uint32_t>(at - side.ops.begin());
}

void name_makers_of_data(DumpComparison& comparison) {
  std::set<std::string_view> named;
  for (std::size_t i = 0; i < comparison.findings.size(); ++i) {
    const CompareFinding& finding = comparison.findings[i];
    if (finding.kind != FindingKind::data || finding.tensor == nullptr) continue;
    if (!named.insert(finding.op->target.empty() ? "" : finding.op->target.front()->op_name).second) continue;
    const std::size_t before = comparison.findings.size();
    MakerSearch(comparison, i).run();
    if (comparison.findings.size() > before && comparison.findings[i].kind != FindingKind::data)
      ++i;  // it was put before
  }
}

}  // namespace sonde
