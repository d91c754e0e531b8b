#include "ask/first_bad/first_bad.h"

#include <cstring>
#include <optional>
#include <string>

#include "ask/first_bad/next_config.h"
#include "dump.h"
#include "engine.h"
#include "face/report/catalog_text.h"
#include "face/report/finding.h"
#include "face/report/first_bad.h"
#include "face/report/page_link.h"
#include "face/report/text.h"
#include "ground/contract/json.h"
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

}  // namespace

int first_bad(const FirstBadCommand& options) {
  int status = kNothingFound;
  if (!index_ranks(options.dump, options.engine, status)) return status;
  std::optional<PartialCatalog> source = open_source(options);
  std::optional<Catalog> catalog = source ? std::nullopt : open_dump(options, CatalogQuery(), status);
  if (!source && !catalog) return status;
  const std::optional<DumpPart> part = chosen_part(source ? source->catalog() : *catalog, options, status);
  if (!part) return status;
  FirstBadOptions wanted;
  wanted.part = *part;
  wanted.trend = !options.no_trend;
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
