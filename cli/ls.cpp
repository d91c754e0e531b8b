#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>

#include "dump.h"
#include "face/report/catalog_text.h"
#include "face/report/json.h"
#include "face/report/table.h"
#include "face/report/text.h"
#include "ground/base/ranges_text.h"
#include "read/index/index_sums.h"
#include "verbs.h"
#include "waiting.h"

namespace sonde {
namespace {

// The totals of several steps.
struct Sum {
  std::vector<std::uint64_t> steps;
  std::size_t fewest_ops = 0, most_ops = 0;
  std::uint64_t ops = 0, parameters = 0, tensors = 0, files = 0, bytes = 0;
  std::uint64_t started_us = 0, ended_us = 0;
  bool ended = true;
};

// `from_index`: the index has counted all of its ops, and all earlier steps are also chosen.
void add_step(const SelectedStep& selected, bool from_index, StepCounter& counter, Waiting& waiting, Sum& sum) {
  const CatalogStep& step = *selected.step;
  const StepSum counted = from_index ? *step.sum : counter.count(*selected.rank, selected.ops);
  sum.ops += counted.ops;
  sum.parameters += counted.parameters;
  sum.tensors += counted.tensors;
  sum.files += counted.files;
  sum.bytes += counted.new_bytes;
  const std::size_t ops = counted.ops;
  sum.fewest_ops = sum.steps.empty() ? ops : std::min(sum.fewest_ops, ops);
  sum.most_ops = std::max(sum.most_ops, ops);
  sum.steps.push_back(step.id.number);
  sum.ended = sum.ended && step.ended;
  if (step.started_us != 0 && (sum.started_us == 0 || step.started_us < sum.started_us)) {
    sum.started_us = step.started_us;
  }
  sum.ended_us = std::max(sum.ended_us, step.ended_us);
  waiting.advance();
}

std::string state_of(const CatalogRun& run) {
  if (const std::string_view failure = failure_of(run); !failure.empty()) return "stopped: " + std::string(failure);
  return run.finished ? "finished" : "not finished (killed, or still running)";
}

std::string span_text(std::uint64_t started_us, std::uint64_t ended_us) {
  return ended_us > started_us && started_us != 0 ? duration_text(ended_us - started_us) : "";
}

// The sources of a rank without a journal.
std::string source_of(DumpKind kind) {
  switch (kind) {
    case DumpKind::msprobe:
      return "no journal: read from msprobe's dump.json";
    case DumpKind::files:
      return "no journal: every file a tensor";
    case DumpKind::summary:
      return "no journal: a summary";
    default:
      return "no journal: read from file names and tables";
  }
}

std::string runs_text(const CatalogRank& rank) {
  std::string text;
  for (std::size_t i = 0; i < rank.runs.size(); ++i) {
    const CatalogRun& run = rank.runs[i];
    std::vector<std::string> parts;
    if (!rank.has_journal) {
      parts.push_back(source_of(rank.kind));
    } else {
      parts.push_back(state_of(run));
    }
    if (!run.host.empty()) parts.push_back(run.host);
    if (run.started_us != 0) parts.push_back("began " + time_text(run.started_us));
    const std::string span = span_text(run.started_us, run.ended_us);
    if (!span.empty()) parts.push_back("took " + span);
    if (!run.saved_data.empty()) parts.push_back("saved " + run.saved_data);
    if (run.bytes_read != 0) {
      parts.push_back(fmt::format("read {}, wrote {}", bytes_text(run.bytes_read), bytes_text(run.bytes_written)));
    }
    text += fmt::format("rank {}  run {}  {}\n", printable(rank_text(rank)), i, printable(joined(parts, ", ")));
    if (!run.command.empty()) text += "        " + printable(run.command) + "\n";
    for (const std::string& note : run.notes) text += "        note: " + printable(note) + "\n";
  }
  return text;
}

using SumKey = std::tuple<const CatalogRank*, std::size_t, std::uint32_t>;  // rank, run, graph

std::map<SumKey, Sum> sums_of(const std::vector<SelectedStep>& steps, bool from_index) {
  std::map<SumKey, Sum> sums;
  StepCounter counter;
  Waiting waiting("looking at step", steps.size());
  for (const SelectedStep& step : steps) {
    Sum& sum = sums[{step.rank, step.step->run, step.step->id.graph}];
    add_step(step, from_index, counter, waiting, sum);
  }
  return sums;
}

// The requests of a serving engine: those of a step are many, so each has one line.
std::string requests_text(const std::vector<SelectedStep>& steps) {
  struct Worked {
    std::vector<std::uint64_t> steps;
    std::uint64_t rows = 0, end = 0;
  };
  std::map<std::pair<const CatalogRank*, std::string>, Worked> requests;
  for (const SelectedStep& step : steps) {
    for (const StepRequest& one : step.step->requests) {
      Worked& worked = requests[{step.rank, one.request}];
      worked.steps.push_back(step.step->id.number);
      worked.rows += one.rows;
      worked.end = std::max(worked.end, one.position + one.rows);
    }
  }
  if (requests.empty()) return "";
  Table table({{"rank", Align::right},
               {"request", Align::left, true},
               {"steps", Align::left, true},
               {"rows", Align::right},
               {"length", Align::right}});
  for (const auto& [key, worked] : requests) {
    table.add({rank_text(*key.first), key.second, ranges_text(worked.steps), std::to_string(worked.rows),
               std::to_string(worked.end)});
  }
  return "\n" + table.text(terminal_width());
}

std::string summary_text(const Catalog& catalog, const std::vector<SelectedStep>& steps, bool from_index) {
  Table table({{"rank", Align::right},
               {"run", Align::right},
               {"graph", Align::right},
               {"steps", Align::left, true},
               {"ops/step", Align::right},
               {"ops", Align::right},
               {"parameters", Align::right},
               {"tensors", Align::right},
               {"files", Align::right},
               {"bytes", Align::right},
               {"began"},
               {"took", Align::right}});
  for (const auto& [key, sum] : sums_of(steps, from_index)) {
    const auto [rank, run, graph] = key;
    const std::string per_step = sum.fewest_ops == sum.most_ops ? std::to_string(sum.most_ops)
                                                                : fmt::format("{}-{}", sum.fewest_ops, sum.most_ops);
    table.add({rank_text(*rank), std::to_string(run), std::to_string(graph),
               ranges_text(sum.steps) + (sum.ended ? "" : " (last one cut off)"), per_step, std::to_string(sum.ops),
               std::to_string(sum.parameters), std::to_string(sum.tensors), std::to_string(sum.files),
               sum.files > 0 ? bytes_text(sum.bytes) : "-", time_text(sum.started_us),
               span_text(sum.started_us, sum.ended_us)});
  }
  std::string text;
  for (const CatalogRank& rank : catalog.ranks) text += runs_text(rank);
  if (table.empty()) return text + "no step was recorded\n";
  return text + "\n" + table.text(terminal_width()) + requests_text(steps);
}

ListedStep listed(const CatalogStep& step, const Sum& sum) {
  return {.graph = step.id.graph,
          .step = step.id.number,
          .run = step.run,
          .ended = step.ended,
          .started_us = step.started_us,
          .ended_us = step.ended_us,
          .ops = sum.ops,
          .parameters = sum.parameters,
          .tensors = sum.tensors,
          .files = sum.files,
          .bytes = sum.bytes,
          .requests = listed_requests(step)};
}

void answer_summary(const Catalog& catalog, const std::vector<SelectedStep>& steps, bool from_index) {
  StepCounter counter;
  Waiting waiting("looking at step", steps.size());
  for (const CatalogRank& rank : catalog.ranks) {
    ListedRank answer{.rank = rank.rank,
                      .dump = rank.dump,
                      .directory = rank.directory.string(),
                      .has_journal = rank.has_journal,
                      .runs = {},
                      .steps = {}};
    for (const CatalogRun& run : rank.runs) answer.runs.push_back(listed(run));
    for (const SelectedStep& step : steps) {
      if (step.rank != &rank) continue;
      Sum sum;
      add_step(step, from_index, counter, waiting, sum);
      answer.steps.push_back(listed(*step.step, sum));
    }
    Answer::get().add_row(json_of(answer));
  }
}

// One op of the network, over all selected steps and ranks.
struct OpLine {
  const CatalogOp* op = nullptr;
  std::size_t times = 0, inputs = 0, outputs = 0, recorded = 0;
};

std::size_t recorded_in(const CatalogOp& op) {
  return static_cast<std::size_t>(std::ranges::count_if(op.tensors, &CatalogTensor::recorded));
}

std::vector<OpLine> op_lines(const std::vector<SelectedStep>& steps) {
  std::vector<OpLine> lines;
  std::unordered_map<const char*, std::size_t> by_name;  // texts of a catalog are kept once
  for (const SelectedStep& step : steps) {
    for (const CatalogOp* op : step.ops) {
      const auto [at, is_new] = by_name.try_emplace(op->op_name.data(), lines.size());
      if (is_new) lines.push_back({op});
      OpLine& line = lines[at->second];
      if (op->sum) {  // a saved index has counted those that follow
        line.times = op->sum->times - 1;
        line.recorded = op->sum->recorded - recorded_in(*op);
      }
      ++line.times;
      line.recorded += recorded_in(*op);
      if (!is_new) continue;
      for (const CatalogTensor& tensor : op->tensors) ++(tensor.is_input ? line.inputs : line.outputs);
    }
  }
  return lines;
}

std::string ops_text(const std::vector<SelectedStep>& steps) {
  Table table({{"op", Align::left, true},
               {"type", Align::left, true, 3},
               {"phase"},
               {"in", Align::right},
               {"out", Align::right},
               {"times", Align::right},
               {"tensors", Align::right},
               {"line", Align::left, true, 2},
               {"function", Align::left, true, 1}});
  for (const OpLine& line : op_lines(steps)) {
    table.add({std::string(line.op->op_name), std::string(line.op->op_type),
               line.op->is_parameter ? "" : std::string(word_of(line.op->phase)), std::to_string(line.inputs),
               std::to_string(line.outputs), std::to_string(line.times), std::to_string(line.recorded),
               source_text(*line.op), std::string(line.op->function)});
  }
  return table.empty() ? "" : table.text(terminal_width());
}

void answer_ops(const std::vector<SelectedStep>& steps) {
  for (const OpLine& line : op_lines(steps)) {
    const CatalogOp& op = *line.op;
    Answer::get().add_row(json_of(ListedOp{.op_name = std::string(op.op_name),
                                           .op_type = std::string(op.op_type),
                                           .scope = std::string(scope_of(op)),
                                           .phase = op.phase,
                                           .is_parameter = op.is_parameter,
                                           .inputs = line.inputs,
                                           .outputs = line.outputs,
                                           .times = line.times,
                                           .tensors = line.recorded,
                                           .source_file = std::string(op.source_file),
                                           .source_line = op.line,
                                           .function = std::string(op.function)}));
  }
}

// True if an index has the sums of all these steps. A file that several steps share must count for the first of them.
// This is certain if all steps are chosen, or if none of them shares a file.
bool is_counted(const Catalog& catalog, const std::vector<SelectedStep>& steps) {
  std::size_t all = 0;
  for (const CatalogRank& rank : catalog.ranks) all += rank.steps.size();
  const bool shares = std::ranges::any_of(steps, [](const SelectedStep& step) {
    return !step.step->sum || step.step->sum->bytes != step.step->sum->new_bytes;
  });
  const bool known = std::ranges::all_of(steps, [](const SelectedStep& step) { return step.step->sum.has_value(); });
  return known && (steps.size() == all || !shares);
}

}  // namespace

int ls(const LsCommand& options) {
  int status = kNothingFound;
  const bool sums_only = !options.ops && options.select.empty();
  CatalogQuery query = query_of_selected(options);
  query.with_ops = !sums_only;
  query.first_of_name = options.ops;
  std::optional<Catalog> catalog = open_dump(options, query, status);
  if (!catalog) return status;
  std::optional<std::vector<SelectedStep>> steps = select_steps(*catalog, options, status);
  if (!steps) return status;
  const bool from_index = sums_only && is_counted(*catalog, *steps);
  if (sums_only && !from_index && comes_from_index(*catalog)) {  // then they are counted here
    query.with_ops = true;
    catalog = open_dump(options, query, status);
    if (!catalog) return status;
    steps = select_steps(*catalog, options, status);
    if (!steps) return status;
  }
  warn_of_ranks(*catalog, options.rank);
  if (options.json) {
    Answer::get().add("path", catalog->path.string());
    Answer::get().begin_list(options.ops ? "ops" : "ranks");
    options.ops ? answer_ops(*steps) : answer_summary(*catalog, *steps, from_index);
    return kNothingFound;
  }
  return print_text(options.ops ? ops_text(*steps) : summary_text(*catalog, *steps, from_index)) ? kNothingFound
                                                                                                 : kUnreadable;
}

}  // namespace sonde
