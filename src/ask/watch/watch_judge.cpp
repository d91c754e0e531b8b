#include "ask/watch/watch_judge.h"

#include <algorithm>
#include <cmath>

namespace sonde {
namespace {

using enum Judgement::Kind;

std::vector<WatchParameter> parameters_of(const WatchCondition& condition) {
  std::vector<WatchParameter> parameters;
  for (const ParameterValue& value : condition.parameters) {
    WatchParameter& parameter = parameters.emplace_back();
    parameter.parameter = value.parameter;
    parameter.value = value.value;
  }
  return parameters;
}

double percentage(std::uint64_t part, std::uint64_t count) {
  return 100 * static_cast<double>(part) / static_cast<double>(count);
}

std::optional<double> difference(std::optional<double> a, std::optional<double> b) {
  return a && b ? std::optional(*a - *b) : std::nullopt;
}

std::optional<double> inside(const WatchCondition& condition, const WatchFacts& facts) {
  const std::optional<ValueRange> range = range_of(condition);
  if (facts.values == nullptr || !range) return std::nullopt;
  const auto at = std::ranges::find(facts.ranges, *range);
  if (at == facts.ranges.end()) return std::nullopt;
  return percentage(facts.values->inside[static_cast<std::size_t>(at - facts.ranges.begin())], facts.values->count);
}

std::optional<double> actual_of(Quantity quantity, const WatchCondition& condition, const WatchFacts& facts) {
  switch (quantity) {
    case Quantity::max:
      return facts.max;
    case Quantity::min:
      return facts.min;
    case Quantity::mean:
      return facts.mean;
    case Quantity::abs_mean:
      return facts.abs_mean;
    case Quantity::sd:
      return facts.sd;
    case Quantity::max_min:
      return difference(facts.max, facts.min);
    case Quantity::zero_percentage:
      if (!facts.zero_count || !facts.count) return std::nullopt;
      return percentage(*facts.zero_count, *facts.count);
    case Quantity::range_percentage:
      return inside(condition, facts);
    case Quantity::update_ratio:
      if (facts.pair == nullptr) return std::nullopt;
      return facts.pair->abs_difference_mean /
             (facts.pair->abs_previous_mean + condition.value("epsilon").value_or(1e-9));
    case Quantity::none:
      break;
  }
  return std::nullopt;
}

bool holds(double actual, Inequality relation, double value) {
  switch (relation) {
    case Inequality::gt:
      return actual > value;
    case Inequality::lt:
      return actual < value;
    case Inequality::ge:
      return actual >= value;
    case Inequality::none:
      break;
  }
  return false;
}

// The exact value may be on the other side of the threshold.
bool is_doubtful(Quantity quantity, double actual, double value, const WatchFacts& facts) {
  if (quantity == Quantity::zero_percentage) return false;  // computed from exact counts
  double size = std::max(std::abs(actual), std::abs(value));
  if (quantity == Quantity::max_min) size = std::max({size, std::abs(*facts.max), std::abs(*facts.min)});
  return facts.known.rounding > 0 && std::abs(actual - value) <= facts.known.rounding * size;
}

Bounds bounds_for(Quantity quantity, const WatchCondition& condition, const WatchFacts& facts) {
  if (quantity == Quantity::update_ratio) {
    if (facts.is_as_before) return {0, 0};
    return facts.previous ? update_bounds(facts.known, *facts.previous, condition.value("epsilon").value_or(1e-9))
                          : Bounds();
  }
  const std::optional<ValueRange> range = range_of(condition);
  if (quantity == Quantity::range_percentage) return range ? range_bounds(*range, facts.known) : Bounds();
  return bounds_of(quantity, facts.known);
}

// Empty: values on both sides of the threshold are possible.
std::optional<bool> holds(const Bounds& bounds, Inequality relation, double value) {
  const bool least = holds(bounds.low, relation, value), most = holds(bounds.high, relation, value);
  if (std::isnan(bounds.low) || std::isnan(bounds.high) || least != most) return std::nullopt;
  return least;
}

constexpr double kEqual = 1e-9;  // bounds that are so close are the value

// Decides by bounds; false if they do not.
bool decide(const ConditionParameter& about, const WatchCondition& condition, const WatchFacts& facts,
            WatchParameter& parameter) {
  const Bounds bounds = bounds_for(about.quantity, condition, facts);
  const std::optional<bool> hit = holds(bounds, about.relation, parameter.value);
  if (!hit) return false;
  parameter.hit = *hit;
  if (bounds.high - bounds.low <= kEqual * std::abs(bounds.high)) {
    parameter.actual = (bounds.low + bounds.high) / 2;
  } else if (about.relation == Inequality::lt) {
    parameter.at_most = bounds.high;
  } else {
    parameter.at_least = bounds.low;
  }
  return true;
}

Judgement judge_overflow(WatchCheck check, const WatchFacts& facts) {
  Judgement judgement;
  std::optional<bool> found;
  switch (check) {
    case WatchCheck::has_nan:
      found = facts.has_nan;
      break;
    case WatchCheck::has_inf:
      found = facts.has_inf;
      break;
    case WatchCheck::operator_overflow:
      found = facts.overflowed;
      break;
    default:
      if (facts.has_nan.value_or(false) || facts.has_inf.value_or(false)) {
        found = true;
      } else if (facts.has_nan && facts.has_inf) {
        found = false;
      }
  }
  judgement.kind = !found ? unknown : *found ? hit : quiet;
  return judgement;
}

// For NaN and infinities in the tensor: no other condition can be checked on them.
Judgement judge_finite(const WatchCondition& condition, const WatchFacts& facts) {
  Judgement judgement;
  const bool nan_is_a_value = condition.value("equal_nan").value_or(0) != 0;
  if (facts.has_nan.value_or(false) && !nan_is_a_value) judgement.error_code |= kWatchNan;
  if (facts.has_inf.value_or(false)) judgement.error_code |= kWatchInf;
  if (judgement.error_code != 0) {
    judgement.kind = error;
  } else if ((!facts.has_nan && !nan_is_a_value) || !facts.has_inf) {
    judgement.kind = unknown;
  }
  return judgement;
}

std::optional<bool> all_close(const WatchCondition& condition, const WatchFacts& facts) {
  if (facts.is_as_before) return true;
  if (facts.pair == nullptr) {
    const bool differs = facts.previous && must_differ(facts.known, *facts.previous, tolerance_of(condition));
    return differs ? std::optional(false) : std::nullopt;
  }
  const auto at = std::ranges::find(facts.tolerances, tolerance_of(condition));
  return at != facts.tolerances.end() && facts.pair->all_close[static_cast<std::size_t>(at - facts.tolerances.begin())];
}

}  // namespace

WatchFacts facts_of(const KnownStatistics& s, bool exact) {
  WatchFacts facts;
  facts.known = {
      s.max, s.min, s.avg, s.l2norm, s.count, s.positive_count, s.negative_count, s.zero_count, exact ? 1e-12 : 1e-5};
  facts.count = s.count;
  facts.zero_count = s.zero_count;
  facts.max = s.max;
  facts.min = s.min;
  facts.mean = s.avg;
  if (s.nan_count) facts.has_nan = *s.nan_count > 0;
  if (s.counts_infinities()) facts.has_inf = s.infinity_count() > 0;
  if (s.max && s.min) {  // in tables that count neither, these show a NaN
    const bool nan = std::isnan(*s.max) || std::isnan(*s.min);
    if (nan && !facts.has_nan) facts.has_nan = true;
    if ((std::isinf(*s.max) || std::isinf(*s.min)) && !facts.has_inf) facts.has_inf = true;
    if (s.all_finite() && s.avg && !facts.has_nan) facts.has_nan = false;
    if (s.all_finite() && s.avg && !facts.has_inf) facts.has_inf = false;
  }
  return facts;
}

WatchFacts facts_of(const ValueSummary& values, std::span<const ValueRange> ranges) {
  WatchFacts facts;
  facts.has_nan = values.nan_count > 0;
  facts.has_inf = values.inf_count > 0;
  facts.count = values.count;
  facts.zero_count = values.zero_count;
  facts.max = values.max;
  facts.min = values.min;
  facts.mean = values.mean;
  facts.abs_mean = values.abs_mean;
  facts.sd = values.sd;
  facts.values = &values;
  facts.ranges = ranges;
  return facts;
}

std::optional<ValueRange> range_of(const WatchCondition& condition) {
  const auto start = condition.value("range_start_inclusive"), end = condition.value("range_end_inclusive");
  return start && end ? std::optional(ValueRange{*start, *end}) : std::nullopt;
}

Tolerance tolerance_of(const WatchCondition& condition) {
  return {condition.value(Tolerances::kRelative).value_or(1e-5), condition.value(Tolerances::kAbsolute).value_or(1e-8),
          condition.value("equal_nan").value_or(0) != 0};
}

Judgement judge(const WatchCondition& condition, const WatchFacts& facts, bool final_word) {
  const WatchCheck check = condition.info->check;
  if (check == WatchCheck::without_effect) return {};  // of an operator, not of a tensor: without_effect.h
  Judgement judgement = is_overflow_check(check) ? judge_overflow(check, facts) : judge_finite(condition, facts);
  judgement.parameters = parameters_of(condition);
  if (is_overflow_check(check) || judgement.kind != quiet || facts.count == 0) return judgement;
  bool missing = false, any = false;
  for (WatchParameter& parameter : judgement.parameters) {
    const ConditionParameter& about = *parameter.parameter;
    if (about.kind != ConditionParameter::Kind::check) continue;
    if (check == WatchCheck::not_changed) {
      const std::optional<bool> close = all_close(condition, facts);
      missing = missing || !close;
      parameter.hit = close.value_or(false);
    } else if ((parameter.actual = actual_of(about.quantity, condition, facts))) {
      missing = missing || (!final_word && is_doubtful(about.quantity, *parameter.actual, parameter.value, facts));
      parameter.hit = holds(*parameter.actual, about.relation, parameter.value);
    } else if (!decide(about, condition, facts, parameter)) {
      missing = true;
    } else {
      missing = missing || (!final_word && parameter.hit && !facts.is_as_before);  // a hit has its value if a file does
    }
    any = any || parameter.hit;
  }
  // With the final word, one check that fires is enough, even if others are unknown.
  judgement.kind = missing && !(final_word && any) ? unknown : any ? hit : quiet;
  return judgement;
}

}  // namespace sonde
