#include "face/report/finding.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "face/report/catalog_text.h"
#include "face/report/line_kind.h"
#include "face/report/text.h"

namespace sonde {
namespace {

std::string field(std::string_view name, const std::string& text) {
  return fmt::format("  {:<11} {}\n", name, printable(text));
}

std::string list_text(std::string_view name, const std::vector<std::string>& lines) {
  std::string text;
  for (std::size_t i = 0; i < lines.size(); ++i) text += field(i == 0 ? name : "", lines[i]);
  return text;
}

std::string numbers_text(const std::vector<NamedValue<double>>& numbers) {
  std::vector<std::string> parts;
  for (const NamedValue<double>& number : numbers) parts.push_back(number.name + " " + number_text(number.value));
  return joined(parts, ", ");
}

std::string tensor_text(const FindingTensor& tensor) {
  std::string text = slot_name(tensor);
  if (!tensor.parameter.empty()) text += " " + tensor.parameter;
  if (tensor.dtype != DType::undefined) text += " " + std::string(info(tensor.dtype).lower);
  if (tensor.shape) text += " " + shape_text(*tensor.shape, '(', ')');
  if (!tensor.placement.empty()) text += ", " + tensor.placement;
  return text;
}

// "step 2: Default/copy_-op0, train.py:30", the earliest last: as a way back.
std::vector<std::string> before_lines(const std::vector<EarlierOp>& way) {
  std::vector<std::string> lines;
  for (std::size_t i = way.size(); i-- > 0;) lines.push_back("written by " + earlier_text(way[i]));
  return lines;
}

}  // namespace

std::string earlier_text(const EarlierOp& op) {
  Code code;
  code.source_file = op.source_file;
  code.source_line = op.source_line;
  const std::string line = short_line(code);
  return fmt::format("{} of step {}{}{}", op.op_name, op.step, line.empty() ? "" : ", ", line);
}

std::string short_line(const Code& code) {
  if (code.source_file.empty()) return "";
  return fmt::format("{}:{}", std::filesystem::path(code.source_file).filename().string(), code.source_line);
}

std::string code_line(std::uint64_t number, std::string_view code, bool is_here) {
  const std::string text = fmt::format("  {} {:>5} | {}\n", is_here ? '>' : ' ', number, printable(code));
  return is_here ? marked(LineKind::here, text) : text;
}

std::string caller_text(const std::optional<Caller>& caller) {
  if (!caller) return "";
  return fmt::format("  called from {}:{}{}{}\n", printable(caller->source_file), caller->source_line,
                     caller->function.empty() ? "" : " in ", printable(caller->function));
}

std::string code_text(const Code& code) {
  if (code.source_file.empty()) return "";
  std::string text = fmt::format("  {}:{}{}{}\n", printable(code.source_file), code.source_line,
                                 code.function.empty() ? "" : " in ", printable(code.function));
  for (const Line& line : code.lines) text += code_line(line.number, line.text, line.number == code.source_line);
  return text + caller_text(code.called_from);
}

std::string tags_text(const std::vector<std::string>& tags) {
  if (tags.empty()) return "";
  std::string words = joined(tags, ", ");
  std::ranges::replace(words, '_', ' ');
  return " (" + words + ")";
}

std::string page_of(const Finding& finding, std::string_view first) {
  std::string text(first);
  text += printable(finding.tensor.op_name.empty() ? finding.tensor.parameter : finding.tensor.op_name);
  text += tags_text(finding.tags) + "\n";
  text += code_text(finding.code);
  text += field("where", fmt::format("rank {}, graph {}, step {}, {}", rank_text(finding.rank, finding.dump),
                                     finding.graph, finding.step, word_of(finding.phase)));
  text += field("tensor", tensor_text(finding.tensor));
  if (!finding.tensor.counted.empty()) text += field("holds", finding.tensor.counted);
  text += field("verdict", std::string(word_of(finding.kind)));
  text += field("why", finding.why);
  if (!finding.numbers.empty()) text += field("numbers", numbers_text(finding.numbers));
  text += list_text("evidence", finding.evidence);
  if (finding.before) text += list_text("before", before_lines(*finding.before));
  text += list_text("not known", finding.limits);
  return text;
}

std::string next_text(const std::vector<NextCommand>& commands) {
  std::string text;
  for (const NextCommand& one : commands) text += fmt::format("  {}\n    {}\n", one.purpose, printable(one.command));
  return text.empty() ? "" : "\n" + marked(LineKind::here, "next:\n") + text;
}

Table table_of(const std::vector<Finding>& findings) {
  Table table({{"verdict"},
               {"rank", Align::right, false, 3},
               {"step", Align::right},
               {"op", Align::left, true},
               {"slot"},
               {"line", Align::left, false, 1},
               {"why", Align::left, true, 2}});
  for (const Finding& finding : findings) {
    table.add({std::string(word_of(finding.kind)), rank_text(finding.rank, finding.dump), std::to_string(finding.step),
               finding.tensor.op_name, slot_name(finding.tensor), short_line(finding.code), finding.why});
  }
  return table;
}

bool has_fault(const std::vector<Finding>& findings) {
  return std::ranges::any_of(findings, [](const Finding& finding) { return finding.severity != Severity::note; });
}

}  // namespace sonde
