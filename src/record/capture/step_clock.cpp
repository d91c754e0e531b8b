#include "record/capture/step_clock.h"

#include <algorithm>
#include <utility>

namespace sonde {
namespace {

constexpr std::uint32_t kTraining = 0;
constexpr std::uint64_t kNone = ~std::uint64_t{0};

bool by_optimizer(StepRule rule, bool optimizer_alive) {
  return rule == StepRule::optimizer || (rule == StepRule::automatic && optimizer_alive);
}

bool any_begun(const auto& counters) {
  return std::ranges::any_of(counters, [](const auto& counter) { return counter.begun > 0; });
}

}  // namespace

StepClock::StepClock(StepRule rule, StepSet chosen, std::uint64_t initial_iteration, bool by_request)
    : rule_(rule), chosen_(std::move(chosen)), initial_step_(initial_iteration), by_request_(by_request) {
  if (rule_ == StepRule::manual) discovering_ = false;
}

void StepClock::open(std::uint32_t graph, std::vector<StepChange>& changes) {
  open(graph, counter_[graph].next(initial_step_), changes);
}

void StepClock::open(std::uint32_t graph, std::uint64_t step, std::vector<StepChange>& changes) {
  Counter& counter = counter_[graph];
  counter.open = true;
  ++counter.begun;
  counter.step = step;
  counter.chosen = switched_ ? on_ : chosen_.contains(step) && (!by_request_ || asked_for_);
  if (!provisional_) asked_for_ = false;
  counter.seen = counter.chosen;
  if (graph == kTraining) stepped_ = by_operator_ = false;
  if (counter.begun > 1 && !provisional_) discovering_ = false;
  if (counter.chosen) changes.push_back({true, false, {graph, step}});
}

void StepClock::close(std::uint32_t graph, std::vector<StepChange>& changes) {
  Counter& counter = counter_[graph];
  if (!counter.open) return;
  counter.open = false;
  if (counter.chosen) changes.push_back({false, false, {graph, counter.step}});
}

// Forwards without gradients in training steps end with these steps.
void StepClock::close_references(std::uint64_t all_but, std::vector<StepChange>& changes) {
  const std::uint32_t graph = references().graph;
  if (graph != 0 && counter_[graph].step != all_but) close(graph, changes);
}

StepClock::QuietSteps StepClock::quiet_steps(Quiet kind) const {
  const std::uint32_t graph = graph_of_[static_cast<int>(kind)];
  return {graph, graph == 0 ? 0 : counter_[graph].begun};
}

// As if the program began here.
void StepClock::forget(std::vector<StepChange>& changes) {
  if (!std::exchange(provisional_, false)) return;
  for (Counter& counter : counter_) counter = {};
  for (std::uint32_t& graph : graph_of_) graph = 0;
  quiet_graph_ = 1;
  gap_ = {};
  quiet_ran_last_ = false;
  stepped_ = forward_since_step_ = by_operator_ = bare_root_seen_ = scaler_pending_ = false;
  changes.emplace_back().forgotten = true;
}

void StepClock::settle() {
  if (!std::exchange(provisional_, false)) return;
  if (std::ranges::any_of(counter_, [](const Counter& counter) { return counter.begun > 1; })) discovering_ = false;
}

// Whether this call of a root affects the steps.
bool StepClock::root_called(bool has_parameters, std::vector<StepChange>& changes) {
  if (has_parameters) {
    forget(changes);
    root_seen_ = true;
    waits_ = false;
    return true;
  }
  if (root_seen_ || bare_ || waits_) return false;
  if (!any_begun(counter_)) provisional_ = true;
  bare_root_seen_ = true;
  return true;
}

std::vector<StepChange> StepClock::root_forward(bool has_parameters, bool grad_enabled, bool optimizer_alive) {
  std::vector<StepChange> changes;
  if (rule_ == StepRule::manual || !root_called(has_parameters, changes)) return changes;
  if (!grad_enabled) {
    count_quiet({.optimizer_alive = optimizer_alive}, changes);
    return changes;
  }
  forward_since_step_ = true;
  quiet_ran_last_ = false;
  gap_.with_gradients(stepped_ || !counter_[kTraining].open);
  if (const std::uint32_t graph = evaluations().graph) close(graph, changes);
  Counter& training = counter_[kTraining];
  const bool goes_on = std::exchange(by_operator_, false);
  const bool ends = training.open && !goes_on && (stepped_ || !by_optimizer(rule_, optimizer_alive));
  close_references(training.open && !ends ? training.step : counter_[kTraining].next(initial_step_), changes);
  if (ends) close(kTraining, changes);
  if (!training.open) open(kTraining, changes);
  if (by_optimizer(rule_, optimizer_alive) && calls_without_optimizer_) ++*calls_without_optimizer_;
  return changes;
}

std::vector<StepChange> StepClock::quiet_forward(const QuietForward& forward) {
  std::vector<StepChange> changes;
  if (rule_ == StepRule::manual || !root_called(true, changes)) return changes;
  count_quiet(forward, changes);
  return changes;
}

void StepClock::count_quiet(const QuietForward& forward, std::vector<StepChange>& changes) {
  forward_since_step_ = true;
  quiet_ran_last_ = true;
  gap_.count(forward.root);
  const bool of_training_step = by_optimizer(rule_, forward.optimizer_alive) && is_of_training_step(forward);
  if (counter_[kTraining].open && stepped_) {
    close_references(kNone, changes);
    close(kTraining, changes);
  }
  open_quiet(of_training_step ? Quiet::reference : Quiet::evaluation, changes);
}

bool StepClock::is_of_training_step(const QuietForward& forward) {
  if (forward.evaluates) return false;
  const Counter& training = counter_[kTraining];
  if (training.open && !stepped_) return true;
  return !forward.trained && gap_.is_as_often_as_before(forward.root, training.begun == 0);
}

void StepClock::open_quiet(Quiet kind, std::vector<StepChange>& changes) {
  std::uint32_t& graph = graph_of_[static_cast<int>(kind)];
  if (graph == 0) graph = evaluations().graph == 0 && references().graph == 0 ? 1 : 2;
  quiet_graph_ = graph;
  if (kind == Quiet::evaluation) {
    close(graph, changes);
    return open(graph, changes);
  }
  const std::uint64_t number =
      counter_[kTraining].open ? counter_[kTraining].step : counter_[kTraining].next(initial_step_);
  if (counter_[graph].open && counter_[graph].step == number) return;
  close(graph, changes);
  open(graph, number, changes);
}

std::vector<StepChange> StepClock::optimizer_end() {
  std::vector<StepChange> changes;
  calls_without_optimizer_.reset();
  if (rule_ == StepRule::manual || rule_ == StepRule::forward) return changes;
  const bool forward_announces = root_seen_ || (bare_root_seen_ && !by_operator_);
  if (forward_announces) {
    gap_.optimizer_stepped();
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

bool StepClock::is_common(std::uint32_t graph) const {
  return rule_ != StepRule::manual && rule_ != StepRule::forward && graph == kTraining && root_seen_ &&
         counter_[kTraining].open && !stepped_;
}

std::vector<StepChange> StepClock::scaler_update() {
  if (!root_seen_ && std::exchange(scaler_pending_, false)) return {};
  std::vector<StepChange> changes = optimizer_end();
  scaler_pending_ = false;
  return changes;
}

std::vector<StepChange> StepClock::autograd_started() {
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
  if (any_begun(counter_)) return changes;
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
  rule_ = StepRule::manual;  // from the first call on, only the user decides
  discovering_ = false;
  for (std::uint32_t graph = 1; graph < kGraphs; ++graph) close(graph, changes);
  if (counter_[kTraining].begun == 0) counter_[kTraining].begun = 1;  // the one that ends here was not observed
  if (counter_[kTraining].open) close(kTraining, changes);
  open(kTraining, changes);
  return changes;
}

std::vector<StepChange> StepClock::start() {
  std::vector<StepChange> changes;
  if (rule_ == StepRule::manual) open(kTraining, changes);
  return changes;
}

std::vector<StepChange> StepClock::set_recording(bool on) {
  std::vector<StepChange> changes;
  switched_ = true;
  on_ = on;
  for (std::uint32_t graph = 0; graph < kGraphs; ++graph) {
    Counter& counter = counter_[graph];
    if (!counter.open || counter.chosen == on) continue;
    counter.chosen = on;
    changes.push_back({on, on && counter.seen, {graph, counter.step}});
    counter.seen = true;
  }
  return changes;
}

void StepClock::set_step(std::uint64_t step) {
  if (std::exchange(by_operator_, false)) stepped_ = true;  // the next forward has that number
  initial_step_ = step;
  for (Counter& counter : counter_) counter.base = counter.begun;
}

std::vector<StepChange> StepClock::step_over() {
  std::vector<StepChange> changes;
  if (provisional_ || rule_ == StepRule::manual) return changes;
  for (std::uint32_t graph = kGraphs; graph-- > 0;) close(graph, changes);
  return changes;
}

std::vector<StepChange> StepClock::stop() {
  std::vector<StepChange> changes;
  settle();
  for (std::uint32_t graph = kGraphs; graph-- > 0;) close(graph, changes);
  return changes;
}

std::optional<StepId> StepClock::recording(std::uint32_t graph) const {
  const Counter& counter = counter_[graph];
  if (!counter.open || !counter.chosen) return std::nullopt;
  return StepId{graph, counter.step};
}

bool StepClock::is_over() const {
  const std::optional<std::uint64_t> last = chosen_.last();
  if (!last || switched_ || provisional_) return false;
  const Counter& training = counter_[kTraining];
  const Counter& counter = training.begun > 0 ? training : counter_[evaluations().graph];
  if (counter.begun == 0) return false;
  return counter.step > *last || (counter.step == *last && !counter.open);
}

bool StepClock::needs_operators() const {
  for (std::uint32_t graph = 0; graph < kGraphs; ++graph) {
    if (recording(graph)) return true;
  }
  return discovering_;
}

std::uint32_t StepClock::graph_outside_modules(bool grad_enabled) const {
  const bool training_open = counter_[kTraining].open;
  if (rule_ == StepRule::manual || (training_open && (grad_enabled || !quiet_ran_last_))) return kTraining;
  return counter_[quiet_graph_].open ? quiet_graph_ : kTraining;
}

}  // namespace sonde
