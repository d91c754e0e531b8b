// -r and -s: operators by their place in the order of execution, the `id` of the rule file.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <unordered_set>

#include "ground/base/text.h"
#include "guests/msaccucmp/comparison.h"

namespace sonde::msaccucmp {
namespace {

std::vector<std::string> fields(const std::string& text) {
  std::vector<std::string> parts;
  for (const std::string_view field : fields_in(text, ',')) {
    std::string& part = parts.emplace_back(field);
    while (part.starts_with(' ')) part.erase(0, 1);
    while (part.ends_with(' ')) part.pop_back();
  }
  return parts;
}

std::optional<std::int64_t> whole_number(const std::string& text) {
  std::int64_t number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_whole = problem == std::errc() && end == text.data() + text.size() && text.front() != '-';
  return is_whole ? std::optional(number) : std::nullopt;
}

struct Range {
  std::int64_t start = 1, end = -1, step = 1;

  bool has(std::int64_t id) const {
    return id >= start && id <= end && (id == start || id == end || (id - start) % step == 0);
  }
};

Outcome<Range> parse_range(const std::string& text, std::int64_t count) {
  const std::vector<std::string> parts = fields(text);
  const Failure wrong{Code::invalid_parameter, fmt::format("-r '{}' is not start,end,step", text)};
  if (parts.size() != 3) return wrong;
  Range range;
  std::int64_t* const places[] = {&range.start, &range.end, &range.step};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].empty() || (i == 1 && parts[i] == "-1")) continue;
    const std::optional<std::int64_t> number = whole_number(parts[i]);
    if (!number) return wrong;
    *places[i] = *number;
  }
  if (range.end == -1) range.end = count;
  const auto outside = [&](std::string_view what, std::int64_t value, std::int64_t least, std::int64_t most) {
    return Failure{Code::out_of_range, fmt::format("-r '{}': {} is {}, not {} to {}", text, what, value, least, most)};
  };
  if (range.start < 1 || range.start > count) return outside("start", range.start, 1, count);
  if (range.end < range.start || range.end > count) return outside("end", range.end, range.start, count);
  if (range.step < 1 || range.step >= count) return outside("step", range.step, 1, count - 1);
  return range;
}

Outcome<std::set<std::int64_t>> parse_selection(const std::string& text, std::int64_t count, const Log& log) {
  std::set<std::int64_t> ids;
  std::vector<std::int64_t> beyond;
  for (const std::string& part : fields(text)) {
    if (part.empty()) continue;
    const std::optional<std::int64_t> number = whole_number(part);
    if (!number) return Failure{Code::invalid_parameter, fmt::format("-s '{}' is not a list of numbers", text)};
    if (*number <= count) {
      ids.insert(*number);
    } else {
      beyond.push_back(*number);
    }
  }
  if (!beyond.empty()) {
    const std::string message = fmt::format("-s {}: the largest id is {}", fmt::join(beyond, ","), count);
    if (ids.empty()) return Failure{Code::invalid_parameter, message};
    log.warning(message);
  }
  return ids;
}

}  // namespace

Outcome<std::vector<const Group*>> chosen_groups(const Comparison& comparison) {
  const Rules& rules = comparison.rules;
  std::vector<const Group*> groups;
  const bool is_everything = !comparison.options.range && !comparison.options.select;
  if (is_everything || rules.in_sequence.empty()) {
    for (const Group& group : rules.groups) groups.push_back(&group);
    return groups;
  }
  const std::int64_t count = rules.ops[rules.in_sequence.back()].sequence;
  std::optional<Range> range;
  std::set<std::int64_t> ids;
  if (comparison.options.range) {
    Outcome<Range> parsed = parse_range(*comparison.options.range, count);
    if (!parsed) return parsed.failure();
    range = *parsed;
  } else {
    Outcome<std::set<std::int64_t>> parsed = parse_selection(*comparison.options.select, count, comparison.log);
    if (!parsed) return parsed.failure();
    ids = std::move(*parsed);
  }
  std::unordered_set<const Group*> taken;
  for (const std::size_t i : rules.in_sequence) {
    const std::int64_t id = rules.ops[i].sequence;
    if (range ? !range->has(id) : !ids.contains(id)) continue;
    const Group* group = rules.group_of(rules.ops[i].name);
    if (group != nullptr && taken.insert(group).second) groups.push_back(group);
  }
  return groups;
}

}  // namespace sonde::msaccucmp
