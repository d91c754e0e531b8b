// DataFlow: finds the operator that made the input of another one. Only this class follows CatalogTensor::source.
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

#include "read/catalog/catalog.h"

namespace sonde {

// The evidence that an input comes from an output.
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
    std::uint32_t slot = 0;         // of its outputs; kInnerSlot: an internal result of the op
    FlowEvidence evidence = FlowEvidence::recorded;
  };

  explicit DataFlow(const CatalogRank& rank) : by_graph_(rank.has_host_data_flow) {}
  // Every operator of a step; parameters make nothing. Numbers follow the order of the run.
  DataFlow(const CatalogRank& rank, const CatalogStep& step);

  // Operators are numbered 0, 1, … in the order in which they are added. Of two with the same sequence the first
  // counts.
  std::uint32_t add(const CatalogOp& op);

  // The maker of an input; empty: a parameter or data, an operator that was not added, or the dump does not say.
  std::optional<Maker> maker(const CatalogTensor& input) const;
  // True if two inputs come from one output, possibly of an operator outside the dump.
  static bool same_origin(const CatalogTensor& a, const CatalogTensor& b);
  // The maker's record of it; null: none.
  static const CatalogTensor* output(const Maker& maker);

 private:
  bool by_graph_;
  std::vector<const CatalogOp*> ops_;
  std::unordered_map<std::uint64_t, std::uint32_t> by_sequence_;
};

}  // namespace sonde
