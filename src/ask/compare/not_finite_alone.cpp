#include <fmt/format.h>

#include <algorithm>

#include "ask/compare/compare_passes.h"
#include "ground/base/shape.h"
#include "read/measure/health.h"

namespace sonde {
namespace {

Health health_of_outputs(const CompareOp& op, HealthReader& reader) {
  Health all;
  for (const CatalogTensor* output : op.outputs) all.add(reader.of(*output));
  return all;
}

bool is_tensor(const CompareInput& input) { return input.is_read && !input.tensor->constant; }

// The program gives it: the ops of the step only pass it on.
bool is_own_number(const CompareSide& side, const CompareInput& input) {
  constexpr int kMostOnTheWay = 8;
  const CompareInput* at = &input;
  for (int i = 0; i < kMostOnTheWay; ++i) {
    if (at->tensor->constant) return true;
    if (!at->tensor->has_shape || element_count(at->tensor->shape) != 1) return false;
    if (at->from == kNoOp) return !at->tensor->parameter.is_parameter();
    const CompareOp& maker = side.ops[at->from];
    const auto read = std::ranges::find_if(maker.inputs, is_tensor);
    if (read == maker.inputs.end()) return true;
    if (maker.kind != OpKind::copy && maker.kind != OpKind::cast) return false;
    at = &*read;
  }
  return false;
}

// Of those that the run computed. `numbers`: of the others.
Health health_of_inputs(const CompareSide& side, const CompareOp& op, HealthReader& reader, Health& numbers) {
  Health all;
  for (const CompareInput& input : op.inputs) {
    if (!input.is_read || !input.tensor->recorded()) continue;
    (is_own_number(side, input) ? numbers : all).add(reader.of(*input.tensor));
  }
  return all;
}

// NaN or infinity is in what is computed from this op, up to an op that none reads.
bool reaches_an_end(const CompareFacts& facts, std::uint32_t target, HealthReader& health) {
  std::set<std::uint32_t> visited = {target};
  Group border = {target};
  while (!border.empty()) {
    const std::uint32_t t = border.back();
    border.pop_back();
    bool is_read = false;
    for (const std::uint32_t reader : facts.target.ops[t].readers) {
      const auto reads = [&](const CompareInput& input) { return input.from == t && input.is_read; };
      if (!std::ranges::any_of(facts.target.ops[reader].inputs, reads)) continue;
      is_read = true;
      if (health_of_outputs(facts.target.ops[reader], health).bad() && visited.insert(reader).second) {
        border.push_back(reader);
      }
    }
    if (!is_read) return true;
  }
  return false;
}

// Errors that are passed on from nowhere: the first op that makes NaN or infinity of finite inputs, as the golden one does
// not, if no other finding explains it.
void find_not_finite_of_pairs(const CompareFacts& facts, StepFindings& findings, HealthReader& target,
                              HealthReader& golden) {
  for (const ComparedOp& op : facts.pairs.ops()) {
    if (op.verdict != OpVerdict::propagated || op.target.size() != 1 || op.golden.size() != 1) continue;
    const CompareOp& own = facts.target.ops[op.target_index];
    const Health made = own.unwritten ? Health{} : health_of_outputs(own, target);
    if (!made.bad() || health_of_outputs(facts.golden.ops[op.golden_index], golden).bad()) continue;
    Health numbers;
    if (health_of_inputs(facts.target, own, target, numbers).bad() || numbers.bad()) continue;
    if (!reaches_an_end(facts, op.target_index, target)) continue;
    findings.add(FindingKind::non_finite, op, own.op, false, nullptr,
                 fmt::format("gives {} from finite inputs, which differ; the golden op does not",
                             made.nan ? "NaN" : "infinity"));
    return;
  }
}

}  // namespace

void find_not_finite_alone(const CompareFacts& facts, StepFindings& findings) {
  HealthReader target(*facts.target.rank, static_cast<unsigned>(facts.options.threads));
  HealthReader golden(*facts.golden.rank, static_cast<unsigned>(facts.options.threads));
  Health theirs;
  for (const ComparedOp& op : facts.pairs.ops()) {
    if (op.verdict != OpVerdict::unmatched || !op.target.empty()) continue;
    theirs.add(health_of_outputs(facts.golden.ops[op.golden_index], golden));
  }
  for (const ComparedOp& op : facts.pairs.ops()) {
    if (op.verdict != OpVerdict::unmatched || op.target.empty()) continue;
    const CompareOp& own = facts.target.ops[op.target_index];
    const Health made = own.unwritten ? Health{} : health_of_outputs(own, target);
    const bool is_nan = made.nan && !theirs.nan;
    const bool is_inf = (made.positive_inf && !theirs.positive_inf) || (made.negative_inf && !theirs.negative_inf);
    Health numbers;
    if ((!is_nan && !is_inf) || health_of_inputs(facts.target, own, target, numbers).bad()) continue;
    const auto is_of_run = [&](const CompareInput& input) {
      return is_tensor(input) && !is_own_number(facts.target, input);
    };
    // A number that is not finite does no harm, as long as nothing is computed with it.
    if (numbers.bad() && std::ranges::none_of(own.inputs, is_of_run)) continue;
    const bool is_written_down = std::ranges::none_of(own.inputs, is_tensor);  // for a `where`, which may drop it
    if ((!is_nan || is_written_down || numbers.bad()) && !reaches_an_end(facts, op.target_index, target)) continue;
    const auto is_known = [&](const CompareFinding& finding) { return finding.culprit == own.op; };
    if (std::ranges::any_of(findings.all(), is_known)) break;
    findings.add(FindingKind::non_finite, op, own.op, false, nullptr,
                 fmt::format("has no counterpart in the golden dump, and gives {} from {}", is_nan ? "NaN" : "infinity",
                             numbers.bad() ? "a number that is not finite" : "finite inputs"));
    break;
  }
  if (findings.empty()) find_not_finite_of_pairs(facts, findings, target, golden);
  for (const HealthReader* reader : {&target, &golden}) {
    for (const CatalogProblem& problem : reader->problems()) {
      findings.note(fmt::format("{}: {}", problem.path.string(), problem.message));
    }
  }
}

}  // namespace sonde
