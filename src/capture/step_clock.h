// StepClock: turns what a training program does into numbered steps. A state machine without threads or I/O.
//
//   automatic, an optimizer exists   a step closes at the first forward of a root with parameters
//   after
//                                    Optimizer.step has returned; accumulation stays in one step
//   automatic, no optimizer          a step begins at each forward of a root with parameters
//   no module at all                 a step begins with the first op that has a gradient history
//   and closes whenever
//                                    an optimizer has stepped
//   manual                           sonde.step() closes a step
//
// Graph 0 is training (forward with gradients), graph 1 evaluation, each with its own count.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sonde/plan.h"
#include "store/record.h"

namespace sonde {

struct StepChange {
  bool began = false;  // else it ended
  StepId step;
};

class StepClock {
 public:
  StepClock(StepRule rule, IterationSet chosen, std::uint64_t initial_iteration);

  // Each returns the chosen steps that ended or began, in order. Steps that are not chosen are counted in silence.
  std::vector<StepChange> root_forward(bool has_parameters, bool grad_enabled, bool optimizer_alive);
  std::vector<StepChange> optimizer_end();
  std::vector<StepChange> scaler_update();
  std::vector<StepChange> manual_step();
  std::vector<StepChange> autograd_seen();
  std::vector<StepChange> start();  // manual rule: the first step begins at once
  std::vector<StepChange> stop();   // closes what is open

  // The chosen step an op of this graph belongs to; nullopt when there is none.
  std::optional<StepId> recording(std::uint32_t graph) const;
  // Whether operator callbacks need to run: a chosen step is open, or roots are still to be found.
  bool needs_operators() const;
  // An op outside every module: the evaluation's, or the training step's.
  std::uint32_t graph_outside_modules(bool grad_enabled) const;

  bool manual() const { return rule_ == StepRule::manual; }
  bool discovering() const { return discovering_; }
  std::uint64_t steps_begun(std::uint32_t graph) const { return counter_[graph].begun; }

 private:
  struct Counter {
    std::uint64_t begun = 0;  // steps begun so far
    bool open = false;
    bool chosen = false;  // the open step is in the plan
    std::uint64_t iteration = 0;
  };
  void open(std::uint32_t graph, std::vector<StepChange>& changes);
  void close(std::uint32_t graph, std::vector<StepChange>& changes);

  StepRule rule_;
  IterationSet chosen_;
  std::uint64_t initial_iteration_;
  Counter counter_[2];
  bool forward_since_step_ = false;  // a root has been called since the optimizer stepped
  bool stepped_ = false;             // the optimizer has stepped in the open training step
  bool root_seen_ = false;           // some root with parameters was called
  bool discovering_ = true;          // roots may still be unknown: until the second step of either graph begins
  bool scaler_pending_ = false;      // rootless: this scaler.update belongs to a step that is closed already
};

}  // namespace sonde
