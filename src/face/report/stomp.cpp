#include "face/report/stomp.h"

#include <fmt/format.h>

#include "face/report/finding.h"
#include "face/report/line_kind.h"
#include "face/report/text.h"

namespace sonde {
namespace {

std::string looked_text(const StompReport& report) {
  std::string text = fmt::format("{} compared with the written values", count_text(report.compared, "read"));
  if (report.watched > 0) text += fmt::format(" ({} by the watcher)", report.watched);
  if (report.not_known > 0) text += fmt::format(", {} without values or statistics", report.not_known);
  if (report.not_observable > 0) {
    text += fmt::format(
        "\nnot observable: {}: no operator had written the memory since, so it was not read again; set "
        "\"sonde_settings\": {{\"reread\": true}} to read every input again, or use the watcher",
        count_text(report.not_observable, "read"));
  }
  return text + "\n";
}

}  // namespace

std::string text_of(const StompReport& report) {
  std::string text;
  for (const Finding& finding : report.findings) text += page_of(finding) + "\n";
  if (report.findings_left_out > 0) text += fmt::format("and {} changes more\n", report.findings_left_out);
  if (report.findings.empty()) {
    const std::string_view said = report.complete
                                      ? "nothing wrong: no tensor changed between its writer and its readers; "
                                  : report.compared > 0 ? "no change found in the reads that could be checked; "
                                                        : "no change found, but nothing could be checked; ";
    text += marked(report.complete ? LineKind::good : LineKind::doubt, said);
  }
  return text + looked_text(report);
}

}  // namespace sonde
