#include "plan/config/statistic_category.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "ground/stats/statistics.h"
#include "plan/config/diagnostics.h"
#include "plan/config/nearest.h"

namespace sonde {
namespace {

std::vector<std::string_view> all_words() {
  std::vector<std::string_view> words;
  for (const CategoryInfo& info : all_categories()) words.insert(words.end(), info.words.begin(), info.words.end());
  return words;
}

std::string what_is_wrong(const JsonValue& item) {
  const std::vector<std::string_view> words = all_words();
  std::string text = fmt::format("found {}; allowed: \"{}\"", spelled(item), fmt::join(words, "\", \""));
  if (item.is(JsonValue::Kind::string)) {
    const std::string best = nearest(item.text, words).front();
    if (is_close(item.text, best)) text += fmt::format("; did you mean \"{}\"?", best);
  }
  return text;
}

}  // namespace

void read_statistic_category(const JsonMember& member, const std::string& path, Plan& plan, Diagnostics& diagnostics) {
  const bool used = plan.wants_statistics();
  const auto report = [&](std::size_t line, const std::string& key, const std::string& message) {
    if (used) {
      diagnostics.error(line, key, message);
    } else {
      diagnostics.warning(line, key, message + "; not used, because saved_data asks for no statistics");
    }
  };
  if (!member.value.is(JsonValue::Kind::array)) {
    report(member.value.line, path, fmt::format("found {}; allowed: an array of strings", spelled(member.value)));
    return;
  }
  std::vector<Category> categories;
  for (std::size_t i = 0; i < member.value.items.size(); ++i) {
    const JsonValue& item = member.value.items[i];
    const bool is_string = item.is(JsonValue::Kind::string);
    const std::optional<Category> category = is_string ? category_from_word(item.text) : std::nullopt;
    if (!category) {
      report(item.line, fmt::format("{}[{}]", path, i), what_is_wrong(item));
    } else if (std::find(categories.begin(), categories.end(), *category) == categories.end()) {
      categories.push_back(*category);
    }
  }
  if (!used) return;
  if (categories.empty() && !diagnostics.has_errors()) {
    diagnostics.warning(member.value.line, path, "empty; statistic.csv will have no statistics");
  }
  plan.statistic_category = std::move(categories);
}

}  // namespace sonde
