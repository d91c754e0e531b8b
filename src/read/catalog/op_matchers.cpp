#include "read/catalog/op_matchers.h"

#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>

#include "ground/base/text.h"
#include "read/catalog/step_graph.h"

namespace sonde {
namespace {

// `number_at`: where the number of the line begins. Line 49 is not line 490.
bool holds(std::string_view line, std::string_view text, std::size_t number_at) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  for (std::size_t at = line.find(text); at != std::string_view::npos; at = line.find(text, at + 1)) {
    const std::size_t end = at + text.size();
    if (end <= number_at || !is_digit(text.back()) || end == line.size() || !is_digit(line[end])) return true;
  }
  return false;
}

}  // namespace

Result<NameMatcher> NameMatcher::create(const std::string& expression) {
  auto pattern = std::make_shared<const re2::RE2>(expression, re2::RE2::Quiet);
  if (pattern->ok()) return NameMatcher(std::move(pattern));
  return Error{ErrorCode::invalid_argument,
               fmt::format("'{}' is not a regular expression: {}", expression, pattern->error())};
}

bool NameMatcher::matches(const CatalogOp& op) {
  const auto [at, is_new] = known_.try_emplace(op.op_name, false);
  if (is_new) at->second = matches(op.op_name);
  return at->second;
}

bool NameMatcher::matches(std::string_view name) const {
  return re2::RE2::PartialMatch(re2::StringPiece(name.data(), name.size()), *pattern_);
}

SourceMatcher::SourceMatcher(std::string text, In where)
    : text_(where == In::place ? std::move(text) : lower_case(text)), with_code_(where == In::place_and_code) {}

bool SourceMatcher::matches(const CatalogRank& rank, const CatalogOp& op) {
  const void* key = op.trace != nullptr ? static_cast<const void*>(op.trace) : op.source_file.data();
  if (key == nullptr) return false;
  const auto [at, is_new] = known_.try_emplace({key, op.line}, false);
  if (!is_new) return at->second;
  const auto matches_line = [&](const SourceLine& line) { return is_in(rank, line.file, line.line); };
  at->second =
      is_in(rank, op.source_file, op.line) || (op.trace != nullptr && std::ranges::any_of(*op.trace, matches_line));
  return at->second;
}

bool SourceMatcher::is_in(const CatalogRank& rank, std::string_view file, std::uint32_t line) {
  if (file.empty()) return false;
  std::string place = fmt::format("{}:{}", file, line);
  if (with_code_) {
    auto sources = sources_.find(&rank);
    if (sources == sources_.end()) sources = sources_.emplace(&rank, sources_of(rank)).first;
    place = lower_case(fmt::format("{}  {}", place, sources->second.line(std::string(file), line)));
  }
  return holds(place, text_, file.size() + 1);
}

}  // namespace sonde
