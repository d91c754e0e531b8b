#include "face/server/parameters.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "face/report/catalog_text.h"
#include "ground/base/parse_number.h"
#include "plan/config/nearest.h"
#include "read/catalog/dump_part.h"

namespace sonde::server {
namespace {

template <typename Number>
std::optional<Number> parsed(std::string_view text) {
  Number number{};
  return parse_number(text, number) ? std::optional(number) : std::nullopt;
}

}  // namespace

void Parameters::fail(std::string message) {
  if (error_.empty()) error_ = std::move(message);
}

std::optional<std::string> Parameters::text(std::string_view name) {
  known_.push_back(name);
  const auto found = std::ranges::find(query_, name, &std::pair<std::string, std::string>::first);
  if (found == query_.end()) return std::nullopt;
  return found->second;
}

std::string Parameters::required(std::string_view name) {
  std::optional<std::string> value = text(name);
  if (!value || value->empty()) fail(fmt::format("the parameter '{}' is missing", name));
  return value.value_or("");
}

std::optional<std::uint64_t> Parameters::number(std::string_view name) {
  const std::optional<std::string> value = text(name);
  if (!value) return std::nullopt;
  const std::optional<std::uint64_t> number = parsed<std::uint64_t>(*value);
  if (!number) fail(fmt::format("{}={}: expected a number, 0 or more", name, *value));
  return number;
}

std::uint64_t Parameters::number(std::string_view name, std::uint64_t otherwise, std::uint64_t most) {
  const std::uint64_t value = number(name).value_or(otherwise);
  if (value > most) fail(fmt::format("{}={}: at most {}", name, value, most));
  return std::min(value, most);
}

std::optional<double> Parameters::real(std::string_view name) {
  const std::optional<std::string> value = text(name);
  if (!value) return std::nullopt;
  const std::optional<double> number = parsed<double>(*value);
  if (!number || !std::isfinite(*number)) fail(fmt::format("{}={}: expected a number", name, *value));
  return number;
}

std::string Parameters::word(std::string_view name, std::string_view otherwise,
                             std::initializer_list<std::string_view> words) {
  std::string value = text(name).value_or(std::string(otherwise));
  if (std::ranges::find(words, value) == words.end()) {
    fail(value.empty() ? fmt::format("the parameter '{}' is missing: one of {}", name, fmt::join(words, ", "))
                       : fmt::format("{}={}: expected one of {}", name, value, fmt::join(words, ", ")));
  }
  return value;
}

StepSet Parameters::steps(std::string_view name) {
  const std::string value = text(name).value_or("");
  Result<StepSet> steps = parse_steps(value);
  if (steps) return *steps;
  fail(fmt::format("{}={}: expected steps as 3, 0-5 or 1|4", name, value));
  return StepSet::all();
}

Status Parameters::finish() {
  for (std::size_t i = 0; i < query_.size() && error_.empty(); ++i) {
    const std::string& name = query_[i].first;
    if (std::ranges::find(known_, name) == known_.end()) {
      const std::vector<std::string> near = nearest(name, known_, 1);
      fail(fmt::format("there is no parameter '{}'{}", name,
                       near.empty() ? "" : fmt::format("; did you mean '{}'?", near[0])));
    }
    if (std::ranges::count(query_, name, &std::pair<std::string, std::string>::first) > 1) {
      fail(fmt::format("the parameter '{}' is there twice", name));
    }
  }
  if (error_.empty()) return {};
  return Error{ErrorCode::invalid_argument, error_};
}

Where Where::of(Parameters& parameters, std::string_view steps) {
  Where where;
  where.rank = parameters.text("rank");
  if (where.rank && where.rank->empty()) where.rank.reset();
  if (parameters.text("graph")) {
    where.graph = static_cast<std::uint32_t>(parameters.number("graph", 0, std::numeric_limits<std::uint32_t>::max()));
  }
  where.steps = parameters.steps(steps);
  return where;
}

bool Where::takes(const CatalogRank& of) const {
  return !rank || *rank == std::to_string(of.rank) || *rank == rank_text(of);
}

bool Where::takes(const CatalogRank& of, const CatalogStep& step) const {
  return takes(of) && (!graph || *graph == step.id.graph) && steps.contains(step.id.number);
}

}  // namespace sonde::server
