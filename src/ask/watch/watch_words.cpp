// Hits in words for people.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "ask/watch/watchpoints.h"

namespace sonde {
namespace {

struct ErrorText {
  std::uint32_t bit;
  std::string_view message, word;
};
constexpr std::array<ErrorText, 6> kErrors = {{
    {kWatchNan, "Tensor contains NaN.", "nan"},
    {kWatchInf, "A tensor contains +/-INF.", "inf"},
    {kWatchNoPrevious, "The previous step value cannot be found.", "no_prev_tensor"},
    {kWatchTooLarge, "The tensor size exceeds the memory limit.", "out_of_mem"},
    {kWatchNoHistory, "Graph history file is not available.", "no_history"},
    {kWatchNoValue, "Tensor has no value.", "no_value"},
}};

}  // namespace

std::optional<WatchSelection::Sides> sides_of_word(std::string_view word) {
  using enum WatchSelection::Sides;
  if (word == "output") return outputs;
  if (word == "input") return inputs;
  return word == "both" ? std::optional(both) : std::nullopt;
}

std::vector<std::string_view> error_messages(std::uint32_t code) {
  std::vector<std::string_view> messages;
  for (const ErrorText& text : kErrors) {
    if ((code & text.bit) != 0) messages.push_back(text.message);
  }
  return messages;
}

std::vector<std::string_view> error_words(std::uint32_t code) {
  std::vector<std::string_view> words;
  for (const ErrorText& text : kErrors) {
    if ((code & text.bit) != 0) words.push_back(text.word);
  }
  return words;
}

std::string reason_of(const WatchHit& hit) { return fmt::format("{}", fmt::join(error_messages(hit.error_code), " ")); }

std::string detail_of(const WatchHit& hit) {
  std::string text = hit.found;
  for (const WatchParameter& parameter : hit.parameters) {
    if (!parameter.hit || !(parameter.actual || parameter.at_least || parameter.at_most)) continue;
    const std::string_view name = parameter.parameter->name;
    const std::string_view relation = parameter.actual ? "=" : parameter.at_least ? ">=" : "<=";
    const double found = parameter.actual     ? *parameter.actual
                         : parameter.at_least ? *parameter.at_least
                                              : *parameter.at_most;
    text += fmt::format("{}The setting for watchpoint is {} = {}. The actual value of the tensor is {} {} {}.",
                        text.empty() ? "" : " ", name, parameter.value, name, relation, found);
  }
  return text;
}

}  // namespace sonde
