#include "ask/verify/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "ask/verify/complete_dump.h"
#include "dump.h"
#include "face/report/json.h"
#include "face/report/table.h"
#include "face/report/text.h"
#include "verbs.h"

namespace sonde {
namespace {

constexpr std::size_t kIssuesShown = 20;  // of one kind

std::string steps_text(const VerifyReport& report) {
  Table table({{"rank", Align::right},
               {"run", Align::right},
               {"graph", Align::right},
               {"step", Align::right},
               {"ended"},
               {"ops", Align::right},
               {"files", Align::right},
               {"missing", Align::right},
               {"damaged", Align::right},
               {"rows", Align::right},
               {"rows missing", Align::right}});
  const auto number = [](std::uint64_t count) { return count > 0 ? std::to_string(count) : std::string("-"); };
  for (const VerifyRank& rank : report.ranks) {
    for (const VerifyStep& step : rank.steps) {
      table.add({std::to_string(rank.rank) + (rank.dump.empty() ? "" : " of " + rank.dump), std::to_string(step.run),
                 std::to_string(step.id.graph), std::to_string(step.id.number), step.ended ? "yes" : "cut off",
                 std::to_string(step.ops), std::to_string(step.files), number(step.missing), number(step.damaged),
                 std::to_string(step.rows), number(step.rows_missing)});
    }
  }
  return table.empty() ? "" : table.text(terminal_width()) + "\n";
}

std::string issues_text(const VerifyReport& report) {
  std::string text;
  for (int kind = 0; kind <= static_cast<int>(IssueKind::unreadable); ++kind) {
    std::size_t count = 0;
    for (const VerifyIssue& issue : report.issues) {
      if (static_cast<int>(issue.kind) != kind || ++count > kIssuesShown) continue;
      text +=
          fmt::format("{}: {}: {}\n", word_of(issue.kind), printable(issue.path.string()), printable(issue.message));
    }
    if (count > kIssuesShown) {
      text +=
          fmt::format("{}: {} more (--json lists all)\n", word_of(static_cast<IssueKind>(kind)), count - kIssuesShown);
    }
  }
  return text;
}

std::string end_text(const VerifyReport& report, const VerifyCommand& options) {
  const auto findings = static_cast<std::size_t>(std::ranges::count_if(report.issues, &VerifyIssue::is_finding));
  const bool all_read = std::ranges::count(report.issues, IssueKind::unreadable, &VerifyIssue::kind) == 0;
  std::string text = findings > 0 ? count_text(findings, "thing") + " wrong"
                     : all_read   ? std::string("nothing wrong")
                                  : std::string("not everything could be examined");
  text += fmt::format(": {} of the journal, {} ({}), {} of tables examined{}\n", count_text(report.entries, "record"),
                      count_text(report.files, "tensor file"), bytes_text(report.bytes), count_text(report.rows, "row"),
                      options.hashes ? ", all values read" : "");
  if (!std::ranges::all_of(report.ranks, &VerifyRank::has_journal)) {
    text += "without a journal a file that is missing cannot be noticed\n";
  }
  if (findings > 0 && !options.complete && can_complete(report)) {
    text += fmt::format(
        "`sonde verify {} --complete` makes the other files again from the journal, and enters missing tensor files\n",
        printable(options.dump));
  }
  return text;
}

Json steps_json(const VerifyRank& rank) {
  Json steps = Json::array();
  for (const VerifyStep& step : rank.steps) {
    steps.push_back({{"run", step.run},
                     {"graph", step.id.graph},
                     {"step", step.id.number},
                     {"ended", step.ended},
                     {"ops", step.ops},
                     {"files", step.files},
                     {"files_missing", step.missing},
                     {"files_damaged", step.damaged},
                     {"rows", step.rows},
                     {"rows_missing", step.rows_missing}});
  }
  return steps;
}

void answer(const VerifyReport& report) {
  Json ranks = Json::array(), issues = Json::array();
  for (const VerifyRank& rank : report.ranks) {
    ranks.push_back({{"rank", rank.rank},
                     {"dump", rank.dump},
                     {"directory", rank.directory.string()},
                     {"has_journal", rank.has_journal},
                     {"steps", steps_json(rank)}});
  }
  for (const VerifyIssue& issue : report.issues) {
    Json json = {{"kind", word_of(issue.kind)},
                 {"is_finding", issue.is_finding()},
                 {"path", issue.path.string()},
                 {"message", issue.message}};
    if (issue.rank) json["rank"] = *issue.rank;
    if (issue.step) {
      json["graph"] = issue.step->graph;
      json["step"] = issue.step->number;
    }
    issues.push_back(std::move(json));
  }
  Answer::get().add({{"ranks", ranks},
                     {"issues", issues},
                     {"records", report.entries},
                     {"files", report.files},
                     {"bytes", report.bytes},
                     {"rows", report.rows}});
}

bool complete(const VerifyCommand& options, int& status) {
  const Result<Completion> done = complete_dump(options.dump, options.rank);
  if (!done) {
    print_error(done.error().message);
    status = done.error().code == ErrorCode::invalid_argument ? kBadUsage : kUnreadable;
    return false;
  }
  const std::pair<const char*, const std::vector<std::filesystem::path>*> lists[] = {
      {"made", &done->made}, {"trimmed", &done->trimmed}, {"entered", &done->entered}, {"kept", &done->kept}};
  for (const auto& [name, paths] : lists) {
    Json json = Json::array();
    for (const std::filesystem::path& path : *paths) json.push_back(path.string());
    if (options.json) {
      Answer::get().add(name, json);
      continue;
    }
    for (std::size_t i = 0; i < std::min(paths->size(), kIssuesShown); ++i) {
      print_text(fmt::format("{}: {}\n", name, printable((*paths)[i].string())));
    }
    if (paths->size() > kIssuesShown) print_text(fmt::format("{}: {} more\n", name, paths->size() - kIssuesShown));
  }
  for (const std::string& note : done->notes) print_warning(note);
  return true;
}

}  // namespace

int verify(const VerifyCommand& options) {
  int status = kNothingFound;
  if (options.complete && !complete(options, status)) return status;
  const Result<VerifyReport> report = verify_dump(options.dump, {options.hashes, options.rank});
  if (!report) {
    print_error(report.error().message);
    return report.error().code == ErrorCode::invalid_argument ? kBadUsage : kUnreadable;
  }
  for (const VerifyIssue& issue : report->issues) {
    if (issue.kind != IssueKind::unreadable) continue;
    Answer::get().note_problem({issue.path, issue.message});
    Answer::get().set_incomplete();
  }
  if (options.json) {
    answer(*report);
  } else if (!print_text(steps_text(*report) + issues_text(*report) + end_text(*report, options))) {
    return kUnreadable;
  }
  return std::ranges::any_of(report->issues, &VerifyIssue::is_finding) ? kFinding : kNothingFound;
}

}  // namespace sonde
