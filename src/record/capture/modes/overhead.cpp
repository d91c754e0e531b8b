#include "record/capture/modes/overhead.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "dump/journal/unrecorded.h"

namespace sonde {
namespace {

constexpr double kOpCost = 5000;      // nanoseconds of an op's callbacks without reading; the factor corrects it
constexpr double kFirstCost = 60000;  // the same, when it is seen first: its line and module are looked up
constexpr double kByteCost = 1;       // nanoseconds of the writer for a byte
constexpr std::size_t kFreeTimes = 31, kSamples = 25;
constexpr std::uint64_t kMostRecordedInARow =
    12;                                  // recorded steps, before one that is left out to see the time without
constexpr std::uint64_t kFirstFree = 4;  // steps that are left out after the first
constexpr double kFirstFactor = 1.5;
constexpr double kBusy = 0.02;  // of a step's time, by the writer

double middle(std::vector<double> values) {
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

template <typename T>
void put(std::deque<T>& values, T value, std::size_t most) {
  values.push_back(value);
  if (values.size() > most) values.pop_front();
}

double smoothed(double before, double now) { return before == 0 ? now : before + (now - before) / 4; }

}  // namespace

double Overhead::free_time(const GraphState& state) const {
  return state.free.empty() ? 0 : middle({state.free.begin(), state.free.end()});
}

// How much longer a step takes for each nanosecond that its callbacks measured. Without the samples furthest out: a
// step may be long for other reasons.
double Overhead::factor(const GraphState& state) const {
  if (state.samples.size() < 4) return kFirstFactor;
  std::vector<Sample> sorted(state.samples.begin(), state.samples.end());
  std::ranges::sort(sorted, {}, [](const Sample& sample) { return sample.longer / sample.own; });
  const std::size_t out = sorted.size() / 5;
  Sample sum;
  for (std::size_t i = out; i < sorted.size() - out; ++i) {
    sum.longer += sorted[i].longer;
    sum.own += sorted[i].own;
  }
  return std::clamp(sum.longer / sum.own, 0.5, 6.0);
}

double Overhead::base_cost(const GraphState& state) const { return state.usual_ops * kOpCost; }

double Overhead::cost_of(const Name& name, Depth depth) const {
  return depth == Depth::full ? name.full_cost : name.statistics_cost;
}

bool Overhead::is_recording_any() const {
  for (std::uint32_t graph = 0; graph < graphs_.size(); ++graph) {
    if (graphs_.at(graph).recording) return true;
  }
  return false;
}

// The step that ended now: what it cost, and what it earned.
void Overhead::settle(GraphState& state, Clocks clocks) {
  const auto time = static_cast<double>(clocks.now - state.began_at);
  const bool busy = static_cast<double>(clocks.writer - state.writer_at) > kBusy * time;
  double free = free_time(state);
  const bool recorded = state.own > 0;
  if (!recorded && (!busy || !state.free_is_clean)) {
    if (!busy && !std::exchange(state.free_is_clean, true)) state.free.clear();
    put(state.free, time, kFreeTimes);
    free = free_time(state);
  } else if (!recorded) {  // the writer still works for an earlier step
    const double longer = std::clamp(time - free, -free / 4, 4 * free);
    state.account -= longer;
    state.longer += longer;
  }
  if (recorded) {
    state.usual_ops = smoothed(state.usual_ops, static_cast<double>(state.ops));
    // The first step of a program is slow in itself.
    if (state.steps > 1 && free > 0) put(state.samples, {time - free, state.own}, kSamples);
    const double cost = factor(state) * state.own;
    state.account -= cost;
    state.longer += cost;
  }
  state.account += goal_ * free;
  state.total_free += free;
}

// A step is recorded if the account covers its operators, and one that is read. It may save up for that one.
bool Overhead::wants(GraphState& state) const {
  if (state.order.empty()) return true;
  const double free = free_time(state);
  if (state.steps <= kFirstFree || free == 0) return false;
  if (state.recorded_last && state.in_a_row >= kMostRecordedInARow) return false;
  const Name& next = state.names[state.order[state.next_full % state.order.size()]];
  const double least = factor(state) * (base_cost(state) + cost_of(next, Depth::full));
  const double most = std::max(20 * goal_ * free, 2 * least);
  state.account = std::min(state.account, most);
  return state.account >= least;
}

bool Overhead::begin_step(std::uint32_t graph, Clocks clocks, bool must) {
  GraphState& state = graphs_[graph];
  if (state.begun) settle(state, clocks);
  const bool records = wants(state) || must;
  state.in_a_row = records == state.recorded_last ? state.in_a_row + 1 : 1;
  state.begun = true;
  state.recording = state.recorded_last = records;
  state.began_at = clocks.now;
  state.writer_at = clocks.writer;
  state.ops = 0;
  state.own = 0;
  ++state.steps;
  if (records) {
    ++state.recorded;
    plan(state);
  }
  return records;
}

bool Overhead::end_step(std::uint32_t graph) { return std::exchange(graphs_[graph].recording, false); }

// Chooses ops in turn, from `next` on, as long as the budget lasts; returns what is left.
double Overhead::take(GraphState& state, std::size_t& next, double budget, Depth depth) const {
  for (std::size_t looked = 0; looked < state.order.size(); ++looked) {
    Name& name = state.names[state.order[next % state.order.size()]];
    if (name.chosen < depth) {
      const double cost = cost_of(name, depth);
      if (cost > budget) break;
      budget -= cost;
      name.chosen = depth;
    }
    next = (next + 1) % state.order.size();
  }
  return budget;
}

void Overhead::plan(GraphState& state) {
  if (state.order.empty() || state.steps <= 1) return;
  double budget = state.account / factor(state) - base_cost(state);
  double all = 0, optimizer = 0;
  for (const std::uint32_t id : state.order) {
    Name& name = state.names[id];
    all += name.full_cost;
    if (name.optimizer) optimizer += name.full_cost;
    name.chosen = Depth::nothing;
  }
  const bool everything = all <= budget;
  const double cheap = 0.25 * all / static_cast<double>(state.order.size());
  const double first = budget / 2;
  for (const std::uint32_t id : state.order) {
    Name& name = state.names[id];
    const bool at_once = everything || (name.optimizer && optimizer <= first) || name.full_cost <= cheap;
    if (!at_once || (!everything && name.full_cost > budget)) continue;
    name.chosen = Depth::full;
    budget -= name.full_cost;
  }
  if (everything) return;
  const double for_statistics = writes_tensors_ ? budget / 2 : 0;
  budget = take(state, state.next_full, budget - for_statistics, Depth::full);
  if (writes_tensors_) take(state, state.next_statistics, budget + for_statistics, Depth::statistics);
}

Depth Overhead::choose(std::uint32_t graph, std::uint32_t id, Phase phase) {
  GraphState& state = graphs_[graph];
  if (id >= state.names.size()) state.names.resize(id + std::size_t{1});
  Name& name = state.names[id];
  if (!std::exchange(name.known, true)) {  // new ones are read, to see what they cost
    name.optimizer = phase == Phase::optimizer;
    name.last_full = state.recorded;
    name.chosen = Depth::full;
    state.order.push_back(id);
    state.account -= kFirstCost;
    state.longer += kFirstCost;
  }
  ++state.ops;
  state.own += kOpCost;
  return name.chosen;
}

void Overhead::ended(std::uint32_t graph, std::uint32_t id, Depth depth, std::uint64_t nanoseconds,
                     std::uint64_t bytes) {
  GraphState& state = graphs_[graph];
  Name& name = state.names[id];
  const auto read = static_cast<double>(nanoseconds);
  const double cost = read + kByteCost * static_cast<double>(bytes);
  state.own += cost;
  switch (depth) {
    case Depth::full:
      ++full_;
      name.full_cost = smoothed(name.full_cost, cost + 1);
      name.statistics_cost = smoothed(name.statistics_cost, read + 1);
      longest_wait_ = std::max(longest_wait_, state.recorded - name.last_full);
      name.last_full = state.recorded;
      break;
    case Depth::statistics:
      ++statistics_;
      name.statistics_cost = smoothed(name.statistics_cost, read + 1);
      break;
    case Depth::nothing:
      ++nothing_;
      break;
  }
}

std::string Overhead::report() const {
  std::string text = fmt::format("{} {}: ", kOverheadNote, most_);
  for (std::uint32_t graph = 0; graph < graphs_.size(); ++graph) {
    const GraphState& state = graphs_.at(graph);
    if (state.steps == 0) continue;
    text += fmt::format("graph {}: {} of {} steps were recorded, at {:.1f} %; ", graph, state.recorded, state.steps,
                        state.total_free > 0 ? 100 * state.longer / state.total_free : 0.0);
  }
  return text + fmt::format(
                    "ops read in full {}, as statistics only {}, not read {}; at most {} recorded steps between "
                    "two full reads of one",
                    full_, statistics_, nothing_, longest_wait_);
}

}  // namespace sonde
