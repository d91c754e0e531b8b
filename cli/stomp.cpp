#include "stomp.h"

#include <memory>
#include <optional>

#include "dump.h"
#include "face/report/finding.h"
#include "face/report/stomp.h"
#include "ground/contract/json.h"

namespace sonde {
namespace {

int run(const DumpOptions& options) {
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

}  // namespace

void add_stomp(CLI::App& app, int& exit_status) {
  auto options = std::make_shared<DumpOptions>();
  CLI::App* verb = app.add_subcommand("stomp", "Find tensors whose memory changed although no operator wrote it.");
  add_dump_options(*verb, *options, false);
  verb->footer(
      "Reads a dump of the watcher (acl.json, \"dump_scene\": \"watcher\") or of ordinary steps. A tensor that was "
      "read\n"
      "once cannot be checked: set \"sonde_settings\": {\"reread\": true} to read every input again.\n"
      "Exit status: 0 nothing wrong, 1 found, 2 bad usage, 3 nothing found, and not everything could be compared.\n"
      "Example: sonde stomp run7 --step 3");
  verb->callback([options, &exit_status] { exit_status = run(*options); });
}

}  // namespace sonde
