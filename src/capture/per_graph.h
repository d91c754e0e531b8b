// PerGraph: one value per graph, created at first use.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>

namespace sonde {

// Graphs are numbered from 0, without large gaps: PyTorch has two, MindSpore one for each block of control flow.
template <typename Value>
class PerGraph {
 public:
  Value& operator[](std::uint32_t graph) {
    if (graph >= values_.size()) values_.resize(graph + std::size_t{1});
    return values_[graph];
  }
  // For a graph that was used before.
  const Value& at(std::uint32_t graph) const { return values_.at(graph); }
  std::uint32_t size() const { return static_cast<std::uint32_t>(values_.size()); }
  void clear() { values_.clear(); }

 private:
  std::deque<Value> values_;  // references stay valid when a graph is added
};

}  // namespace sonde
