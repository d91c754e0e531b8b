#include "run_report.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>
#include <vector>

#include "ask/first_bad/first_bad.h"
#include "dump.h"
#include "face/report/catalog_text.h"
#include "face/report/finding.h"
#include "face/report/table.h"
#include "face/report/text.h"
#include "ground/base/json.h"
#include "ground/base/text.h"
#include "plan/config/environment.h"
#include "read/catalog/catalog.h"
#include "read/catalog/step_order.h"
#include "read/operators/op_nature.h"

namespace sonde {
namespace {

namespace fs = std::filesystem;

void say(std::string_view text) { print_notice(fmt::format("sonde: {}\n", printable(text))); }

// The processes of the run that began to record, in their order.
std::vector<std::uint64_t> processes_of(const std::vector<RunMessage>& all) {
  std::vector<std::uint64_t> processes;
  for (const RunMessage& message : all) {
    const bool is_one = message.kind == "started" || message.kind == "summary";
    if (is_one && std::ranges::count(processes, message.process) == 0) processes.push_back(message.process);
  }
  return processes;
}

// "rank 1" or "process 4711".
std::string name_of(std::uint64_t process, const std::string& rank) {
  return rank.empty() ? fmt::format("process {}", process) : fmt::format("rank {}", rank);
}

// A summary has one line or two, which begin with "sonde: ".
void say_summary(const RunMessage& message, bool is_only_one) {
  std::string_view summary = message.text;
  const bool is_named = !is_only_one || !message.rank.empty();
  const std::string by = is_named ? fmt::format(" ({})", name_of(message.process, message.rank)) : "";
  constexpr std::string_view kBegin = "sonde: ";
  while (!summary.empty()) {
    if (summary.starts_with(kBegin)) summary.remove_prefix(kBegin.size());
    const std::size_t end = std::min(summary.find("\nsonde: "), summary.size());
    say(std::string(summary.substr(0, end)) + by);
    summary.remove_prefix(std::min(end + 1, summary.size()));
  }
}

std::string how_it_ended(const std::string& program, const ChildEnd& end) {
  if (end.signal != 0)
    return fmt::format("{} was ended by signal {} ({}) after {:.1f} s", program, end.signal, strsignal(end.signal),
                       end.seconds);
  if (end.exit_code != 0)
    return fmt::format("{} exited with status {} after {:.1f} s", program, end.exit_code, end.seconds);
  return fmt::format("{} finished in {:.1f} s", program, end.seconds);
}

// The reason why no process recorded anything; null: one began.
const char* why_not_recorded(const std::vector<RunMessage>& all) {
  if (any(all, "refused")) return "recording did not start; the reason is above";
  if (is_off_by_environment()) return "nothing was recorded: SONDE_OFF is set; unset it to record";
  if (!any(all, "started"))
    return "nothing was recorded: no process of the run started Sonde; it starts when PyTorch is "
           "imported by a Python that has the package sonde installed, and with a program that is linked with "
           "libtorch; "
           "the results of another engine, such as ONNX Runtime, are compared as files (docs/compare.md)";
  return nullptr;
}

// The content of the dump of a process that gave no closing line.
std::string written_by(const Catalog* catalog, std::uint64_t process) {
  if (catalog == nullptr) return "it wrote nothing";
  for (const CatalogRank& rank : catalog->ranks) {
    const auto run = std::ranges::find(rank.runs, process, &CatalogRun::pid);
    if (run == rank.runs.end()) continue;
    std::uint64_t steps = 0, ops = 0;
    const CatalogStep* last = nullptr;
    for (const CatalogStep& step : rank.steps) {
      if (step.run != static_cast<std::size_t>(run - rank.runs.begin())) continue;
      ops += static_cast<std::uint64_t>(std::ranges::count(step.ops, false, &CatalogOp::is_parameter));
      ++steps;
      last = &step;
    }
    if (last == nullptr) break;
    return fmt::format("it wrote {} in {}, the last is step {}{}", count_text(ops, "operator"),
                       count_text(steps, "step"), last->id.number, last->ended ? "" : ", which is not complete");
  }
  return "it wrote no operator";
}

// A process that began, and gave no closing line.
void say_unfinished(const std::vector<RunMessage>& all, std::uint64_t process, const Catalog* catalog) {
  std::string rank;
  for (const RunMessage& message : all) {
    if (message.process != process) continue;
    if (message.kind == "summary" || message.kind == "refused") return;
    if (!message.rank.empty()) rank = message.rank;
  }
  say(fmt::format("{} ended without closing the dump (a kill, os._exit, Pool.terminate()): {}", name_of(process, rank),
                  written_by(catalog, process)));
}

// The steps of the last run of a rank: a dump may contain earlier runs.
std::vector<const CatalogStep*> steps_of_last_run(const CatalogRank& rank) {
  std::vector<const CatalogStep*> steps;
  for (const CatalogStep& step : rank.steps)
    if (rank.runs.empty() || step.run + 1 == rank.runs.size()) steps.push_back(&step);
  return steps;
}

struct RunSum {
  std::size_t steps = 0, ops = 0, tensors = 0, not_finite = 0;
};

RunSum sum_of(const std::vector<const CatalogStep*>& steps) {
  RunSum sum;
  for (const CatalogStep* step : steps) {
    ++sum.steps;
    for (const CatalogOp& op : step->ops) {
      sum.ops += op.is_parameter ? 0 : 1;
      for (const CatalogTensor& tensor : op.tensors) {
        sum.tensors += tensor.recorded() ? 1 : 0;
        sum.not_finite += is_not_finite(op, tensor) ? 1 : 0;
      }
    }
  }
  return sum;
}

// The first NaN or infinity of a rank, in the order of its run.
struct FirstNotFinite {
  const CatalogRank* rank = nullptr;
  const CatalogStep* step = nullptr;
  const CatalogOp* op = nullptr;
  const CatalogTensor* tensor = nullptr;
  std::size_t collectives = 0;  // before it, in its step

  // Bad values that a collective gave to this rank are another's.
  bool is_received() const { return !tensor->is_input && nature_of(*op).collective; }
  auto place_in(const StepOrder& order) const {
    return std::tuple(order.place_of(*rank, step->id), is_received(), collectives);
  }
};

std::optional<FirstNotFinite> first_not_finite(const CatalogRank& rank, const std::vector<const CatalogStep*>& steps) {
  for (const CatalogStep* step : steps) {
    std::size_t collectives = 0;
    for (const CatalogOp& op : step->ops) {
      const auto tensor =
          std::ranges::find_if(op.tensors, [&](const CatalogTensor& one) { return is_not_finite(op, one); });
      if (tensor != op.tensors.end()) return FirstNotFinite{&rank, step, &op, &*tensor, collectives};
      collectives += !op.is_parameter && nature_of(op).collective ? 1 : 0;
    }
  }
  return std::nullopt;
}

std::string text_of(const FirstNotFinite& first, bool with_rank) {
  const std::string source = source_text(*first.op);
  return fmt::format("NaN or infinity first in step {}{}: {}:{}{}{}", first.step->id.number,
                     with_rank ? " of rank " + rank_text(*first.rank) : "", first.op->op_name, slot_text(*first.tensor),
                     source.empty() ? "" : ", ", source);
}

// Judging takes a second for about 400,000 tensors.
constexpr std::size_t kMostJudged = 1'000'000;

// Whether the answer of first-bad is that of this run: it reads every run of a dump, and takes longer for more tensors.
bool can_judge(const Catalog& catalog, std::size_t tensors) {
  return tensors <= kMostJudged &&
         std::ranges::all_of(catalog.ranks, [](const CatalogRank& rank) { return rank.runs.size() < 2; });
}

std::string text_of(const Finding& first, bool with_rank) {
  const std::string line = short_line(first.code);
  return fmt::format("first bad value in step {}{}{}: {}{}{}{}: {}", first.step,
                     with_rank ? " of rank " + rank_text(first.rank, first.dump) : "",
                     std::ranges::count(first.tags, "after_optimizer") > 0 ? ", after its optimizer" : "",
                     name_of(first.tensor), line.empty() ? "" : ", ", line,
                     std::ranges::count(first.tags, "uncertain") > 0 ? " (uncertain)" : "", first.why);
}

// One line on what is not finite, in the words of first-bad where it may be asked. Says whether a cause is to be found.
bool say_not_finite(const Catalog& catalog, const FirstNotFinite& first, std::size_t tensors) {
  const bool with_rank = catalog.ranks.size() > 1;
  if (can_judge(catalog, tensors)) {
    const FirstBad report = first_bad(catalog, {.part = {}, .trend = false});
    if (report.first) say(text_of(*report.first, with_rank));
    if (report.first) return true;
    if (report.complete) {
      say("no NaN or infinity that matters: all of them are masked, expected or read by nobody (sonde first-bad)");
      return false;
    }
  }
  say(text_of(first, with_rank));
  return true;
}

// Says whether there is a cause to be found.
bool print_contents(const Catalog& catalog) {
  Table table({{"rank", Align::right},
               {"graph"},
               {"steps", Align::right},
               {"ops", Align::right},
               {"tensors", Align::right},
               {"not finite", Align::right}});
  std::optional<FirstNotFinite> first;
  std::size_t tensors = 0;
  std::vector<const CatalogRank*> ranks;
  for (const CatalogRank& rank : catalog.ranks) ranks.push_back(&rank);
  const StepOrder order(ranks);
  for (const CatalogRank& rank : catalog.ranks) {
    std::map<std::uint32_t, std::vector<const CatalogStep*>> graphs;
    for (const CatalogStep* step : steps_of_last_run(rank)) graphs[step->id.graph].push_back(step);
    for (const auto& [graph, steps] : graphs) {
      const RunSum sum = sum_of(steps);
      tensors += sum.tensors;
      table.add({fmt::format("{}", rank.rank), fmt::format("{} {}", graph, graph == 0 ? "training" : "no gradients"),
                 fmt::format("{}", sum.steps), fmt::format("{}", sum.ops), fmt::format("{}", sum.tensors),
                 fmt::format("{}", sum.not_finite)});
      const std::optional<FirstNotFinite> of_rank = first_not_finite(rank, steps);
      if (of_rank && (!first || of_rank->place_in(order) < first->place_in(order))) first = of_rank;
    }
  }
  if (table.empty()) return false;
  print_notice(table.text(terminal_width(STDERR_FILENO)));
  return first && say_not_finite(catalog, *first, tensors);
}

}  // namespace

std::vector<RunMessage> read_run_messages(const fs::path& file) {
  std::vector<RunMessage> all;
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    const Json entry = json_of_text(line);
    if (!entry.is_object()) continue;  // torn by a kill
    all.push_back({entry.value("kind", ""), entry.value("text", ""), entry.value("rank", ""),
                   entry.value("pid", std::uint64_t{0})});
  }
  return all;
}

bool any(const std::vector<RunMessage>& all, std::string_view kind) {
  return std::ranges::any_of(all, [&](const RunMessage& message) { return message.kind == kind; });
}

void print_run_report(const std::string& program, const ChildEnd& end, const fs::path& report, const fs::path& dump) {
  say(how_it_ended(program, end));
  const std::vector<RunMessage> all = read_run_messages(report);
  const std::vector<std::uint64_t> processes = processes_of(all);
  for (const RunMessage& entry : all)
    if (entry.kind == "summary") say_summary(entry, processes.size() == 1);
  if (const char* why = any(all, "summary") ? nullptr : why_not_recorded(all)) say(why);
  std::error_code ignored;
  const bool is_there = any(all, "started") && fs::exists(dump, ignored);
  const std::optional<Result<Catalog>> catalog = is_there ? std::optional(open_catalog(dump)) : std::nullopt;
  const Catalog* content = catalog && *catalog ? &**catalog : nullptr;
  for (const std::uint64_t process : processes) say_unfinished(all, process, content);
  if (content == nullptr) return;  // nothing was recorded, which is already reported
  const bool has_cause = print_contents(*content);
  const std::string word = shell_word(dump.string());
  say(fmt::format("to look at it: sonde ls {0}; sonde stats {0}", word));
  if (has_cause) say(fmt::format("to find its cause: sonde first-bad {}", word));
  say(fmt::format("to open it in a browser: sonde serve {} --open", word));
}

}  // namespace sonde
