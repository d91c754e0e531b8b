// FlowGraph: the ops of a step, the values that they read and make, and what is known of their health.
//
//   const FlowGraph graph = flow_graph_of(rank, step, health, only_overflows);  // flow_edges.h
//   for (const FlowInput& input : graph.ops()[op].inputs) ... graph.values()[input.value].op made it
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "read/catalog/catalog.h"
#include "read/catalog/data_flow.h"
#include "read/measure/health.h"
#include "read/operators/op_nature.h"

namespace sonde {

inline constexpr std::uint32_t kOutside = ~0U;   // no op of the step
inline constexpr std::size_t kLongestPath = 64;  // ops on the way of a value; where this is longer, the search ends

struct FlowInput {
  const CatalogTensor* tensor = nullptr;
  std::uint32_t value = 0;   // its source
  bool is_read = true;       // false: only its shape counts, or it is overwritten
  bool is_unsaid = false;    // another record contains it, but this op reads it too: see flow_edges.h
  bool is_in_parts = false;  // of memory with bad elements of several values (a bucket): the others are `is_unsaid`
};

struct FlowOp {
  const CatalogOp* op = nullptr;
  OpNature nature;
  Phase phase = Phase::forward;
  bool is_next = false;  // of the step after
  // msprobe's record of the backward run of the function that gave it its type; facts about the function do not
  // apply.
  bool is_reversed = false;
  std::vector<FlowInput> inputs;
  std::vector<std::uint32_t> outputs;  // values
  std::uint32_t list_size = 0;         // of `_foreach_…`: results, one for the elements of its lists at one place
  std::uint32_t said_inputs = 0;       // those that the dump says come first
};

struct FlowReader {
  std::uint32_t op = 0, input = 0;
};

struct FlowValue {
  std::uint32_t op = kOutside, slot = 0;
  const CatalogTensor* tensor = nullptr;  // null: seen by its readers only
  std::vector<FlowReader> readers;
  mutable std::optional<Health> health;  // once it was asked for
};

class FlowGraph {
 public:
  // `only_overflows`: the dump holds only ops that overflowed; missing ones were finite.
  FlowGraph(const CatalogRank& rank, HealthReader& health, bool only_overflows)
      : health_(health), only_overflows_(only_overflows), flow_(rank) {}

  void add_step(const CatalogStep& step, bool is_next);
  // The input comes from another value than the dump says; `is_in_parts`: and from older values of that memory.
  void join(std::uint32_t op, std::uint32_t input, std::uint32_t value, bool is_in_parts = false);
  // The op reads more than the dump says.
  void add_input(std::uint32_t op, FlowInput input);
  // That of the tensor's parameter, data or earlier maker.
  std::uint32_t outside_value(const CatalogTensor& tensor);
  void set_inferred() { inferred_ = true; }

  const std::vector<FlowOp>& ops() const { return ops_; }
  const std::vector<FlowValue>& values() const { return values_; }
  std::uint32_t index_of(const FlowOp& op) const { return static_cast<std::uint32_t>(&op - ops_.data()); }
  std::uint32_t index_of(const FlowValue& value) const { return static_cast<std::uint32_t>(&value - values_.data()); }
  bool only_overflows() const { return only_overflows_; }
  bool has_edges() const { return has_edges_; }               // the dump says which op reads which output
  bool inferred() const { return inferred_ || !has_edges_; }  // the dump does not say, or only in part

  HealthReader& health() const { return health_; }
  Health health_of(const FlowInput& input) const;
  Health health_of_value(std::uint32_t value) const;
  // Of all inputs that are in this output.
  Health inputs_of(const FlowOp& op, std::uint32_t output_slot, bool* all_known = nullptr) const;
  bool feeds(const FlowOp& op, const FlowInput& input, std::uint32_t output_slot) const;
  // The earlier contents of a value's memory: for an op that writes in place, its input; for a view, its base.
  std::optional<std::uint32_t> older(std::uint32_t value) const;
  // The maker of this input; null: none in these two steps.
  const FlowOp* maker(const FlowInput& input) const;
  // The maker's record of it; null: none.
  const CatalogTensor* made(const FlowInput& input) const;

 private:
  void add_op(const CatalogOp& op, bool is_next);
  std::uint32_t value_of(std::uint32_t op, std::uint32_t slot);
  std::uint32_t add_value(std::uint32_t op, std::uint32_t slot, const CatalogTensor* tensor);

  HealthReader& health_;
  bool only_overflows_;
  DataFlow flow_;  // of both steps; operators are numbered as in ops_
  std::vector<FlowOp> ops_;
  std::vector<FlowValue> values_;
  std::unordered_map<std::string, std::uint32_t> outside_;
  bool inferred_ = false, has_edges_ = false;
};

}  // namespace sonde
