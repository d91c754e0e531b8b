// PerGraph: one value per graph, created at first use.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

namespace sonde {

// Graphs are numbered from 0, without large gaps: PyTorch has two, MindSpore one for each block of control flow.
template <typename Value>
class PerGraph {
 public:
  PerGraph() = default;
  PerGraph(const PerGraph&) = delete;
  PerGraph& operator=(const PerGraph&) = delete;

  Value& operator[](std::uint32_t graph) {
    while (graph >= places_.size()) places_.push_back(&values_.emplace_back());
    return *places_[graph];
  }
  // For a graph that was used before.
  const Value& at(std::uint32_t graph) const { return *places_.at(graph); }
  std::uint32_t size() const { return static_cast<std::uint32_t>(places_.size()); }
  void clear() {
    places_.clear();
    values_.clear();
  }

 private:
  std::deque<Value> values_;    // references stay valid when a graph is added
  std::vector<Value*> places_;  // looked up several times for each op, which a deque makes slow
};

}  // namespace sonde
