// Pattern: an ECMAScript regular expression from `name-regex(...)`, run by RE2 in time linear in the text.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "sonde/result.h"

namespace re2 {
class RE2;
}

namespace sonde {

// Translates C++'s `std::regex` (ECMAScript) into RE2's syntax over bytes. Fails with
// `invalid_argument` for errors in that grammar, `unsupported` for features that RE2 cannot provide without
// backtracking (look-ahead, back-references).
Result<std::string> ecmascript_to_re2(std::string_view expression);

// Matches whole texts only. Copies share the program; any thread may call `matches`.
class Pattern {
 public:
  // Errors name the construct and its place. Memory for the program and its automaton is bounded (8 MiB).
  static Result<Pattern> compile(std::string_view expression);

  bool matches(std::string_view text) const;

 private:
  explicit Pattern(std::shared_ptr<const re2::RE2> program) : program_(std::move(program)) {}
  std::shared_ptr<const re2::RE2> program_;
};

}  // namespace sonde
