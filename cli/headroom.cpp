#include "ask/headroom/headroom.h"

#include <algorithm>
#include <optional>

#include "dump.h"
#include "engine.h"
#include "face/report/headroom.h"
#include "ground/contract/json.h"
#include "verbs.h"
#include "waiting.h"

namespace sonde {
namespace {

bool overflows(const HeadroomReport& report) {
  return std::ranges::any_of(report.tensors, [](const HeadroomTensor& row) {
    return std::ranges::any_of(row.as_dtypes, &HeadroomOf::overflows);
  });
}

}  // namespace

int headroom(const HeadroomCommand& options) {
  int status = kNothingFound;
  HeadroomQuestion question;
  question.dtypes = options.dtypes;
  question.scale = options.scale;
  question.side = options.side;
  Result<HeadroomOptions> wanted = headroom_options(question);
  if (!wanted) return print_error(wanted.error(), kBadUsage);
  wanted->threads = static_cast<std::size_t>(options.threads);
  if (!index_ranks(options.dump, options.engine, status)) return status;
  std::optional<Catalog> catalog = open_dump(options, query_of_selected(options), status);
  if (!catalog) return status;
  const std::optional<std::vector<SelectedStep>> steps = select_steps(*catalog, options, status);
  if (!steps) return status;
  std::optional<Waiting> waiting;
  std::vector<RecordedOp> ops;
  for (const SelectedStep& step : *steps) {
    for (const CatalogOp* op : step.ops) ops.push_back({step.rank, step.step, op});
  }
  const HeadroomReport report = headroom(ops, *wanted, [&](std::size_t, std::size_t all) {
    if (!waiting) waiting.emplace("reading tensor", all);
    waiting->advance();
  });
  waiting.reset();
  add_unreadable(report.problems);
  if (options.json) Answer::get().add(json_of(report));
  if (report.tensors.empty()) {
    print_error("no tensor of a floating type was recorded here");
    return kUnreadable;
  }
  if (!options.json && !print_text(text_of(report, options.all, terminal_width()))) return kUnreadable;
  if (!options.dtypes.empty() && overflows(report)) return kFinding;
  return report.problems.empty() ? kNothingFound : kUnreadable;
}

}  // namespace sonde
