#include "face/report/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "ask/compare/compare_words.h"
#include "face/report/catalog_text.h"
#include "face/report/finding.h"
#include "face/report/json.h"
#include "face/report/line_kind.h"
#include "face/report/table.h"
#include "face/report/text.h"
#include "read/catalog/step_graph.h"
#include "read/measure/slot_values.h"

namespace sonde {

std::string place_after_comma(const CatalogOp& op) {
  const std::string source = source_text(op);
  return source.empty() ? "" : ", " + source;
}

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t kMostFindings = 2;  // after the first

// The error and its place: one line.
std::string subject_of(const CompareFinding& finding) {
  const CatalogOp& op = *finding.culprit;
  const std::string named = fmt::format("{} {}{}", op.op_type, op.op_name, place_after_comma(op));
  switch (finding.kind) {
    case FindingKind::type:
      if (finding.tensor == nullptr || !finding.tensor->target->is_input) return named;
      [[fallthrough]];
    case FindingKind::parameter:
      return fmt::format(
          "{}, {} of {}",
          finding.name.empty() ? "parameter " + std::string(finding.tensor->target->parameter) : finding.name,
          slot_text(*finding.tensor->target), named);
    case FindingKind::data:
      return fmt::format("data{}{}, {} of {}", finding.tensor->target->parameter.empty() ? "" : " ",
                         finding.tensor->target->parameter, slot_text(*finding.tensor->target), named);
    case FindingKind::missing:
      return (finding.in_golden ? "golden op " : "") + named;
    default:
      return named;
  }
}

void add_source(std::string& text, const CompareSide& side, const CatalogOp& op, std::string_view title) {
  if (op.source_file.empty() || op.line == 0) return;
  SourceTexts sources = sources_of(*side.rank);
  const std::string line(sources.line(std::string(op.source_file), op.line));
  const std::size_t begin = line.find_first_not_of(" \t");
  if (begin != std::string::npos) text += fmt::format("  {:<8}{}\n", title, printable(line.substr(begin)));
}

// The text below the first line.
std::string details_of(const DumpComparison& comparison, const CompareFinding& finding) {
  const ComparedStep& step = comparison.steps[finding.step];
  const ComparedOp& op = *finding.op;
  std::string text;
  add_source(text, step.side(finding.in_golden), *finding.culprit, "source");
  text += caller_text(caller_of(*comparison.steps[finding.step].side(finding.in_golden).rank, *finding.culprit));
  if (!op.golden.empty() && !op.target.empty()) {
    const CatalogOp& golden = *op.golden.back();
    text += fmt::format("  golden  {}{}, matched by {}\n", printable(names_of(op.golden)),
                        printable(place_after_comma(golden)), word_of(op.how));
    if (golden.line != op.target.back()->line || golden.source_file != op.target.back()->source_file) {
      add_source(text, *step.golden, golden, "");
    }
  }
  for (const std::string& line : evidence_of(comparison, finding)) text += "  " + printable(line) + "\n";
  return text;
}

std::string counts_text(const DumpComparison& comparison) {
  const VerdictCounts counts = count_verdicts(comparison);
  std::size_t golden_alone = 0, target_alone = 0;
  for (const ComparedStep& step : comparison.steps) {
    for (const ComparedOp& op : step.ops) {
      golden_alone += op.verdict == OpVerdict::unmatched && op.target.empty();
      target_alone += op.verdict == OpVerdict::unmatched && op.golden.empty();
    }
  }
  const auto count = [&](OpVerdict verdict) { return counts[static_cast<std::size_t>(verdict)]; };
  std::string text = fmt::format("{} identical, {} within tolerance, {} propagate an error, {} introduce one",
                                 count_text(count(OpVerdict::identical), "op"), count(OpVerdict::within_tolerance),
                                 count(OpVerdict::propagated), count(OpVerdict::introduced));
  if (target_alone + golden_alone > 0) {
    text += fmt::format("; unmatched {} of the target and {} of the golden dump", target_alone, golden_alone);
  }
  if (count(OpVerdict::unknown) > 0) text += fmt::format("; {} with nothing to compare", count(OpVerdict::unknown));
  return text + "\n";
}

// Ops without a counterpart, each with the most similar one.
std::string alone_text(const DumpComparison& comparison) {
  std::string text;
  for (const ComparedStep& step : comparison.steps) {
    for (const ComparedOp& op : step.ops) {
      if (op.verdict != OpVerdict::unmatched) continue;
      const bool is_target = op.golden.empty();
      const CatalogOp& own = *(is_target ? op.target : op.golden).front();
      text += printable(fmt::format("  {} {} {}{}", is_target ? "target" : "golden", own.op_type, own.op_name,
                                    place_after_comma(own)));
      const CompareSide& other = is_target ? *step.golden : *step.target;
      if (op.nearest.op != kNoOp) {
        text += printable(fmt::format("; nearest {}: {}", other.ops[op.nearest.op].op->op_name, op.nearest.why));
      } else {
        text += "; " + op.nearest.why;
      }
      text += "\n";
    }
  }
  return text.empty() ? "" : "unmatched:\n" + text;
}

std::string value_text(double value) { return std::isnan(value) ? "-" : fmt::format("{:.3g}", value); }

}  // namespace

std::string step_text(const DumpComparison& comparison, const ComparedStep& step) {
  std::string text = fmt::format("step {}", step.target->step->id.number);
  if (step.target->step->id.graph != 0) text += fmt::format(" of graph {}", step.target->step->id.graph);
  bool many = false;
  for (const ComparedStep& other : comparison.steps) many |= other.target->rank->rank != step.target->rank->rank;
  if (many || step.target->rank->rank != 0) text = fmt::format("rank {}, ", step.target->rank->rank) + text;
  return text;
}

namespace {

std::string line_with(const DumpComparison& comparison, const CompareFinding& finding, std::string what) {
  const ComparedStep& step = comparison.steps[finding.step];
  if (finding.kind == FindingKind::op) what = "introduces " + what;
  return printable(fmt::format("{}, {}: {}", step_text(comparison, step), subject_of(finding), what));
}

}  // namespace

std::string line_of(const DumpComparison& comparison, const CompareFinding& finding) {
  return line_with(comparison, finding, finding.what);
}

VerdictCounts count_verdicts(const DumpComparison& comparison) {
  VerdictCounts counts{};
  for (const ComparedStep& step : comparison.steps) {
    for (const ComparedOp& op : step.ops) {
      ++counts[static_cast<std::size_t>(op.verdict)];
    }
  }
  return counts;
}

OutputNumbers numbers_of(const ComparedTensor& output) {
  const TensorDifference& difference = *output.difference;
  OutputNumbers numbers{kNaN, kNaN, kNaN, kNaN, kNaN};
  if (!difference.comparable() || difference.by == ComparedBy::checksum) return numbers;
  numbers.relative = difference.relative();
  numbers.max_error = difference.max_error;
  numbers.allowed = output.allowance.total().max;
  if (difference.by == ComparedBy::values) {
    numbers.mean_error = difference.mean_error;
    numbers.cosine = difference.cosine;
  }
  return numbers;
}

std::string names_of(const std::vector<const CatalogOp*>& ops) {
  std::string names;
  for (const CatalogOp* op : ops) names += (names.empty() ? "" : " + ") + std::string(op->op_name);
  return names.empty() ? "-" : names;
}

namespace {

// The text if no op is to blame.
std::string all_clear_of(const DumpComparison& comparison) {
  if (comparison.compared_tensors == 0) return "nothing could be compared\n";
  const std::string where = !comparison.complete ? " in the part that could be compared" : "";
  double largest = 0;
  for (const ComparedStep& step : comparison.steps) largest = std::max(largest, step.largest_relative);
  if (!where.empty()) return "no cause found" + where + "\n";
  if (!comparison.correspondence.empty()) return "no difference that rounding does not explain\n";
  const VerdictCounts counts = count_verdicts(comparison);
  const auto any = [&](OpVerdict verdict) { return counts[static_cast<std::size_t>(verdict)] > 0; };
  // Nothing was compared with the values of the others.
  const std::string of = any(OpVerdict::unmatched) ? " in the ops that both dumps have" : "";
  if (largest == 0 && !any(OpVerdict::propagated)) return "no difference" + of + "\n";
  const std::string said = "no difference that rounding does not explain" + of;
  if (largest == 0) return said + "\n";
  // For values near 0, or after an abrupt function, relative errors have no meaning.
  if (largest >= 0.01) return said + "\n";
  return fmt::format("{}: relative errors are at most {:.3g}\n", said, largest);
}

// Numbers that the lines below show are left out of a long line.
std::string headline_of(std::string_view what, const DumpComparison& comparison, const CompareFinding& finding) {
  constexpr std::size_t kFirst = 200, kMore = 150;
  const std::string begin = fmt::format("{}{}: ", what, finding.uncertain ? " (uncertain)" : "");
  std::string line = begin + line_of(comparison, finding);
  if (line.size() > kFirst) line = begin + line_with(comparison, finding, short_text(finding));
  std::string text;
  for (const std::string& part : clauses(line, kFirst, kMore)) text += (text.empty() ? "" : "          ") + part + "\n";
  return text;
}

std::string findings_of(const DumpComparison& comparison, bool all) {
  const CompareFinding& first = comparison.findings.front();
  std::string text = headline_of("first difference", comparison, first) + details_of(comparison, first);
  const std::size_t shown = all ? comparison.findings.size() : std::min(comparison.findings.size(), kMostFindings + 1);
  for (std::size_t i = 1; i < shown; ++i) text += headline_of("also", comparison, comparison.findings[i]);
  if (shown < comparison.findings.size()) {
    text += fmt::format("and {} more (--all)\n", comparison.findings.size() - shown);
  }
  return text;
}

// Every op that has a counterpart, with its numbers.
std::string table_of(const DumpComparison& comparison, std::size_t width) {
  Table table({{"rank", Align::right},
               {"step", Align::right},
               {"verdict"},
               {"target", Align::left, true},
               {"golden", Align::left, true},
               {"slot"},
               {"shape", Align::left, true, 3},
               {"relative", Align::right},
               {"max error", Align::right},
               {"allowed", Align::right},
               {"cosine", Align::right, false, 4},
               {"by", Align::left, false, 2},
               {"line", Align::left, false, 1}});
  bool many_ranks = false;
  for (const ComparedStep& step : comparison.steps) {
    many_ranks |= step.target->rank->rank != comparison.steps[0].target->rank->rank;
  }
  for (const ComparedStep& step : comparison.steps) {
    for (const ComparedOp& op : step.ops) {
      if (op.verdict == OpVerdict::unmatched) continue;
      const ComparedTensor* output = op.worst_output();
      const OutputNumbers numbers =
          output != nullptr ? numbers_of(*output) : OutputNumbers{kNaN, kNaN, kNaN, kNaN, kNaN};
      const CatalogOp& named = op.target.empty() ? *op.golden.back() : *op.target.back();
      table.add({many_ranks ? std::to_string(step.target->rank->rank) : "",
                 std::to_string(step.target->step->id.number), std::string(word_of(op.verdict)), names_of(op.target),
                 names_of(op.golden), output != nullptr ? slot_text(*output->target) : "",
                 output != nullptr ? shape_text(output->difference->shape, '(', ')') : "", value_text(numbers.relative),
                 value_text(numbers.max_error), value_text(numbers.allowed),
                 std::isnan(numbers.cosine) ? "-" : fmt::format("{:.6f}", numbers.cosine),
                 output != nullptr ? std::string(word_of(output->difference->by)) : "", source_text(named)});
    }
  }
  return table.empty() ? "" : "\n" + table.text(width);
}

// The first line, in lines that fit: it has the place, the difference and its evidence.
std::string with_first_line_wrapped(std::string text, std::size_t width) {
  constexpr std::string_view kIndent = "  ";
  if (width == 0) return text;
  std::size_t begin = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos && end - begin > width;
       end = text.find('\n', begin)) {
    const std::size_t gap = text.rfind(' ', begin + width);
    if (gap == std::string::npos || gap < begin + kIndent.size() + 1) return text;  // a word that is too long
    text.replace(gap, 1, "\n" + std::string(kIndent));
    begin = gap + 1;
  }
  return text;
}

}  // namespace

std::string report_of(const DumpComparison& comparison, const CompareOptions& options, bool all, std::size_t width) {
  const bool is_clear = comparison.findings.empty();
  const bool is_sure = comparison.complete && comparison.compared_tensors > 0;
  const LineKind verdict = !is_clear ? LineKind::bad : is_sure ? LineKind::good : LineKind::doubt;
  std::string text = marked(
      verdict, with_first_line_wrapped(is_clear ? all_clear_of(comparison) : findings_of(comparison, all), width));
  for (const std::string* how : {&comparison.correspondence, &comparison.joined}) {
    if (!how->empty()) text += *how + "\n";
  }
  text += counts_text(comparison);
  if (options.tolerance.given()) {
    text += fmt::format("tolerance: {} + {} x |golden|, in place of the derived tolerances\n",
                        options.tolerance.absolute(), options.tolerance.relative());
  } else {
    text +=
        fmt::format("tolerances follow from types, kinds of ops and reduction lengths (--{}, --{}; docs/compare.md)\n",
                    Tolerances::kRelative, Tolerances::kAbsolute);
  }
  if (!all) return text + "every op and its numbers: --all\n" + next_text(next_commands(comparison, options));
  return text + alone_text(comparison) + table_of(comparison, width);
}

}  // namespace sonde
