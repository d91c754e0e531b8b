// StepClock: turns what a training program does into numbered steps. A state machine without threads or I/O.
//
//   automatic, an optimizer exists   a step closes at the first forward of a root after Optimizer.step has returned;
//                                    accumulation stays in one step
//   automatic, no optimizer          a step begins at each forward of a root
//   tensors of no module are trained a step begins with the first op that has a gradient history, and closes whenever
//                                    an optimizer has stepped
//   manual                           sonde.step() closes a step
//
// A root with parameters settles which line holds. Before one is called, what runs counts provisionally:
//
//   the first op                     opens step 0; it closes whenever an optimizer has stepped
//   a forward of a root without      goes on with the step that the first op has opened, else as of a root with
//   parameters                       parameters; from the first root with parameters on it says nothing (a loss)
//   a root with parameters is        all that was provisional is forgotten, and its first step is step 0: making a model
//   called, tensors of no module     and its data is no step
//   are trained
//   modules with parameters exist    the same, and their first call is waited for
//   settle(), sonde.step(), stop()   it was no preamble: the steps so far are steps, and the first forward after them
//                                    goes on with one that no forward has begun
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
  bool began = false;    // else it ended
  bool resumed = false;  // began: it has begun before, and was switched off meanwhile
  StepId step;
  bool forgotten = false;  // instead of both: whatever was told so far was no step
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
  std::vector<StepChange> operator_seen();
  std::vector<StepChange> modules_exist();  // with parameters, and none was called yet
  std::vector<StepChange> start();          // manual rule: the first step begins at once
  std::vector<StepChange> stop();           // closes what is open
  // From the first call on, what is chosen is decided by this alone, at once.
  std::vector<StepChange> dump_switch(bool on);
  void set_iteration(std::uint64_t iteration);  // of the step that begins next

  // What was told so far may still be forgotten.
  bool provisional() const { return provisional_; }
  void settle();

  // The chosen step an op of this graph belongs to; nullopt when there is none.
  std::optional<StepId> recording(std::uint32_t graph) const;
  // Every step that was chosen has ended. Never where something else than the numbers of steps chooses.
  bool is_over() const;
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
    std::uint64_t base = 0;   // of them, those before set_iteration()
    bool open = false;
    bool chosen = false;  // the open step is in the plan
    bool seen = false;    // the open step has been chosen before
    std::uint64_t iteration = 0;
  };
  void open(std::uint32_t graph, std::vector<StepChange>& changes);
  void close(std::uint32_t graph, std::vector<StepChange>& changes);
  void forget(std::vector<StepChange>& changes);

  StepRule rule_;
  IterationSet chosen_;
  std::uint64_t initial_iteration_;
  Counter counter_[2];
  bool switched_ = false;            // dump_switch() was called: iterations do not count
  bool on_ = true;                   // what it said last
  bool forward_since_step_ = false;  // a root has been called since the optimizer stepped
  bool stepped_ = false;             // the optimizer has stepped in the open training step
  bool root_seen_ = false;           // some root with parameters was called
  bool provisional_ = false;         // nothing of what has begun is settled
  bool by_operator_ = false;         // no forward has begun the open training step
  bool bare_ = false;                // tensors of no module are trained
  bool bare_root_seen_ = false;      // a root without parameters was called
  bool waits_ = false;               // modules with parameters exist: for the first call of one
  bool discovering_ = true;          // roots may still be unknown: until the second step of either graph begins
  bool scaler_pending_ = false;      // rootless: this scaler.update belongs to a step that is closed already
};

}  // namespace sonde
