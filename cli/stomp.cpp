#include "face/report/stomp.h"

#include <optional>

#include "dump.h"
#include "face/report/finding.h"
#include "ground/contract/json.h"
#include "verbs.h"

namespace sonde {
int stomp(const StompCommand& options) {
  int status = kNothingFound;
  std::optional<Catalog> catalog = open_dump(options, status);
  if (!catalog) return status;
  const std::optional<DumpPart> part = chosen_part(*catalog, options, status);
  if (!part) return status;
  const StompReport report = memory_stomp(*catalog, *part);
  add_unreadable(report.problems);
  warn_of_early_ends(*catalog, *part);
  if (options.json) Answer::get().add(json_of(report));
  if (!options.json && !print_text(text_of(report))) return kUnreadable;
  if (report.compared == 0) print_error("no read of any tensor could be compared with what was written");
  if (has_fault(report.findings)) return kFinding;
  return report.complete ? kNothingFound : kUnreadable;
}

}  // namespace sonde
