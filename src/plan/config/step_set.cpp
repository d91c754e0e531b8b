#include <algorithm>
#include <charconv>

#include "ground/base/text.h"
#include "plan/config/plan.h"

namespace sonde {
namespace {

// The number that is all of `text`; nullopt when there is none or it does not fit.
std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

StepSet StepSet::all() { return parse("all"); }

StepSet StepSet::parse(std::string_view text) {
  StepSet set;
  set.text_ = text;
  set.all_ = text == "all";
  if (set.all_) return set;
  for (const std::string_view token : split(text, '|')) {
    const std::size_t dash = token.find('-');
    const std::optional<std::uint64_t> first = number(token.substr(0, dash));
    // A second '-' stays in the right-hand text, which then is not a number.
    const std::optional<std::uint64_t> last = dash == token.npos ? first : number(token.substr(dash + 1));
    if (first && last && *first <= *last) set.ranges_.emplace_back(*first, *last);
  }
  return set;
}

bool StepSet::contains(std::uint64_t iteration) const {
  return all_ || std::any_of(ranges_.begin(), ranges_.end(), [iteration](const auto& range) {
           return range.first <= iteration && iteration <= range.second;
         });
}

std::optional<std::uint64_t> StepSet::last() const {
  std::optional<std::uint64_t> last;
  for (const auto& range : ranges_) last = std::max(last.value_or(0), range.second);
  return last;
}

}  // namespace sonde
