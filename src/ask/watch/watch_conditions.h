// The conditions that `sonde watch` knows, as data: those of MindSpore's offline debugger, with its names, numbers,
// parameters, ranges and defaults.
//
//   Result<WatchCondition> condition = parse_condition("tensor_too_large:abs_mean_gt=10");
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "read/operators/node_category.h"
#include "sonde/result.h"
#include "sonde/tolerances.h"

namespace sonde {

// The check to compute. The numbers are the debugger's.
enum class WatchCheck : std::uint8_t {
  has_nan = 0,
  has_inf = 1,
  operator_overflow = 2,
  max_gt = 3,
  max_lt = 4,
  min_gt = 5,
  min_lt = 6,
  max_min_gt = 7,
  max_min_lt = 8,
  mean_gt = 9,
  mean_lt = 10,
  sd_gt = 11,
  sd_lt = 12,
  overflow = 13,
  initialization = 14,
  too_large = 15,
  too_small = 16,
  all_zero = 17,
  change_too_large = 18,
  change_too_small = 19,
  not_changed = 20,
  range = 21,
  without_effect = 100,  // Sonde's own
};
bool is_overflow_check(WatchCheck check);  // it looks for NaN and infinities
bool needs_previous(WatchCheck check);     // the same tensor of the step before

// The quantity that a parameter is compared with.
enum class Quantity : std::uint8_t {
  none,
  max,
  min,
  mean,
  abs_mean,
  sd,
  zero_percentage,
  range_percentage,
  max_min,
  update_ratio
};
enum class Inequality : std::uint8_t { none, gt, lt, ge };

struct ConditionParameter {
  enum class Kind : std::uint8_t {
    check,    // one of several is chosen
    support,  // some check needs it
    hidden,   // has its default unless set
  };
  std::string_view name;
  Kind kind = Kind::check;
  Quantity quantity = Quantity::none;
  Inequality relation = Inequality::none;
  double low, high;                // its range; both included
  bool without_low;                // `low` itself is invalid
  std::optional<double> fallback;  // its default
  bool needs_range;                // needs both ends of the range
};

struct ConditionInfo {
  std::string_view id;            // "tensor_too_large"
  std::string_view abbreviation;  // "TL"; empty: none
  NodeCategory target = NodeCategory::tensor;
  WatchCheck check = WatchCheck::overflow;
  std::span<const ConditionParameter> parameters;
  std::string_view summary;  // for people
  bool from_class = false;   // of the Python package: its name there is ClassName, and it accepts several checks
};

// Sorted by id.
std::span<const ConditionInfo> all_conditions();
// By id, or by its name in the Python package ("TensorTooLarge"). Null if there is no such condition.
const ConditionInfo* find_condition(std::string_view name);

struct ParameterValue {
  const ConditionParameter* parameter = nullptr;
  double value = 0;
};

// A condition with the chosen parameters and the defaults of the others, in the order of the table.
struct WatchCondition {
  const ConditionInfo* info = nullptr;
  std::vector<ParameterValue> parameters;

  std::optional<double> value(std::string_view name) const;
};

// Messages contain the debugger's own text of the error ("Parameter out of range."). Under a condition's id exactly one
// check is chosen, or none if one is the default; under the name of a Python class any number.
Result<WatchCondition> make_condition(std::string_view name,
                                      std::span<const std::pair<std::string, double>> parameters);
// "weight_change_too_large", "tensor_range:range_start_inclusive=-1,range_end_inclusive=1,range_percentage_lt=90"
Result<WatchCondition> parse_condition(std::string_view text);
Result<std::vector<WatchCondition>> parse_conditions(std::span<const std::string> texts);
std::string text_of(const WatchCondition& condition);  // as parse_condition reads it

}  // namespace sonde
