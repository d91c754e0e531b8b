#include "read/measure/trend.h"

#include "read/measure/measure.h"

namespace sonde {
namespace {

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
  const KnownStatistics none;
  for_each_statistic(none, [&](std::string_view name, const auto&) { names.push_back(name); });
  return names;
}

std::optional<double> statistic(const KnownStatistics& statistics, std::string_view name) {
  std::optional<double> found;
  for_each_statistic(statistics, [&](std::string_view one, const auto& value) {
    if (one == name && value) found = static_cast<double>(*value);
  });
  return found;
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
