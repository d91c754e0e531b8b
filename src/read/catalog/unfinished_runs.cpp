#include "read/catalog/unfinished_runs.h"

#include <fmt/format.h>

#include <algorithm>

#include "dump/journal/live_run.h"
#include "dump/layout/side_names.h"

namespace sonde {

std::vector<UnfinishedRun> unfinished_runs(const Catalog& catalog, const DumpPart& part) {
  using enum RunState;
  std::vector<UnfinishedRun> found;
  for (const CatalogRank& rank : catalog.ranks) {
    if (!part.takes(rank) || !rank.has_journal || rank.runs.empty() || rank.steps.empty()) continue;
    const CatalogRun& run = rank.runs.back();
    const CatalogStep& last = rank.steps.back();
    const std::string_view failure = failure_of(run);
    if ((run.finished && failure.empty()) || !part.takes(last)) continue;
    UnfinishedRun& one = found.emplace_back();
    one.state = !failure.empty() ? stopped : is_recording(own_directory_in(rank.metadata)) ? running : killed;
    one.rank = rank.rank;
    one.dump = rank.dump;
    one.graph = last.id.graph;
    one.step = last.id.number;
    one.in_step = !last.ended;
    one.reason = failure;
    const auto is_complete = [&](const CatalogStep& step) { return step.ended && step.id.graph == last.id.graph; };
    const auto complete = std::find_if(rank.steps.rbegin(), rank.steps.rend(), is_complete);
    if (complete != rank.steps.rend()) one.complete_step = complete->id.number;
  }
  return found;
}

bool any_ended_early(const std::vector<UnfinishedRun>& runs) {
  return std::ranges::any_of(runs, [](const UnfinishedRun& run) { return run.state != RunState::running; });
}

std::vector<std::string> early_ends(const Catalog& catalog, const DumpPart& part) {
  std::vector<std::string> texts;
  for (const UnfinishedRun& run : unfinished_runs(catalog, part)) {
    if (run.state == RunState::running) continue;
    const std::string of = run.dump.empty() ? "" : " of " + run.dump;
    const std::string who = catalog.ranks.size() == 1 ? "the run" : fmt::format("rank {}{}", run.rank, of);
    const bool is_killed = run.state == RunState::killed;
    texts.push_back(fmt::format("{} {} {} step {}{}; later steps are not in the dump", who,
                                is_killed ? "was killed, or could not write its end," : "stopped recording",
                                run.in_step ? "in" : "after", run.step,
                                run.reason.empty() ? "" : fmt::format(" ({})", run.reason)));
  }
  return texts;
}

}  // namespace sonde
