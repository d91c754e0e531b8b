#include "read/catalog/steps_by_time.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

namespace sonde {
namespace {

class StepsByTime {
 public:
  StepsByTime(const CatalogRank& tree, const JournalRemains& remains, const CatalogStep& apart) {
    std::map<std::pair<std::uint32_t, std::uint64_t>, bool> known;
    for (const JournalRemains::Run& run : remains.runs) {
      for (const auto& [time, id] : run.begins) {
        begins_.emplace_back(time, id);
        known[{id.graph, id.number}] = true;
      }
    }
    for (const CatalogStep& step : tree.steps) {
      if (&step == &apart || step.started_us == 0 || known[{step.id.graph, step.id.number}]) continue;
      begins_.emplace_back(begin_before(step.started_us, tree, apart), step.id);
    }
    std::ranges::stable_sort(begins_, {}, [](const auto& begin) { return begin.first; });
  }

  StepId at(std::uint64_t time) const {
    if (begins_.empty()) return {};
    const auto later = std::ranges::upper_bound(begins_, time, {}, [](const auto& begin) { return begin.first; });
    return later == begins_.begin() ? later->second : (later - 1)->second;
  }

 private:
  // Of a step whose first op in a module ran at `time`: data may come before it, after the modules and the optimizer of
  // the last step.
  static std::uint64_t begin_before(std::uint64_t time, const CatalogRank& tree, const CatalogStep& apart) {
    std::uint64_t begin = 0;
    for (const CatalogStep& step : tree.steps) {
      if (&step != &apart && step.ended_us < time) begin = std::max(begin, step.ended_us + 1);
    }
    for (const CatalogOp& op : apart.ops) {
      const bool ends_a_step = op.phase == Phase::optimizer || op.is_parameter;
      if (ends_a_step && op.timestamp_us < time) begin = std::max(begin, op.timestamp_us + 1);
    }
    return begin != 0 ? begin : time;
  }

  std::vector<std::pair<std::uint64_t, StepId>> begins_;
};

}  // namespace

CatalogRank in_their_steps(CatalogRank tree, const JournalRemains& remains) {
  const auto apart = std::ranges::find_if(tree.steps, [](const CatalogStep& step) { return step.directory == "."; });
  if (apart == tree.steps.end()) return tree;
  const StepsByTime by_time(tree, remains, *apart);
  std::map<std::pair<std::uint32_t, std::uint64_t>, CatalogStep> moved;
  for (CatalogOp& op : std::exchange(apart->ops, {})) {
    const StepId id = op.timestamp_us != 0 ? by_time.at(op.timestamp_us) : apart->id;
    CatalogStep& step = moved[{id.graph, id.number}];
    step.id = id;
    if (step.started_us == 0) step.started_us = op.timestamp_us;
    step.ops.push_back(std::move(op));
  }
  tree.steps.erase(apart);
  for (auto& [key, step] : moved) tree.steps.push_back(std::move(step));
  std::ranges::stable_sort(tree.steps, {}, [](const CatalogStep& step) { return step.started_us; });
  return tree;
}

}  // namespace sonde
