#include "ask/first_bad/thrown_away.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "ask/first_bad/flow_facts.h"
#include "read/operators/op_work.h"

namespace sonde {
namespace {

constexpr std::size_t kMostUnused = 4096;

// Outside of the model: the program takes the values to itself.
bool takes_values(const FlowOp& op) {
  static const TypeNames kCopies = type_names("to tocopy cpu copy clone");
  return op.phase != Phase::forward && kCopies.contains(bare_type(op.op->op_type));
}

bool gives_no_floats(const FlowGraph& graph, const FlowOp& op) {
  return std::ranges::none_of(op.outputs,
                              [&](std::uint32_t output) { return may_be_floating(graph.values()[output].tensor); });
}

// A number, a question, a copy, an index; or it is in training, or in another step.
bool is_use(const FlowGraph& graph, const FlowOp& op) {
  const bool is_plain = op.phase == Phase::forward || op.phase == Phase::outside;
  // Each rank is asked about what it makes of the sum. What is only sent may be used elsewhere.
  const bool leaves = op.nature.collective && (op.phase != Phase::forward || op.outputs.empty());
  return op.is_next || !is_plain || op.nature.gives_number || op.nature.tests_finite || leaves || takes_values(op) ||
         gives_no_floats(graph, op);
}

// It is kept where others find it: a parameter, a buffer, memory from outside of the step.
bool is_kept(const FlowGraph& graph, std::uint32_t index) {
  const FlowValue& value = graph.values()[index];
  if (value.op == kOutside || (value.tensor != nullptr && !is_data(*value.tensor))) return true;
  std::optional<std::uint32_t> before = graph.ops()[value.op].nature.in_place ? graph.older(index) : std::nullopt;
  for (std::size_t depth = 0; before && depth < kLongestPath; ++depth) {
    if (graph.values()[*before].op == kOutside) return true;
    before = graph.older(*before);
  }
  return false;
}

// The values that the root's are in; empty: some of them are used in this step or the next.
std::vector<std::uint32_t> unused_values(const FlowGraph& graph, std::uint32_t from) {
  std::vector<std::uint32_t> open = {from};
  std::set<std::uint32_t> seen;
  while (!open.empty()) {
    const std::uint32_t index = open.back();
    open.pop_back();
    if (!seen.insert(index).second) continue;
    if (seen.size() > kMostUnused || is_kept(graph, index)) return {};
    for (const FlowReader& reader : graph.values()[index].readers) {
      const FlowOp& op = graph.ops()[reader.op];
      if (!op.inputs[reader.input].is_read && !op.nature.only_moves) continue;
      if (is_use(graph, op)) return {};
      for (const std::uint32_t output : op.outputs) {
        const Health health = graph.health_of_value(output);
        if (!health.known) return {};
        if (health.bad()) open.push_back(output);
      }
    }
  }
  return {seen.begin(), seen.end()};
}

bool trains(const CatalogStep& step) {
  return std::ranges::any_of(step.ops, [](const CatalogOp& op) {
    return !op.is_parameter && (op.phase == Phase::backward || op.phase == Phase::optimizer);
  });
}

// The rest of the run, step by step.
class LaterSteps {
 public:
  LaterSteps(RankSearch& search, std::set<std::uint64_t> makers, std::set<std::string_view> ends)
      : makers_(std::move(makers)), ends_(std::move(ends)) {
    const std::size_t here = search.step_index();
    const std::vector<CatalogStep>& steps = search.rank().steps;
    for (std::size_t i = 0; i < here; ++i) {
      if (steps[i].run == steps[here].run) trained_ = trained_ || trains(search.step_at(i));
    }
    for (std::size_t i = here + 1; i < steps.size() && !uses_; ++i) {
      if (steps[i].run == steps[here].run) look_at(search.step_at(i));
    }
  }

  bool shows_that_it_is_dropped() const { return !uses_ && !trained_ && (trains_ || reads_such_); }

 private:
  void look_at(const CatalogStep& step) {
    trains_ = trains_ || trains(step);
    std::set<std::uint64_t> such;
    for (const CatalogOp& op : step.ops) {
      for (const CatalogTensor& tensor : op.tensors) {
        if (!tensor.is_input || tensor.source == kNoSequence) continue;
        uses_ = uses_ || makers_.contains(tensor.source);
        reads_such_ = reads_such_ || such.contains(tensor.source);
      }
      if (ends_.contains(op.op_name)) such.insert(op.sequence);
    }
  }

  std::set<std::uint64_t> makers_;
  std::set<std::string_view> ends_;
  bool uses_ = false, trained_ = false, trains_ = false, reads_such_ = false;
};

}  // namespace

bool is_thrown_away(RankSearch& search, const Root& root) {
  const FlowGraph& graph = search.flow().graph();
  const bool is_there = root.value != kOutside && graph.values()[root.value].op != kOutside;
  // Without a journal nobody knows all readers.
  if (!is_there || !search.rank().has_journal || graph.inferred() || graph.only_overflows()) return false;
  if (trains(search.step())) return false;
  std::set<std::uint64_t> makers;
  std::set<std::string_view> ends;  // operators whose results nothing reads
  for (const std::uint32_t index : unused_values(graph, root.value)) {
    const FlowValue& value = graph.values()[index];
    makers.insert(graph.ops()[value.op].op->sequence);
    if (value.readers.empty()) ends.insert(graph.ops()[value.op].op->op_name);
  }
  return !makers.empty() && LaterSteps(search, std::move(makers), std::move(ends)).shows_that_it_is_dropped();
}

}  // namespace sonde
