#include "ask/finding/finding.h"

#include <fmt/format.h>

#include <algorithm>

#include "ground/model/source_line.h"
#include "read/catalog/slot_text.h"

namespace sonde {
namespace {

std::string_view purpose_of(NextKind kind) {
  switch (kind) {
    case NextKind::values:
      return "its values";
    case NextKind::readers:
      return "what it read, and who reads its result";
    case NextKind::recording:
      return "a recording with the values of the suspects";
    case NextKind::browser:
      return "all of it in a browser";
    case NextKind::target_op:
      return "the operator in the target";
    case NextKind::golden_op:
      return "the operator in golden";
    case NextKind::all_ops:
      return "every operator with its numbers";
    case NextKind::browser_of_both:
      return "both in a browser";
  }
  return "";
}

// The function of `line` is called by `caller`, and in the same run by another line. Of a module's forward the op's scope
// says which call it is.
bool is_called_by_other_lines(const CatalogRank& rank, const SourceLine& line, const SourceLine& caller) {
  if (line.function == "forward") return false;
  const auto is_of_other = [&](const Site& site) {
    const auto at = std::ranges::find(site.trace, line);
    return at != site.trace.end() && at + 1 != site.trace.end() && (at + 1)->function == caller.function &&
           (at + 1)->file == caller.file && (at + 1)->line != caller.line;
  };
  return std::ranges::any_of(rank.runs, [&](const CatalogRun& run) {
    return run.sites != nullptr && std::ranges::any_of(*run.sites, is_of_other);
  });
}

}  // namespace

std::optional<Caller> caller_of(const CatalogRank& rank, const CatalogOp& op) {
  if (op.trace == nullptr) return std::nullopt;
  const auto own = std::ranges::find_if(
      *op.trace, [&](const SourceLine& line) { return line.line == op.line && line.file == op.source_file; });
  const auto caller = std::find_if(own == op.trace->end() ? own : own + 1, op.trace->end(),
                                   [](const auto& line) { return !is_of_a_library(line.file); });
  if (caller == op.trace->end()) return std::nullopt;
  if (!is_of_a_library(op.source_file) && !is_called_by_other_lines(rank, *own, *caller)) return std::nullopt;
  return Caller{.source_file = caller->file, .source_line = caller->line, .function = caller->function};
}

FindingTensor finding_tensor(const CatalogRank& rank, const CatalogOp& op, const CatalogTensor& tensor) {
  FindingTensor out;
  out.side = side_of(tensor);
  out.slot = tensor.slot;
  out.dtype = tensor.dtype;
  if (tensor.has_shape) out.shape = tensor.shape;
  out.op_name = op.op_name;
  out.op_type = op.op_type;
  out.parameter = tensor.parameter;
  out.placement = tensor.placement;
  out.statistics = tensor.statistics;
  if (!tensor.file.empty()) out.tensor_file = (rank.directory / tensor.file).string();
  return out;
}

Finding finding_at(const CatalogRank& rank, const CatalogStep& step, const CatalogOp& op, const CatalogTensor* tensor) {
  Finding finding;
  finding.rank = rank.rank;
  finding.dump = rank.dump;
  finding.graph = step.id.graph;
  finding.step = step.id.number;
  finding.phase = op.phase;
  finding.tensor = tensor != nullptr ? finding_tensor(rank, op, *tensor) : FindingTensor();
  finding.tensor.op_name = finding.op_name = op.op_name;
  finding.tensor.op_type = finding.op_type = op.op_type;
  finding.code.source_file = op.source_file;
  finding.code.source_line = op.line;
  finding.code.function = op.function;
  finding.code.called_from = caller_of(rank, op);
  return finding;
}

Code code_of(const CatalogRank& rank, const CatalogOp& op, SourceTexts& sources, std::uint32_t around) {
  Code code;
  code.source_file = op.source_file;
  code.function = op.function;
  code.source_line = op.line;
  code.called_from = caller_of(rank, op);
  if (op.line == 0 || op.source_file.empty() || sources.text(code.source_file) == nullptr) return code;
  const std::uint32_t first = op.line > around ? op.line - around : 1;
  for (std::uint32_t number = first; number <= op.line + around; ++number) {
    const std::string_view text = sources.line(code.source_file, number);
    if (text.empty() && number > op.line) break;  // the end of the file
    code.lines.push_back({number, std::string(text)});
  }
  return code;
}

std::vector<EarlierOp> earlier_ops(const CatalogRank& rank, const std::vector<EarlierWriter>& way) {
  std::vector<EarlierOp> ops;
  for (const EarlierWriter& one : way) {
    const StepId& step = rank.steps[one.step].id;
    ops.push_back({.graph = step.graph,
                   .step = step.number,
                   .op_name = std::string(one.op->op_name),
                   .op_type = std::string(one.op->op_type),
                   .phase = one.op->phase,
                   .source_file = std::string(one.op->source_file),
                   .source_line = one.op->line});
  }
  return ops;
}

std::string place_options(const CatalogRank& rank, StepId step, bool with_rank) {
  std::string text = fmt::format(" --step {}", step.number);
  const bool is_of_many = std::ranges::any_of(rank.steps, [&](const CatalogStep& other) {
    return other.id.number == step.number && other.id.graph != step.graph;
  });
  if (step.graph != 0 || is_of_many) text += fmt::format(" --graph {}", step.graph);
  if (with_rank) text += fmt::format(" --rank {}", rank.rank);
  return text;
}

NextCommand next_command(NextKind kind, std::string command) {
  return {.kind = kind, .purpose = std::string(purpose_of(kind)), .command = std::move(command)};
}

std::string slot_name(bool is_input, std::uint32_t slot) {
  return fmt::format("{}.{}", is_input ? "input" : "output", slot);
}

std::string slot_name(const FindingTensor& tensor) { return slot_name(tensor.side == Side::input, tensor.slot); }

StepId step_of(const Finding& finding) { return {finding.graph, finding.step}; }

std::string name_of(const FindingTensor& tensor) {
  if (tensor.op_name.empty()) return tensor.parameter;
  return fmt::format("{}:{}", tensor.op_name, slot_name(tensor));
}

}  // namespace sonde
