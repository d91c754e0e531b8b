#include "ask/first_bad/flow_roots.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "ask/first_bad/flow_facts.h"
#include "ask/first_bad/flow_lost.h"
#include "ground/base/shape.h"
#include "read/operators/op_questions.h"
#include "read/operators/op_work.h"

namespace sonde {
namespace {

constexpr std::size_t kAbsorbersShown = 3;

bool is_arithmetic(OpWork work) {
  using enum OpWork;
  return work == add || work == subtract || work == subtract_from || work == multiply;
}

}  // namespace

FlowRoots::FlowRoots(const FlowGraph& graph, const FlowTraining& training, const FlowOrigins& origins,
                     const FlowEnds& ends)
    : graph_(graph), training_(training), origins_(origins), ends_(ends) {
  for (std::uint32_t index = 0; index < graph_.values().size(); ++index) {
    const FlowValue& value = graph_.values()[index];
    const FlowOrigin& origin = origins_.of(index);
    for (const BadKind kind : kBadKinds) {
      if (!has(graph_.health_of_value(index), kind)) continue;
      if (value.op == kOutside) {
        const auto reader = std::ranges::find_if(value.readers, [&](const FlowReader& r) {
          const FlowInput& input = graph_.ops()[r.op].inputs[r.input];
          return !graph_.ops()[r.op].is_next && input.is_read && has(graph_.health_of(input), kind);
        });
        if (reader == value.readers.end()) continue;
        add(RootKind::external, index, kind, reader->op, graph_.ops()[reader->op].inputs[reader->input].tensor);
      } else if (!graph_.ops()[value.op].is_next && origin.root[at(kind)]) {
        // Earlier contents of memory belong to no op, until they reach something that matters.
        if (graph_.ops()[value.op].nature.uninitialised && ends_.of(index, kind) < End::scaler) continue;
        const bool overwritten = origin.root[at(kind)] == RootKind::overwritten;
        add(*origin.root[at(kind)], index, kind, value.op, overwritten ? origin.overwritten[at(kind)] : value.tensor);
      }
    }
  }
  leave_out_unseen();
  sort();
}

// Follows bad values, or also those of which nothing is known, from reader to reader. `look` decides at each: the end of
// the search, on through its results, or past.
template <class Look>
bool FlowRoots::follow_bad(std::uint32_t from, const Look& look, bool also_unknown) const {
  constexpr std::size_t kMostFollowed = 4096;
  std::vector<std::uint32_t> open = {from};
  std::set<std::uint32_t> seen;
  while (!open.empty() && seen.size() < kMostFollowed) {
    const std::uint32_t index = open.back();
    open.pop_back();
    const Health health = graph_.health_of_value(index);
    if (!seen.insert(index).second || !(health.bad() || (also_unknown && !health.known))) continue;
    for (const FlowReader& reader : graph_.values()[index].readers) {
      const FlowOp& op = graph_.ops()[reader.op];
      const Follow next = look(op, op.inputs[reader.input]);
      if (next == Follow::found) return true;
      if (next == Follow::on) open.insert(open.end(), op.outputs.begin(), op.outputs.end());
    }
  }
  return false;
}

// The bad value reaches the op, also through values of which nothing is known, as complex ones in statistics.
bool FlowRoots::leads_unseen(std::uint32_t value, std::uint32_t op) const {
  const auto look = [&](const FlowOp& reader, const FlowInput& input) {
    const std::uint32_t at = graph_.index_of(reader);
    if (!input.is_read || at > op) return Follow::past;
    return at == op ? Follow::found : Follow::on;
  };
  return follow_bad(value, look, true);
}

// A bad value that leads to an op whose inputs were not recorded explains what this op gives.
void FlowRoots::leave_out_unseen() {
  std::set<std::uint32_t> explained;  // values
  const auto may_be = [](const Root& root) { return !root.inputs_known && root.kind == RootKind::created; };
  for (const Root& root : roots_) {
    if (!may_be(root)) continue;
    const auto before = std::ranges::find_if(roots_, [&](const Root& other) {
      return other.op < root.op && other.kind == RootKind::created && other.end != End::absorbed &&
             leads_unseen(other.value, root.op);
    });
    if (before == roots_.end()) continue;
    before->end = std::max(before->end, root.end);
    explained.insert(root.value);
  }
  std::erase_if(roots_, [&](const Root& root) { return may_be(root) && explained.contains(root.value); });
}

void FlowRoots::add(RootKind kind, std::uint32_t value, BadKind bad, std::uint32_t op, const CatalogTensor* tensor) {
  Root root;
  root.kind = kind;
  root.bad = bad;
  root.op = op;
  root.tensor = tensor;
  root.value = value;
  root.end = ends_.of(value, bad);
  graph_.inputs_of(graph_.ops()[op], graph_.values()[value].slot, &root.inputs_known);
  if (root.end < End::scaler && bad == BadKind::inf && kind == RootKind::created) {
    root.path = lost_behind(graph_, value);
    root.lost = !root.path.empty();
    if (root.lost) root.end = training_.scaler_skipped ? End::scaler : End::matters;
  }
  if (const std::uint32_t empty = kind == RootKind::created ? unwritten(graph_.ops()[op]) : kOutside;
      empty != kOutside) {
    root.op = empty;
    root.tensor =
        graph_.ops()[empty].outputs.empty() ? nullptr : graph_.values()[graph_.ops()[empty].outputs[0]].tensor;
  }
  const bool meant = bad == BadKind::inf && (kind == RootKind::placed || kind == RootKind::external);
  if (meant && !origins_.of(value).leaked) {
    // It counts as itself only if it arrives unchanged; a converted value has a root of its own.
    const End pure = ends_.pure(value, bad);
    if (root.end > End::unread && pure < End::scaler) return;
    root.end = pure < End::scaler ? End::absorbed : pure;
  }
  root.aside = is_aside(root);
  (root.end == End::absorbed ? healthy_ : roots_).push_back(std::move(root));
}

// The model reads what the program made outside of it: the next step of a sampler, the parameters of a training without
// an optimizer. Of a step that trains, modules that only count (a metric of a library) do not matter.
bool FlowRoots::feeds_model(const Root& root) const {
  if (graph_.ops()[root.op].phase == Phase::forward) return false;
  return follow_bad(root.value, [&](const FlowOp& op, const FlowInput& input) {
    if (!input.is_read || !graph_.health_of(input).bad() || op.nature.tests_finite) return Follow::past;
    const bool computes = op.nature.mixes || !is_data(*input.tensor);
    return op.phase == Phase::forward && (!training_.trains || computes) ? Follow::found : Follow::on;
  });
}

// Only the program reads it: a metric beside a training that continues, or one that is computed outside of the model.
// Where nothing trains, what was computed is the result: the last step of a sampler, a sum that is printed.
bool FlowRoots::is_aside(const Root& root) const {
  if (root.end != End::unread || graph_.inferred() || feeds_model(root)) return false;
  const bool is_computed = root.kind == RootKind::created || root.kind == RootKind::converted;
  if (training_.nothing_trains && is_computed) return false;
  return training_.trains || (training_.has_modules && graph_.ops()[root.op].phase == Phase::outside);
}

// The op that returned the memory, if this op reads such memory before it was written.
std::uint32_t FlowRoots::unwritten(const FlowOp& op) const {
  for (const FlowInput& input : op.inputs) {
    if (!input.is_read || input.tensor->skipped.reason != NotRead::uninitialised) continue;
    std::optional<std::uint32_t> index = input.value;
    for (std::size_t depth = 0; index && depth < kLongestPath; ++depth) {
      if (graph_.values()[*index].op == kOutside) break;
      if (graph_.ops()[graph_.values()[*index].op].nature.uninitialised) return graph_.values()[*index].op;
      index = graph_.older(*index);
    }
  }
  return kOutside;
}

const Root* FlowRoots::root_of(std::uint64_t sequence, std::uint32_t slot) const {
  const auto maker = std::ranges::find_if(graph_.ops(), [&](const FlowOp& op) { return op.op->sequence == sequence; });
  if (maker == graph_.ops().end() || maker->is_next) return nullptr;
  const auto wanted =
      std::ranges::find(maker->outputs, slot, [&](std::uint32_t value) { return graph_.values()[value].slot; });
  if (wanted == maker->outputs.end()) return nullptr;
  for (const std::vector<Root>* roots : {&roots_, &healthy_}) {
    for (const Root& root : *roots) {
      if (root.kind != RootKind::placed && reaches(root.value, *wanted)) return &root;
    }
  }
  return nullptr;
}

bool FlowRoots::reaches(std::uint32_t from, std::uint32_t to) const {
  return from == to || follow_bad(from, [&](const FlowOp& op, const FlowInput&) {
           return std::ranges::find(op.outputs, to) != op.outputs.end() ? Follow::found : Follow::on;
         });
}

bool FlowRoots::reaches_next(const Root& root, std::string_view op_name, std::uint32_t slot) const {
  return follow_bad(root.value, [&](const FlowOp& op, const FlowInput& input) {
    if (op.is_next && op.op->op_name == op_name && input.tensor->slot == slot) return Follow::found;
    return op.is_next ? Follow::past : Follow::on;
  });
}

void FlowRoots::sort() {
  const auto key = [](const Root& root) {
    const int tier = root.end == End::matters ? 0 : root.end == End::scaler ? 2 : 1;
    return std::tuple(tier, root.op, root.kind, root.bad);
  };
  std::ranges::stable_sort(roots_, [&](const Root& a, const Root& b) { return key(a) < key(b); });
  std::ranges::stable_sort(healthy_, {}, &Root::op);
  for (Root& root : roots_) {
    if (!root.lost) trace(root);
  }
  for (Root& root : healthy_) trace(root);
}

// It goes on to an end, and NaN of something else hides it nowhere on that way.
bool FlowRoots::is_seen(std::pair<std::uint32_t, BadKind> from) const {
  constexpr std::size_t kMostFollowed = 512;
  std::vector<std::pair<std::uint32_t, BadKind>> open = {from};
  std::set<std::pair<std::uint32_t, BadKind>> seen;
  while (!open.empty() && seen.size() < kMostFollowed) {
    const auto [index, kind] = open.back();
    open.pop_back();
    if (!seen.emplace(index, kind).second) continue;
    bool is_end = true;
    for (const FlowReader& reader : graph_.values()[index].readers) {
      const FlowOp& op = graph_.ops()[reader.op];
      if (!op.inputs[reader.input].is_read) continue;
      for (const std::uint32_t output : op.outputs) {
        for (const BadKind next : kBadKinds) {
          if (!graph_.feeds(op, op.inputs[reader.input], graph_.values()[output].slot)) continue;
          if (!ends_.passes(origins_.flags(index, kind), kind, op, output, next)) continue;
          is_end = false;
          if (!ends_.is_hidden(kind, op, output, next)) open.emplace_back(output, next);
        }
      }
    }
    if (is_end) return true;
  }
  return false;
}

// The path to the worst end; for an absorbed value, its absorbers.
void FlowRoots::trace(Root& root) const {
  root.path.push_back(root.op);
  if (root.op != graph_.values()[root.value].op && graph_.values()[root.value].op != kOutside &&
      root.kind == RootKind::created) {
    root.path.push_back(graph_.values()[root.value].op);
  }
  std::set<std::pair<std::uint32_t, BadKind>> seen;
  std::vector<std::pair<std::uint32_t, BadKind>> open = {{root.value, root.bad}};
  std::set<std::uint32_t> absorbers;
  while (!open.empty() && seen.size() < 4096) {
    const auto [index, kind] = open.back();
    open.pop_back();
    if (!seen.emplace(index, kind).second) continue;
    const FlowValue& value = graph_.values()[index];
    std::vector<std::pair<std::uint32_t, BadKind>> worst;  // those with the worst end
    End worst_end = End::absorbed;
    for (const FlowReader& reader : value.readers) {
      const FlowOp& op = graph_.ops()[reader.op];
      if (!op.inputs[reader.input].is_read) continue;
      bool goes_on = false;
      for (const std::uint32_t output : op.outputs) {
        for (const BadKind next : kBadKinds) {
          if (!graph_.feeds(op, op.inputs[reader.input], graph_.values()[output].slot)) continue;
          if (!ends_.passes(origins_.flags(index, kind), kind, op, output, next)) continue;
          goes_on = true;
          root.harms = root.harms || (origins_.of(output).root[at(next)] == RootKind::converted &&
                                      ends_.of(output, next) > End::absorbed);
          const End end = ends_.of(output, next);
          if (root.end == End::absorbed) open.emplace_back(output, next);
          if (root.end == End::absorbed || end == End::absorbed || end < worst_end) continue;
          if (end > worst_end) worst.clear();
          worst_end = end;
          worst.emplace_back(output, next);
        }
      }
      const bool only_asks = op.nature.tests_finite && !replaces_nan(bare_type(op.op->op_type));
      // A product or a sum of it no longer contains a mask, and NaN added to an infinity hides it.
      const bool is_bad =
          (op.nature.mixes || op.nature.is_power || is_arithmetic(work_of(bare_type(op.op->op_type)))) &&
          std::ranges::any_of(op.outputs, [&](std::uint32_t output) { return graph_.health_of_value(output).bad(); });
      root.drowned = root.drowned || (!goes_on && is_bad);
      if (!goes_on && !only_asks && !is_bad) absorbers.insert(reader.op);
    }
    if (!worst.empty() && root.path.size() < kLongestPath) {
      const auto chosen = worst.size() == 1
                              ? worst.begin()
                              : std::ranges::find_if(worst, [&](const auto& one) { return is_seen(one); });
      open.push_back(chosen == worst.end() ? worst.front() : *chosen);
      // Of a value from outside the path begins with its reader.
      const std::uint32_t next = graph_.values()[open.back().first].op;
      if (root.path.back() != next) root.path.push_back(next);
    }
  }
  for (const std::uint32_t op : absorbers) {
    if (root.absorbed_by.size() < kAbsorbersShown) root.absorbed_by.push_back(op);
  }
}

}  // namespace sonde
