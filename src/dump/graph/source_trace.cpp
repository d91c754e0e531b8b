#include "dump/graph/source_trace.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "ground/base/text.h"

namespace sonde {
namespace {

constexpr std::size_t kMostLines = 1000;  // of one operator
// `.ir`: "/<~~This line of code can be shared by multiple nodes, and may be duplicated./" behind the text.
constexpr std::string_view kSharedNote = "/<~~This line";

// Takes the number at the front of `text` and removes it.
bool take_number(std::string_view& text, std::uint32_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

bool take(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word)) return false;
  text.remove_prefix(word.size());
  return true;
}

// ":10/", ":10~12/", ":10, 4~20/", ":10~12, 4~20/" or "(10)/"; `text` becomes what follows.
bool take_place(std::string_view& text, SourceLine& place) {
  if (take(text, "(")) return take_number(text, place.line) && take(text, ")/");
  if (!take(text, ":") || !take_number(text, place.line)) return false;
  if (take(text, "~") && !take_number(text, place.end_line)) return false;
  if (take(text, ", ")) {
    if (!take_number(text, place.column) || !take(text, "~") || !take_number(text, place.end_column)) return false;
    if (place.end_line == 0) place.end_line = place.line;
  }
  return take(text, "/");
}

// A path may contain a text that looks like a place; the end of a Python file's name is more certain.
bool split_line(std::string_view rest, bool only_python, TracedLine& out) {
  for (std::size_t at = rest.find_first_of(":("); at != std::string_view::npos; at = rest.find_first_of(":(", at + 1)) {
    if (at == 0 || (only_python && !rest.substr(0, at).ends_with(".py"))) continue;
    SourceLine place;
    std::string_view text = rest.substr(at);
    if (!take_place(text, place)) continue;
    if (const std::size_t note = text.rfind(kSharedNote); note != text.npos) text = text.substr(0, note + 1);
    if (text.ends_with('/')) text.remove_suffix(1);
    place.file = rest.substr(0, at);
    out = {std::move(place), std::string(text)};
    return true;
  }
  return false;
}

// "forward" of `def forward(self, x):`; present but empty for a decorator, which belongs to the function below it.
std::optional<std::string> function_of(const TracedLine& line) {
  std::string_view text = trimmed(line.text);
  if (text.starts_with('@')) return "";
  take(text, "async ");
  if (!take(text, "def ")) return std::nullopt;
  return std::string(text.substr(0, text.find('(')));
}

// MindSpore also names the expressions and blocks around a line, and at the end the whole function.
std::vector<TracedLine> one_per_function(std::vector<TracedLine> lines) {
  std::vector<TracedLine> calls;
  bool function_is_over = true;
  for (TracedLine& line : lines) {
    const bool inside = !function_is_over && calls.back().place.file == line.place.file;
    if (const std::optional<std::string> function = function_of(line); function && inside) {
      calls.back().place.function = *function;
      function_is_over = true;
      continue;
    }
    if (inside) continue;
    calls.push_back(std::move(line));
    function_is_over = false;
  }
  return calls;
}

bool same_place(const TracedLine& a, const TracedLine& b) { return a.place == b.place; }

}  // namespace

bool parse_traced_line(std::string_view line, TracedLine& out) {
  line = trimmed(line);
  if (!take(line, "#")) return false;
  line = trimmed(line);
  if (take(line, "- ")) line = trimmed(line);
  take(line, "inlined:");
  if (!take(line, "In file ")) return false;
  if (line.ends_with('\r')) line.remove_suffix(1);
  return split_line(line, true, out) || split_line(line, false, out);
}

std::vector<TracedLine> parse_trace(std::string_view comments, bool outermost_first) {
  std::vector<TracedLine> lines;
  while (!comments.empty() && lines.size() < kMostLines) {
    const std::size_t end = comments.find('\n');
    const std::string_view comment = trimmed(comments.substr(0, end));
    comments.remove_prefix(end == std::string_view::npos ? comments.size() : end + 1);
    // Further candidates: `.pb` marks where each begins, in `.ir` they begin with the same outermost line.
    const bool is_next = comment.starts_with("#  - ") || comment.starts_with("# Corresponding");
    if (is_next && !lines.empty()) break;
    TracedLine line;
    if (!parse_traced_line(comment, line)) continue;
    if (outermost_first && !lines.empty() && same_place(line, lines.front())) break;
    lines.push_back(std::move(line));
  }
  if (outermost_first) std::ranges::reverse(lines);
  return one_per_function(std::move(lines));
}

const SourceLine& users_line(const std::vector<SourceLine>& trace) {
  const auto is_of_host = [](const SourceLine& line) {
    return line.file.find("-packages/mindspore/") != std::string::npos;
  };
  const auto found = std::ranges::find_if_not(trace, is_of_host);
  return found != trace.end() ? *found : trace.front();
}

}  // namespace sonde
