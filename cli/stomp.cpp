#include "stomp.h"

#include <fmt/format.h>

#include <memory>
#include <optional>

#include "dump.h"
#include "finding.h"
#include "json.h"
#include "stomp/memory_stomp.h"
#include "text.h"

namespace sonde {
namespace {

std::string looked_text(const StompReport& report) {
  std::string text = fmt::format("{} compared with what was written", count_text(report.compared, "read"));
  if (report.watched > 0) text += fmt::format(" ({} by the watcher)", report.watched);
  if (report.not_known > 0) text += fmt::format(", {} without values or statistics", report.not_known);
  if (report.not_observable > 0) {
    text += fmt::format(
        "\nnot observable: {}: no operator had written the memory since, so it was not read again; \"sonde_settings\": "
        "{{\"reread\": true}}, or the watcher, reads it",
        count_text(report.not_observable, "read"));
  }
  return text + "\n";
}

// Only then is nothing wrong where nothing was found.
bool looked_at_all(const StompReport& report) {
  return report.compared > 0 && report.not_known == 0 && report.not_observable == 0 && !Answer::get().is_incomplete();
}

std::string text_of(const StompReport& report) {
  std::string text;
  for (const Finding& finding : report.findings) text += page_of(finding) + "\n";
  if (report.findings_left_out > 0) text += fmt::format("and {} changes more\n", report.findings_left_out);
  if (report.findings.empty()) {
    text += looked_at_all(report) ? "nothing wrong: no tensor changed between its writer and its readers; "
            : report.compared > 0 ? "nothing was seen to change in what could be looked at; "
                                  : "nothing was seen to change, and nothing could be seen; ";
  }
  return text + looked_text(report);
}

Json report_json(const StompReport& report) {
  Json findings = Json::array();
  for (const Finding& finding : report.findings) findings.push_back(json_of(finding));
  return {
      {"findings", findings},      {"findings_left_out", report.findings_left_out}, {"compared", report.compared},
      {"watched", report.watched}, {"not_observable", report.not_observable},       {"not_known", report.not_known}};
}

int run(const DumpOptions& options) {
  int status = kNothingFound;
  std::optional<Catalog> catalog = open_dump(options, status);
  if (!catalog || !select_steps(*catalog, options, status)) return status;
  StompOptions wanted;
  if (!options.step.empty()) wanted.steps = IterationSet::parse(options.step);
  wanted.graph = options.graph;
  wanted.rank = options.rank;
  const StompReport report = memory_stomp(*catalog, wanted);
  add_unreadable(report.problems);
  if (options.json) Answer::get().add(report_json(report));
  if (!options.json && !print_text(text_of(report))) return kUnreadable;
  if (report.compared == 0) print_error("no read of any tensor could be compared with what was written");
  const int found = status_of(report.findings);
  return found == kNothingFound && !looked_at_all(report) ? kUnreadable : found;
}

}  // namespace

void add_stomp(CLI::App& app, int& exit_status) {
  auto options = std::make_shared<DumpOptions>();
  CLI::App* verb = app.add_subcommand("stomp", "Find tensors whose memory changed although no operator wrote it.");
  add_dump_options(*verb, *options, false);
  verb->footer(
      "Reads a dump of the watcher (acl.json, \"dump_scene\": \"watcher\") or ordinary steps; what was not read twice "
      "is\n"
      "not observable, which \"sonde_settings\": {\"reread\": true} mends.\n"
      "Exit status: 0 nothing wrong, 1 found, 2 bad usage, 3 nothing found, and not everything could be compared.\n"
      "Example: sonde stomp run7 --step 3");
  verb->callback([options, &exit_status] { exit_status = run(*options); });
}

}  // namespace sonde
