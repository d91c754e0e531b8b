#include "read/measure/find_flow.h"

#include <algorithm>
#include <vector>

#include "read/catalog/likely_sources.h"
#include "read/measure/measure.h"

namespace sonde {

FlowKnown find_flow(const CatalogRank& rank, CatalogStep& step) {
  if (rank.has_journal || rank.has_host_data_flow) return FlowKnown::by_dump;
  const auto is_likely = [&] {
    return std::ranges::any_of(step.ops, [](const CatalogOp& op) {
      return std::ranges::any_of(op.tensors, &CatalogTensor::source_is_likely);
    });
  };
  if (!is_likely()) {
    std::vector<MeasureTask> tasks;
    for (CatalogOp& op : step.ops) {
      for (CatalogTensor& tensor : op.tensors) tasks.push_back({&rank, &tensor});
    }
    measure_all(tasks);
    add_likely_sources(step);
  }
  return is_likely() ? FlowKnown::by_values : FlowKnown::not_at_all;
}

}  // namespace sonde
