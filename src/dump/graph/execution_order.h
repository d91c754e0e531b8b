// ExecutionOrderNames: the names of operators in MindSpore's execution order, `.ir` and `.pb`. A few operators are
// recreated after they got the name used in file names: Conv2DBackpropInput-op0 of the files is -op1 there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "sonde/result.h"

namespace sonde {

// One thread at a time.
class ExecutionOrderNames {
 public:
  // `execution_order/ms_execution_order_graph_{g}.csv`: a head line, then a full name a line.
  static Result<ExecutionOrderNames> read(const std::filesystem::path& csv);
  explicit ExecutionOrderNames(std::string_view csv);
  ExecutionOrderNames(ExecutionOrderNames&&) = default;
  ExecutionOrderNames& operator=(ExecutionOrderNames&&) = default;

  // In the order of the file.
  const std::vector<std::string>& names() const { return names_; }
  bool knows(std::string_view name) const { return known_.contains(name); }

  // The name in the execution order of the operator that the files call `op_name`: the same name if it is listed there;
  // otherwise the next unused name of the same scope and type. So it must be called in the order in which the operators
  // run, for each operator of the graph from its first run on; later calls return the same answer. Returns `op_name`
  // itself if it is unknown. Valid as long as this object and `op_name`.
  std::string_view name_of(std::string_view op_name);

  // All names that the operator may have in the execution order, for readers that did not see the first run: operators
  // run in any order later. Only the name that name_of gave, if it gave one; empty if the operator is unknown.
  std::vector<std::string_view> names_of(std::string_view op_name) const;

 private:
  // Operators of one scope and type: the possible meanings of a name in files.
  struct Group {
    std::vector<std::uint32_t> candidates;  // into names_, in the order in which they are assigned
    std::size_t given = 0;
    std::size_t made_anew = 0;  // so many at the beginning were certainly recreated
  };
  void add_group(std::string_view stem, const std::vector<std::uint32_t>& members);

  std::vector<std::string> names_;  // never changes, so views of it stay valid
  std::unordered_set<std::string_view> known_;
  std::unordered_map<std::string_view, Group> groups_;    // by the name without its number
  std::unordered_map<std::string, std::uint32_t> given_;  // name of the files -> names_
};

// `Default/conv-Conv2d/Conv2D-op` of `Default/conv-Conv2d/Conv2D-op12`, and 12. False for a name without a number.
bool split_number(std::string_view op_name, std::string_view& stem, std::uint64_t& number);

}  // namespace sonde
