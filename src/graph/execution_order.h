// ExecutionOrderNames: the names that MindSpore's execution order, `.ir` and `.pb` have for operators. A few operators are
// made anew after they got the name that files are called by: Conv2DBackpropInput-op0 of the files is -op1 there.
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

  // In order.
  const std::vector<std::string>& names() const { return names_; }
  bool knows(std::string_view name) const { return known_.contains(name); }

  // The name here of the operator that the files call `op_name`: itself when it is listed here; else the next unused
  // one of the same scope and type. So call it in the order in which the operators run, for each operator of the graph
  // from its first run on; the answer does not change. `op_name` itself when it is unknown. Valid as long as this and
  // `op_name`.
  std::string_view name_of(std::string_view op_name);

  // All names that it may have here, for readers that did not see the first run: later, operators run in any order.
  // Only the one that name_of gave, if it did; none when it is unknown.
  std::vector<std::string_view> names_of(std::string_view op_name) const;

 private:
  // Operators of one scope and type, that a file's name may mean.
  struct Group {
    std::vector<std::uint32_t> candidates;  // into names_, in the order in which they are given
    std::size_t given = 0;
    std::size_t made_anew = 0;  // the first so many of them surely were
  };
  void add_group(std::string_view stem, const std::vector<std::uint32_t>& members);

  std::vector<std::string> names_;  // never changes, so views of it stay
  std::unordered_set<std::string_view> known_;
  std::unordered_map<std::string_view, Group> groups_;    // by the name without its number
  std::unordered_map<std::string, std::uint32_t> given_;  // name of the files -> names_
};

// `Default/conv-Conv2d/Conv2D-op` of `Default/conv-Conv2d/Conv2D-op12`, and 12. False for a name without a number.
bool split_number(std::string_view op_name, std::string_view& stem, std::uint64_t& number);

}  // namespace sonde
