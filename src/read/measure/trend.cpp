#include "read/measure/trend.h"

#include <algorithm>
#include <array>

#include "read/measure/measure.h"

namespace sonde {
namespace {

using Get = std::optional<double> (*)(const KnownStatistics& statistics);

std::optional<double> count_of(const std::optional<std::uint64_t>& count) {
  return count ? std::optional(static_cast<double>(*count)) : std::nullopt;
}

struct Named {
  std::string_view name;
  Get get;
};
constexpr std::array<Named, 11> kStatistics = {{
    {"max", [](const KnownStatistics& s) { return s.max; }},
    {"min", [](const KnownStatistics& s) { return s.min; }},
    {"avg", [](const KnownStatistics& s) { return s.avg; }},
    {"l2norm", [](const KnownStatistics& s) { return s.l2norm; }},
    {"count", [](const KnownStatistics& s) { return count_of(s.count); }},
    {"nan_count", [](const KnownStatistics& s) { return count_of(s.nan_count); }},
    {"positive_inf_count", [](const KnownStatistics& s) { return count_of(s.positive_inf_count); }},
    {"negative_inf_count", [](const KnownStatistics& s) { return count_of(s.negative_inf_count); }},
    {"positive_count", [](const KnownStatistics& s) { return count_of(s.positive_count); }},
    {"negative_count", [](const KnownStatistics& s) { return count_of(s.negative_count); }},
    {"zero_count", [](const KnownStatistics& s) { return count_of(s.zero_count); }},
}};

const CatalogTensor* find_tensor(const CatalogStep& step, std::string_view op_name, bool is_input, std::uint32_t slot) {
  for (const CatalogOp& op : step.ops) {
    if (op.op_name != op_name) continue;
    for (const CatalogTensor& tensor : op.tensors) {
      if (tensor.is_input == is_input && tensor.slot == slot) return &tensor;
    }
  }
  return nullptr;
}

}  // namespace

std::vector<std::string_view> statistic_names() {
  std::vector<std::string_view> names;
  for (const Named& named : kStatistics) names.push_back(named.name);
  return names;
}

std::optional<double> statistic(const KnownStatistics& statistics, std::string_view name) {
  const auto found = std::ranges::find(kStatistics, name, &Named::name);
  return found != kStatistics.end() ? found->get(statistics) : std::nullopt;
}

std::vector<TrendStep> trend_of(const std::vector<TrendSource>& steps, std::string_view op_name, bool is_input,
                                std::uint32_t slot, std::vector<std::string>& problems) {
  std::vector<TrendStep> trend;
  Measurer measurer;
  for (const TrendSource& source : steps) {
    TrendStep& at = trend.emplace_back(TrendStep{source.rank, source.step, std::nullopt});
    const CatalogTensor* found = find_tensor(*source.step, op_name, is_input, slot);
    if (found == nullptr) continue;
    CatalogTensor tensor = *found;
    if (const Status measured = measurer.measure(*source.rank, tensor); !measured) {
      problems.push_back(measured.error().message);
    }
    at.statistics = tensor.statistics;
  }
  return trend;
}

}  // namespace sonde
