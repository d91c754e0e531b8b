#include "ask/compare/other_lines.h"

#include "ground/base/text.h"
#include "read/catalog/step_graph.h"

namespace sonde {

OtherLines::OtherLines(const CompareSide& target, const CompareSide& golden)
    : target_{sources_of(*target.rank), {}}, golden_{sources_of(*golden.rank), {}} {}

std::string_view OtherLines::Side::line_of(const CatalogOp& op) {
  return op.line == 0 ? std::string_view() : trimmed(texts.line(std::string(op.source_file), op.line));
}

bool OtherLines::Side::has(std::string_view file, std::string_view line) {
  const auto [at, is_new] = lines.try_emplace(std::string(file));
  if (is_new) {
    for (const std::string_view one : texts.lines(at->first)) at->second.insert(trimmed(one));
  }
  return at->second.contains(line);
}

bool OtherLines::have(const CatalogOp& target, const CatalogOp& golden) {
  const std::string_view mine = target_.line_of(target), theirs = golden_.line_of(golden);
  if (mine.empty() || theirs.empty() || mine == theirs) return false;
  return (golden_.has(target.source_file, mine) || golden_.has(golden.source_file, mine)) &&
         (target_.has(golden.source_file, theirs) || target_.has(target.source_file, theirs));
}

}  // namespace sonde
