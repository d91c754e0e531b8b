#include "ask/first_bad/first_bad.h"

#include <fmt/format.h>

#include <cstring>
#include <optional>
#include <string>

#include "ask/first_bad/first_bad_parts.h"
#include "ask/first_bad/next_config.h"
#include "dump.h"
#include "engine.h"
#include "face/report/catalog_text.h"
#include "face/report/finding.h"
#include "face/report/first_bad.h"
#include "face/report/page_link.h"
#include "face/report/text.h"
#include "ground/contract/json.h"
#include "ground/files/brought_files.h"
#include "ground/files/scratch.h"
#include "read/index/partial_catalog.h"
#include "verbs.h"
#include "waiting.h"

namespace sonde {
namespace {

bool write_next_config(const Catalog& catalog, const FirstBad& report, const std::string& path) {
  const std::string text = next_config(catalog, report);
  if (text.empty()) {
    print_warning("nothing wrong was found: no configuration was written to '" + path + "'");
    return true;
  }
  return write_new(path, text);
}

std::string link_of(const Finding& finding) {
  return link_text({.in_golden = false,
                    .rank = rank_text(finding.rank, finding.dump),
                    .step = step_of(finding),
                    .op_name = finding.tensor.op_name,
                    .is_input = finding.tensor.side == Side::input,
                    .slot = finding.tensor.slot});
}

int print(const FirstBadCommand& options, const Catalog& catalog, const FirstBad& report) {
  add_unreadable(report.problems);
  for (const std::string& note : report.notes) {
    if (!options.json) print_warning(note);
  }
  if (options.json) Answer::get().add(json_of(report));
  if (!options.json && !print_text(text_of(report, terminal_width()))) return kUnreadable;
  if (options.link && !report.findings.empty()) print_text(link_of(report.findings.front()));
  if (!options.next_config.empty() && !write_next_config(catalog, report, options.next_config)) return kBadUsage;
  if (report.looked_at.tensors == 0 && !report.only_overflows) {
    print_error("no value and no statistic of any tensor is in this dump");
  }
  if (!report.complete) return kUnreadable;
  return has_fault(report.findings) ? kFinding : kNothingFound;
}

// A saved index, of which only the needed part is read; empty if there is none.
std::optional<PartialCatalog> open_source(const FirstBadCommand& options) {
  if (indices_are_off()) return std::nullopt;
  Result<PartialCatalog> source = PartialCatalog::open(options.dump);
  if (!source) return std::nullopt;
  report_dump(source->catalog());
  return std::move(*source);
}

FirstBadOptions wanted_of(const FirstBadCommand& options) {
  FirstBadOptions wanted;
  wanted.part = part_of(options);
  wanted.trend = !options.no_trend;
  return wanted;
}

std::vector<std::string> verb_of(const FirstBadCommand& options) {
  std::vector<std::string> verb = {"first-bad"};
  if (!options.step.empty()) verb.insert(verb.end(), {"--step", options.step});
  if (options.graph) verb.insert(verb.end(), {"--graph", std::to_string(*options.graph)});
  if (options.rank) verb.insert(verb.end(), {"--rank", std::to_string(*options.rank)});
  if (!options.request.empty()) verb.insert(verb.end(), {"--request", options.request});
  return verb;
}

// Ranks by themselves: the part of the work that goes on anywhere, side by side. A rank without an index is searched in
// its journal, which takes a quarter of the time of making one.
int search_by_rank(const FirstBadCommand& options) {
  return work_in_directories(options.dump, options.dir, [&](const RanksOfDump& dump, const RankInDump& rank) {
    return search_into(dump, rank, wanted_of(options), options.out);
  });
}

int join_parts(const FirstBadCommand& options, const std::filesystem::path& parts) {
  Result<SearchedParts> searched = SearchedParts::read(options.dump, wanted_of(options), parts);
  if (!searched) return status_of(searched.error());
  if (!options.parts.empty() && searched->searched_here() > 0) {
    print_notice(fmt::format("sonde: '{}' lacks {} as the dump is now: searched here\n", options.parts,
                             count_text(searched->searched_here(), "rank")));
  }
  report_dump(searched->catalog());
  int status = kNothingFound;
  if (!chosen_part(searched->catalog(), options, status)) return status;
  const FirstBad report = searched->first_bad();
  return print(options, searched->catalog(), report);
}

// Lets an engine search the ranks. Empty: one process reads the dump; or, with the exit status set, the verb must
// end.
std::optional<int> on_engine(const FirstBadCommand& options) {
  int status = kNothingFound;
  const Scratch parts;
  const Result<RanksOfDump> found = ranks_of_dump(options.dump);
  if (!found || found->ranks.empty() || parts.path().empty() || is_brought(options.dump)) {
    if (!index_ranks(options.dump, options.engine, status)) return status;
    return std::nullopt;
  }
  RankWork work{verb_of(options), {}, parts.path(), "searching rank"};
  for (const RankInDump& rank : found->ranks) work.ranks.push_back(rank.directory);
  if (!work_on_ranks(options.dump, options.engine, work, status)) return status;
  return join_parts(options, parts.path());
}

}  // namespace

int first_bad(const FirstBadCommand& options) {
  int status = kNothingFound;
  if (!options.dir.empty()) return search_by_rank(options);
  if (options.stale) return print_directories(ranks_not_searched(options.dump, wanted_of(options), options.parts));
  if (!options.parts.empty()) return join_parts(options, options.parts);
  if (!options.engine.empty()) {
    if (const std::optional<int> done = on_engine(options)) return *done;
  }
  std::optional<PartialCatalog> source = open_source(options);
  CatalogQuery query;
  query.with_values = false;  // evidence of values is left out where there are none
  std::optional<Catalog> catalog = source ? std::nullopt : open_dump(options, query, status);
  if (!source && !catalog) return status;
  if (!chosen_part(source ? source->catalog() : *catalog, options, status)) return status;
  FirstBadOptions wanted = wanted_of(options);
  std::optional<Waiting> waiting("looking for the first bad value");
  wanted.progress = [&](std::size_t step, std::size_t steps) { waiting->now("looking at step", step, steps); };
  if (source) {
    wanted.source = &*source;
    const FirstBad report = first_bad(source->catalog(), wanted);
    waiting.reset();
    if (source->check()) return print(options, source->catalog(), report);
    wanted.source = nullptr;
    Result<Catalog> whole = open_catalog(options.dump, CatalogQuery());
    if (!whole) return print_error(whole.error(), kUnreadable);
    catalog = std::move(*whole);
    waiting.emplace("looking for the first bad value");
  }
  const FirstBad report = first_bad(*catalog, wanted);
  waiting.reset();
  return print(options, *catalog, report);
}

}  // namespace sonde
