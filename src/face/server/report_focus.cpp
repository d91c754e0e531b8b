#include "face/server/report_focus.h"

#include <fmt/format.h>

#include <algorithm>

#include "read/catalog/dump_part.h"

namespace sonde::server {
namespace {

constexpr std::size_t kMostSuspects = 24;
constexpr std::uint64_t kWindowElements = kWindow * kWindow;  // of a vector

bool is_rank(const std::string& name, std::uint64_t number) {
  return name == std::to_string(number) || name.starts_with(fmt::format("{} ", number));
}

// The rank as the page names it: "0", or "0 of run7".
std::string rank_in(const Overview& overview, std::uint64_t number) {
  for (const OverviewRank& rank : overview.ranks) {
    if (is_rank(rank.rank, number)) return rank.rank;
  }
  return std::to_string(number);
}

}  // namespace

std::vector<ReportFocus::GraphStep> ReportFocus::chosen_steps(const StepSet& wanted) const {
  std::vector<GraphStep> all, chosen;
  for (const OverviewStep& step : overviews[0].steps) {
    const GraphStep at = {step.graph, step.step};
    if (!options.graph || at.first == *options.graph) all.push_back(at);
  }
  std::ranges::sort(all);
  all.erase(std::unique(all.begin(), all.end()), all.end());
  if (!options.steps.empty()) {
    std::ranges::copy_if(all, std::back_inserter(chosen),
                         [&](const GraphStep& at) { return wanted.contains(at.second); });
    return chosen;
  }
  // The step of a finding, and the one before it.
  const auto take = [&](const auto& finding) {
    const auto found = std::ranges::find(all, GraphStep(finding.graph, finding.step));
    if (found == all.end()) return;
    chosen.push_back(*found);
    if (found != all.begin() && std::prev(found)->first == found->first) chosen.push_back(*std::prev(found));
  };
  if (first_bad.first) take(*first_bad.first);
  if (!comparison.findings.empty()) take(comparison.findings.front());
  if (chosen.empty() && !all.empty()) chosen = {all.front(), all.back()};
  return chosen;
}

Result<std::vector<Place>> ReportFocus::places() const {
  const Result<StepSet> wanted = parse_steps(options.steps);
  if (!wanted) return Error{wanted.error().code, "--step: " + wanted.error().message};
  const std::vector<GraphStep> chosen = chosen_steps(*wanted);
  std::vector<Place> places;
  for (const OverviewStep& step : overviews[0].steps) {
    const Place place = {0, step.rank, step.graph, step.step};
    const bool is_chosen = std::ranges::find(chosen, GraphStep(place.graph, place.step)) != chosen.end();
    if (is_chosen && (!options.rank || is_rank(place.rank, *options.rank))) places.push_back(place);
  }
  // Where the file is full, the last ones are left out.
  const std::optional<Finding>& first = first_bad.first;
  std::stable_partition(places.begin(), places.end(), [&](const Place& place) {
    return first && place.step == first->step && is_rank(place.rank, first->rank);
  });
  if (!places.empty()) return places;
  return Error{ErrorCode::invalid_argument,
               fmt::format("the dump has no such step{}; `sonde ls` lists them",
                           options.rank || options.graph ? " of this rank and graph" : "")};
}

std::vector<FocusOp> ReportFocus::suspects() const {
  std::vector<FocusOp> suspects;
  const auto add = [&](const auto& finding, std::size_t dump, const std::string& op_name) {
    const FocusOp suspect = {{dump, rank_in(overviews[dump], finding.rank), finding.graph, finding.step}, op_name};
    const bool is_new = std::ranges::find(suspects, suspect) == suspects.end();
    if (!op_name.empty() && is_new && suspects.size() < kMostSuspects) suspects.push_back(suspect);
  };
  const std::optional<Finding>& first = first_bad.first;
  if (first) add(*first, 0, first->op_name);
  for (const Difference& finding : comparison.findings) {
    if (suspects.size() > kMostSuspects / 2) break;
    const std::size_t own = finding.in_golden ? 1 : 0;
    add(finding, own, finding.op_name);
    add(finding, 1 - own, finding.golden);
  }
  for (const Finding& finding : first_bad.findings) add(finding, 0, finding.op_name);
  if (!first) return suspects;
  for (const std::string& name : first_bad.path) add(*first, 0, name);
  return suspects;
}

std::string slice_of(const std::vector<std::uint64_t>& shape, const std::optional<std::vector<std::int64_t>>& at) {
  if (shape.empty()) return "";
  std::string slice;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    const std::uint64_t index = at && at->size() == shape.size() ? static_cast<std::uint64_t>(at->at(axis)) : 0;
    const std::uint64_t window = shape.size() == 1 ? kWindowElements : kWindow;
    slice += axis == 0 ? "[" : ",";
    if (axis + 2 < shape.size()) {
      slice += std::to_string(index);
    } else if (shape[axis] <= window) {
      slice += ":";
    } else {
      const std::uint64_t begin = std::min(index - std::min(index, window / 2), shape[axis] - window);
      slice += fmt::format("{}:{}", begin, begin + window);
    }
  }
  return slice + "]";
}

}  // namespace sonde::server
