#include "report/finding.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "report/catalog_text.h"
#include "report/text.h"

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

std::string numbers_text(const std::vector<Number>& numbers) {
  std::vector<std::string> parts;
  for (const Number& number : numbers) parts.push_back(number.name + " " + number_text(number.value));
  return joined(parts, ", ");
}

std::string tensor_text(const FindingTensor& tensor) {
  std::string text = slot_name(tensor.is_input, tensor.slot);
  if (!tensor.parameter.empty()) text += " " + tensor.parameter;
  if (tensor.dtype != DType::undefined) text += " " + std::string(info(tensor.dtype).lower);
  if (tensor.has_shape) text += " " + shape_text(tensor.shape, '(', ')');
  return text;
}

}  // namespace

Json json_of(const FindingTensor& tensor) {
  Json json = {{"op_name", tensor.op_name},
               {"op_type", tensor.op_type},
               {"side", tensor.is_input ? "input" : "output"},
               {"slot", tensor.slot},
               {"parameter", tensor.parameter}};
  json["dtype"] = tensor.dtype == DType::undefined ? Json() : Json(info(tensor.dtype).lower);
  json["shape"] = tensor.has_shape ? Json(tensor.shape) : Json();
  if (tensor.statistics) json.update(json_of(*tensor.statistics));
  if (!tensor.tensor_file.empty()) json["tensor_file"] = tensor.tensor_file;
  return json;
}

Json json_of(const FindingCode& code) {
  Json lines = Json::array();
  for (const FindingCode::Line& line : code.lines) lines.push_back({{"number", line.number}, {"text", line.text}});
  return {{"source_file", code.file}, {"source_line", code.line}, {"function", code.function}, {"lines", lines}};
}

Json json_of(const Finding& finding) {
  Json numbers = Json::object();
  for (const Number& number : finding.numbers) numbers[number.name] = json_of(number.value);
  return {{"kind", finding.kind},
          {"severity", word_of(finding.severity)},
          {"rank", finding.rank},
          {"dump", finding.dump},
          {"graph", finding.step.graph},
          {"step", finding.step.number},
          {"phase", word_of(finding.phase)},
          {"op_name", finding.tensor.op_name},
          {"op_type", finding.tensor.op_type},
          {"tags", finding.tags},
          {"why", finding.why},
          {"tensor", json_of(finding.tensor)},
          {"numbers", numbers},
          {"evidence", finding.evidence},
          {"limits", finding.limits},
          {"code", json_of(finding.code)}};
}

std::string short_line(const FindingCode& code) {
  if (code.file.empty()) return "";
  return fmt::format("{}:{}", std::filesystem::path(code.file).filename().string(), code.line);
}

std::string code_text(const FindingCode& code) {
  if (code.file.empty()) return "";
  std::string text = fmt::format("  {}:{}{}{}\n", printable(code.file), code.line, code.function.empty() ? "" : " in ",
                                 printable(code.function));
  for (const FindingCode::Line& line : code.lines) {
    text += fmt::format("  {} {:>5} | {}\n", line.number == code.line ? ">" : " ", line.number, printable(line.text));
  }
  return text;
}

std::string tags_text(const std::vector<std::string>& tags) {
  if (tags.empty()) return "";
  std::string words = joined(tags, ", ");
  std::ranges::replace(words, '_', ' ');
  return " (" + words + ")";
}

std::string page_of(const Finding& finding) {
  std::string text = printable(finding.tensor.op_name.empty() ? finding.tensor.parameter : finding.tensor.op_name);
  text += tags_text(finding.tags) + "\n";
  text += code_text(finding.code);
  text += field("where", fmt::format("rank {}, graph {}, step {}, {}", rank_text(finding.rank, finding.dump),
                                     finding.step.graph, finding.step.number, word_of(finding.phase)));
  text += field("tensor", tensor_text(finding.tensor));
  text += field("verdict", finding.kind);
  text += field("why", finding.why);
  if (!finding.numbers.empty()) text += field("numbers", numbers_text(finding.numbers));
  text += list_text("evidence", finding.evidence);
  text += list_text("not known", finding.limits);
  return text;
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
    table.add({finding.kind, rank_text(finding.rank, finding.dump), std::to_string(finding.step.number),
               finding.tensor.op_name, slot_name(finding.tensor.is_input, finding.tensor.slot),
               short_line(finding.code), finding.why});
  }
  return table;
}

bool has_fault(const std::vector<Finding>& findings) {
  return std::ranges::any_of(findings, [](const Finding& finding) { return finding.severity != Severity::note; });
}

}  // namespace sonde
