// Overhead: chooses what is read, so that recording stays within a part of the run's time (sonde_settings.max_overhead).
//
// Every step earns that part of a step without recording; every recorded step costs what it took longer. A step is
// recorded when the account covers its operators, and of these as many are read as it covers. Steps that are left out
// run without callbacks of operators: they say how long a step takes without recording.
//
//   the time of a step     from its beginning to the beginning of the next one of its graph
//   without recording      the median of the last steps that were left out while the writer had nothing to do
//   the cost of a step     what callbacks took by their own clocks, times a factor: the longer time of recorded steps,
//                          divided by these clocks. It contains caches, other threads and the writer.
//
// Operators take turns: those that are cheap, or belong to the optimizer, first; of the others the one that has waited
// longest. So each is read in full again after a number of steps that the account decides; the report names it.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "record/capture/per_graph.h"
#include "sonde/step.h"

namespace sonde {

enum class Depth : std::uint8_t { nothing, statistics, full };

// Not synchronised: the session calls it under its lock.
class Overhead {
 public:
  // `most`: 0.05. `writes_tensors`: statistics alone are cheaper than everything.
  Overhead(double most, bool writes_tensors) : most_(most), goal_(kGoal * most), writes_tensors_(writes_tensors) {}

  // The writer's share of the processor so far, and the time now; nanoseconds.
  struct Clocks {
    std::uint64_t now = 0, writer = 0;
  };
  // Whether the step is recorded. `must`: it is not known yet whether it is a step.
  bool begin_step(std::uint32_t graph, Clocks clocks, bool must);
  // False if it was left out.
  bool end_step(std::uint32_t graph);
  bool is_recording(std::uint32_t graph) const { return graph < graphs_.size() && graphs_.at(graph).recording; }
  bool is_recording_any() const;

  // The op with this name begins.
  Depth choose(std::uint32_t graph, std::uint32_t name, Phase phase);
  // It has ended, and its tensors took so long to read; `bytes` of them go to the disk.
  void ended(std::uint32_t graph, std::uint32_t name, Depth depth, std::uint64_t nanoseconds, std::uint64_t bytes);

  std::string report() const;  // one line

 private:
  struct Name {
    bool known = false, optimizer = false;
    Depth chosen = Depth::full;
    std::uint64_t last_full = 0;  // recorded step
    double full_cost = 0, statistics_cost = 0;
  };
  struct Sample {
    double longer = 0, own = 0;
  };
  struct GraphState {
    bool begun = false, recording = false, recorded_last = false;
    std::uint64_t began_at = 0, writer_at = 0;
    std::uint64_t ops = 0;       // of the step
    double own = 0;              // nanoseconds of the step
    double usual_ops = 0;        // of a recorded step
    std::uint64_t in_a_row = 0;  // recorded, or left out
    std::deque<double> free;     // times of steps that were left out
    bool free_is_clean = false;
    std::deque<Sample> samples;
    double account = 0;
    std::uint64_t steps = 0, recorded = 0;
    std::vector<Name> names;           // by id
    std::vector<std::uint32_t> order;  // as they were first seen
    std::size_t next_full = 0, next_statistics = 0;
    double total_free = 0, longer = 0;
  };
  void settle(GraphState& state, Clocks clocks);
  bool wants(GraphState& state) const;
  void plan(GraphState& state);
  double take(GraphState& state, std::size_t& next, double budget, Depth depth) const;
  double free_time(const GraphState& state) const;
  double factor(const GraphState& state) const;
  double base_cost(const GraphState& state) const;
  double cost_of(const Name& name, Depth depth) const;

  // The rest is for what no clock here sees: the callbacks of modules and optimizers, which never stop.
  static constexpr double kGoal = 0.75;
  const double most_, goal_;
  const bool writes_tensors_;
  PerGraph<GraphState> graphs_;
  std::uint64_t full_ = 0, statistics_ = 0, nothing_ = 0;  // ops, by what was chosen
  std::uint64_t longest_wait_ = 0;                         // steps between two full reads of an op
};

}  // namespace sonde
