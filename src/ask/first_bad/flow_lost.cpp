// Infinities that a quotient turns into zeros: x / sqrt(mean(x ** 2)) where x ** 2 is too large for its type, a gradient
// norm that overflows and clips every gradient to 0. Nothing is infinite behind the quotient, and everything is wrong.
#include <algorithm>
#include <cmath>
#include <iterator>

#include "ask/first_bad/flow_facts.h"
#include "ask/first_bad/value_flow.h"
#include "ground/base/shape.h"

namespace sonde {
namespace {

constexpr std::size_t kMostValues = 512;   // looked at, from one infinity
constexpr std::size_t kMostRelated = 64;   // looked at, from one operand
constexpr std::size_t kMostSources = 256;  // of one infinity

bool is_one_of(std::string_view type, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, type) != names.end();
}

// The type of the work for one tensor: "mul" for _foreach_mul_.
std::string single_type(const CatalogOp& op) {
  std::string type = bare_type(op.op_type);
  return type.starts_with("foreach") ? type.substr(7) : type;
}

bool is_cast(std::string_view type) {
  return is_one_of(type, {"to", "tocopy", "cast", "type", "float", "double", "half", "bfloat16"});
}

// Whether an infinity in this input may become 0.
bool divides_by(std::string_view type, std::uint32_t slot, std::uint32_t list_size, bool has_log) {
  if (is_one_of(type, {"reciprocal", "inv", "rsqrt", "pow", "power"})) return true;
  if (is_one_of(type, {"div", "divide", "truedivide", "realdiv", "divnonan"})) return slot >= list_size;
  if (type == "addcdiv") return slot >= 2 * list_size;
  // exp(-inf) is 0 for good reasons, unless it undoes a logarithm.
  return has_log && is_one_of(type, {"exp", "exp2", "expm1"});
}

// Whether a 0 in any of its inputs stays 0.
bool keeps_zero(const OpNature& nature, std::string_view type) {
  return nature.only_moves || is_cast(type) ||
         is_one_of(type, {"mul", "multiply", "muls", "div", "divide", "realdiv", "sqrt", "square", "abs", "where",
                          "clip", "minimum", "maximum", "clampmin", "clampmax", "selectv2", "allreduce", "waittensor"});
}

bool is_product(std::string_view type) {
  return is_one_of(type, {"mul", "multiply", "muls", "div", "divide", "truedivide", "realdiv", "divnonan", "addcdiv"});
}

// Whether the result is a sum of its inputs, each times a number or 1: what is true of one is true of the other.
bool is_linear(const OpNature& nature, std::string_view type) {
  return nature.only_moves || is_cast(type) ||
         is_one_of(type, {"add", "sub", "rsub", "subtract", "mul", "multiply", "muls", "div", "lerp", "copy"});
}

std::uint32_t list_size_of(const ValueFlow::Op& op) {
  if (!op.nature.is_list) return 1;
  return static_cast<std::uint32_t>(std::max<std::ptrdiff_t>(
      1, std::ranges::count(op.op->tensors, false, [](const CatalogTensor& tensor) { return tensor.is_input; })));
}

}  // namespace

// Whether the result is no longer in proportion to the input: a number was added, or it was multiplied by 0.
bool ValueFlow::ends_proportion(const Op& op, const std::string& type) {
  return std::ranges::any_of(op.inputs, [&](const Input& input) {
    if (!input.tensor->constant) return false;
    return type.starts_with("mul") ? *input.tensor->constant == 0
                                   : (type == "add" || type == "sub" || type == "rsub") && *input.tensor->constant != 0;
  });
}

// Elements of the value that are 0; empty: not known. Without a count it is all or none of them.
std::optional<std::uint64_t> ValueFlow::zeros_in(const CatalogTensor* tensor) {
  const KnownStatistics* known = tensor == nullptr ? nullptr : health_.statistics(*tensor);
  if (known == nullptr) return std::nullopt;
  if (known->zero_count) return known->zero_count;
  if (!known->max || !known->min) return std::nullopt;
  const bool all = *known->max == 0.0 && *known->min == 0.0;
  return all ? std::max<std::uint64_t>(element_count(tensor->shape), 1) : 0;
}

// The values that the infinity is a power, a norm or a sum of.
std::set<std::uint32_t> ValueFlow::powers_of(std::uint32_t value) const {
  std::set<std::uint32_t> sources;
  std::vector<std::uint32_t> open = {value};
  while (!open.empty() && sources.size() < kMostSources) {
    const Value& of = values_[open.back()];
    const bool is_root = open.back() == value;
    open.pop_back();
    if (of.op == kOutside) continue;
    const Op& op = ops_[of.op];
    const std::string type = single_type(*op.op);
    const bool goes_on =
        is_root ||
        ((op.nature.only_moves || op.nature.is_power || op.nature.collective || is_cast(type)) && !op.nature.mixes);
    if (!goes_on || (!is_root && ends_proportion(op, type))) continue;
    for (const Input& input : op.inputs) {
      if (!input.is_read || input.tensor->constant || !feeds(op, input, of.slot)) continue;
      if (sources.insert(input.value).second) open.push_back(input.value);
    }
  }
  return sources;
}

// Whether it is one of `sources`, or a sum of one with others: x - mean, a moment of a gradient.
bool ValueFlow::is_related(std::uint32_t value, const std::set<std::uint32_t>& sources) const {
  std::vector<std::uint32_t> open = {value};
  std::set<std::uint32_t> seen;
  while (!open.empty() && seen.size() < kMostRelated) {
    const std::uint32_t index = open.back();
    open.pop_back();
    if (sources.contains(index)) return true;
    if (!seen.insert(index).second || values_[index].op == kOutside) continue;
    const Op& op = ops_[values_[index].op];
    const std::string type = single_type(*op.op);
    if (!is_linear(op.nature, type) || (type.starts_with("mul") && ends_proportion(op, type))) continue;
    for (const Input& input : op.inputs) {
      if (!input.tensor->constant && feeds(op, input, values_[index].slot)) open.push_back(input.value);
    }
  }
  return false;
}

// Whether the op multiplies one of `sources` to zeros in this output: more of them than it has read.
bool ValueFlow::zeroes(const Op& op, const Input& factor, std::uint32_t output,
                       const std::set<std::uint32_t>& sources) {
  if (!is_product(single_type(*op.op))) return false;
  const std::optional<std::uint64_t> after = zeros_in(values_[output].tensor);
  if (!after && !options_.only_overflows) return false;
  return std::ranges::any_of(op.inputs, [&](const Input& other) {
    if (other.value == factor.value || !other.is_read || other.tensor->constant) return false;
    if (!feeds(op, other, values_[output].slot) || !is_related(other.value, sources)) return false;
    const std::uint64_t before = zeros_in(other.tensor).value_or(0);
    return options_.only_overflows && !after ? true : *after > before;
  });
}

// The number leaves the tensors (`norm.item()`), and a tensor is multiplied by 0, or divided by an infinity, later on.
std::optional<std::uint32_t> ValueFlow::zeroed_by_number(std::uint32_t after, const std::set<std::uint32_t>& sources) {
  for (std::uint32_t index = after + 1; index < ops_.size() && !ops_[index].is_next; ++index) {
    const Op& op = ops_[index];
    const std::string type = single_type(*op.op);
    if (!is_product(type)) continue;
    const auto factor = std::ranges::find_if(op.inputs, [&](const Input& input) {
      const std::optional<double> number = input.tensor->constant;
      return number && (type.find("mul") != std::string::npos ? *number == 0 : std::isinf(*number));
    });
    if (factor == op.inputs.end()) continue;
    const bool any =
        std::ranges::any_of(op.outputs, [&](std::uint32_t output) { return zeroes(op, *factor, output, sources); });
    if (any) return index;
  }
  return std::nullopt;
}

// The ops from the infinity to the one that makes the zeros; empty: none does.
std::vector<std::uint32_t> ValueFlow::lost_behind(std::uint32_t value) {
  const Op& maker = ops_[values_[value].op];
  // The reciprocal of a power that is too large is not 0. That of exp is, and so is that of 1 / 0.
  // A collective adds up what the ranks gave.
  const bool is_sum = maker.nature.is_power || maker.nature.collective;
  if (!is_sum || (options_.only_overflows && !has_edges_)) return {};
  const std::set<std::uint32_t> sources = powers_of(value);
  struct Stop {
    std::uint32_t value;
    bool is_zero, has_log;
    std::size_t before;  // into stops
  };
  std::vector<Stop> stops = {{value, false, false, 0}};
  std::set<std::pair<std::uint32_t, bool>> seen;
  const auto path_to = [&](std::size_t stop, std::uint32_t last) {
    std::vector<std::uint32_t> path = {last};
    for (; stop != 0; stop = stops[stop].before) path.push_back(values_[stops[stop].value].op);
    path.push_back(values_[value].op);
    return std::vector<std::uint32_t>(path.rbegin(), path.rend());
  };
  for (std::size_t at = 0; at < stops.size() && at < kMostValues; ++at) {
    const Stop stop = stops[at];
    for (const Reader& reader : values_[stop.value].readers) {
      const Op& op = ops_[reader.op];
      const Input& input = op.inputs[reader.input];
      if (!input.is_read) continue;
      if (op.nature.gives_number && !stop.is_zero) {
        if (const auto last = zeroed_by_number(reader.op, sources)) return path_to(at, *last);
      }
      for (const std::uint32_t output : op.outputs) {
        if (!feeds(op, input, values_[output].slot)) continue;
        const std::optional<Passing> next = passing(op, input, output, stop.is_zero, stop.has_log);
        if (!next) continue;
        if (next->is_zero && zeroes(op, input, output, sources)) return path_to(at, reader.op);
        if (seen.emplace(output, next->is_zero).second) stops.push_back({output, next->is_zero, next->has_log, at});
      }
    }
  }
  return {};
}

// The result of the op for an infinity, or for a zero that an infinity became.
std::optional<ValueFlow::Passing> ValueFlow::passing(const Op& op, const Input& input, std::uint32_t output,
                                                     bool is_zero, bool has_log) {
  const std::string type = single_type(*op.op);
  const std::optional<std::uint64_t> zeros = zeros_in(values_[output].tensor);
  if (is_zero) {
    const bool is_kept = zeros ? *zeros > 0 : options_.only_overflows;
    if (!keeps_zero(op.nature, type) || !is_kept) return std::nullopt;
    return Passing{true, has_log};
  }
  if (has(health_of_value(output), BadKind::inf)) {
    return Passing{false, has_log || is_one_of(type, {"log", "log2", "log10", "log1p", "logsumexp"})};
  }
  if (!divides_by(type, input.tensor->slot, list_size_of(op), has_log)) return std::nullopt;
  // A dump of overflows has no values of it: numbers divided by nothing but infinities are zeros.
  const CatalogTensor* read = values_[input.value].tensor;
  const Health health = health_of_value(input.value);
  const std::uint64_t infinite = health.positive_inf_count + health.negative_inf_count;
  const bool is_all = read != nullptr && health.known && infinite > 0 && infinite == element_count(read->shape);
  if (zeros ? *zeros == 0 : !(options_.only_overflows && is_all)) return std::nullopt;
  return Passing{true, has_log};
}

}  // namespace sonde
