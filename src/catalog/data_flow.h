// DataFlow: which operator made what another one reads. The one place that follows CatalogTensor::source.
//
//   DataFlow flow(rank);
//   for (const CatalogOp& op : step.ops) {
//     for (const CatalogTensor& tensor : op.tensors)
//       if (const auto maker = flow.maker(tensor)) ...  // maker->op made it, in this step or in one before
//     flow.add(op);
//   }
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "catalog/catalog.h"

namespace sonde {

// How it is known that an input comes from an output.
enum class FlowEvidence : std::uint8_t {
  recorded,         // the journal says so
  framework_graph,  // a graph file of the framework says so
  equal_values,     // the values, or the statistics, are equal: it is likely
};

class DataFlow {
 public:
  struct Maker {
    std::uint32_t number = 0;       // as add() gave it
    const CatalogOp* op = nullptr;  // never null
    std::uint32_t slot = 0;         // of its outputs; kInnerSlot: something that the op made inside
    FlowEvidence evidence = FlowEvidence::recorded;
  };

  explicit DataFlow(const CatalogRank& rank) : by_graph_(rank.host_tells_data_flow) {}
  // Every operator of a step; parameters make nothing. Numbers follow the order of the run.
  DataFlow(const CatalogRank& rank, const CatalogStep& step);

  // Operators are numbered 0, 1, … in the order in which they are added. Of two with one sequence the first counts.
  std::uint32_t add(const CatalogOp& op);

  // Of an input; empty: a parameter or data, an operator that was not added, or the dump does not say.
  std::optional<Maker> maker(const CatalogTensor& input) const;
  // Whether two inputs come from one output, also of an operator that the dump does not hold.
  static bool same_origin(const CatalogTensor& a, const CatalogTensor& b);
  // What the maker recorded of it; null: nothing.
  static const CatalogTensor* output(const Maker& maker);

 private:
  bool by_graph_;
  std::vector<const CatalogOp*> ops_;
  std::unordered_map<std::uint64_t, std::uint32_t> by_sequence_;
};

}  // namespace sonde
