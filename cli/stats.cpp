#include <fmt/format.h>

#include "dump.h"
#include "engine.h"
#include "face/report/catalog_text.h"
#include "face/report/json.h"
#include "face/report/table.h"
#include "face/report/text.h"
#include "read/measure/measure.h"
#include "read/operators/op_nature.h"
#include "verbs.h"
#include "waiting.h"

namespace sonde {
namespace {

constexpr std::size_t kRoomy = 140;  // columns of a terminal

std::string value_text(const std::optional<double>& value, int digits) {
  return value ? fmt::format("{:.{}g}", *value, digits) : "-";
}
std::string number_text(const std::optional<std::uint64_t>& count) { return count ? std::to_string(*count) : "-"; }

std::string inf_text(const KnownStatistics& statistics) {
  const bool is_known = statistics.infinity_count(1) || statistics.infinity_count(-1);
  return is_known ? std::to_string(statistics.infinity_count()) : "-";
}

Table make_table() {
  return Table({{"rank", Align::right},
                {"run", Align::right},
                {"graph", Align::right},
                {"step", Align::right},
                {"op", Align::left, true},
                {"slot"},
                {"name", Align::left, true, 3},
                {"dtype", Align::left, false, 2},
                {"shape", Align::left, true, 4},
                {"max", Align::right},
                {"min", Align::right},
                {"avg", Align::right, false, 5},
                {"l2norm", Align::right},
                {"nan", Align::right},
                {"inf", Align::right},
                {"line", Align::left, false, 1}});
}

// The layout of the table: a value that is equal in all rows needs no column.
struct Form {
  bool rank = false, run = false, graph = false, step = false;
  int digits = 6;  // of values: four on a narrow terminal
};

Form form_of(const std::vector<SelectedStep>& steps) {
  Form form;
  const std::size_t width = terminal_width();
  if (width > 0 && width < kRoomy) form.digits = 4;
  for (const SelectedStep& step : steps) {
    form.rank |= step.rank != steps[0].rank;
    form.run |= step.step->run != steps[0].step->run;
    form.graph |= step.step->id.graph != steps[0].step->id.graph;
    form.step |= !(step.step->id == steps[0].step->id);
  }
  return form;
}

void add_row(const SelectedStep& step, const CatalogOp& op, const CatalogTensor& tensor, const Form& form,
             Table& table) {
  const KnownStatistics statistics = tensor.statistics.value_or(KnownStatistics());
  // A parameter's name is already the op's.
  const bool named = !tensor.parameter.empty() && tensor.parameter != op.op_name;
  table.add({form.rank ? rank_text(*step.rank) : "", form.run ? std::to_string(step.step->run) : "",
             form.graph ? std::to_string(step.step->id.graph) : "",
             form.step ? std::to_string(step.step->id.number) : "", std::string(op.op_name), slot_text(tensor),
             named ? std::string(tensor.parameter) : "", dtype_text(tensor), shape_text(tensor),
             tensor.skipped.empty() || tensor.statistics ? value_text(statistics.max, form.digits)
                                                         : "skipped: " + std::string(tensor.skipped),
             value_text(statistics.min, form.digits), value_text(statistics.avg, form.digits),
             value_text(statistics.l2norm, form.digits), number_text(statistics.nan_count), inf_text(statistics),
             source_text(op)});
}

bool has_row(const CatalogTensor& tensor) { return tensor.recorded() || (tensor.wanted && !tensor.skipped.empty()); }

// Opens the files of tensors without statistics in the dump.
void measure_missing(std::vector<SelectedStep>& steps) {
  std::vector<MeasureTask> missing;
  for (SelectedStep& step : steps) {
    for (CatalogOp* op : step.ops) {
      for (CatalogTensor& tensor : op->tensors) {
        if (!tensor.statistics && !tensor.file.empty()) missing.push_back({step.rank, &tensor});
      }
    }
  }
  Waiting waiting("reading tensor", missing.size());
  add_unreadable(measure_all(missing, 0, [&] { waiting.advance(); }));
}

struct Outcome {
  std::size_t rows = 0, not_finite = 0;
};

int print_outcome(const Outcome& outcome, const Table& table, const DumpOptions& options) {
  if (!options.json && !table.empty() && !print_text(table.text(terminal_width()))) return kUnreadable;
  if (outcome.rows == 0) print_warning("no tensor of these ops was recorded");
  if (!options.json && outcome.not_finite > 0) {
    print_notice(
        fmt::format("sonde: {} of {} hold NaN or infinity\n", outcome.not_finite, count_text(outcome.rows, "tensor")));
  }
  return outcome.not_finite > 0 ? kFinding : kNothingFound;
}

}  // namespace

int stats(const StatsCommand& options) {
  int status = kNothingFound;
  if (!index_ranks(options.dump, options.engine, status)) return status;
  std::optional<Catalog> catalog = open_dump(options, query_of_selected(options), status);
  if (!catalog) return status;
  std::optional<std::vector<SelectedStep>> steps = select_steps(*catalog, options, status);
  if (!steps) return status;
  measure_missing(*steps);
  const Form form = form_of(*steps);
  Table table = make_table();
  Outcome outcome;
  Answer::get().begin_list("tensors");
  for (const SelectedStep& step : *steps) {
    for (const CatalogOp* op : step.ops) {
      for (const CatalogTensor& tensor : op->tensors) {
        if (!has_row(tensor)) continue;
        outcome.rows += tensor.recorded();  // a tensor that was left out has a row with the reason
        outcome.not_finite += is_not_finite(*op, tensor) ? 1 : 0;
        if (options.json) {
          Answer::get().add_row(json_of(*step.rank, *step.step, *op, tensor));
        } else {
          add_row(step, *op, tensor, form, table);
        }
      }
    }
  }
  const int found = print_outcome(outcome, table, options);
  warn_of_ranks(*catalog, options.rank);
  // Of steps that were named, and are complete, nothing is missing.
  const std::optional<DumpPart> part = chosen_part(*catalog, options, status);
  const bool all_steps = options.step.empty() || (!steps->empty() && !steps->back().step->ended);
  const bool ended_early = part && all_steps && warn_of_early_ends(*catalog, *part);
  return ended_early && found == kNothingFound ? kUnreadable : found;
}

}  // namespace sonde
