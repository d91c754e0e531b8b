// Summaries of long runs (dump/summary): the few steps that they keep, with a module or a gradient as the operator.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "dump/summary/summary_reader.h"
#include "read/catalog/catalog_readers.h"

namespace sonde {
namespace {

namespace fs = std::filesystem;

// A window's worst step is shown beside its first one if the norm is so many times greater: a person would look at it.
constexpr float kPeak = 10;

using CellsOfStep = std::map<std::uint32_t, SummaryCell>;  // by series, in the order in which they were first read
using CellsOfSteps = std::map<std::uint64_t, CellsOfStep>;

void add_cell(std::uint64_t first_step, std::uint32_t series, const SummaryCell& cell, CellsOfSteps& steps) {
  if (cell.is_read()) steps[first_step + cell.offset].try_emplace(series, cell);
}

bool is_peak(const SummaryCell& peak, const SummaryCell& sample) {
  if (!peak.is_read() || peak.offset == sample.offset) return false;
  return peak.is_bad() || peak.l2norm > kPeak * std::abs(sample.l2norm);
}

void add_row(const SummaryRow& row, const Summary& summary, CellsOfSteps& steps) {
  const std::size_t known = std::min(row.samples.size(), summary.series.size());
  for (std::size_t i = 0; i < known; ++i) {
    const auto number = static_cast<std::uint32_t>(i);
    add_cell(row.first_step, number, row.samples[i], steps);
    const bool is_missing = summary.limited && row.peaks.empty() && !row.samples[i].is_read();
    if (is_missing) steps[row.first_step].try_emplace(number, row.samples[i]);
    if (row.peaks.empty() || !is_peak(row.peaks[i], row.samples[i])) continue;
    add_cell(row.first_step, number, row.peaks[i], steps);
  }
}

// The finest windows that there are of each part of the run.
CellsOfSteps cells_of(const Summary& summary) {
  CellsOfSteps steps;
  std::uint64_t covered_from = ~0ULL;  // by finer windows, up to the end
  for (const std::vector<SummaryRow>& rows : summary.rows) {
    for (const SummaryRow& row : rows) {
      if (row.first_step < covered_from) add_row(row, summary, steps);
    }
    if (!rows.empty()) covered_from = std::min(covered_from, rows.front().first_step);
  }
  for (const SummaryEvent& event : summary.events) add_cell(event.step, event.series, event.cell, steps);
  return steps;
}

class SummaryRankReader {
 public:
  SummaryRankReader(const Summary& summary, Catalog& catalog) : summary_(summary) {
    for (const SummarySeries& series : summary.series) names_.push_back(catalog.texts->keep(series.name));
    for (const SummarySeries& series : summary.series) types_.push_back(catalog.texts->keep(type_of(series)));
  }

  CatalogStep step_of(std::uint64_t number, const CellsOfStep& cells) const {
    CatalogStep step;
    step.id.number = number;
    step.ended = true;
    step.ops.reserve(cells.size());
    for (const auto& [series, cell] : cells) step.ops.push_back(op_of(series, cell));
    return step;
  }

 private:
  static std::string_view type_of(const SummarySeries& series) {
    if (series.kind == SummaryKind::output) return series.type;
    return series.kind == SummaryKind::loss ? "loss" : "gradient";
  }

  CatalogOp op_of(std::uint32_t number, const SummaryCell& cell) const {
    const SummarySeries& series = summary_.series[number];
    CatalogOp op;
    op.op_name = names_[number];
    op.op_type = types_[number];
    op.phase = series.kind == SummaryKind::gradient ? Phase::backward : Phase::forward;
    op.sequence = number;
    op.is_module = true;  // its inputs are unknown, not missing
    CatalogTensor tensor;
    tensor.dtype = series.dtype;
    tensor.set_shape(series.shape);
    if (series.kind == SummaryKind::gradient) tensor.parameter = names_[number];
    if (cell.is_read()) {
      tensor.statistics = known(cell);
    } else {
      tensor.skipped = ReasonNotRead(kNotRead);
    }
    op.tensors.push_back(std::move(tensor));
    return op;
  }

  const Summary& summary_;
  std::vector<std::string_view> names_, types_;
};

CatalogRun run_of(const Summary& summary) {
  CatalogRun run;
  run.finished = true;  // a summary does not say so, and has no more to give if it was killed
  run.layout = "summary";
  run.saved_data = "summary";
  run.notes.emplace_back("a summary: outputs of modules, gradients and the loss, without operators and their inputs");
  run.notes.push_back(fmt::format(
      "every step of the newest windows, the first of each window of 10, 100, … steps before them, and steps in "
      "which a norm was {} times greater; the first step of a NaN or an infinity that was read",
      kPeak));
  if (summary.limited) run.notes.emplace_back("max_overhead: in most steps only the loss was read");
  if (summary.left_out)
    run.notes.push_back(fmt::format("more than {} tensors: the others are left out", kMostSummarySeries));
  return run;
}

}  // namespace

void read_summary_rank(const std::vector<fs::path>& directories, CatalogRank& rank, Catalog& catalog) {
  for (const fs::path& directory : directories) {
    const Result<Summary> summary = read_summary(directory);
    if (!summary) {
      catalog.problems.push_back({directory, summary.error().message});
      continue;
    }
    for (const std::string& problem : summary->problems) catalog.problems.push_back({directory, problem});
    const SummaryRankReader reader(*summary, catalog);
    for (const auto& [number, cells] : cells_of(*summary)) {
      rank.steps.push_back(reader.step_of(number, cells));
      rank.steps.back().run = rank.runs.size();
    }
    rank.runs.push_back(run_of(*summary));
  }
}

}  // namespace sonde
