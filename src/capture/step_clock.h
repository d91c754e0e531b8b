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
// Graph 0 is training: forward with gradients. A forward without gradients is, where an optimizer exists,
//
//   of the training step             between the step's first forward with gradients and its Optimizer.step: reference
//                                    models, pseudo-labels
//   of the training step to come     before its first forward with gradients, of a root that no optimizer trains: as
//                                    often as it did so for the step before; for the first step, at most twice
//   evaluation                       every other one; always where the model that trains has changed its mode since
//                                    (model.eval()), or is itself called while not in training mode
//
// and evaluation, which counts its own steps, where none exists. What belongs to a training step has its number. The
// two kinds never share a graph: the one that comes first is graph 1, the other graph 2.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "config/plan.h"
#include "journal/record.h"

namespace sonde {

struct StepChange {
  bool began = false;    // else it ended
  bool resumed = false;  // began: it has begun before, and was switched off meanwhile
  StepId step;
  bool forgotten = false;  // instead of both: whatever was told so far was no step
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

  StepClock(StepRule rule, IterationSet chosen, std::uint64_t initial_iteration);

  // Each returns the chosen steps that ended or began, in order. Steps that are not chosen are counted in silence.
  std::vector<StepChange> root_forward(bool has_parameters, bool grad_enabled, bool optimizer_alive);
  std::vector<StepChange> quiet_forward(const QuietForward& forward);
  std::vector<StepChange> optimizer_end();
  std::vector<StepChange> scaler_update();
  std::vector<StepChange> manual_step();
  std::vector<StepChange> autograd_started();
  std::vector<StepChange> operator_seen();
  std::vector<StepChange> modules_exist();  // with parameters, and none was called yet
  std::vector<StepChange> start();          // manual rule: the first step begins at once
  std::vector<StepChange> stop();           // closes what is open
  // From the first call on, what is chosen is decided by this alone, at once.
  std::vector<StepChange> set_recording(bool on);
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
  // The graph of ops inside the root that was called last without gradients.
  std::uint32_t quiet_graph() const { return quiet_graph_; }
  // An op outside every module: of the forward without gradients, or the training step's.
  std::uint32_t graph_outside_modules(bool grad_enabled) const;
  void backward_ran() { quiet_ran_last_ = false; }

  bool manual() const { return rule_ == StepRule::manual; }
  bool discovering() const { return discovering_; }
  std::uint64_t steps_begun() const { return counter_[0].begun; }  // of training
  std::uint64_t evaluations_begun() const { return begun_of(Quiet::evaluation); }
  // Training steps with forwards without gradients of their own.
  std::uint64_t references_begun() const { return begun_of(Quiet::reference); }
  // 0: there was none.
  std::uint32_t evaluation_graph() const { return graph_of_[static_cast<int>(Quiet::evaluation)]; }
  std::uint32_t reference_graph() const { return graph_of_[static_cast<int>(Quiet::reference)]; }

 private:
  enum class Quiet { evaluation, reference };
  struct Counter {
    std::uint64_t begun = 0;  // steps begun so far
    std::uint64_t base = 0;   // of them, those before set_iteration()
    bool open = false;
    bool chosen = false;  // the open step is in the plan
    bool seen = false;    // the open step has been chosen before
    std::uint64_t iteration = 0;
  };
  void open(std::uint32_t graph, std::vector<StepChange>& changes);
  void open(std::uint32_t graph, std::uint64_t iteration, std::vector<StepChange>& changes);
  void close(std::uint32_t graph, std::vector<StepChange>& changes);
  void close_references(std::uint64_t all_but, std::vector<StepChange>& changes);
  void open_quiet(Quiet kind, std::vector<StepChange>& changes);
  bool by_optimizer(bool optimizer_alive) const;
  bool of_training(const QuietForward& forward);
  std::uint64_t next_training() const;
  std::uint64_t begun_of(Quiet kind) const;
  void begin_gap();
  void end_gap();
  void count_quiet(const QuietForward& forward, std::vector<StepChange>& changes);
  bool root_called(bool has_parameters, std::vector<StepChange>& changes);
  void forget(std::vector<StepChange>& changes);
  bool any_begun() const;

  StepRule rule_;
  IterationSet chosen_;
  std::uint64_t initial_iteration_;
  Counter counter_[kGraphs];
  std::uint32_t graph_of_[2] = {0, 0};  // by Quiet; 0: none yet
  std::uint32_t quiet_graph_ = 1;
  bool quiet_ran_last_ = false;  // of forwards with and without gradients, and backward
  // Forwards without gradients, by root: since the optimizer stepped; before the last training step.
  std::unordered_map<std::uint64_t, std::uint32_t> gap_, companions_;
  bool gap_ended_ = false;           // the optimizer has stepped since
  bool switched_ = false;            // set_recording() was called: iterations do not count
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
