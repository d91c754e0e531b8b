#include "ask/verify/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ask/verify/complete_dump.h"
#include "ask/verify/verify_parts.h"
#include "dump.h"
#include "engine.h"
#include "face/report/catalog_text.h"
#include "face/report/table.h"
#include "face/report/text.h"
#include "ground/files/brought_files.h"
#include "ground/files/scratch.h"
#include "read/catalog/missing_ranks.h"
#include "verbs.h"

namespace sonde {
namespace {

constexpr std::size_t kIssuesShown = 20;  // of one kind

std::string steps_text(const Verification& report) {
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
  for (const VerifiedRank& rank : report.ranks) {
    for (const VerifiedStep& step : rank.steps) {
      table.add({rank_text(rank.rank, rank.dump), std::to_string(step.run), std::to_string(step.graph),
                 std::to_string(step.step), step.ended ? "yes" : "cut off", std::to_string(step.ops),
                 std::to_string(step.files), number(step.files_missing), number(step.files_damaged),
                 std::to_string(step.rows), number(step.rows_missing)});
    }
  }
  return table.empty() ? "" : table.text(terminal_width()) + "\n";
}

std::string issues_text(const Verification& report) {
  std::string text;
  for (int kind = 0; kind <= static_cast<int>(IssueKind::replica); ++kind) {
    std::size_t count = 0;
    for (const Issue& issue : report.issues) {
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

std::string end_text(const Verification& report, const VerifyCommand& options) {
  const auto findings = static_cast<std::size_t>(std::ranges::count_if(report.issues, &Issue::is_finding));
  const bool all_read = std::ranges::count(report.issues, IssueKind::unreadable, &Issue::kind) == 0;
  std::string text = findings > 0 ? count_text(findings, "thing") + " wrong"
                     : all_read   ? std::string("nothing wrong")
                                  : std::string("not everything could be examined");
  text += fmt::format(": {} of the journal, {} ({}), {} of tables examined{}\n", count_text(report.records, "record"),
                      count_text(report.files, "tensor file"), bytes_text(report.bytes), count_text(report.rows, "row"),
                      options.hashes ? ", all values read" : "");
  if (report.collectives)
    text += fmt::format("{} of the ranks compared\n", count_text(*report.collectives, "collective"));
  if (!std::ranges::all_of(report.ranks, &VerifiedRank::has_journal)) {
    text += "without a journal a file that is missing cannot be noticed\n";
  }
  if (findings > 0 && !options.complete && can_complete(report)) {
    text += fmt::format(
        "`sonde verify {} --complete` makes the other files again from the journal, and enters missing tensor files\n",
        printable(options.dump));
  }
  return text;
}

void print_paths(std::string_view what, const std::vector<std::filesystem::path>& paths) {
  for (std::size_t i = 0; i < std::min(paths.size(), kIssuesShown); ++i) {
    print_text(fmt::format("{}: {}\n", what, printable(paths[i].string())));
  }
  if (paths.size() > kIssuesShown) print_text(fmt::format("{}: {} more\n", what, paths.size() - kIssuesShown));
}

void put(const Completion& done, Verification& report) {
  report.made = done.made;
  report.trimmed = done.trimmed;
  report.entered = done.entered;
  report.kept = done.kept;
}

void print_completion(const Completion& done) {
  print_paths("made", done.made);
  print_paths("trimmed", done.trimmed);
  print_paths("entered", done.entered);
  print_paths("kept", done.kept);
}

void warn_of_verified_ranks(const VerifyCommand& options, const Verification& report) {
  std::vector<RankOrigin> ranks;
  for (const VerifiedRank& rank : report.ranks) {
    if (!rank.dump.empty() || options.rank) return;
    ranks.push_back({rank.rank, rank.sonde_version, rank.world_size});
  }
  for (const std::string& note : rank_notes(options.dump, ranks)) print_warning(note);
}

VerifyOptions question_of(const VerifyCommand& options) { return {options.hashes, options.rank, options.ranks}; }

// Ranks by themselves: the part of the work that goes on anywhere, side by side.
int verify_by_rank(const VerifyCommand& options) {
  return work_in_directories(options.dump, options.dir, [&](const RanksOfDump&, const RankInDump& rank) {
    return verify_into(rank, question_of(options), options.out);
  });
}

int print_lacking(const VerifyCommand& options) {
  return print_directories(ranks_without_part(options.dump, question_of(options), options.parts));
}

std::vector<std::string> verb_of(const VerifyCommand& options) {
  std::vector<std::string> verb = {"verify"};
  if (options.hashes) verb.emplace_back("--hashes");
  if (options.ranks) verb.emplace_back("--ranks");
  if (options.rank) verb.insert(verb.end(), {"--rank", std::to_string(*options.rank)});
  return verb;
}

// Lets an engine verify the ranks. Empty, with the exit status set: the verb must end.
std::optional<JoinedParts> verify_on_engine(const VerifyCommand& options, int& status) {
  if (options.engine != "local" && is_brought(options.dump)) {
    print_error("--engine " + options.engine +
                " needs a dump that its workers see under its path: `sonde gather` copies one");
    status = kBadUsage;
    return std::nullopt;
  }
  const Scratch parts;
  const Result<RanksOfDump> found = ranks_of_dump(options.dump);
  if (found && !found->ranks.empty() && !parts.path().empty()) {
    RankWork work{verb_of(options), {}, parts.path(), "verifying rank"};
    for (const RankInDump& rank : found->ranks) work.ranks.push_back(rank.directory);
    if (!work_on_ranks(options.dump, options.engine, work, status)) return std::nullopt;
  }
  // The calls of the ranks are compared in one catalog, from their indices.
  if (options.ranks && !index_ranks(options.dump, options.engine, status)) return std::nullopt;
  Result<JoinedParts> joined = join_parts(options.dump, question_of(options), parts.path());
  if (joined) return std::move(*joined);
  status = status_of(joined.error());
  return std::nullopt;
}

std::optional<Verification> verification_of(const VerifyCommand& options, int& status) {
  if (!options.engine.empty()) {
    std::optional<JoinedParts> joined = verify_on_engine(options, status);
    return joined ? std::optional(std::move(joined->report)) : std::nullopt;
  }
  if (!options.parts.empty()) {
    Result<JoinedParts> joined = join_parts(options.dump, question_of(options), options.parts);
    if (joined && joined->verified_here > 0) {
      print_notice(fmt::format("sonde: '{}' lacks {} as the dump is now: verified here\n", options.parts,
                               count_text(joined->verified_here, "rank")));
    }
    if (joined) return std::move(joined->report);
    status = status_of(joined.error());
    return std::nullopt;
  }
  Result<Verification> report = verify_dump(options.dump, question_of(options));
  if (report) return std::move(*report);
  status = status_of(report.error());
  return std::nullopt;
}

}  // namespace

int verify(const VerifyCommand& options) {
  if (!options.dir.empty()) return verify_by_rank(options);
  if (options.stale) return print_lacking(options);
  Result<Completion> done = Completion();
  if (options.complete) done = complete_dump(options.dump, options.rank);
  if (!done) return status_of(done.error());
  if (!options.json) print_completion(*done);
  for (const std::string& note : done->notes) print_warning(note);
  int status = kNothingFound;
  std::optional<Verification> report = verification_of(options, status);
  if (!report) return status;
  for (const Issue& issue : report->issues) {
    if (issue.kind != IssueKind::unreadable) continue;
    Answer::get().note_problem({issue.path, issue.message});
    Answer::get().set_incomplete();
  }
  warn_of_verified_ranks(options, *report);
  if (options.json) {
    if (options.complete) put(*done, *report);
    Answer::get().add(*report);
  } else if (!print_text(steps_text(*report) + issues_text(*report) + end_text(*report, options))) {
    return kUnreadable;
  }
  return std::ranges::any_of(report->issues, &Issue::is_finding) ? kFinding : kNothingFound;
}

}  // namespace sonde
