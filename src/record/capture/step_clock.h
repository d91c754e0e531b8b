// StepClock: turns the events of a training program into numbered steps. A state machine without threads or I/O.
//
//   automatic, an optimizer exists   a step closes at the first forward of a root after Optimizer.step has returned;
//                                    accumulation stays in one step
//   automatic, no optimizer          a step begins at each forward of a root
//   tensors of no module are trained a step begins with the first op that has a gradient history, and closes whenever
//                                    an optimizer has stepped
//   manual                           sonde.step() closes a step
//
// A root with parameters decides which line applies. Before one is called, steps are provisional:
//
//   the first op                     opens step 0; it closes whenever an optimizer has stepped
//   a forward of a root without      continues the step that the first op opened, otherwise counts like a root with
//   parameters                       parameters; after the first root with parameters it is ignored (a loss)
//   a root with parameters is        all provisional steps are forgotten, and its first step is step 0: making a model
//   called, tensors of no module     and its data is not a step
//   are trained
//   modules with parameters exist    the same; the clock waits for their first call
//   settle(), sonde.step(), stop()   the provisional steps become steps, and the first forward after them
//                                    continues the one that no forward has begun
//
// Graph 0 is training: forward with gradients. A forward without gradients is, where an optimizer exists,
//
//   of the training step             between the step's first forward with gradients and its Optimizer.step: reference
//                                    models, pseudo-labels
//   of the training step to come     before its first forward with gradients, of a root that no optimizer trains: as
//                                    often as it did so for the step before; for the first step, at most twice
//   evaluation                       every other one; always where the model that trains has changed its mode since
//                                    (model.eval()), or is itself called while not in training mode
//
// and evaluation, with its own step count, where no optimizer exists. A forward of a training step has its number. The
// two kinds never share a graph: the one that comes first is graph 1, the other graph 2.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "dump/journal/record.h"
#include "plan/config/plan.h"
#include "record/capture/forward_gap.h"

namespace sonde {

struct StepChange {
  bool began = false;    // otherwise it ended
  bool resumed = false;  // for began: it began before and was switched off in between
  StepId step;
  bool forgotten = false;  // instead of both: the steps reported so far were not steps
};

// A root with parameters is called without gradients.
struct QuietForward {
  std::uint64_t root = 0;  // the same for the same module
  bool optimizer_alive = false;
  bool trained = true;     // an optimizer trains a parameter of it
  bool evaluates = false;  // the model that trains has changed its mode since, or is this one, not in training mode
};

class StepClock {
 public:
  static constexpr std::uint32_t kGraphs = 3;  // training, and the two kinds without gradients

  // `by_request`: of the chosen steps only those that work on a request that the user asked for.
  StepClock(StepRule rule, StepSet chosen, std::uint64_t initial_iteration, bool by_request = false);

  // Each returns the chosen steps that ended or began, in order. Steps that are not chosen are only counted.
  std::vector<StepChange> root_forward(bool has_parameters, bool grad_enabled, bool optimizer_alive);
  std::vector<StepChange> quiet_forward(const QuietForward& forward);
  std::vector<StepChange> optimizer_end();
  std::vector<StepChange> scaler_update();
  std::vector<StepChange> manual_step();
  std::vector<StepChange> autograd_started();
  std::vector<StepChange> operator_seen();
  std::vector<StepChange> modules_exist();  // with parameters, none called yet
  std::vector<StepChange> start();          // manual rule: the first step begins at once
  std::vector<StepChange> stop();           // closes open steps
  // From the first call on, this alone decides what is chosen, with immediate effect.
  std::vector<StepChange> set_recording(bool on);
  void set_step(std::uint64_t step);  // of the step that begins next
  // The step that begins next works on such a request.
  void next_is_asked_for(bool asked_for) { asked_for_ = asked_for; }
  // An engine's step is over: what runs until the next one belongs to none.
  std::vector<StepChange> step_over();

  // The steps reported so far may still be forgotten.
  bool provisional() const { return provisional_; }
  void settle();

  // The chosen step that an op of this graph belongs to; nullopt if there is none.
  std::optional<StepId> recording(std::uint32_t graph) const;
  // Every chosen step has ended. Always false if steps are not chosen by number.
  bool is_over() const;
  // True if operator callbacks must run: a chosen step is open, or roots are not all known yet.
  bool needs_operators() const;
  // The graph for ops inside the root that was last called without gradients.
  std::uint32_t quiet_graph() const { return quiet_graph_; }
  // For an op outside every module: the graph of the forward without gradients, or of the training step.
  std::uint32_t graph_outside_modules(bool grad_enabled) const;
  void backward_ran() { quiet_ran_last_ = false; }

  // All ranks surely are in the step with the same number: before the optimizer of a training step. Afterwards one of
  // them may be evaluating, whose steps the others do not count.
  bool is_common(std::uint32_t graph) const;

  bool manual() const { return rule_ == StepRule::manual; }
  bool discovering() const { return discovering_; }
  std::uint64_t steps_begun() const { return counter_[0].begun; }  // of training
  // Calls of models that one step holds, because a step of an optimizer ends it and no optimizer has made one; 0: one has.
  std::uint64_t calls_without_optimizer() const { return calls_without_optimizer_.value_or(0); }
  // Steps without gradients, of one kind.
  struct QuietSteps {
    std::uint32_t graph = 0;  // 0: there was none
    std::uint64_t begun = 0;
  };
  QuietSteps evaluations() const { return quiet_steps(Quiet::evaluation); }
  // Training steps with forwards without gradients of their own.
  QuietSteps references() const { return quiet_steps(Quiet::reference); }

 private:
  enum class Quiet { evaluation, reference };
  struct Counter {
    std::uint64_t begun = 0;  // steps begun so far
    std::uint64_t base = 0;   // of them, the steps before set_step()
    bool open = false;
    bool chosen = false;  // the open step is in the plan
    bool seen = false;    // the open step has been chosen before
    std::uint64_t step = 0;

    std::uint64_t next(std::uint64_t initial_step) const { return initial_step + (begun - base); }
  };
  void open(std::uint32_t graph, std::vector<StepChange>& changes);
  void open(std::uint32_t graph, std::uint64_t step, std::vector<StepChange>& changes);
  void close(std::uint32_t graph, std::vector<StepChange>& changes);
  void close_references(std::uint64_t all_but, std::vector<StepChange>& changes);
  void open_quiet(Quiet kind, std::vector<StepChange>& changes);
  QuietSteps quiet_steps(Quiet kind) const;
  bool is_of_training_step(const QuietForward& forward);
  void count_quiet(const QuietForward& forward, std::vector<StepChange>& changes);
  bool root_called(bool has_parameters, std::vector<StepChange>& changes);
  void forget(std::vector<StepChange>& changes);

  StepRule rule_;
  StepSet chosen_;
  std::uint64_t initial_step_;
  bool by_request_;
  bool asked_for_ = false;  // of the step that begins next
  Counter counter_[kGraphs];
  std::uint32_t graph_of_[2] = {0, 0};  // by Quiet; 0: none yet
  std::uint32_t quiet_graph_ = 1;
  bool quiet_ran_last_ = false;  // of forwards with and without gradients, and backward
  ForwardGap gap_;
  bool switched_ = false;            // set_recording() was called: iterations do not count
  bool on_ = true;                   // its last value
  bool forward_since_step_ = false;  // a root has been called since the optimizer stepped
  bool stepped_ = false;             // the optimizer has stepped in the open training step
  bool root_seen_ = false;           // some root with parameters was called
  bool provisional_ = false;         // nothing that has begun is settled
  bool by_operator_ = false;         // no forward has begun the open training step
  bool bare_ = false;                // tensors of no module are trained
  bool bare_root_seen_ = false;      // a root without parameters was called
  bool waits_ = false;               // modules with parameters exist: waits for the first call of one
  bool discovering_ = true;          // roots may still be unknown: until the second step of either graph begins
  std::optional<std::uint64_t> calls_without_optimizer_ = 0;  // nothing: an optimizer has stepped
  bool scaler_pending_ = false;  // rootless: this scaler.update belongs to a step that is closed already
};

}  // namespace sonde
