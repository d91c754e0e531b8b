// KnownStatistics: the statistics of one tensor that a dump contains. Made from contract/ by tools/contract.py: a change
// here is lost.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "sonde/export.h"

namespace sonde {

// Statistics as the dump has them: one that nobody recorded is absent. Definitions: docs/format.md, "Statistics".
struct KnownStatistics {
  std::optional<double> max;                        // the largest value
  std::optional<double> min;                        // the smallest value
  std::optional<double> avg;                        // the mean
  std::optional<double> l2norm;                     // the square root of the sum of squares
  std::optional<std::uint64_t> count;               // elements
  std::optional<std::uint64_t> nan_count;           // elements that are NaN
  std::optional<std::uint64_t> positive_inf_count;  // elements that are +inf
  std::optional<std::uint64_t> negative_inf_count;  // elements that are -inf
  std::optional<std::uint64_t> positive_count;      // elements above 0
  std::optional<std::uint64_t> negative_count;      // elements below 0
  std::optional<std::uint64_t> zero_count;          // elements equal to 0

  // Whether every NaN and every infinity is counted.
  bool counts_non_finite() const { return nan_count && counts_infinities(); }
  bool counts_infinities() const { return positive_inf_count && negative_inf_count; }
  // The elements that are known to be so.
  std::uint64_t non_finite_count() const { return nan_count.value_or(0) + infinity_count(); }
  std::uint64_t infinity_count() const { return positive_inf_count.value_or(0) + negative_inf_count.value_or(0); }
  const std::optional<std::uint64_t>& infinity_count(double sign) const {
    return sign > 0 ? positive_inf_count : negative_inf_count;
  }
  // False when a NaN or an infinity is known of, by its count or because a value shows it.
  SONDE_EXPORT bool all_finite() const;
  friend bool operator==(const KnownStatistics&, const KnownStatistics&) = default;
};

// Calls visit(name, member) for each, in the order of the columns; `statistics.*member` is its value.
template <typename Visit>
void for_each_statistic_member(Visit&& visit) {
  visit(std::string_view("max"), &KnownStatistics::max);
  visit(std::string_view("min"), &KnownStatistics::min);
  visit(std::string_view("avg"), &KnownStatistics::avg);
  visit(std::string_view("l2norm"), &KnownStatistics::l2norm);
  visit(std::string_view("count"), &KnownStatistics::count);
  visit(std::string_view("nan_count"), &KnownStatistics::nan_count);
  visit(std::string_view("positive_inf_count"), &KnownStatistics::positive_inf_count);
  visit(std::string_view("negative_inf_count"), &KnownStatistics::negative_inf_count);
  visit(std::string_view("positive_count"), &KnownStatistics::positive_count);
  visit(std::string_view("negative_count"), &KnownStatistics::negative_count);
  visit(std::string_view("zero_count"), &KnownStatistics::zero_count);
}

// Calls visit(name, value) for each. `statistics` may be const.
template <typename Known, typename Visit>
void for_each_statistic(Known& statistics, Visit&& visit) {
  for_each_statistic_member([&](std::string_view name, auto member) { visit(name, statistics.*member); });
}

}  // namespace sonde
