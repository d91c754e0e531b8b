#include <fmt/format.h>

#include <algorithm>

#include "ask/compare/compare_passes.h"
#include "read/measure/health.h"

namespace sonde {
namespace {

Health health_of_outputs(const CompareOp& op, HealthReader& reader) {
  Health all;
  for (const CatalogTensor* output : op.outputs) all.add(reader.of(*output));
  return all;
}

Health health_of_inputs(const CompareOp& op, HealthReader& reader) {
  Health all;
  for (const CompareInput& input : op.inputs) {
    if (input.is_read && input.tensor->recorded()) all.add(reader.of(*input.tensor));
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
    if ((!is_nan && !is_inf) || health_of_inputs(own, target).bad()) continue;
    const auto is_tensor = [](const CompareInput& input) { return input.is_read && !input.tensor->constant; };
    const bool is_written_down = std::ranges::none_of(own.inputs, is_tensor);  // for a `where`, which may drop it
    if ((!is_nan || is_written_down) && !reaches_an_end(facts, op.target_index, target)) continue;
    const auto is_known = [&](const CompareFinding& finding) { return finding.culprit == own.op; };
    if (std::ranges::any_of(findings.all(), is_known)) break;
    findings.add(FindingKind::non_finite, op, own.op, false, nullptr,
                 fmt::format("has no counterpart in the golden dump, and gives {} from finite inputs",
                             is_nan ? "NaN" : "infinity"));
    break;
  }
  for (const HealthReader* reader : {&target, &golden}) {
    for (const CatalogProblem& problem : reader->problems()) {
      findings.note(fmt::format("{}: {}", problem.path.string(), problem.message));
    }
  }
}

}  // namespace sonde
