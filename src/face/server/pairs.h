// ComparedPairs: the operators of a comparison, as `pairs` shows them: chosen, sorted, a page at a time.
//
//   Result<ComparedPairs> pairs = ComparedPairs::read(document);   // of a job
//   Result<Json> page = pairs->page({.verdict = "introduced", .sort = "-relative_error"});
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ground/contract/json.h"
#include "sonde/answers.h"
#include "sonde/result.h"

namespace sonde::server {

struct PairsQuery {
  std::string verdict;  // empty: all
  std::string filter;   // a part of the pair's JSON
  std::string sort;     // `verdict`, `step`, `source_line` or `relative_error`; `-` in front: the largest first
  std::uint64_t offset = 0, limit = 0;
};

class ComparedPairs {
 public:
  // Fails if the text is not the document of a comparison.
  static Result<ComparedPairs> read(const std::string& document);

  // `count`, `offset` and `rows`. Fails with `invalid_argument` on another `sort`.
  Result<Json> page(const PairsQuery& query) const;

 private:
  struct Pair {
    OperatorPair pair;
    std::string text;      // its JSON
    double largest_error;  // of its outputs; NaN and infinities are the largest, and -1 is that of no error
  };
  using Less = bool (*)(const Pair&, const Pair&);
  static Less order_by(std::string_view name);  // null for another name

  std::vector<Pair> pairs_;  // in the order of the run
};

}  // namespace sonde::server
