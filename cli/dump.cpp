#include "dump.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "face/report/text.h"
#include "read/catalog/missing_ranks.h"
#include "read/catalog/select.h"
#include "read/catalog/several_runs.h"
#include "read/catalog/unfinished_runs.h"
#include "waiting.h"

namespace sonde {
namespace {

// Lost data come first, since only a few of many problems are shown.
void add_problems(std::vector<CatalogProblem> found) {
  std::ranges::stable_sort(found, std::ranges::greater(), &CatalogProblem::is_lost);
  std::vector<Problem> problems;
  for (const CatalogProblem& problem : found) problems.push_back({problem.path, problem.message});
  Answer::get().add_problems(problems);
}

// Notes that several dumps have ranks with the same number, which are shown beside each other.
void print_dumps(const Catalog& catalog) {
  std::set<std::string> dumps;
  std::set<std::uint32_t> ranks;
  bool is_double = false;
  for (const CatalogRank& rank : catalog.ranks) {
    dumps.insert(rank.dump);
    is_double = !ranks.insert(rank.rank).second || is_double;
  }
  if (!is_double || dumps.size() < 2) return;
  std::vector<std::string> names(dumps.begin(), dumps.end());
  const std::size_t more = names.size() > 3 ? names.size() - 3 : 0;
  names.resize(names.size() - more);
  print_warning(fmt::format("'{}' holds {} dumps: {}{}; name one of them to see it alone", catalog.path.string(),
                            dumps.size(), joined(names, ", "), more > 0 ? fmt::format(" and {} more", more) : ""));
}

// The command line has checked the text.
StepSet steps_of(const DumpOptions& options) { return *parse_steps(options.step); }

}  // namespace

std::string list_complaint(const std::string& text, std::string_view what) {
  return is_step_list(text) ? "" : fmt::format("'{}' names no {}; say 3, 0-5 or 1|4", text, what);
}

std::optional<Catalog> open_dump(const DumpOptions& options, int& exit_status) {
  return open_dump(options, CatalogQuery(), exit_status);
}

std::optional<Catalog> open_dump(const DumpOptions& options, const CatalogQuery& query, int& exit_status) {
  std::optional<Waiting> waiting("reading the dump");
  Result<Catalog> catalog = open_catalog(options.dump, query);
  waiting.reset();
  if (!catalog) {
    exit_status = status_of(catalog.error());
    return std::nullopt;
  }
  report_dump(*catalog);
  return std::move(*catalog);
}

void report_problems(const Catalog& catalog) { add_problems(catalog.problems); }

void report_dump(const Catalog& catalog) {
  report_problems(catalog);
  if (catalog.has_lost()) Answer::get().set_incomplete();
  print_dumps(catalog);
  if (const std::string twice = steps_twice_text(catalog); !twice.empty()) {
    print_warning(twice + "; name a new directory for each run to keep them apart");
  }
}

void add_unreadable(const std::vector<CatalogProblem>& problems) {
  add_problems(problems);
  if (!problems.empty()) Answer::get().set_incomplete();
}

void add_unreadable(const std::vector<DumpProblem>& problems) {
  std::vector<CatalogProblem> found;
  for (const DumpProblem& problem : problems) found.push_back({problem.path, problem.message});
  add_unreadable(found);
}

void add_unreadable(const std::vector<std::string>& messages) {
  std::vector<CatalogProblem> problems;
  for (const std::string& message : messages) problems.push_back({{}, message});
  add_unreadable(problems);
}

bool warn_of_early_ends(const Catalog& catalog, const DumpPart& part) {
  const std::vector<std::string> ends = early_ends(catalog, part);
  for (const std::string& end : ends) print_warning(end);
  return !ends.empty();
}

void warn_of_ranks(const Catalog& catalog, const std::optional<std::uint32_t>& asked) {
  if (asked) return;
  for (const std::string& note : rank_notes(catalog)) print_warning(note);
}

void print_diagnostic(const Diagnostic& diagnostic, const std::filesystem::path& file) {
  print_notice(printable(text_of(diagnostic, file)) + "\n");
}

bool comes_from_index(const Catalog& catalog) {
  return std::ranges::any_of(catalog.ranks,
                             [](const CatalogRank& rank) { return !rank.steps.empty() && rank.steps[0].sum; });
}

CatalogQuery query_of(const DumpOptions& options) {
  CatalogQuery query;
  query.rank = options.rank;
  query.graph = options.graph;
  if (!options.step.empty()) {
    query.steps = [steps = steps_of(options)](std::uint64_t step) { return steps.contains(step); };
  }
  return query;
}

CatalogQuery query_of_selected(const DumpOptions& options) {
  CatalogQuery query = query_of(options);
  if (options.select.empty()) return query;
  query.ops = [patterns = options.select](std::string_view op_name, std::string_view op_type) {
    return std::ranges::any_of(patterns, [&](const std::string& p) { return selects(p, op_name, op_type); });
  };
  return query;
}

DumpPart part_of(const DumpOptions& options) {
  return {steps_of(options), options.graph, options.rank, options.request};
}

std::optional<DumpPart> chosen_part(const Catalog& catalog, const DumpOptions& options, int& exit_status) {
  const DumpPart part = part_of(options);
  const Status there = check_part(catalog, part);
  exit_status = there ? kNothingFound : kBadUsage;
  if (there) return part;
  print_error(there.error().message);
  return std::nullopt;
}

std::optional<std::vector<SelectedStep>> select_steps(Catalog& catalog, const DumpOptions& options, int& exit_status) {
  const std::optional<DumpPart> part = chosen_part(catalog, options, exit_status);
  if (!part) return std::nullopt;
  StepSelection selected = select_steps(catalog, *part, options.select);
  if (selected.unmatched.empty()) return std::move(selected.steps);
  exit_status = kBadUsage;
  // Names similar to a pattern may belong to ops that were not read from the index.
  std::optional<Catalog> with_all_ops;
  std::vector<SelectedStep> whole;
  if (comes_from_index(catalog)) {
    if (Result<Catalog> opened = open_catalog(options.dump, query_of(options))) with_all_ops = std::move(*opened);
    if (with_all_ops) whole = select_steps(*with_all_ops, *part, {}).steps;
  }
  for (const std::string& pattern : selected.unmatched) {
    const std::string near = nearest_ops(whole.empty() ? selected.steps : whole, pattern);
    print_error(fmt::format("no op '{}'{}{}", pattern, near.empty() ? "" : "; ", near));
  }
  return std::nullopt;
}

}  // namespace sonde
