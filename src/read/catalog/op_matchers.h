// Finds the ops that a regular expression or a line of the program selects. Each name and each line is matched once.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "dump/graph/source_text.h"
#include "read/catalog/catalog.h"
#include "sonde/result.h"

namespace re2 {
class RE2;
}

namespace sonde {

// A regular expression (RE2), searched in full names.
class NameMatcher {
 public:
  // Fails with `invalid_argument`: "'(' is not a regular expression: …".
  static Result<NameMatcher> create(const std::string& expression);

  bool matches(const CatalogOp& op);
  bool matches(std::string_view name) const;  // the result is not cached: `name` may be temporary

 private:
  explicit NameMatcher(std::shared_ptr<const re2::RE2> pattern) : pattern_(std::move(pattern)) {}
  std::shared_ptr<const re2::RE2> pattern_;
  std::unordered_map<std::string_view, bool> known_;
};

// A part of one of the lines that called an op: `train.py:29`, `train.py`. `train.py:2` does not match line 29.
class SourceMatcher {
 public:
  enum class In {
    place,           // `{file}:{line}`
    place_and_code,  // the text of the line too; upper and lower case are the same
  };
  SourceMatcher(std::string text, In where);

  bool matches(const CatalogRank& rank, const CatalogOp& op);

 private:
  bool is_in(const CatalogRank& rank, std::string_view file, std::uint32_t line);

  std::string text_;
  bool with_code_;
  std::map<const CatalogRank*, SourceTexts> sources_;
  std::map<std::pair<const void*, std::uint32_t>, bool> known_;
};

}  // namespace sonde
