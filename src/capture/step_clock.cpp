#include "capture/step_clock.h"

#include <utility>

namespace sonde {
namespace {
constexpr std::uint32_t kTraining = 0;
constexpr std::uint32_t kEvaluation = 1;
}  // namespace

StepClock::StepClock(StepRule rule, IterationSet chosen, std::uint64_t initial_iteration)
    : rule_(rule), chosen_(std::move(chosen)), initial_iteration_(initial_iteration) {
  if (rule_ == StepRule::manual) discovering_ = false;
}

void StepClock::open(std::uint32_t graph, std::vector<StepChange>& changes) {
  Counter& counter = counter_[graph];
  counter.open = true;
  counter.iteration = initial_iteration_ + (counter.begun++ - counter.base);
  counter.chosen = switched_ ? on_ : chosen_.contains(counter.iteration);
  counter.seen = counter.chosen;
  if (graph == kTraining) stepped_ = by_operator_ = false;
  if (counter.begun > 1 && !provisional_) discovering_ = false;
  if (counter.chosen) changes.push_back({true, false, {graph, counter.iteration}});
}

void StepClock::close(std::uint32_t graph, std::vector<StepChange>& changes) {
  Counter& counter = counter_[graph];
  if (!counter.open) return;
  counter.open = false;
  if (counter.chosen) changes.push_back({false, false, {graph, counter.iteration}});
}

// As if the program began here.
void StepClock::forget(std::vector<StepChange>& changes) {
  if (!std::exchange(provisional_, false)) return;
  for (Counter& counter : counter_) counter = {};
  stepped_ = forward_since_step_ = by_operator_ = bare_root_seen_ = scaler_pending_ = false;
  changes.emplace_back().forgotten = true;
}

void StepClock::settle() {
  if (!std::exchange(provisional_, false)) return;
  if (counter_[kTraining].begun > 1 || counter_[kEvaluation].begun > 1) discovering_ = false;
}

std::vector<StepChange> StepClock::root_forward(bool has_parameters, bool grad_enabled, bool optimizer_alive) {
  std::vector<StepChange> changes;
  if (rule_ == StepRule::manual) return changes;
  if (has_parameters) {
    forget(changes);
    root_seen_ = true;
    waits_ = false;
  } else {
    if (root_seen_ || bare_ || waits_) return changes;
    if (counter_[kTraining].begun + counter_[kEvaluation].begun == 0) provisional_ = true;
    bare_root_seen_ = true;
  }
  forward_since_step_ = true;
  const bool by_optimizer = rule_ == StepRule::optimizer || (rule_ == StepRule::automatic && optimizer_alive);
  Counter& training = counter_[kTraining];
  if (!grad_enabled) {
    if (training.open && stepped_) close(kTraining, changes);
    close(kEvaluation, changes);
    open(kEvaluation, changes);
    return changes;
  }
  close(kEvaluation, changes);
  const bool goes_on = std::exchange(by_operator_, false);
  if (training.open && !goes_on && (stepped_ || !by_optimizer)) close(kTraining, changes);
  if (!training.open) open(kTraining, changes);
  return changes;
}

std::vector<StepChange> StepClock::optimizer_end() {
  std::vector<StepChange> changes;
  if (rule_ == StepRule::manual || rule_ == StepRule::forward) return changes;
  const bool forward_announces = root_seen_ || (bare_root_seen_ && !by_operator_);
  if (forward_announces) {
    stepped_ = counter_[kTraining].open;
    // An optimizer steps although no known root was called: another model may be trained now. Look for it.
    if (!std::exchange(forward_since_step_, false)) discovering_ = true;
    return changes;
  }
  // Nothing announces the next forward, so the next step begins here.
  if (!counter_[kTraining].open) return changes;
  close(kTraining, changes);
  open(kTraining, changes);
  by_operator_ = true;
  scaler_pending_ = true;
  return changes;
}

std::vector<StepChange> StepClock::scaler_update() {
  if (!root_seen_ && std::exchange(scaler_pending_, false)) return {};
  std::vector<StepChange> changes = optimizer_end();
  scaler_pending_ = false;
  return changes;
}

std::vector<StepChange> StepClock::autograd_seen() {
  std::vector<StepChange> changes;
  if (rule_ == StepRule::manual || root_seen_ || std::exchange(bare_, true)) return changes;
  forget(changes);
  if (counter_[kTraining].open) return changes;
  open(kTraining, changes);
  by_operator_ = true;
  return changes;
}

std::vector<StepChange> StepClock::operator_seen() {
  std::vector<StepChange> changes;
  if (rule_ == StepRule::manual || root_seen_ || waits_) return changes;
  if (counter_[kTraining].begun + counter_[kEvaluation].begun > 0) return changes;
  provisional_ = true;
  open(kTraining, changes);
  by_operator_ = true;
  return changes;
}

std::vector<StepChange> StepClock::modules_exist() {
  std::vector<StepChange> changes;
  if (!provisional_) return changes;
  forget(changes);
  waits_ = true;
  return changes;
}

std::vector<StepChange> StepClock::manual_step() {
  std::vector<StepChange> changes;
  settle();
  rule_ = StepRule::manual;  // from the first call on, the user's word is the only one
  discovering_ = false;
  close(kEvaluation, changes);
  if (counter_[kTraining].begun == 0) counter_[kTraining].begun = 1;  // the one that ends here went by unseen
  if (counter_[kTraining].open) close(kTraining, changes);
  open(kTraining, changes);
  return changes;
}

std::vector<StepChange> StepClock::start() {
  std::vector<StepChange> changes;
  if (rule_ == StepRule::manual) open(kTraining, changes);
  return changes;
}

std::vector<StepChange> StepClock::dump_switch(bool on) {
  std::vector<StepChange> changes;
  switched_ = true;
  on_ = on;
  for (const std::uint32_t graph : {kTraining, kEvaluation}) {
    Counter& counter = counter_[graph];
    if (!counter.open || counter.chosen == on) continue;
    counter.chosen = on;
    changes.push_back({on, on && counter.seen, {graph, counter.iteration}});
    counter.seen = true;
  }
  return changes;
}

void StepClock::set_iteration(std::uint64_t iteration) {
  if (std::exchange(by_operator_, false)) stepped_ = true;  // the forward that comes has that number
  initial_iteration_ = iteration;
  for (Counter& counter : counter_) counter.base = counter.begun;
}

std::vector<StepChange> StepClock::stop() {
  std::vector<StepChange> changes;
  settle();
  close(kEvaluation, changes);
  close(kTraining, changes);
  return changes;
}

std::optional<StepId> StepClock::recording(std::uint32_t graph) const {
  const Counter& counter = counter_[graph];
  if (!counter.open || !counter.chosen) return std::nullopt;
  return StepId{graph, counter.iteration};
}

bool StepClock::is_over() const {
  const std::optional<std::uint64_t> last = chosen_.last();
  if (!last || switched_ || provisional_) return false;
  const Counter& training = counter_[kTraining];
  const Counter& counter = training.begun > 0 ? training : counter_[kEvaluation];
  if (counter.begun == 0) return false;
  return counter.iteration > *last || (counter.iteration == *last && !counter.open);
}

bool StepClock::needs_operators() const { return discovering_ || recording(kTraining) || recording(kEvaluation); }

std::uint32_t StepClock::graph_outside_modules(bool grad_enabled) const {
  const bool training_open = counter_[kTraining].open;
  if (rule_ == StepRule::manual || (training_open && grad_enabled)) return kTraining;
  return counter_[kEvaluation].open ? kEvaluation : kTraining;
}

}  // namespace sonde
