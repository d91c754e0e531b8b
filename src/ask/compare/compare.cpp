#include "ask/compare/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "ask/compare/compare_quantised.h"
#include "ask/compare/left_out.h"
#include "ask/compare/maker_of_data.h"
#include "ask/compare/name_map.h"
#include "ask/compare/passed_on.h"
#include "ask/compare/relation_map.h"
#include "ground/base/text.h"
#include "read/catalog/missing_ranks.h"
#include "read/catalog/several_runs.h"
#include "read/catalog/step_order.h"
#include "read/catalog/unfinished_runs.h"

namespace sonde {
namespace {

struct StepPair {
  const CatalogRank* target_rank;
  const CatalogStep* target;
  const CatalogRank* golden_rank;
  const CatalogStep* golden;
};

std::vector<const CatalogStep*> steps_of(const CatalogRank& rank, const DumpPart& part) {
  std::vector<const CatalogStep*> steps;
  // Steps of two runs are never mixed: the same number may be of other data and another program.
  const bool only_last = has_steps_twice(rank);
  for (const CatalogStep& step : rank.steps) {
    if (only_last && step.run + 1 != rank.runs.size()) continue;
    if (part.takes(step) && !step.ops.empty()) steps.push_back(&step);
  }
  return steps;
}

std::string step_text(const CatalogStep& step) {
  return step.id.graph == 0 ? std::to_string(step.id.number)
                            : fmt::format("{} of graph {}", step.id.number, step.id.graph);
}

// Of the golden dump other steps were asked for: the first with the first.
void pair_in_order(const StepPair& ranks, const std::vector<const CatalogStep*>& left,
                   const std::vector<const CatalogStep*>& right, std::vector<StepPair>& pairs,
                   std::vector<std::string>& notes) {
  for (std::size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
    pairs.push_back({ranks.target_rank, left[i], ranks.golden_rank, right[i]});
    notes.push_back(fmt::format("step {} is compared with golden step {}", step_text(*left[i]), step_text(*right[i])));
  }
  if (left.size() != right.size()) {
    notes.push_back(
        fmt::format("{} steps are compared with {} golden ones: the others are left out", left.size(), right.size()));
  }
}

// By number; where no number is on both sides, by order.
void pair_steps(const CatalogRank& target, const CatalogRank& golden, const CompareOptions& options,
                std::vector<StepPair>& pairs, std::vector<std::string>& notes) {
  const std::vector<const CatalogStep*> left = steps_of(target, options.part);
  const std::vector<const CatalogStep*> right = steps_of(golden, options.golden_part.value_or(options.part));
  if (options.golden_part) return pair_in_order({&target, nullptr, &golden, nullptr}, left, right, pairs, notes);
  std::vector<const CatalogStep*> alone;
  std::size_t found = 0;
  for (const CatalogStep* step : left) {
    const auto at = std::ranges::find_if(right, [&](const CatalogStep* other) { return other->id == step->id; });
    if (at == right.end()) {
      alone.push_back(step);
      continue;
    }
    pairs.push_back({&target, step, &golden, *at});
    ++found;
  }
  if (found == 0 && !left.empty() && !right.empty()) {
    for (std::size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
      pairs.push_back({&target, left[i], &golden, right[i]});
      if (!(left[i]->id == right[i]->id)) {
        notes.push_back(
            fmt::format("no step has the same number on both sides; step {} is compared with golden step {}",
                        step_text(*left[i]), step_text(*right[i])));
      }
    }
    return;
  }
  for (const CatalogStep* step : alone) {
    notes.push_back(fmt::format("rank {}: step {} is not in the golden dump", target.rank, step_text(*step)));
  }
}

std::vector<StepPair> pair_all(const Catalog& target, const Catalog& golden, const CompareOptions& options,
                               std::vector<std::string>& notes) {
  std::vector<StepPair> pairs;
  for (const CatalogRank& rank : target.ranks) {
    if (!options.part.takes(rank)) continue;
    const auto same = std::ranges::find(golden.ranks, rank.rank, &CatalogRank::rank);
    const CatalogRank* other = same != golden.ranks.end() ? &*same : nullptr;
    if (other == nullptr && golden.ranks.size() == 1) {  // replicas of one golden run
      other = &golden.ranks.front();
      notes.push_back(fmt::format("rank {} is compared with golden rank {}, the only one", rank.rank, other->rank));
    }
    if (other == nullptr) {
      notes.push_back(fmt::format("rank {} is not in the golden dump", rank.rank));
      continue;
    }
    pair_steps(rank, *other, options, pairs, notes);
  }
  return pairs;
}

// Steps of several graphs may run in each other, as an inference in the middle of a training step.
std::vector<const CompareSide*> run_with(const DumpComparison& comparison, const CompareSide& side) {
  const auto reaches = [](const CompareSide& a, const CompareSide& b) {
    return a.ops.front().op->sequence <= b.ops.back().op->sequence;
  };
  std::vector<const CompareSide*> found = {&side};
  for (const ComparedStep& step : comparison.steps) {
    const CompareSide& other = *step.target;
    if (other.rank != side.rank || other.step->id.graph == side.step->id.graph) continue;
    if (side.ops.empty() || other.ops.empty() || !reaches(side, other) || !reaches(other, side)) continue;
    found.push_back(&other);
  }
  return found;
}

// By step over all ranks, in the order in which they ran; then by the progress of the rank.
void sort_findings(DumpComparison& comparison) {
  std::vector<const CatalogRank*> ranks;
  for (const ComparedStep& step : comparison.steps) {
    if (ranks.empty() || ranks.back() != step.target->rank)
      ranks.push_back(step.target->rank);  // they come rank by rank
  }
  const StepOrder order(ranks);
  const auto place = [&](const CompareFinding& finding) {
    const CompareSide& side = *comparison.steps[finding.step].target;
    const std::vector<const CompareSide*> together = run_with(comparison, side);
    std::pair key(order.place_of(*side.rank, side.step->id), static_cast<std::size_t>(finding.place));
    if (together.size() == 1 || finding.place >= side.ops.size()) return key;
    key.second = 0;
    for (const CompareSide* one : together) {
      key.first = std::min(key.first, order.place_of(*one->rank, one->step->id));
      key.second += static_cast<std::size_t>(std::ranges::count_if(
          one->ops, [&](const CompareOp& op) { return op.op->sequence < side.ops[finding.place].op->sequence; }));
    }
    return key;
  };
  std::vector<std::pair<decltype(place(comparison.findings.front())), std::size_t>> places;
  for (std::size_t i = 0; i < comparison.findings.size(); ++i) places.emplace_back(place(comparison.findings[i]), i);
  std::ranges::sort(places);
  std::vector<CompareFinding> sorted;
  for (const auto& [key, i] : places) sorted.push_back(std::move(comparison.findings[i]));
  comparison.findings = std::move(sorted);
}

// Each once, with the first step that has it. That a step leaves the same is said only where no step has a finding.
void gather_notes(DumpComparison& comparison) {
  const auto add = [](std::vector<std::string>& to, const std::string& note) {
    if (std::ranges::find(to, note) == to.end()) to.push_back(note);
  };
  for (const ComparedStep& step : comparison.steps) {
    for (const std::string& note : step.notes) add(comparison.left_out, note);
    for (const std::string& note : step.notes_of_both) {
      if (comparison.findings.empty() || note != kSameInOtherWays) add(comparison.notes, note);
    }
  }
}

void count_up(DumpComparison& comparison) {
  std::map<const TensorDifference*, bool> counted;
  for (const ComparedStep& step : comparison.steps) {
    for (const ComparedOp& op : step.ops) {
      for (const std::vector<ComparedTensor>* side : {&op.inputs, &op.outputs}) {
        for (const ComparedTensor& tensor : *side) {
          if (!counted.try_emplace(tensor.difference, true).second) continue;
          const TensorDifference& difference = *tensor.difference;
          if (difference.unreadable) comparison.unreadable.push_back(difference.problem);
          if (difference.by == ComparedBy::nothing) continue;
          ++comparison.compared_tensors;
          if (difference.by != ComparedBy::values) continue;
          comparison.compared_bytes +=
              difference.count * (info(difference.dtype).item_bytes + info(difference.golden_dtype).item_bytes);
        }
      }
    }
  }
}

// Nothing of one dump belongs to anything of the other: no answer.
void say_whether_anything_corresponds(DumpComparison& comparison) {
  std::set<std::string_view> types, parameters;
  bool any_type = false, any_parameter = false;
  for (const ComparedStep& step : comparison.steps) {
    for (const ComparedOp& op : step.ops) {
      if (!op.target.empty() && !op.golden.empty()) return;
    }
    const auto each = [](const CompareSide& side, const auto& look) {
      for (const CompareOp& op : side.ops) {
        look(true, op.op->op_type);
        for (const CompareInput& input : op.inputs) {
          if (input.tensor->parameter.is_parameter()) look(false, input.name);
        }
      }
    };
    each(*step.golden, [&](bool is_type, std::string_view text) { (is_type ? types : parameters).insert(text); });
    each(*step.target, [&](bool is_type, std::string_view text) {
      bool& any = is_type ? any_type : any_parameter;
      any = any || (is_type ? types : parameters).contains(text);
    });
  }
  comparison.findings.clear();
  const std::string_view why = any_type && any_parameter
                                   ? "operators of one type have other shapes and read other tensors"
                               : any_type      ? "no parameter is in both, and operators of one type differ in shape"
                               : any_parameter ? "no type of operator is in both"
                                               : "no type of operator and no parameter is in both";
  comparison.left_out.push_back(fmt::format("nothing corresponds: {}", why));
}

std::uint64_t tensors_not_read(const std::vector<StepPair>& pairs) {
  std::uint64_t count = 0;
  for (const StepPair& pair : pairs) {
    for (const CatalogStep* step : {pair.target, pair.golden}) {
      for (const CatalogOp& op : step->ops) {
        count += static_cast<std::uint64_t>(std::ranges::count_if(
            op.tensors, [](const CatalogTensor& tensor) { return tensor.skipped.reason == NotRead::by_overhead; }));
      }
    }
  }
  return count;
}

void note_ranks(const Catalog& catalog, std::string_view of, DumpComparison& into) {
  for (const std::string& note : rank_notes(catalog)) into.notes.push_back(std::string(of) + note);
}

// True: the dump may lack steps that the program ran.
bool note_early_ends(const Catalog& catalog, const DumpPart& part, std::string_view of, DumpComparison& into) {
  const std::vector<std::string> ends = early_ends(catalog, part);
  for (const std::string& end : ends) into.notes.push_back(std::string(of) + end);
  return !ends.empty();
}

bool has_op_of(const CatalogStep& step, Phase phase) {
  return std::ranges::any_of(step.ops, [&](const CatalogOp& op) { return phase_of(op) == phase; });
}

// True: in its last step one of the two did nothing of what the other did there, as a program that an exception ended.
bool note_nothing_done(const Catalog& target, const Catalog& golden, DumpComparison& into) {
  const auto last_step = [](const Catalog& catalog) {
    return catalog.ranks.empty() || catalog.ranks[0].steps.empty() || !catalog.ranks[0].has_journal
               ? nullptr
               : &catalog.ranks[0].steps.back();
  };
  const CatalogStep *mine = last_step(target), *theirs = last_step(golden);
  if (mine == nullptr || theirs == nullptr || (mine->id.number != 0 && theirs->id.number != 0)) return false;
  for (const bool in_golden : {false, true}) {
    const CatalogStep& short_one = in_golden ? *theirs : *mine;
    const CatalogRank& other = (in_golden ? target : golden).ranks[0];
    const auto at = std::ranges::find_if(other.steps, [&](const CatalogStep& step) { return step.id == short_one.id; });
    if (at == other.steps.end() || !has_op_of(*at, Phase::forward) || !has_op_of(*at, Phase::backward)) continue;
    if (has_op_of(short_one, Phase::forward) || has_op_of(short_one, Phase::backward)) continue;
    into.notes.push_back(fmt::format(
        "{}step {}: no module is called and no gradient computed, as {} there: did an exception end the "
        "program?",
        in_golden ? "golden: " : "", step_text(short_one), in_golden ? "in the target" : "in the golden dump"));
    return true;
  }
  return false;
}

std::string part_words(const CompareQuestion& question) {
  std::string words;
  const auto add = [&](std::string_view option, const std::string& value) {
    if (!value.empty()) words += fmt::format(" {} {}", option, shell_word(value));
  };
  const auto number = [](const auto& value) { return value ? std::to_string(*value) : std::string(); };
  add("--step", question.step);
  add("--graph", number(question.graph));
  add("--golden-step", question.golden_step);
  add("--golden-graph", number(question.golden_graph));
  add("--rank", number(question.rank));
  add("--request", question.request);
  return words;
}

}  // namespace

std::string_view word_of(OpVerdict verdict) {
  constexpr std::string_view kWords[] = {"identical",  "within_tolerance", "propagated",
                                         "introduced", "unmatched",        "unknown"};
  return kWords[static_cast<std::size_t>(verdict)];
}

std::string_view word_of(FindingKind kind) {
  constexpr std::string_view kWords[] = {"op",     "parameter", "data",       "number", "inserted", "missing",
                                         "wiring", "shape",     "non-finite", "type",   "changed"};
  return kWords[static_cast<std::size_t>(kind)];
}

Result<CompareOptions> compare_options(const CompareQuestion& question) {
  CompareOptions wanted;
  wanted.tolerance = question;
  wanted.threads = question.threads;
  wanted.part_words = part_words(question);
  const Result<StepSet> steps = parse_steps(question.step);
  if (!steps) return steps.error();
  wanted.part = {*steps, question.graph, question.rank, question.request};
  if (!question.golden_step.empty() || question.golden_graph) {
    const Result<StepSet> golden_steps = parse_steps(question.golden_step);
    if (!golden_steps) return golden_steps.error();
    wanted.golden_part = {question.golden_step.empty() ? *steps : *golden_steps,
                          question.golden_graph ? question.golden_graph : question.graph, std::nullopt,
                          question.request};
  }
  if (!question.map.empty()) {
    Result<RelationMap> map = read_relation_map(question.map);
    if (!map) return map.error();
    wanted.map = std::make_shared<const RelationMap>(std::move(*map));
  }
  if (question.mapping.empty()) return wanted;
  Result<NameMap> names = read_mapping(question.mapping);
  if (!names) return names.error();
  wanted.names = std::move(*names);
  return wanted;
}

Result<DumpComparison> compare_dumps(const Catalog& target, const Catalog& golden, const CompareOptions& options) {
  DumpComparison comparison;
  if (const Status known = check_part(target, options.part); !known) return known.error();
  const DumpPart& golden_part = options.golden_part.value_or(options.part);
  if (const Status known =
          check_part(golden, {golden_part.steps, golden_part.graph, std::nullopt, golden_part.request});
      !known) {
    return known.error();
  }
  const std::vector<StepPair> pairs = pair_all(target, golden, options, comparison.notes);
  if (pairs.empty()) {
    return Error{ErrorCode::not_found,
                 fmt::format("'{}' and '{}' have no step in common", target.path.string(), golden.path.string())};
  }
  for (const Catalog* catalog : {&target, &golden}) {
    const auto twice = std::ranges::find_if(catalog->ranks, has_steps_twice);
    if (twice == catalog->ranks.end() || (catalog == &golden && target.path == golden.path)) continue;
    comparison.notes.push_back(
        fmt::format("'{}' contains the same steps of several runs: only run {}, the last, is compared",
                    catalog->path.string(), twice->runs.size() - 1));
  }
  const Threads threads(options.threads);
  std::map<std::uint32_t, RankHistory> histories;  // by rank
  for (const StepPair& pair : pairs) {
    if (options.progress) options.progress(comparison.steps.size() + 1, pairs.size());
    ComparedStep& step = comparison.steps.emplace_back();
    step.target = std::make_shared<CompareSide>(side_of(*pair.target_rank, *pair.target, *comparison.families));
    step.golden = std::make_shared<CompareSide>(side_of(*pair.golden_rank, *pair.golden, *comparison.families));
    step.differences = std::make_shared<Differences>(threads, DifferenceOptions{.all_sums = options.all_sums});
    compare_step(step, comparison.steps.size() - 1, options, histories[pair.target_rank->rank], comparison.findings);
  }
  say_whether_anything_corresponds(comparison);
  judge_quantised(comparison);
  blame_makers_before(comparison);
  name_makers_of_data(comparison);
  leave_passed_on_out(comparison);
  gather_notes(comparison);
  sort_findings(comparison);
  count_up(comparison);
  const std::uint64_t not_read = tensors_not_read(pairs);
  if (not_read > 0) {
    comparison.notes.push_back(
        fmt::format("{} tensors were not read, by max_overhead: it is not known whether they differ", not_read));
  }
  conclude(target, golden, options, comparison);
  comparison.complete = comparison.complete && not_read == 0;
  return comparison;
}

void conclude(const Catalog& target, const Catalog& golden, const CompareOptions& options, DumpComparison& comparison) {
  comparison.complete = target.problems.empty() && golden.problems.empty() && comparison.unreadable.empty() &&
                        comparison.left_out.empty() && comparison.compared_tensors > 0;
  if (!options.part.rank) {
    note_ranks(target, "", comparison);
    if (golden.path != target.path) note_ranks(golden, "golden: ", comparison);
  }
  const bool target_ended = note_early_ends(target, options.part, "", comparison);
  const bool golden_ended = note_early_ends(golden, options.golden_part.value_or(options.part), "golden: ", comparison);
  const bool nothing_done = note_nothing_done(target, golden, comparison);
  if (target_ended || golden_ended || nothing_done)
    comparison.complete = comparison.complete && !comparison.findings.empty();
}

}  // namespace sonde
