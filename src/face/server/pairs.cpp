#include "face/server/pairs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ground/contract/read_json.h"

namespace sonde::server {
namespace {

// The largest error of the outputs. NaN and infinities are the largest, and what has no error the least.
double error_of(const OperatorPair& pair) {
  double most = -1;
  for (const TensorPair& output : pair.outputs) {
    if (!output.relative_error) continue;
    const double error = *output.relative_error;
    most = std::max(most, std::isfinite(error) ? error : std::numeric_limits<double>::infinity());
  }
  return most;
}

}  // namespace

ComparedPairs::Less ComparedPairs::order_by(std::string_view name) {
  if (name == name_of(&OperatorPair::verdict)) {
    return [](const Pair& a, const Pair& b) { return a.pair.verdict < b.pair.verdict; };
  }
  if (name == name_of(&OperatorPair::step)) {
    return [](const Pair& a, const Pair& b) { return a.pair.step < b.pair.step; };
  }
  if (name == name_of(&OperatorPair::source_line)) {
    return [](const Pair& a, const Pair& b) { return a.pair.source_line < b.pair.source_line; };
  }
  if (name == name_of(&TensorPair::relative_error)) {
    return [](const Pair& a, const Pair& b) { return a.largest_error < b.largest_error; };
  }
  return nullptr;
}

Result<ComparedPairs> ComparedPairs::read(const std::string& document) {
  Result<Read<Comparison>> comparison = read_json<Comparison>(json_of_text(document));
  if (!comparison) return comparison.error();
  ComparedPairs pairs;
  for (OperatorPair& pair : comparison->answer.ops) {
    std::string text = text_of_json(json_of(pair));
    const double error = error_of(pair);
    pairs.pairs_.push_back({std::move(pair), std::move(text), error});
  }
  return pairs;
}

Result<Json> ComparedPairs::page(const PairsQuery& query) const {
  std::vector<const Pair*> taken;
  for (const Pair& one : pairs_) {
    const bool is_taken = (query.verdict.empty() || one.pair.verdict == query.verdict) &&
                          (query.filter.empty() || one.text.find(query.filter) != std::string::npos);
    if (is_taken) taken.push_back(&one);
  }
  if (!query.sort.empty()) {
    const bool is_reverse = query.sort.starts_with('-');
    const Less less = order_by(std::string_view(query.sort).substr(is_reverse ? 1 : 0));
    if (less == nullptr) {
      return Error{ErrorCode::invalid_argument,
                   fmt::format("sort={}: expected {}, {}, {} or {}", query.sort, name_of(&OperatorPair::verdict),
                               name_of(&OperatorPair::step), name_of(&OperatorPair::source_line),
                               name_of(&TensorPair::relative_error))};
    }
    std::ranges::stable_sort(taken,
                             [&](const Pair* a, const Pair* b) { return is_reverse ? less(*b, *a) : less(*a, *b); });
  }
  Json rows = Json::array();
  for (std::uint64_t i = query.offset; i < taken.size() && rows.size() < query.limit; ++i) {
    rows.push_back(json_of(taken[i]->pair));
  }
  return Json{{"count", taken.size()}, {"offset", query.offset}, {"rows", rows}};
}

}  // namespace sonde::server
