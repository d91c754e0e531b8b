// Filter: the words of `filter=`, which must all hold. docs/rest.md, "Filters", has the language.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "face/server/facts.h"
#include "read/catalog/op_matchers.h"
#include "sonde/result.h"

namespace sonde::server {

// `l2norm>=1e3`
struct NumberCondition {
  std::string column;
  enum class Is : std::uint8_t { less, at_most, equal, not_equal, at_least, more } is = Is::equal;
  double number = 0;

  bool holds(double value) const;  // never of an unknown value; a NaN is not equal to anything
};

struct Filter {
  // Fails with the word and what was expected. `numbers`: the columns that a condition may have.
  static Result<Filter> parse(std::string_view text, const std::vector<std::string_view>& numbers);

  std::vector<std::string> patterns;  // as of --select
  std::vector<NameMatcher> names;     // op:REGEX
  std::vector<std::string> types, sources, dtypes, parameters;
  std::optional<std::uint8_t> phase;  // index_schema.h
  std::optional<bool> is_input;
  std::optional<State> state;
  std::vector<NumberCondition> numbers;

  bool takes_name(const OpName& name) const;
};

}  // namespace sonde::server
