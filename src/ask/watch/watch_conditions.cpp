#include "ask/watch/watch_conditions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "plan/config/nearest.h"

namespace sonde {
namespace {

using Kind = ConditionParameter::Kind;
using enum Quantity;
using enum NodeCategory;

constexpr double kMost = std::numeric_limits<double>::max();  // every finite number is allowed

constexpr ConditionParameter at_least(std::string_view name, Quantity quantity, Inequality relation, double low,
                                      double high, std::optional<double> fallback = std::nullopt) {
  return {name, Kind::check, quantity, relation, low, high, false, fallback, false};
}
constexpr ConditionParameter any(std::string_view name, Quantity quantity, Inequality relation) {
  return at_least(name, quantity, relation, -kMost, kMost);
}
constexpr ConditionParameter hidden(std::string_view name, double fallback, double high = kMost) {
  return {name, Kind::hidden, none, Inequality::none, 0, high, false, fallback, false};
}
constexpr ConditionParameter in_range(std::string_view name, Inequality relation) {
  return {name, Kind::check, range_percentage, relation, 0, 100, false, std::nullopt, true};
}
constexpr ConditionParameter end_of_range(std::string_view name) {
  return {name, Kind::support, none, Inequality::none, -kMost, kMost, false, std::nullopt, false};
}

constexpr ConditionParameter kInitialization[] = {
    at_least("zero_percentage_ge", zero_percentage, Inequality::ge, 0, 100, 100),
    any("max_gt", max, Inequality::gt),
    any("min_lt", min, Inequality::lt),
};
constexpr ConditionParameter kTooLarge[] = {
    at_least("abs_mean_gt", abs_mean, Inequality::gt, 0, kMost),
    any("max_gt", max, Inequality::gt),
    any("min_gt", min, Inequality::gt),
    any("mean_gt", mean, Inequality::gt),
};
constexpr ConditionParameter kTooSmall[] = {
    at_least("abs_mean_lt", abs_mean, Inequality::lt, 0, kMost),
    any("max_lt", max, Inequality::lt),
    any("min_lt", min, Inequality::lt),
    any("mean_lt", mean, Inequality::lt),
};
constexpr ConditionParameter kNotChanged[] = {
    {Tolerances::kRelative, Kind::check, none, Inequality::none, 0, kMost, false, 1e-5, false},
    hidden(Tolerances::kAbsolute, 1e-8),
    hidden("equal_nan", 0, 1),
};
constexpr ConditionParameter kChangeTooLarge[] = {
    at_least("abs_mean_update_ratio_gt", update_ratio, Inequality::gt, 0, kMost, 0.1),
    hidden("epsilon", 1e-9),
};
constexpr ConditionParameter kChangeTooSmall[] = {
    at_least("abs_mean_update_ratio_lt", update_ratio, Inequality::lt, 0, kMost, 1e-4),
    hidden("epsilon", 1e-9),
};
// The Python package uses the ratio.
constexpr ConditionParameter kChangeAbove[] = {
    at_least("abs_mean_update_ratio_gt", update_ratio, Inequality::gt, 0, kMost),
    hidden("epsilon", 1e-9),
};
constexpr ConditionParameter kChangeBelow[] = {
    at_least("abs_mean_update_ratio_lt", update_ratio, Inequality::lt, 0, kMost),
    hidden("epsilon", 1e-9),
};
constexpr ConditionParameter kRange[] = {
    end_of_range("range_start_inclusive"),
    end_of_range("range_end_inclusive"),
    in_range("range_percentage_lt", Inequality::lt),
    in_range("range_percentage_gt", Inequality::gt),
    {"max_min_lt", Kind::check, max_min, Inequality::lt, 0, kMost, true, std::nullopt, false},
    at_least("max_min_gt", max_min, Inequality::gt, 0, kMost),
};
constexpr ConditionParameter kAllZero[] = {
    at_least("zero_percentage_ge", zero_percentage, Inequality::ge, 0, 100, 100),
};
constexpr ConditionParameter kMaxGt[] = {any("param", max, Inequality::gt)};
constexpr ConditionParameter kMaxLt[] = {any("param", max, Inequality::lt)};
constexpr ConditionParameter kMinGt[] = {any("param", min, Inequality::gt)};
constexpr ConditionParameter kMinLt[] = {any("param", min, Inequality::lt)};
constexpr ConditionParameter kMaxMinGt[] = {any("param", max_min, Inequality::gt)};
constexpr ConditionParameter kMaxMinLt[] = {any("param", max_min, Inequality::lt)};
constexpr ConditionParameter kMeanGt[] = {any("param", mean, Inequality::gt)};
constexpr ConditionParameter kMeanLt[] = {any("param", mean, Inequality::lt)};
constexpr ConditionParameter kSdGt[] = {any("param", sd, Inequality::gt)};
constexpr ConditionParameter kSdLt[] = {any("param", sd, Inequality::lt)};

// Sorted by id.
constexpr ConditionInfo kConditions[] = {
    {"activation_range", "AR", activation, WatchCheck::range, kRange, "values outside of a range, or spread too far"},
    {"gradient_exploding", "GE", gradient, WatchCheck::overflow, {}, "a NaN or an infinity"},
    {"gradient_too_large", "GL", gradient, WatchCheck::too_large, kTooLarge, "statistics above a threshold"},
    {"gradient_vanishing", "GV", gradient, WatchCheck::too_small, kTooSmall, "statistics below a threshold"},
    {"has_inf", "", tensor, WatchCheck::has_inf, {}, "an infinity"},
    {"has_nan", "", tensor, WatchCheck::has_nan, {}, "a NaN"},
    {"max_gt", "", tensor, WatchCheck::max_gt, kMaxGt, "largest element above"},
    {"max_lt", "", tensor, WatchCheck::max_lt, kMaxLt, "largest element below"},
    {"max_min_gt", "", tensor, WatchCheck::max_min_gt, kMaxMinGt, "largest less smallest element above"},
    {"max_min_lt", "", tensor, WatchCheck::max_min_lt, kMaxMinLt, "largest less smallest element below"},
    {"mean_gt", "", tensor, WatchCheck::mean_gt, kMeanGt, "mean above"},
    {"mean_lt", "", tensor, WatchCheck::mean_lt, kMeanLt, "mean below"},
    {"min_gt", "", tensor, WatchCheck::min_gt, kMinGt, "smallest element above"},
    {"min_lt", "", tensor, WatchCheck::min_lt, kMinLt, "smallest element below"},
    {"operator_overflow",
     "OO",
     tensor,
     WatchCheck::operator_overflow,
     {},
     "the device, or Sonde, saw the operator overflow"},
    {"operator_without_effect",
     "NE",
     tensor,
     WatchCheck::without_effect,
     {},
     "the result equals an operand although the other one is not neutral"},
    {"sd_gt", "", tensor, WatchCheck::sd_gt, kSdGt, "standard deviation above"},
    {"sd_lt", "", tensor, WatchCheck::sd_lt, kSdLt, "standard deviation below"},
    {"tensor_all_zero", "TZ", tensor, WatchCheck::all_zero, kAllZero, "this percentage of zeros, or more"},
    {"tensor_change_above_threshold", "", tensor, WatchCheck::change_too_large, kChangeAbove,
     "changed by more than this part since the step before", true},
    {"tensor_change_below_threshold", "", tensor, WatchCheck::change_too_small, kChangeBelow,
     "changed by less than this part since the step before", true},
    {"tensor_overflow", "TO", tensor, WatchCheck::overflow, {}, "a NaN or an infinity"},
    {"tensor_range", "TR", tensor, WatchCheck::range, kRange, "values outside of a range, or spread too far"},
    {"tensor_too_large", "TL", tensor, WatchCheck::too_large, kTooLarge, "statistics above a threshold"},
    {"tensor_too_small", "TS", tensor, WatchCheck::too_small, kTooSmall, "statistics below a threshold"},
    {"tensor_unchanged", "", tensor, WatchCheck::not_changed, kNotChanged, "all close to the step before", true},
    {"weight_change_too_large", "WCL", weight, WatchCheck::change_too_large, kChangeTooLarge,
     "changed by more than this part since the step before"},
    {"weight_change_too_small", "WCS", weight, WatchCheck::change_too_small, kChangeTooSmall,
     "changed by less than this part since the step before"},
    {"weight_initialization", "WI", weight, WatchCheck::initialization, kInitialization,
     "step 0 only: zeros, or values too far out"},
    {"weight_not_changed", "WNC", weight, WatchCheck::not_changed, kNotChanged, "all close to the step before"},
    {"weight_overflow", "WO", weight, WatchCheck::overflow, {}, "a NaN or an infinity"},
    {"weight_too_large", "WL", weight, WatchCheck::too_large, kTooLarge, "statistics above a threshold"},
    {"weight_too_small", "WS", weight, WatchCheck::too_small, kTooSmall, "statistics below a threshold"},
};
static_assert(std::ranges::is_sorted(kConditions, {}, &ConditionInfo::id));

// "TensorTooLarge" -> "tensor_too_large"; also with "Condition" at the end, as the class itself is called.
std::string id_of_class(std::string_view name) {
  if (name.ends_with("Condition")) name.remove_suffix(9);
  std::string id;
  for (const char c : name) {
    const bool is_upper = c >= 'A' && c <= 'Z';
    if (is_upper && !id.empty()) id += '_';
    id += is_upper ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return id;
}

bool is_class_name(std::string_view name) { return !name.empty() && name[0] >= 'A' && name[0] <= 'Z'; }

Error bad(std::string_view condition, std::string_view message, const std::string& detail) {
  return Error{ErrorCode::invalid_argument, fmt::format("condition '{}': {} {}", condition, message, detail)};
}

std::string names_of(const ConditionInfo& info, Kind kind) {
  std::string names;
  for (const ConditionParameter& parameter : info.parameters) {
    if (parameter.kind == kind) names += (names.empty() ? "" : ", ") + std::string(parameter.name);
  }
  return names;
}

std::string limits_of(const ConditionParameter& parameter) {
  if (parameter.low == -kMost) return "a finite number";
  if (parameter.without_low) return fmt::format("a finite number above {:g}", parameter.low);
  if (parameter.high == kMost) return fmt::format("a finite number, {:g} or more", parameter.low);
  return fmt::format("{:g} to {:g}", parameter.low, parameter.high);
}

bool allows(const ConditionParameter& parameter, double value) {
  return std::isfinite(value) && value >= parameter.low && value <= parameter.high &&
         !(parameter.without_low && value == parameter.low);
}

Status take(const ConditionInfo& info, std::string_view as, std::string_view name, double value,
            std::vector<ParameterValue>& values) {
  if (info.parameters.empty()) {
    return bad(as, "No param is expected.", fmt::format("'{}' was given", name));
  }
  const auto found = std::ranges::find(info.parameters, name, &ConditionParameter::name);
  if (found == info.parameters.end()) {
    std::vector<std::string_view> known;
    for (const ConditionParameter& parameter : info.parameters) known.push_back(parameter.name);
    return bad(as, "Invalid name of parameter.",
               fmt::format("it has no '{}'; expected {}", name, fmt::join(known, ", ")));
  }
  if (std::ranges::find(values, &*found, &ParameterValue::parameter) != values.end()) {
    return bad(as, "Invalid param keys.", fmt::format("'{}' is given twice", name));
  }
  if (!allows(*found, value)) {
    return bad(as, "Parameter out of range.", fmt::format("{} is {:g}; expected {}", name, value, limits_of(*found)));
  }
  values.push_back({&*found, value});
  return {};
}

// Checks the number of chosen checks, and that their parameters are present.
Status check_choice(std::string_view as, bool takes_several, const WatchCondition& condition) {
  const ConditionInfo& info = *condition.info;
  std::size_t checks = 0;
  bool needs_range = false;
  for (const ParameterValue& value : condition.parameters) {
    checks += value.parameter->kind == Kind::check ? 1 : 0;
    needs_range = needs_range || value.parameter->needs_range;
  }
  if (checks == 0 && !names_of(info, Kind::check).empty()) {
    return bad(as, "Number param should be given.", "one of " + names_of(info, Kind::check));
  }
  if (checks > 1 && !takes_several) {
    return bad(
        as, "Multiple check params.",
        fmt::format("{} are given; give one condition for each, or use the class name, which takes several", checks));
  }
  const auto start = condition.value("range_start_inclusive"), end = condition.value("range_end_inclusive");
  if (needs_range ? !start || !end : (start || end) && !takes_several) {
    return bad(as, "Invalid support params.",
               needs_range ? "a range_percentage needs range_start_inclusive and range_end_inclusive"
                           : "max_min needs neither range_start_inclusive nor range_end_inclusive");
  }
  if (start && end && *start > *end) {
    return bad(as, "Parameter out of range.",
               fmt::format("range_start_inclusive {:g} is above range_end_inclusive {:g}", *start, *end));
  }
  return {};
}

// Adds parameters that were not given: the hidden ones, and the default check if no check was chosen.
void add_defaults(const ConditionInfo& info, std::vector<ParameterValue>& values) {
  const bool has_check =
      std::ranges::any_of(values, [](const ParameterValue& value) { return value.parameter->kind == Kind::check; });
  for (const ConditionParameter& parameter : info.parameters) {
    if (!parameter.fallback || std::ranges::find(values, &parameter, &ParameterValue::parameter) != values.end())
      continue;
    if (parameter.kind == Kind::check && has_check) continue;
    values.push_back({&parameter, *parameter.fallback});
  }
  std::ranges::sort(values, {}, &ParameterValue::parameter);
}

bool parse_value(std::string_view text, double& value) {
  if (text == "true" || text == "false") {
    value = text == "true" ? 1 : 0;
    return true;
  }
  if (text.starts_with('+')) text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

}  // namespace

std::string_view word_of(NodeCategory category) {
  constexpr std::array<std::string_view, 4> kWords = {"tensor", "weight", "gradient", "activation"};
  return kWords[static_cast<std::size_t>(category)];
}

std::optional<NodeCategory> category_of_word(std::string_view word) {
  for (const NodeCategory category : {tensor, weight, gradient, activation}) {
    if (word_of(category) == word) return category;
  }
  return std::nullopt;
}

bool is_overflow_check(WatchCheck check) {
  return check == WatchCheck::has_nan || check == WatchCheck::has_inf || check == WatchCheck::operator_overflow ||
         check == WatchCheck::overflow;
}

bool needs_previous(WatchCheck check) {
  return check == WatchCheck::change_too_large || check == WatchCheck::change_too_small ||
         check == WatchCheck::not_changed;
}

std::span<const ConditionInfo> all_conditions() { return kConditions; }

const ConditionInfo* find_condition(std::string_view name) {
  const std::string id = is_class_name(name) ? id_of_class(name) : std::string(name);
  const auto found = std::ranges::find(kConditions, id, &ConditionInfo::id);
  if (found == std::end(kConditions)) return nullptr;
  // Only conditions with a class in the package have a class name: those that watch any tensor.
  const bool is_class = found->target == tensor && (found->from_class || !found->abbreviation.empty());
  return is_class_name(name) && !is_class ? nullptr : &*found;
}

std::optional<double> WatchCondition::value(std::string_view name) const {
  for (const ParameterValue& value : parameters) {
    if (value.parameter->name == name) return value.value;
  }
  return std::nullopt;
}

Result<WatchCondition> make_condition(std::string_view name,
                                      std::span<const std::pair<std::string, double>> parameters) {
  const ConditionInfo* info = find_condition(name);
  if (info == nullptr) {
    std::vector<std::string_view> known;
    for (const ConditionInfo& condition : kConditions) known.push_back(condition.id);
    const std::vector<std::string> near = nearest(name, known, 3);
    return bad(
        name, "Invalid watch condition value.",
        near.empty() ? "unknown condition" : fmt::format("unknown condition; nearest: {}", fmt::join(near, ", ")));
  }
  WatchCondition condition;
  condition.info = info;
  for (const auto& [key, value] : parameters) {
    if (Status taken = take(*info, name, key, value, condition.parameters); !taken) return taken.error();
  }
  add_defaults(*info, condition.parameters);
  const bool takes_several = info->from_class || is_class_name(name);
  if (Status chosen = check_choice(name, takes_several, condition); !chosen) return chosen.error();
  return condition;
}

Result<WatchCondition> parse_condition(std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  std::vector<std::pair<std::string, double>> parameters;
  std::string_view rest = colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1);
  if (colon != std::string_view::npos && rest.empty()) {
    return bad(name, "Invalid param keys.", "nothing follows the colon; expected NAME=NUMBER[,NAME=NUMBER…]");
  }
  while (!rest.empty()) {
    const std::size_t comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos || equals == 0) {
      return bad(name, "Invalid param keys.", fmt::format("'{}'; expected NAME=NUMBER", part));
    }
    double value = 0;
    if (!parse_value(part.substr(equals + 1), value)) {
      return bad(name, "Number param should be given.", fmt::format("'{}'; expected NAME=NUMBER", part));
    }
    parameters.emplace_back(part.substr(0, equals), value);
  }
  return make_condition(name, parameters);
}

Result<std::vector<WatchCondition>> parse_conditions(std::span<const std::string> texts) {
  std::vector<WatchCondition> conditions;
  for (const std::string& text : texts) {
    Result<WatchCondition> condition = parse_condition(text);
    if (!condition) return condition.error();
    conditions.push_back(std::move(*condition));
  }
  return conditions;
}

std::string text_of(const WatchCondition& condition) {
  std::string text(condition.info->id);
  char separator = ':';
  for (const ParameterValue& value : condition.parameters) {
    if (value.parameter->kind == Kind::hidden && value.value == value.parameter->fallback) continue;
    text += fmt::format("{}{}={:g}", separator, value.parameter->name, value.value);
    separator = ',';
  }
  return text;
}

}  // namespace sonde
