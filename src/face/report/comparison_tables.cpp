// A comparison for spreadsheets (CSV) and for continuous integration (JUnit XML).
#include <fmt/format.h>

#include <cmath>
#include <map>

#include "ask/compare/compare_layers.h"
#include "face/report/catalog_text.h"
#include "face/report/comparison.h"
#include "face/report/table.h"
#include "face/report/text.h"

namespace sonde {
namespace {

std::string xml_text(std::string_view text) {
  std::string escaped;
  for (const char c : printable(text)) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

}  // namespace

std::string csv_of(const DumpComparison& comparison) {
  std::string text =
      "rank,graph,step,verdict,target,golden,op_type,kind,matched_by,slot,golden_slot,dtype,golden_dtype,shape,"
      "golden_shape,compared_by,relative_error,rms_error,max_error,cosine,mismatches,worst_index,worst_value,"
      "worst_golden,rounding_max,propagated_max,source,reason\n";
  const auto number = [](double value) { return fmt::format("{:.9g}", value); };
  for (const ComparedStep& step : comparison.steps) {
    for (const ComparedOp& op : step.ops) {
      const CatalogOp& named = op.target.empty() ? *op.golden.back() : *op.target.back();
      const std::string begin = fmt::format(
          "{},{},{},{},{},{},{},{},{}", step.target->rank->rank, step.target->step->id.graph,
          step.target->step->id.number, word_of(op.verdict), csv_cell(names_of(op.target)),
          csv_cell(names_of(op.golden)), csv_cell(std::string(named.op_type)), word_of(op.kind), word_of(op.how));
      const std::string end = csv_cell(source_text(named)) + "," + csv_cell(op.reason) + "\n";
      if (op.outputs.empty()) text += begin + ",,,,,,,,,,,,,,,,,," + end;
      for (const ComparedTensor& output : op.outputs) {
        const TensorDifference& d = *output.difference;
        const bool compared = d.comparable() && d.by != ComparedBy::checksum;
        const bool values = compared && d.by == ComparedBy::values;
        text += fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},", begin, slot_text(*output.target),
                            slot_text(*output.golden), info(d.dtype).lower, info(d.golden_dtype).lower,
                            csv_cell(shape_text(d.shape, '(', ')')), csv_cell(shape_text(d.golden_shape, '(', ')')),
                            word_of(d.by), compared ? number(d.relative()) : "", compared ? number(d.rms_error) : "",
                            compared ? number(d.max_error) : "", values ? number(d.cosine) : "",
                            compared  ? std::to_string(d.mismatches)
                            : d.equal ? "0"
                                      : "",
                            values ? std::to_string(d.worst_index) : "", values ? number(d.worst_value) : "",
                            values ? number(d.worst_golden) : "", compared ? number(output.allowance.rounding.max) : "",
                            compared ? number(output.allowance.propagated.max) : "");
        text += end;
      }
    }
  }
  return text;
}

std::string junit_of(const DumpComparison& comparison) {
  std::map<const ComparedOp*, std::vector<const CompareFinding*>> findings;
  for (const CompareFinding& finding : comparison.findings) findings[finding.op].push_back(&finding);
  std::string cases;
  std::size_t tests = 0, failures = 0, skipped = 0;
  for (const ComparedStep& step : comparison.steps) {
    for (const ComparedOp& op : step.ops) {
      ++tests;
      cases += fmt::format("    <testcase classname=\"{}\" name=\"{}\"", xml_text(step_text(comparison, step)),
                           xml_text(names_of(op.target.empty() ? op.golden : op.target)));
      const auto found = findings.find(&op);
      if (found != findings.end()) {
        ++failures;
        cases += ">\n";
        const CompareFinding& first = *found->second.front();
        cases += fmt::format("      <failure type=\"{}\" message=\"{}{}\">", word_of(first.kind),
                             first.uncertain ? "uncertain: " : "", xml_text(line_of(comparison, first)));
        for (const CompareFinding* finding : found->second) cases += xml_text(line_of(comparison, *finding)) + "\n";
        cases += "</failure>\n    </testcase>\n";
      } else if (op.verdict == OpVerdict::unmatched || op.verdict == OpVerdict::unknown) {
        ++skipped;
        cases += fmt::format(">\n      <skipped message=\"{}\"/>\n    </testcase>\n", xml_text(op.reason));
      } else {
        cases += "/>\n";
      }
    }
  }
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite name=\"sonde compare\" tests=\"{}\" "
      "failures=\"{}\" errors=\"{}\" skipped=\"{}\">\n{}  </testsuite>\n</testsuites>\n",
      tests, failures, comparison.unreadable.size(), skipped, cases);
}

std::string relations_text(const DumpComparison& comparison, std::size_t width) {
  if (comparison.relations.empty()) return "the two are runs of one program: operators are matched by name\n";
  Table table({{"step", Align::right},
               {"target", Align::left, true},
               {"slot", Align::right},
               {"shape", Align::left, true, 3},
               {"relation"},
               {"relative", Align::right},
               {"golden", Align::left, true}});
  for (const RelatedTensor& related : comparison.relations) {
    const std::string_view name =
        related.op == nullptr ? std::string_view(related.tensor->parameter) : related.op->op_name;
    table.add({std::to_string(comparison.steps[related.step].target->step->id.number), printable(name),
               related.op == nullptr ? "" : std::to_string(related.tensor->slot),
               shape_text(related.tensor->shape.values(), '(', ')'), std::string(word_of(related.relation)),
               related.difference == nullptr ? "" : fmt::format("{:.2g}", related.difference->relative()),
               printable(related.golden)});
  }
  return "how the tensors of the target correspond to golden ones:\n" + table.text(width);
}

std::string relations_csv(const DumpComparison& comparison) {
  std::string text = "rank,graph,step,op_name,parameter,slot,dtype,shape,relation,golden,relative_error,source\n";
  for (const RelatedTensor& related : comparison.relations) {
    const ComparedStep& step = comparison.steps[related.step];
    const CatalogTensor& tensor = *related.tensor;
    text += fmt::format("{},{},{},{},{},{},{},{},{},{},{},{}\n", step.target->rank->rank, step.target->step->id.graph,
                        step.target->step->id.number,
                        csv_cell(related.op == nullptr ? "" : std::string(related.op->op_name)),
                        csv_cell(std::string(tensor.parameter)), tensor.slot, dtype_text(tensor),
                        csv_cell(shape_text(tensor)), word_of(related.relation), csv_cell(related.golden),
                        related.difference == nullptr ? "" : fmt::format("{:.9g}", related.difference->relative()),
                        related.op == nullptr ? "" : csv_cell(source_text(*related.op)));
  }
  return text;
}

std::string layers_text(const DumpComparison& comparison, std::size_t width) {
  Table table({{"layer", Align::left, true},
               {"step", Align::right},
               {"introduces", Align::right},
               {"error in", Align::right},
               {"error out", Align::right},
               {"signal to noise", Align::right},
               {"by", Align::left, false, 2},
               {"line", Align::left, false, 1}});
  for (const LayerLoss& loss : layer_losses(comparison)) {
    table.add({loss.layer, std::to_string(comparison.steps[loss.step].target->step->id.number),
               fmt::format("{:.3g}", loss.introduced), fmt::format("{:.3g}", loss.error_in),
               fmt::format("{:.3g}", loss.error_out),
               std::isinf(loss.signal_to_noise) ? "-" : fmt::format("{:.1f} dB", loss.signal_to_noise),
               std::string(word_of(loss.by)), source_text(*loss.op)});
  }
  if (table.empty()) return "no layer of the two could be compared\n";
  return "layers by the relative errors that they introduce:\n" + table.text(width);
}

}  // namespace sonde
