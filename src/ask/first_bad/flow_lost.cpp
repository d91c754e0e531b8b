#include "ask/first_bad/flow_lost.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <string>

#include "ask/first_bad/flow_facts.h"
#include "ground/base/shape.h"
#include "read/operators/op_questions.h"
#include "read/operators/op_work.h"

namespace sonde {
namespace {

constexpr std::size_t kMostValues = 512;   // looked at, from one infinity
constexpr std::size_t kMostRelated = 64;   // looked at, from one operand
constexpr std::size_t kMostSources = 256;  // of one infinity

bool is_logarithm(OpWork work) {
  return work == OpWork::logarithm || work == OpWork::logarithm_of_more || work == OpWork::log_of_sum;
}

// Whether an infinity in this input may become 0.
bool divides_by(OpWork work, std::uint32_t slot, std::uint32_t list_size, bool has_log) {
  using enum OpWork;
  if (work == reciprocal || work == reciprocal_root || work == power) return true;
  if (work == divide || work == divide_or_zero) return slot >= list_size;
  if (work == add_quotient) return slot >= 2 * list_size;
  // exp(-inf) is 0 for good reasons, unless it undoes a logarithm.
  return has_log && (work == exponential || work == exponential_of_two);
}

bool is_product_or_quotient(OpWork work) {
  using enum OpWork;
  return work == multiply || work == divide || work == divide_or_zero || work == add_quotient;
}

std::uint32_t list_size_of(const FlowOp& op) { return op.nature.is_list ? std::max(1U, op.list_size) : 1; }

// Whether the result is no longer in proportion to the input: a number was added, or it was multiplied by 0.
bool ends_proportion(const FlowOp& op, const std::string& type) {
  using enum OpWork;
  const OpWork work = work_of(type);
  return std::ranges::any_of(op.inputs, [&](const FlowInput& input) {
    if (!input.tensor->constant) return false;
    const bool is_sum = work == add || work == subtract || work == subtract_from;
    return work == multiply ? *input.tensor->constant == 0 : is_sum && *input.tensor->constant != 0;
  });
}

// Elements of the value that are 0; empty: not known. Without a count it is all or none of them.
std::optional<std::uint64_t> zeros_in(const FlowGraph& graph, const CatalogTensor* tensor) {
  const KnownStatistics* known = tensor == nullptr ? nullptr : graph.health().statistics(*tensor);
  if (known == nullptr) return std::nullopt;
  if (known->zero_count) return known->zero_count;
  if (!known->max || !known->min) return std::nullopt;
  const bool all = *known->max == 0.0 && *known->min == 0.0;
  return all ? std::max<std::uint64_t>(element_count(tensor->shape), 1) : 0;
}

// The values that the infinity is a power, a norm or a sum of.
std::set<std::uint32_t> powers_of(const FlowGraph& graph, std::uint32_t value) {
  std::set<std::uint32_t> sources;
  std::vector<std::uint32_t> open = {value};
  while (!open.empty() && sources.size() < kMostSources) {
    const FlowValue& of = graph.values()[open.back()];
    const bool is_root = open.back() == value;
    open.pop_back();
    if (of.op == kOutside) continue;
    const FlowOp& op = graph.ops()[of.op];
    const std::string type = single_type(op.op->op_type);
    const bool keeps = op.nature.only_moves || op.nature.is_power || op.nature.collective;
    const bool goes_on = is_root || ((keeps || work_of(type) == OpWork::cast) && !op.nature.mixes);
    if (!goes_on || (!is_root && ends_proportion(op, type))) continue;
    for (const FlowInput& input : op.inputs) {
      if (!input.is_read || input.tensor->constant || !graph.feeds(op, input, of.slot)) continue;
      if (sources.insert(input.value).second) open.push_back(input.value);
    }
  }
  return sources;
}

// Whether it is one of `sources`, or a sum of one with others: x - mean, a moment of a gradient.
bool is_related(const FlowGraph& graph, std::uint32_t value, const std::set<std::uint32_t>& sources) {
  std::vector<std::uint32_t> open = {value};
  std::set<std::uint32_t> seen;
  while (!open.empty() && seen.size() < kMostRelated) {
    const std::uint32_t index = open.back();
    open.pop_back();
    if (sources.contains(index)) return true;
    if (!seen.insert(index).second || graph.values()[index].op == kOutside) continue;
    const FlowOp& op = graph.ops()[graph.values()[index].op];
    const std::string type = single_type(op.op->op_type);
    const bool is_scaled = work_of(type) == OpWork::multiply;
    const bool keeps_proportion = op.nature.only_moves || is_linear(type);
    if (!keeps_proportion || (is_scaled && ends_proportion(op, type))) continue;
    for (const FlowInput& input : op.inputs) {
      if (!input.tensor->constant && graph.feeds(op, input, graph.values()[index].slot)) open.push_back(input.value);
    }
  }
  return false;
}

// Whether the op multiplies one of `sources` to zeros in this output: more of them than it has read.
bool zeroes(const FlowGraph& graph, const FlowOp& op, const FlowInput& factor, std::uint32_t output,
            const std::set<std::uint32_t>& sources) {
  if (!is_product_or_quotient(work_of(single_type(op.op->op_type)))) return false;
  const std::optional<std::uint64_t> after = zeros_in(graph, graph.values()[output].tensor);
  if (!after && !graph.only_overflows()) return false;
  return std::ranges::any_of(op.inputs, [&](const FlowInput& other) {
    if (other.value == factor.value || !other.is_read || other.tensor->constant) return false;
    if (!graph.feeds(op, other, graph.values()[output].slot) || !is_related(graph, other.value, sources)) return false;
    const std::uint64_t before = zeros_in(graph, other.tensor).value_or(0);
    return graph.only_overflows() && !after ? true : *after > before;
  });
}

// The number leaves the tensors (`norm.item()`), and a tensor is multiplied by 0, or divided by an infinity, later on.
std::optional<std::uint32_t> zeroed_by_number(const FlowGraph& graph, std::uint32_t after,
                                              const std::set<std::uint32_t>& sources) {
  for (std::uint32_t index = after + 1; index < graph.ops().size() && !graph.ops()[index].is_next; ++index) {
    const FlowOp& op = graph.ops()[index];
    const std::string type = single_type(op.op->op_type);
    if (!is_product_or_quotient(work_of(type))) continue;
    const auto factor = std::ranges::find_if(op.inputs, [&](const FlowInput& input) {
      const std::optional<double> number = input.tensor->constant;
      return number && (work_of(type) == OpWork::multiply ? *number == 0 : std::isinf(*number));
    });
    if (factor == op.inputs.end()) continue;
    const bool any = std::ranges::any_of(
        op.outputs, [&](std::uint32_t output) { return zeroes(graph, op, *factor, output, sources); });
    if (any) return index;
  }
  return std::nullopt;
}

struct Passing {
  bool is_zero = false, has_log = false;  // has_log: it is a logarithm of the infinity
};

// The result of the op for an infinity, or for a zero that an infinity became.
std::optional<Passing> passing(const FlowGraph& graph, const FlowOp& op, const FlowInput& input, std::uint32_t output,
                               bool is_zero, bool has_log) {
  const std::string type = single_type(op.op->op_type);
  const std::optional<std::uint64_t> zeros = zeros_in(graph, graph.values()[output].tensor);
  if (is_zero) {
    const bool is_kept = zeros ? *zeros > 0 : graph.only_overflows();
    if (!(op.nature.only_moves || keeps_zero(type)) || !is_kept) return std::nullopt;
    return Passing{true, has_log};
  }
  if (has(graph.health_of_value(output), BadKind::inf)) {
    return Passing{false, has_log || is_logarithm(work_of(type))};
  }
  if (!divides_by(work_of(type), input.tensor->slot, list_size_of(op), has_log)) return std::nullopt;
  // A dump of overflows has no values of it: numbers divided by nothing but infinities are zeros.
  const CatalogTensor* read = graph.values()[input.value].tensor;
  const Health health = graph.health_of_value(input.value);
  const std::uint64_t infinite = health.counts.infinities();
  const bool is_all = read != nullptr && health.known && infinite > 0 && infinite == element_count(read->shape);
  if (zeros ? *zeros == 0 : !(graph.only_overflows() && is_all)) return std::nullopt;
  return Passing{true, has_log};
}

}  // namespace

std::vector<std::uint32_t> lost_behind(const FlowGraph& graph, std::uint32_t value) {
  const FlowOp& maker = graph.ops()[graph.values()[value].op];
  // The reciprocal of a power that is too large is not 0. That of exp is, and so is that of 1 / 0.
  // A collective adds up what the ranks gave.
  const bool is_sum = maker.nature.is_power || maker.nature.collective;
  if (!is_sum || (graph.only_overflows() && !graph.has_edges())) return {};
  const std::set<std::uint32_t> sources = powers_of(graph, value);
  struct Stop {
    std::uint32_t value;
    bool is_zero, has_log;
    std::size_t before;  // into stops
  };
  std::vector<Stop> stops = {{value, false, false, 0}};
  std::set<std::pair<std::uint32_t, bool>> seen;
  const auto path_to = [&](std::size_t stop, std::uint32_t last) {
    std::vector<std::uint32_t> path = {last};
    for (; stop != 0; stop = stops[stop].before) path.push_back(graph.values()[stops[stop].value].op);
    path.push_back(graph.values()[value].op);
    return std::vector<std::uint32_t>(path.rbegin(), path.rend());
  };
  for (std::size_t at = 0; at < stops.size() && at < kMostValues; ++at) {
    const Stop stop = stops[at];
    for (const FlowReader& reader : graph.values()[stop.value].readers) {
      const FlowOp& op = graph.ops()[reader.op];
      const FlowInput& input = op.inputs[reader.input];
      if (!input.is_read) continue;
      if (op.nature.gives_number && !stop.is_zero) {
        if (const auto last = zeroed_by_number(graph, reader.op, sources)) return path_to(at, *last);
      }
      for (const std::uint32_t output : op.outputs) {
        if (!graph.feeds(op, input, graph.values()[output].slot)) continue;
        const std::optional<Passing> next = passing(graph, op, input, output, stop.is_zero, stop.has_log);
        if (!next) continue;
        if (next->is_zero && zeroes(graph, op, input, output, sources)) return path_to(at, reader.op);
        if (seen.emplace(output, next->is_zero).second) stops.push_back({output, next->is_zero, next->has_log, at});
      }
    }
  }
  return {};
}

}  // namespace sonde
