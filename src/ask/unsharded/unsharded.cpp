#include "ask/unsharded/unsharded.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "ask/compare/compare_words.h"
#include "ask/unsharded/causes.h"
#include "ask/unsharded/whole_step.h"
#include "ground/base/shape.h"
#include "plan/config/op_types.h"
#include "read/operators/collective_call.h"

namespace sonde {
namespace {

// A rank gives to others, or gets from them.
bool works_with_others(const CatalogRank& rank) {
  return std::ranges::any_of(rank.steps, [](const CatalogStep& step) {
    return std::ranges::any_of(collective_calls(step), [](const CollectiveCall& call) {
      return call.way != CollectiveWay::all || call.ranks.size() > 1;
    });
  });
}

bool is_sharded(const Catalog& catalog) {
  return catalog.ranks.size() > 1 && std::ranges::all_of(catalog.ranks, works_with_others);
}

std::string_view way_of(const Joined& joined) {
  if (joined.is_cut && joined.is_sum) return "concatenated and added up";
  if (joined.is_of_squares) return "added up in squares";
  return joined.is_cut ? "concatenated" : joined.is_sum ? "added up" : "the same on each";
}

// "rank 3 is missing"; empty: all ranks are there that others work with.
std::string missing_ranks(const Catalog& catalog) {
  for (const CatalogRank& rank : catalog.ranks) {
    for (const CatalogStep& step : rank.steps) {
      for (const CollectiveCall& call : collective_calls(step)) {
        for (const std::int64_t other : call.ranks) {
          const bool is_there = std::ranges::any_of(
              catalog.ranks, [&](const CatalogRank& one) { return static_cast<std::int64_t>(one.rank) == other; });
          if (!is_there)
            return fmt::format("rank {} works with rank {}, which the dump does not have", rank.rank, other);
        }
      }
    }
  }
  return {};
}

// Ranks that send to each other have stages of one pipeline, in their order.
std::vector<std::size_t> stages_of(const std::vector<const CatalogStep*>& steps,
                                   const std::vector<std::uint32_t>& ranks) {
  std::vector<std::size_t> pipeline(ranks.size());
  for (std::size_t i = 0; i < ranks.size(); ++i) pipeline[i] = i;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    for (const CollectiveCall& call : collective_calls(*steps[i])) {
      if (call.way == CollectiveWay::all || !call.peer) continue;
      const std::int64_t number = *call.peer;
      const bool is_of_group = number >= 0 && static_cast<std::size_t>(number) < call.ranks.size();
      const auto peer = is_of_group ? call.ranks[static_cast<std::size_t>(number)] : number;
      const auto at = std::ranges::find(ranks, static_cast<std::uint32_t>(peer));
      if (at == ranks.end()) continue;
      const std::size_t from = pipeline[i], to = pipeline[static_cast<std::size_t>(at - ranks.begin())];
      std::ranges::replace(pipeline, std::max(from, to), std::min(from, to));
    }
  }
  std::vector<std::size_t> stages(ranks.size());
  std::map<std::size_t, std::size_t> next;
  for (std::size_t i = 0; i < ranks.size(); ++i) stages[i] = next[pipeline[i]]++;
  return stages;
}

TensorDifference exchanged(TensorDifference difference) {
  std::swap(difference.dtype, difference.golden_dtype);
  std::swap(difference.shape, difference.golden_shape);
  std::swap(difference.non_finite, difference.golden_non_finite);
  std::swap(difference.worst_value, difference.worst_golden);
  std::swap(difference.statistics, difference.golden_statistics);
  std::swap(difference.sums.squares, difference.sums.golden_squares);
  std::swap(difference.sums.non_finite, difference.sums.golden_non_finite);
  return difference;
}

// The sharded run is the golden one.
void exchange_sides(DumpComparison& comparison) {
  for (ComparedStep& step : comparison.steps) {
    std::swap(step.target, step.golden);
    for (TensorDifference& difference : step.joined) difference = exchanged(std::move(difference));
    for (ComparedOp& op : step.ops) {
      std::swap(op.target, op.golden);
      std::swap(op.target_index, op.golden_index);
      for (std::vector<ComparedTensor>* tensors : {&op.inputs, &op.outputs}) {
        for (ComparedTensor& tensor : *tensors) std::swap(tensor.target, tensor.golden);
      }
    }
  }
  for (CompareFinding& finding : comparison.findings) {
    finding.in_golden = !finding.in_golden;
    if (finding.kind == FindingKind::inserted || finding.kind == FindingKind::missing) {
      finding.kind = finding.kind == FindingKind::missing ? FindingKind::inserted : FindingKind::missing;
    }
  }
}

// Parameters in the first step of a rank, with the smallest shape that they have there.
std::map<std::string, Dims> parameters_of(const CatalogRank& rank) {
  std::map<std::string, Dims> found;
  if (rank.steps.empty()) return found;
  for (const CatalogOp& op : rank.steps.front().ops) {
    for (const CatalogTensor& tensor : op.tensors) {
      if (!tensor.is_input || !tensor.has_shape || !tensor.parameter.is_parameter()) continue;
      const auto [known, is_new] = found.try_emplace(without_wrappers(tensor.parameter, '.'), tensor.shape);
      if (!is_new && element_count(known->second) > element_count(tensor.shape)) known->second = tensor.shape;
    }
  }
  return found;
}

bool sends_to_others(const Catalog& catalog) {
  return std::ranges::any_of(catalog.ranks, [](const CatalogRank& rank) {
    return std::ranges::any_of(rank.steps, [](const CatalogStep& step) {
      return std::ranges::any_of(collective_calls(step),
                                 [](const CollectiveCall& call) { return call.way != CollectiveWay::all; });
    });
  });
}

// Ranks that send to each other have stages of a pipeline, unless each has all parameters: then they pass parts of a
// sequence around. `other`: the run beside it.
bool has_stages(const Catalog& catalog, const Catalog& other) {
  if (!sends_to_others(catalog)) return false;
  std::set<std::string> all;
  for (const CatalogRank& rank : other.ranks) {
    for (const auto& [name, shape] : parameters_of(rank)) all.insert(name);
  }
  return std::ranges::any_of(catalog.ranks,
                             [&](const CatalogRank& rank) { return parameters_of(rank).size() < all.size(); });
}

class Unsharded {
 public:
  // `target` is the sharded run; `golden` is on one process, or sharded in another way. `exchanged`: the target is the
  // golden one of the question.
  Unsharded(const Catalog& target, const Catalog& golden, const CompareOptions& options, bool exchanged)
      : target_(target),
        golden_(golden),
        options_(options),
        exchanged_(exchanged),
        has_stages_(has_stages(target, golden)),
        golden_has_stages_(has_stages(golden, target)) {}

  Result<DumpComparison> compare();

 private:
  void compare_step(const CatalogStep& golden);
  std::optional<std::vector<RankStep>> ranks_in(const Catalog& catalog, StepId id, bool in_stages);
  void say_what_only_others_have(const std::vector<RankStep>& golden);
  void take_places_of(const SiteCalls& golden);  // by the ranks
  std::shared_ptr<CompareSide> side_before(const CatalogRank& rank) const;
  void add_op(const WholeStep& whole, std::uint32_t golden);
  void add_cause(const ShardCause& cause);
  ComparedTensor compared(ComparedStep& step, const CatalogTensor* target, const CatalogTensor* golden,
                          const Joined& joined);
  std::string text_of(const ShardCause& cause, const ComparedOp& op, ComparedTensor tensor, FindingKind kind) const;
  void say_how();

  const Catalog& target_;
  const Catalog& golden_;
  const CompareOptions& options_;
  const bool exchanged_, has_stages_, golden_has_stages_;
  DumpComparison comparison_;
  std::vector<RankStep> ranks_;  // of the step at hand
  std::size_t first_step_ = 0;   // of it, in the comparison's steps: one for each rank
  Learned learned_;
  std::map<std::string_view, std::uint64_t> how_;  // tensors, by the way they are joined
};

// Of the step that was compared before; null: there is none.
std::shared_ptr<CompareSide> Unsharded::side_before(const CatalogRank& rank) const {
  for (auto step = comparison_.steps.rbegin(); step != comparison_.steps.rend(); ++step) {
    for (const std::shared_ptr<CompareSide>& side : {step->target, step->golden}) {
      if (side->rank == &rank) return side;
    }
  }
  return nullptr;
}

// The step of all ranks; nothing: one does not have it.
std::optional<std::vector<RankStep>> Unsharded::ranks_in(const Catalog& catalog, StepId id, bool in_stages) {
  std::vector<RankStep> found;
  std::vector<const CatalogStep*> steps;
  std::vector<std::uint32_t> numbers;
  for (const CatalogRank& rank : catalog.ranks) {
    const auto same = std::ranges::find(rank.steps, id, &CatalogStep::id);
    if (same == rank.steps.end()) {
      comparison_.left_out.push_back(fmt::format(
          "step {} is not compared: rank {} does not have it, and its parts are missing", id.number, rank.rank));
      return std::nullopt;
    }
    steps.push_back(&*same);
    numbers.push_back(rank.rank);
    auto side = std::make_shared<CompareSide>(side_of(rank, *same, *comparison_.families));
    SiteCalls calls(*side);
    found.push_back({&rank, std::move(side), 0, std::move(calls), side_before(rank)});
  }
  if (!in_stages) return found;
  const std::vector<std::size_t> stages = stages_of(steps, numbers);
  for (std::size_t i = 0; i < found.size(); ++i) found[i].stage = stages[i];
  return found;
}

// Ops that the first golden rank does not have: an optimizer's that shares its parameters out.
void Unsharded::say_what_only_others_have(const std::vector<RankStep>& golden) {
  for (const RankStep& rank : golden) {
    std::size_t only = 0;
    for (const auto& [site, calls] : rank.calls.all()) {
      const std::vector<SiteCall>* first = golden.front().calls.at(site);
      only += calls.size() - std::min(calls.size(), first == nullptr ? 0 : first->size());
    }
    if (only == 0) continue;
    comparison_.left_out.push_back(
        fmt::format("step {}: {} ops of golden rank {} are not compared: rank {} has none like them",
                    rank.side->step->id.number, only, rank.rank->rank, golden.front().rank->rank));
  }
}

void Unsharded::take_places_of(const SiteCalls& golden) {
  SiteCalls::Works of_ranks, shared;
  for (const RankStep& rank : ranks_) of_ranks.merge(rank.calls.works());
  std::ranges::set_intersection(golden.works(), of_ranks, std::inserter(shared, shared.end()));
  for (RankStep& rank : ranks_) rank.calls.take_places_of(golden, shared);
}

void Unsharded::compare_step(const CatalogStep& golden) {
  const std::optional<std::vector<RankStep>> golden_ranks = ranks_in(golden_, golden.id, golden_has_stages_);
  std::optional<std::vector<RankStep>> ranks = ranks_in(target_, golden.id, has_stages_);
  if (!golden_ranks || !ranks) return;
  ranks_ = std::move(*ranks);
  const std::shared_ptr<CompareSide> golden_side = golden_ranks->front().side;
  take_places_of(golden_ranks->front().calls);
  say_what_only_others_have(*golden_ranks);
  first_step_ = comparison_.steps.size();
  for (const RankStep& rank : ranks_) {
    ComparedStep& step = comparison_.steps.emplace_back();
    step.target = rank.side;
    step.golden = golden_side;
  }
  const WholeStep whole(ranks_, *golden_ranks, options_, learned_);
  for (std::uint32_t g = 0; g < golden_side->ops.size(); ++g) add_op(whole, g);
  comparison_.unreadable.insert(comparison_.unreadable.end(), whole.joiner().problems().begin(),
                                whole.joiner().problems().end());
  const ShardCauses causes = causes_of(whole);
  for (const ShardCause& cause : causes.causes) add_cause(cause);
  for (const std::uint32_t op : causes.harmless)
    learned_.harmless.emplace(whole.address(op).site, whole.address(op).number);
  const bool is_right = causes.causes.empty() && causes.unfollowed.empty();
  learned_.updates_unseen = false;
  for (std::uint32_t g = 0; g < golden_side->ops.size(); ++g) {
    const bool is_unknown = whole.label(g).state == WholeStep::State::unknown;
    if (is_right && is_unknown) learned_.done_elsewhere.emplace(whole.address(g).site, whole.address(g).number);
    const bool is_update = whole.address(g).site.place.kind == SiteKind::optimizer;
    learned_.updates_unseen = learned_.updates_unseen || (is_update && is_unknown);
  }
  if (causes.causes.empty() && !causes.unfollowed.empty()) {
    const CatalogOp& first = *golden_side->ops[causes.unfollowed.front()].op;
    comparison_.left_out.push_back(fmt::format("step {}: {} golden ops differ, from {} on, and no cause was found",
                                               golden.id.number, causes.unfollowed.size(), first.op_name));
  }
}

ComparedTensor Unsharded::compared(ComparedStep& step, const CatalogTensor* target, const CatalogTensor* golden,
                                   const Joined& joined) {
  ComparedTensor tensor;
  tensor.target = target;
  tensor.golden = golden;
  tensor.difference = &step.joined.emplace_back(joined.difference);
  tensor.beyond = joined.possible && !joined.fits;
  tensor.note = joined.words;
  tensor.allowance.epsilon = coarser_spacing(joined.difference);
  tensor.allowance.rounding = {joined.tolerance * joined.difference.rms, joined.tolerance * joined.difference.max_size};
  return tensor;
}

void Unsharded::add_op(const WholeStep& whole, std::uint32_t golden) {
  const WholeStep::Label& label = whole.label(golden);
  const std::optional<WholeStep::Shown> shown = label.where ? whole.shown(*label.where) : std::nullopt;
  ComparedStep& step = comparison_.steps[first_step_ + (shown ? shown->rank : 0)];
  ComparedOp& op = step.ops.emplace_back();
  op.golden_index = golden;
  op.golden = {step.golden->ops[golden].op};
  op.kind = step.golden->ops[golden].kind;
  if (!shown) {
    op.verdict = op.kind == OpKind::copy ? OpVerdict::unknown : OpVerdict::unmatched;
    return;
  }
  op.target_index = shown->op;
  op.target = {step.target->ops[shown->op].op};
  op.how = MatchedBy::name;
  bool equal = true;
  for (std::size_t i = 0; i < label.outputs.size(); ++i) {
    const Joined& joined = label.outputs[i];
    const CatalogTensor* golden_tensor = step.golden->ops[golden].outputs[i];
    const CatalogTensor* tensor = step.target->output(shown->op, golden_tensor->slot);
    if (!joined.possible || tensor == nullptr) continue;
    op.outputs.push_back(compared(step, tensor, golden_tensor, joined));
    equal = equal && joined.difference.equal;
    if (joined.fits) ++how_[way_of(joined)];
  }
  op.verdict = label.state == WholeStep::State::unknown   ? OpVerdict::unknown
               : label.state == WholeStep::State::differs ? OpVerdict::propagated
               : equal                                    ? OpVerdict::identical
                                                          : OpVerdict::within_tolerance;
}

// The slot of the target's op that the finding shows: what the golden tensor is beside.
const CatalogTensor* shown_tensor(const CompareSide& side, const ShardCause& cause) {
  if (cause.tensor != nullptr) return cause.tensor;
  const CompareOp& op = side.ops[cause.op];
  const bool is_input = cause.golden_tensor->is_input && cause.kind != FindingKind::inserted;
  if (!is_input) return op.outputs.empty() ? nullptr : op.outputs.front();
  for (const CompareInput& input : op.inputs) {
    if (input.tensor->slot == cause.golden_tensor->slot) return input.tensor;
  }
  return op.inputs.front().tensor;
}

std::string Unsharded::text_of(const ShardCause& cause, const ComparedOp& op, ComparedTensor tensor,
                               FindingKind kind) const {
  if (cause.joined.fits && cause.kind == FindingKind::op) return cause.what;
  const std::string in_rank =
      exchanged_ ? fmt::format("; in golden rank {}", ranks_[cause.rank].rank->rank) : std::string();
  const CatalogOp &own = *op.target.front(), &golden = *op.golden.front();
  const std::vector<std::string> apart = exchanged_ ? fractions_apart(golden, own) : fractions_apart(own, golden);
  if (kind == FindingKind::number) return fmt::format("is called with {}{}", fmt::join(apart, "; "), in_rank);
  const TensorDifference difference = exchanged_ ? exchanged(*tensor.difference) : *tensor.difference;
  tensor.difference = &difference;
  std::string text = difference_text(kind, tensor);
  for (const std::string& one : apart) {
    if (cause.kind == FindingKind::op) text += "; called with " + one;
  }
  const bool is_left_out = cause.kind == FindingKind::missing;
  if (cause.kind == FindingKind::inserted || is_left_out) {
    text = fmt::format("has no counterpart in the {}, and {}, which reads it, differs: {}",
                       name_of_other(exchanged_ != is_left_out), op.golden.front()->op_name, text);
  }
  if (!cause.what.empty()) text += "; " + cause.what;
  return is_left_out ? text : text + in_rank;
}

void Unsharded::add_cause(const ShardCause& cause) {
  const bool is_parameter = cause.golden_tensor->is_input && cause.golden_tensor->parameter.is_parameter();
  const bool is_state = is_parameter && !comparison_.findings.empty();
  if (is_state && comparison_.findings.front().step < first_step_) return;  // what the step before has left
  const std::size_t index = first_step_ + cause.rank - (cause.in_step_before ? ranks_.size() : 0);
  ComparedStep& step = comparison_.steps[index];
  const bool is_left_out = cause.kind == FindingKind::missing;
  const CatalogOp* culprit = is_left_out ? step.golden->ops[cause.left_out].op : step.target->ops[cause.op].op;
  const bool is_known =
      std::ranges::any_of(comparison_.findings, [&](const CompareFinding& known) { return known.culprit == culprit; });
  if (is_known) return;
  const CatalogTensor* tensor = shown_tensor(*step.target, cause);
  if (tensor == nullptr) return;
  ComparedOp& op = step.ops.emplace_back();
  op.target_index = cause.op;
  op.golden_index = cause.golden;
  op.target = {step.target->ops[cause.op].op};
  op.golden = {comparison_.steps[first_step_].golden->ops[cause.golden].op};
  op.kind = comparison_.steps[first_step_].golden->ops[cause.golden].kind;
  op.verdict = OpVerdict::introduced;
  op.how = MatchedBy::name;
  std::vector<ComparedTensor>& slots = tensor->is_input ? op.inputs : op.outputs;
  slots.push_back(compared(step, tensor, cause.golden_tensor, cause.joined));
  CompareFinding& finding = comparison_.findings.emplace_back();
  const bool is_non_finite = cause.joined.difference.different_non_finite > 0 && cause.kind == FindingKind::op;
  finding.kind = is_non_finite ? FindingKind::non_finite : cause.kind;
  finding.step = index;
  finding.op = &op;
  finding.culprit = culprit;
  finding.in_golden = is_left_out;
  finding.tensor = &slots.back();
  finding.place = cause.golden;
  finding.uncertain = cause.uncertain;
  finding.what = text_of(cause, op, slots.back(), finding.kind);
  op.reason = finding.what;
}

void Unsharded::say_how() {
  std::string text;
  for (const auto& [words, count] : how_) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, words);
  const std::string with =
      golden_.ranks.size() == 1 ? "" : fmt::format(", with {} of the other run", golden_.ranks.size());
  comparison_.joined = fmt::format("{} ranks are joined{}: {}", target_.ranks.size(), with, text);
}

Result<DumpComparison> Unsharded::compare() {
  for (const CatalogStep& step : golden_.ranks.front().steps) {
    if (options_.part.takes(step) && !step.ops.empty()) compare_step(step);
  }
  say_how();
  std::ranges::stable_sort(comparison_.findings, {}, [&](const CompareFinding& finding) {  // as the golden ones ran
    return finding.step / target_.ranks.size();
  });
  if (exchanged_) exchange_sides(comparison_);
  for (const ComparedStep& step : comparison_.steps) {
    for (const ComparedOp& op : step.ops) {
      for (const ComparedTensor& output : op.outputs) {
        comparison_.compared_tensors += output.difference->by != ComparedBy::nothing;
      }
    }
  }
  conclude(exchanged_ ? golden_ : target_, exchanged_ ? target_ : golden_, options_, comparison_);
  return std::move(comparison_);
}

bool has_flat_parameters(const CatalogRank& rank) {
  return !rank.steps.empty() && std::ranges::any_of(rank.steps.front().ops, [](const CatalogOp& op) {
    return std::ranges::any_of(op.tensors, [](const CatalogTensor& tensor) {
      return tensor.parameter.find("_flat_param") != std::string_view::npos;
    });
  });
}

// Not if a parameter has another shape on a rank of the one, or only one of them has flat parameters or stages.
bool are_sharded_alike(const Catalog& one, const Catalog& other) {
  if (one.ranks.size() != other.ranks.size() || has_stages(one, other) != has_stages(other, one)) return false;
  for (std::size_t i = 0; i < one.ranks.size(); ++i) {
    const auto parameters = parameters_of(one.ranks[i]), others = parameters_of(other.ranks[i]);
    if (has_flat_parameters(one.ranks[i]) != has_flat_parameters(other.ranks[i])) return false;
    for (const auto& [name, shape] : parameters) {
      const auto same = others.find(name);
      if (same != others.end() && same->second != shape) return false;
    }
  }
  return true;
}

// Lines of the forward pass in the first step of the first rank.
std::set<std::pair<std::string_view, std::uint32_t>> lines_of(const Catalog& catalog) {
  std::set<std::pair<std::string_view, std::uint32_t>> lines;
  const CatalogRank& rank = catalog.ranks.front();
  if (rank.steps.empty()) return lines;
  for (const CatalogOp& op : rank.steps.front().ops) {
    if (op.phase != Phase::forward || op.line == 0) continue;
    const std::string_view file = op.source_file;
    lines.emplace(file.substr(file.rfind('/') + 1), op.line);
  }
  return lines;
}

bool have_one_network(const Catalog& one, const Catalog& other) {
  const auto lines = lines_of(one), others = lines_of(other);
  const auto common = std::ranges::count_if(lines, [&](const auto& line) { return others.contains(line); });
  return common > 0 && 2 * static_cast<std::size_t>(common) >= std::min(lines.size(), others.size());
}

}  // namespace

bool are_two_shardings(const Catalog& target, const Catalog& golden) {
  return is_sharded(target) && is_sharded(golden) && !are_sharded_alike(target, golden) &&
         !(has_stages(target, golden) && has_stages(golden, target)) && have_one_network(target, golden);
}

Result<DumpComparison> compare_runs(const Catalog& target, const Catalog& golden, const CompareOptions& options) {
  const auto are_joined = [](const Catalog& ranks, const Catalog& whole) {
    return whole.ranks.size() == 1 && is_sharded(ranks) && !works_with_others(whole.ranks.front());
  };
  const bool both = are_two_shardings(target, golden);
  const bool exchanged = both ? has_stages(golden, target) : are_joined(golden, target);
  if (!both && !exchanged && !are_joined(target, golden)) return compare_dumps(target, golden, options);
  if (options.golden_part) {
    return Error{
        ErrorCode::invalid_argument,
        "a sharded run is compared with one on one process, or with another sharding, by equal steps: leave out "
        "the golden step and graph"};
  }
  const Catalog& sharded = exchanged ? golden : target;
  for (const Catalog* catalog : {&target, &golden}) {
    const std::string missing = missing_ranks(*catalog);
    if (missing.empty()) continue;
    return Error{ErrorCode::not_found, fmt::format("'{}': {}: tensors cannot be joined without their parts",
                                                   catalog->path.string(), missing)};
  }
  return Unsharded(sharded, exchanged ? target : golden, options, exchanged).compare();
}

}  // namespace sonde
