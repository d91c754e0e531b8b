#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <set>

#include "ask/compare/compare_passes.h"
#include "ground/base/text.h"
#include "read/catalog/step_graph.h"

namespace sonde {
namespace {

constexpr std::size_t kMostPlaces = 3;
constexpr std::size_t kMostLines = 400;  // between the first and the last change
constexpr std::size_t kNear = 2;         // equal lines between two changes of one place

struct CodeLine {
  std::string_view text;
  std::uint32_t number = 0;  // from 1
};

using CodeLines = std::vector<CodeLine>;

// Lines of both sides, by their places in the code: none of the one is among those of the other.
struct CodeChange {
  std::size_t from = 0, end = 0, golden_from = 0, golden_end = 0;
};

// Lines of a file; `last` is 0 where there are none, and `first` is the line before.
struct ChangedLines {
  std::string_view file;
  std::uint32_t first = 0, last = 0;
};

struct SourceChange {
  ChangedLines target, golden;
};

// A comment after code is left out where no quote may hold its sign.
std::string_view without_comment(std::string_view line) {
  const std::size_t sign = line.find(" #");
  if (sign == std::string_view::npos || line.find_first_of("'\"", sign) != std::string_view::npos) return line;
  return line.substr(0, sign);
}

// Without comments and empty lines.
CodeLines code_of(const std::vector<std::string_view>& lines) {
  CodeLines code;
  std::uint32_t number = 0;
  for (const std::string_view whole : lines) {
    const std::string_view line = without_comment(whole);
    ++number;
    if (trimmed(line).empty() || trimmed(line).starts_with('#')) continue;
    code.push_back({line.substr(0, line.find_last_not_of(" \t\r") + 1), number});
  }
  return code;
}

bool is_same_code(const CodeLine& a, const CodeLine& b) { return a.text == b.text; }

// The lines outside of their longest common subsequence; nothing: these are too many.
std::optional<std::vector<CodeChange>> changes_of(const CodeLines& mine, const CodeLines& theirs) {
  CodeChange all{0, mine.size(), 0, theirs.size()};
  while (all.from < all.end && all.from < all.golden_end && is_same_code(mine[all.from], theirs[all.from])) ++all.from;
  all.golden_from = all.from;
  while (all.end > all.from && all.golden_end > all.from &&
         is_same_code(mine[all.end - 1], theirs[all.golden_end - 1])) {
    --all.end, --all.golden_end;
  }
  const std::size_t rows = all.end - all.from, columns = all.golden_end - all.golden_from;
  if (rows > kMostLines || columns > kMostLines) return std::nullopt;
  const auto same = [&](std::size_t i, std::size_t j) {
    return i < rows && j < columns && is_same_code(mine[all.from + i], theirs[all.golden_from + j]);
  };
  std::vector<std::vector<std::uint16_t>> common(rows + 1, std::vector<std::uint16_t>(columns + 1, 0));
  for (std::size_t i = rows; i-- > 0;) {
    for (std::size_t j = columns; j-- > 0;) {
      common[i][j] = same(i, j) ? static_cast<std::uint16_t>(common[i + 1][j + 1] + 1)
                                : std::max(common[i + 1][j], common[i][j + 1]);
    }
  }
  std::vector<CodeChange> changes;
  for (std::size_t i = 0, j = 0; i < rows || j < columns;) {
    if (same(i, j)) {
      ++i, ++j;
      continue;
    }
    const std::size_t from = i, golden_from = j;
    while ((i < rows || j < columns) && !same(i, j)) {
      (j == columns || (i < rows && common[i + 1][j] >= common[i][j + 1]) ? i : j) += 1;
    }
    if (changes.empty() || all.from + from - changes.back().end > kNear)
      changes.push_back({all.from + from, 0, all.golden_from + golden_from, 0});
    changes.back().end = all.from + i;
    changes.back().golden_end = all.golden_from + j;
  }
  return changes;
}

std::set<std::string_view> words_in(const CodeLines& code, std::size_t from, std::size_t end) {
  std::set<std::string_view> words;
  for (std::size_t i = from; i < end; ++i) {
    const std::string_view text = code[i].text;
    for (std::size_t at = 0; at < text.size();) {
      const auto is_of_word = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
      std::size_t after = at;
      while (after < text.size() && is_of_word(static_cast<unsigned char>(text[after]))) ++after;
      if (after > at) words.insert(text.substr(at, after - at));
      at = std::max(after, at + 1);
    }
  }
  return words;
}

// One side compiles there what the other runs as it is.
bool is_of_compiler(const CodeLines& mine, const CodeLines& theirs, const CodeChange& change) {
  const std::set<std::string_view> of_compiler = {"torch",     "compile", "lambda",      "backend", "mode",
                                                  "fullgraph", "dynamic", "inductor",    "eager",   "aot_eager",
                                                  "True",      "False",   "aot_inductor"};
  const std::set<std::string_view> left = words_in(mine, change.from, change.end);
  const std::set<std::string_view> right = words_in(theirs, change.golden_from, change.golden_end);
  if (!left.contains("compile") && !right.contains("compile")) return false;
  const auto are_known = [&](const std::set<std::string_view>& words, const std::set<std::string_view>& others) {
    return std::ranges::all_of(
        words, [&](std::string_view word) { return of_compiler.contains(word) || others.contains(word); });
  };
  return are_known(left, right) && are_known(right, left);
}

ChangedLines lines_of(std::string_view file, const CodeLines& code, std::size_t from, std::size_t end) {
  if (from < end) return {file, code[from].number, code[end - 1].number};
  return {file, from == 0 ? 1 : code[from - 1].number, 0};
}

// Of the target's files, with the golden one of that name, else with the one whose ops most often belong to theirs.
std::map<std::string_view, std::string_view> files_of_both(const CompareFacts& facts) {
  std::map<std::string_view, std::map<std::string_view, std::size_t>> counts;
  for (const ComparedOp& op : facts.pairs.ops()) {
    if (op.target.empty() || op.golden.empty()) continue;
    const std::string_view mine = op.target.back()->source_file, theirs = op.golden.back()->source_file;
    if (!mine.empty() && !theirs.empty()) ++counts[mine][theirs];
  }
  std::map<std::string_view, std::string_view> files;
  for (const auto& [file, others] : counts) {
    const auto most = std::ranges::max_element(others, {}, [](const auto& one) { return one.second; });
    files[file] = others.contains(file) ? file : most->first;
  }
  return files;
}

// Empty: there are none, too many for a cause, or no copies of the sources.
std::vector<SourceChange> source_changes(const CompareFacts& facts) {
  SourceTexts targets = sources_of(*facts.target.rank), goldens = sources_of(*facts.golden.rank);
  std::vector<SourceChange> found;
  for (const auto& [file, golden_file] : files_of_both(facts)) {
    const CodeLines mine = code_of(targets.lines(std::string(file)));
    const CodeLines theirs = code_of(goldens.lines(std::string(golden_file)));
    if (mine.empty() || theirs.empty()) continue;
    const std::optional<std::vector<CodeChange>> changes = changes_of(mine, theirs);
    if (!changes) return {};
    for (const CodeChange& one : *changes) {
      if (is_of_compiler(mine, theirs, one)) continue;
      found.push_back(
          {lines_of(file, mine, one.from, one.end), lines_of(golden_file, theirs, one.golden_from, one.golden_end)});
    }
    if (found.size() > kMostPlaces) return {};
  }
  return found;
}

std::string changed_text(const ChangedLines& lines) {
  const std::string_view name = lines.file.substr(lines.file.rfind('/') + 1);
  if (lines.last <= lines.first) return fmt::format("{}:{}", name, lines.first);
  return fmt::format("{}:{}-{}", name, lines.first, lines.last);
}

bool is_at(const ChangedLines& lines, const CatalogOp& op) {
  return op.source_file == lines.file && op.line >= lines.first && op.line <= lines.last;
}

}  // namespace

void settle_by_sources(const CompareFacts& facts, StepFindings& findings) {
  if (std::ranges::none_of(findings.all(), &CompareFinding::uncertain)) return;
  const std::vector<SourceChange> changes = source_changes(facts);
  if (changes.empty()) return;
  std::vector<std::string> places;
  for (const SourceChange& change : changes) {
    places.push_back(change.target.last == 0 ? "golden " + changed_text(change.golden) : changed_text(change.target));
  }
  for (CompareFinding& finding : findings.all()) {
    if (!finding.uncertain || finding.culprit == nullptr) continue;
    const ChangedLines& only = finding.in_golden ? changes.front().golden : changes.front().target;
    if (changes.size() == 1 && finding.sure_part && is_at(only, *finding.culprit)) {
      finding.uncertain = false;
      finding.what.resize(*finding.sure_part);
      finding.what += "; the two sources differ nowhere else";
    } else {
      finding.what += fmt::format("; the two sources differ at {}{}", fmt::join(places, " and "),
                                  places.size() == 1 ? " alone" : "");
    }
  }
}

}  // namespace sonde
