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

// Reads of a saved index only what it needs; empty if that was not possible.
std::optional<FirstBad> search_index(PartialCatalog& source, FirstBadOptions wanted) {
  wanted.source = &source;
  FirstBad report = first_bad(source.catalog(), wanted);
  return source.check() ? std::optional(std::move(report)) : std::nullopt;
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

}  // namespace

int first_bad(const FirstBadCommand& options) {
  int status = kNothingFound;
  if (!index_ranks(options.dump, options.engine, status)) return status;
  CatalogQuery without_ops;
  without_ops.with_ops = false;
  std::optional<Catalog> catalog = open_dump(options, without_ops, status);
  if (!catalog) return status;
  const std::optional<DumpPart> part = chosen_part(*catalog, options, status);
  if (!part) return status;
  FirstBadOptions wanted;
  wanted.part = *part;
  wanted.trend = !options.no_trend;
  if (comes_from_index(*catalog) && needs_ops(*catalog, *part)) {
    if (Result<PartialCatalog> source = PartialCatalog::open(options.dump)) {
      const std::optional<FirstBad> report = search_index(*source, wanted);
      if (report) return print(options, source->catalog(), *report);
    }
    Result<Catalog> whole = open_catalog(options.dump, CatalogQuery());
    if (!whole) return print_error(whole.error(), kUnreadable);
    catalog = std::move(*whole);
  }
  return print(options, *catalog, first_bad(*catalog, wanted));
}

}  // namespace sonde
