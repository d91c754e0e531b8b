#include "ask/relations/steps_apart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include "ask/relations/standings.h"
#include "ground/base/shape.h"
#include "read/operators/op_attributes.h"
#include "read/operators/op_nature.h"
#include "sonde/dtype.h"

namespace sonde {
namespace {

constexpr std::string_view kAttention = "scaleddotproductattention";

// The tensor and those that it was moved, joined, repeated or cast from.
std::vector<std::uint32_t> moved_from(const Pool& pool, std::uint32_t tensor) {
  std::vector<std::uint32_t> chain{tensor};
  constexpr std::size_t kMost = 64;
  for (std::size_t i = 0; i < chain.size() && chain.size() < kMost; ++i) {
    const std::uint32_t maker = pool.tensors[chain[i]].op;
    const bool repeats = maker != kNoOp && pool.is_type(maker, "repeatinterleave");
    if (maker == kNoOp || (!repeats && !moves_or_casts(pool.op(maker).kind))) continue;
    chain.insert(chain.end(), pool.ops[maker].inputs.begin(), pool.ops[maker].inputs.end());
  }
  return chain;
}

std::optional<std::uint32_t> input_at(const Pool& pool, std::uint32_t op, std::uint32_t slot) {
  const PoolOp& own = pool.ops[op];
  for (std::size_t i = 0; i < own.inputs.size(); ++i) {
    if (own.slots[i] == slot) return own.inputs[i];
  }
  return std::nullopt;
}

}  // namespace

std::string StepsApart::type_of(std::uint32_t op) const { return bare_type(target_.catalog_op(op).op_type); }

std::optional<std::uint32_t> StepsApart::golden_op(std::string_view type) const {
  const auto found =
      std::ranges::find_if(judgement_.golden.ops, [&](std::uint32_t op) { return golden_.is_type(op, type); });
  return found == judgement_.golden.ops.end() ? std::nullopt : std::optional(*found);
}

std::optional<NumberApart> StepsApart::of_attention(const std::vector<std::uint32_t>& ops) const {
  const std::optional<std::uint32_t> attention = golden_op(kAttention);
  if (!attention) return std::nullopt;
  if (std::ranges::none_of(ops, [&](std::uint32_t op) { return type_of(op) == "softmax"; })) return std::nullopt;
  if (auto apart = reads_another(ops, *attention)) return apart;
  if (auto apart = hides_another(ops, *attention)) return apart;
  return repeats_in_turn(ops, *attention);
}

// The nearest product with a weight of several axes, which the tensor was moved from, perhaps after a bias was added.
std::optional<Culprit> StepsApart::product_before(std::uint32_t tensor) const {
  for (const std::uint32_t from : moved_from(target_, tensor)) {
    std::uint32_t maker = target_.tensors[from].op;
    if (maker != kNoOp && type_of(maker) == "add" && !target_.ops[maker].inputs.empty()) {
      maker = target_.tensors[target_.ops[maker].inputs[0]].op;
    }
    if (maker == kNoOp || target_.op(maker).kind != OpKind::contraction) continue;
    for (const std::uint32_t input : target_.ops[maker].inputs) {
      for (const std::uint32_t root : moved_from(target_, input)) {
        const bool is_matrix = judgement_.is_weight[root] != 0 && target_.tensors[root].shape.size() > 1;
        if (is_matrix) return Culprit{.op = maker, .weight = root, .golden = {}};
      }
    }
  }
  return std::nullopt;
}

std::vector<std::set<RoundedNumbers>> StepsApart::read_by_golden(std::uint32_t attention) const {
  std::vector<std::set<RoundedNumbers>> read(3);
  for (std::uint32_t slot = 0; slot < 3; ++slot) {
    const std::optional<std::uint32_t> input = input_at(golden_, attention, slot);
    if (!input) return {};
    read[slot].insert(rounded_numbers(golden_.tensors[*input].print));
  }
  return read;
}

// `input` should be what the golden attention reads in one of the slots `wanted`, and is what it reads in another one.
std::optional<Culprit> StepsApart::exchanged_at(std::uint32_t input, const std::vector<std::uint32_t>& wanted,
                                                const std::vector<std::set<RoundedNumbers>>& read) const {
  if (is_bad(judgement_.standings[input]) || !judgement_.relations[input]) return std::nullopt;
  const RoundedNumbers own = rounded_numbers(golden_.tensors[judgement_.relations[input].golden()].print);
  if (std::ranges::any_of(wanted, [&](std::uint32_t slot) { return read[slot].contains(own); })) return std::nullopt;
  const auto other = std::ranges::find_if(read, [&](const auto& numbers) { return numbers.contains(own); });
  if (other == read.end()) return std::nullopt;
  std::optional<Culprit> found = product_before(input);
  if (!found) return std::nullopt;
  found->uncertain = true;
  found->what = fmt::format(
      "gives input {} of the attention the numbers of golden input {}: weights are exchanged, or "
      "the inputs",
      wanted.back(), other - read.begin());
  return found;
}

std::optional<Culprit> StepsApart::of_exchanged(std::uint32_t op) const {
  const std::optional<std::uint32_t> attention = golden_op(kAttention);
  if (!attention || type_of(op) != kAttention) return std::nullopt;
  const std::vector<std::set<RoundedNumbers>> read = read_by_golden(*attention);
  if (read.empty()) return std::nullopt;
  for (std::uint32_t slot = 0; slot < 3; ++slot) {
    const std::optional<std::uint32_t> input = input_at(target_, op, slot);
    if (!input) continue;
    if (auto found = exchanged_at(*input, {slot}, read)) return found;
  }
  return std::nullopt;
}

std::optional<Culprit> StepsApart::of_exchanged_products(const std::vector<std::uint32_t>& ops) const {
  const std::optional<std::uint32_t> attention = golden_op(kAttention);
  const auto is_softmax = [&](std::uint32_t op) { return type_of(op) == "softmax"; };
  if (!attention) return std::nullopt;
  const std::vector<std::set<RoundedNumbers>> read = read_by_golden(*attention);
  if (auto turned = queries_for_keys(ops, read)) return turned;
  if (std::ranges::none_of(ops, is_softmax)) return std::nullopt;
  std::optional<Culprit> of_key, of_value;
  bool is_behind = false;  // products before the softmax read queries and keys, the one behind it values
  for (const std::uint32_t op : ops) {
    is_behind = is_behind || is_softmax(op);
    if (read.empty() || target_.op(op).kind != OpKind::contraction) continue;
    for (const std::uint32_t input : target_.ops[op].inputs) {
      if (is_behind && !of_value) of_value = exchanged_at(input, {2}, read);
      if (!is_behind && !of_key) of_key = exchanged_at(input, {0, 1}, read);
    }
  }
  return of_value ? of_key : std::nullopt;  // one alone is read where it should not
}

// A softmax along the last axis follows from the product, and an operator of the group is on the way to it.
bool StepsApart::leads_to_softmax_of(std::uint32_t product, const std::vector<std::uint32_t>& ops) const {
  constexpr int kMostSteps = 8;
  bool is_of_group = std::ranges::find(ops, product) != ops.end();
  for (int step = 0; step < kMostSteps && target_.ops[product].outputs.size() == 1; ++step) {
    const std::uint32_t result = target_.ops[product].outputs[0];
    const auto goes_on = [&](std::uint32_t reader) {
      const OpKind kind = target_.op(reader).kind;
      const bool keeps = moves_or_casts(kind) || kind == OpKind::elementwise || type_of(reader) == "maskedfill";
      return target_.is_of_forward(reader) && (keeps || type_of(reader) == "softmax");
    };
    const std::vector<std::uint32_t>& readers = target_.tensors[result].readers;
    const auto next = std::ranges::find_if(readers, goes_on);
    if (next == readers.end()) return false;
    product = *next;
    is_of_group = is_of_group || std::ranges::find(ops, product) != ops.end();
    if (type_of(product) != "softmax") continue;
    const auto axes = static_cast<double>(target_.tensors[result].of.tensor->shape.size());
    const double axis = number_in(target_.catalog_op(product), "dim").value_or(-1);
    return is_of_group && (axis == -1 || axis == axes - 1);
  }
  return false;
}

// The product before the softmax reads the golden keys first and the queries second: their scores are transposed.
std::optional<Culprit> StepsApart::queries_for_keys(const std::vector<std::uint32_t>& ops,
                                                    const std::vector<std::set<RoundedNumbers>>& read) const {
  if (read.empty()) return std::nullopt;
  for (std::uint32_t op = 0; !ops.empty() && op <= ops.back(); ++op) {
    const std::vector<std::uint32_t>& inputs = target_.ops[op].inputs;
    if (target_.op(op).kind != OpKind::contraction || inputs.size() != 2 || !leads_to_softmax_of(op, ops)) continue;
    const auto is_read_at = [&](std::uint32_t input, std::uint32_t slot) {
      if (!is_surely_golden(judgement_, input)) return false;
      const RoundedNumbers own = rounded_numbers(golden_.tensors[judgement_.relations[input].golden()].print);
      return read[slot].contains(own) && !read[1 - slot].contains(own);
    };
    if (!is_read_at(inputs[0], 1) || !is_read_at(inputs[1], 0)) continue;
    std::optional<Culprit> found = product_before(inputs[0]);
    if (!found) continue;
    found->uncertain = true;
    found->what =
        "gives the golden keys where the attention reads queries, and the queries for the keys: its parts are "
        "exchanged, or they are read so";
    return found;
  }
  return std::nullopt;
}

bool StepsApart::comes_from_weight(std::uint32_t tensor) const {
  return std::ranges::any_of(moved_from(target_, tensor),
                             [&](std::uint32_t from) { return judgement_.is_weight[from] != 0; });
}

// A product that reads a golden tensor which is not among those that the golden attention reads.
std::optional<NumberApart> StepsApart::reads_another(const std::vector<std::uint32_t>& ops,
                                                     std::uint32_t attention) const {
  std::set<RoundedNumbers> read;
  for (std::uint32_t slot = 0; slot < 3; ++slot) {
    const std::optional<std::uint32_t> input = input_at(golden_, attention, slot);
    if (!input) return std::nullopt;
    for (const std::uint32_t tensor : moved_from(golden_, *input))
      read.insert(rounded_numbers(golden_.tensors[tensor].print));
  }
  for (const std::uint32_t op : ops) {
    if (target_.op(op).kind != OpKind::contraction || target_.ops[op].inputs.size() != 2) continue;
    for (const std::uint32_t input : target_.ops[op].inputs) {
      const Relation& relation = judgement_.relations[input];
      if (is_bad(judgement_.standings[input]) || !relation || relation.weak || comes_from_weight(input)) continue;
      const bool is_one = std::ranges::all_of(
          relation.parts, [&](const RelationPart& part) { return part.golden == relation.golden(); });
      if (!is_one || relation.kind == RelationKind::cut) continue;
      const std::uint32_t other = relation.golden();
      if (read.contains(rounded_numbers(golden_.tensors[other].print))) continue;
      return NumberApart{
          op, fmt::format("reads golden {}, which the golden attention does not read", golden_.name_of(other))};
    }
  }
  return std::nullopt;
}

// Operators between the product and the softmax that read a mask.
std::vector<std::uint32_t> StepsApart::hiders_before(const std::vector<std::uint32_t>& ops,
                                                     std::uint32_t softmax) const {
  std::vector<std::uint32_t> found;
  const PoolTensor& last = target_.tensors[target_.ops[softmax].inputs.front()];
  const std::uint64_t scores = element_count(last.of.tensor->shape);
  for (std::uint32_t at = last.op; at != kNoOp;) {
    if (std::ranges::find(ops, at) == ops.end() || target_.op(at).kind == OpKind::contraction) break;
    const std::vector<std::uint32_t>& inputs = target_.ops[at].inputs;
    if (inputs.size() > 1) found.push_back(at);
    const auto before = std::ranges::find_if(inputs, [&](std::uint32_t input) {
      return target_.tensors[input].has_fractions() && element_count(target_.tensors[input].of.tensor->shape) == scores;
    });
    at = before == inputs.end() ? kNoOp : target_.tensors[*before].op;
  }
  return found;
}

// The share of the scores that the golden attention hides, if types and statistics show it; nothing: it is not known.
std::optional<double> StepsApart::golden_hidden_share(std::uint32_t attention) const {
  if (const std::optional<std::uint32_t> mask = input_at(golden_, attention, 3)) {
    const PoolTensor& tensor = golden_.tensors[*mask];
    if (tensor.print.count == 0 || tensor.dtype() != DType::bool8) return std::nullopt;
    return 1 - tensor.print.whole.sum / static_cast<double>(tensor.print.count);
  }
  if (number_in(golden_.catalog_op(attention), "is_causal").value_or(0) == 0) return 0;
  const std::optional<std::uint32_t> query = input_at(golden_, attention, 0), key = input_at(golden_, attention, 1);
  if (!query || !key) return std::nullopt;
  const std::vector<std::int64_t> q = golden_.tensors[*query].whole_shape(), k = golden_.tensors[*key].whole_shape();
  if (q.size() < 2 || k.size() < 2) return std::nullopt;
  const std::int64_t rows = q[q.size() - 2], columns = k[k.size() - 2];
  double hidden = 0;
  for (std::int64_t row = 0; row < rows; ++row)
    hidden += static_cast<double>(std::max<std::int64_t>(0, columns - 1 - row));
  return hidden / static_cast<double>(rows * columns);
}

std::optional<NumberApart> StepsApart::hides_another(const std::vector<std::uint32_t>& ops,
                                                     std::uint32_t attention) const {
  const auto softmax = std::ranges::find_if(ops, [&](std::uint32_t op) { return type_of(op) == "softmax"; });
  if (target_.ops[*softmax].inputs.empty()) return std::nullopt;
  const std::optional<double> share = golden_hidden_share(attention);
  const std::vector<std::uint32_t> hiders = hiders_before(ops, *softmax);
  const bool golden_hides = !share || *share > 0;
  if (hiders.empty() && golden_hides) {
    return NumberApart{*softmax, "reads all scores, and the golden attention hides some of them"};
  }
  for (const std::uint32_t hider : hiders) {
    if (auto apart = of_mask(hider)) return apart;
  }
  return std::nullopt;
}

std::optional<NumberApart> StepsApart::of_mask(std::uint32_t op) const {
  const std::optional<std::uint32_t> attention = golden_op(kAttention);
  const std::optional<double> share = attention ? golden_hidden_share(*attention) : std::nullopt;
  if (!share || target_.ops[op].inputs.size() < 2) return std::nullopt;
  for (const std::uint32_t input : target_.ops[op].inputs) {
    const PoolTensor& mask = target_.tensors[input];
    if (mask.dtype() != DType::bool8 || mask.print.count == 0) continue;
    const double own = mask.print.whole.sum / static_cast<double>(mask.print.count);
    constexpr double kSlack = 1e-4;  // of an average with six digits
    if (std::abs(own - *share) < kSlack || std::abs(1 - own - *share) < kSlack) continue;
    return NumberApart{mask.op == kNoOp ? op : mask.op,
                       fmt::format("makes a mask that is true for {:.3g} % of the scores, and the golden attention "
                                   "hides {:.3g} %",
                                   100 * own, 100 * *share)};
  }
  return std::nullopt;
}

// `repeat` puts the heads of keys behind each other, and grouped queries need each beside itself.
std::optional<NumberApart> StepsApart::repeats_in_turn(const std::vector<std::uint32_t>& ops,
                                                       std::uint32_t attention) const {
  const std::optional<std::uint32_t> query = input_at(golden_, attention, 0), key = input_at(golden_, attention, 1);
  if (!query || !key) return std::nullopt;
  const auto heads_of = [](const std::vector<std::int64_t>& shape) {
    return shape.size() < 3 ? 1 : shape[shape.size() - 3];
  };
  bool is_grouped = heads_of(golden_.tensors[*query].whole_shape()) != heads_of(golden_.tensors[*key].whole_shape());
  for (const std::uint32_t tensor : moved_from(golden_, *key)) {
    const std::uint32_t maker = golden_.tensors[tensor].op;
    if (maker == kNoOp) continue;
    if (golden_.is_type(maker, "repeat")) return std::nullopt;
    is_grouped = is_grouped || golden_.is_type(maker, "expand") || golden_.is_type(maker, "repeatinterleave");
  }
  if (!is_grouped) return std::nullopt;
  for (const std::uint32_t op : ops) {
    if (target_.op(op).kind != OpKind::contraction) continue;
    for (const std::uint32_t input : target_.ops[op].inputs) {
      for (const std::uint32_t tensor : moved_from(target_, input)) {
        const std::uint32_t maker = target_.tensors[tensor].op;
        if (maker == kNoOp || type_of(maker) != "repeat" || target_.ops[maker].inputs.empty()) continue;
        const std::vector<std::int64_t> from = target_.tensors[target_.ops[maker].inputs[0]].whole_shape(),
                                        to = target_.tensors[tensor].whole_shape();
        for (std::size_t i = 1; i <= std::min(from.size(), to.size()); ++i) {
          const std::int64_t before = from[from.size() - i], after = to[to.size() - i];
          if (before == 1 || before == after) continue;
          return NumberApart{maker,
                             fmt::format("repeats {} heads in turn, and the golden run each beside itself", before)};
        }
      }
    }
  }
  return std::nullopt;
}

std::optional<NumberApart> StepsApart::of_repeats(const std::vector<std::uint32_t>& ops) const {
  for (const std::uint32_t op : ops) {
    if (target_.op(op).kind != OpKind::contraction || target_.ops[op].outputs.empty()) continue;
    for (const std::uint32_t other : judgement_.golden.ops) {
      const std::vector<std::uint32_t>& theirs = golden_.ops[other].outputs;
      if (golden_.op(other).kind != OpKind::contraction || theirs.empty() || judgement_.met[theirs[0]]) continue;
      if (golden_.tensors[theirs[0]].print.count != target_.tensors[target_.ops[op].outputs[0]].print.count) continue;
      if (auto apart = repeats_in_turn({op}, other)) return apart;
    }
  }
  return std::nullopt;
}

bool StepsApart::is_made_by(std::uint32_t tensor, std::string_view type) const {
  const std::uint32_t maker = target_.tensors[tensor].op;
  return maker != kNoOp && type_of(maker) == type;
}

// The state of a cell: a sum of two products.
bool StepsApart::is_state(std::uint32_t tensor) const {
  if (!is_made_by(tensor, "add")) return false;
  const std::vector<std::uint32_t>& terms = target_.ops[target_.tensors[tensor].op].inputs;
  return terms.size() == 2 && std::ranges::all_of(terms, [&](std::uint32_t term) { return is_made_by(term, "mul"); });
}

// The part of four gates that the operator reads alone; nothing: it does not.
std::optional<std::uint32_t> StepsApart::gate_of(std::uint32_t op) const {
  constexpr std::size_t kGates = 4;
  if (target_.ops[op].inputs.size() != 1 || moves_or_casts(target_.op(op).kind)) return std::nullopt;
  const PoolTensor& part = target_.tensors[target_.ops[op].inputs[0]];
  if (part.op == kNoOp || target_.ops[part.op].outputs.size() != kGates) return std::nullopt;
  const auto& parts = target_.ops[part.op].outputs;
  return static_cast<std::uint32_t>(std::ranges::find(parts, target_.ops[op].inputs[0]) - parts.begin());
}

// In PyTorch's order the third of four gates goes through tanh, and the others through sigmoid.
std::optional<NumberApart> StepsApart::of_gate(std::uint32_t op) const {
  constexpr std::uint32_t kFresh = 2;
  const std::optional<std::uint32_t> gate = gate_of(op);
  if (!gate) return std::nullopt;
  const std::string_view wanted = *gate == kFresh ? "tanh" : "sigmoid";
  if (type_of(op) == wanted) return std::nullopt;
  // If another one than the third goes through tanh, and the third does not, the gates have another order.
  bool is_fresh_bent = false, is_other_bent = false;
  for (const std::uint32_t part : target_.ops[target_.tensors[target_.ops[op].inputs[0]].op].outputs) {
    for (const std::uint32_t reader : target_.tensors[part].readers) {
      if (type_of(reader) != "tanh" || !gate_of(reader)) continue;
      (*gate_of(reader) == kFresh ? is_fresh_bent : is_other_bent) = true;
    }
  }
  if (!is_fresh_bent && is_other_bent) return std::nullopt;
  return NumberApart{op, fmt::format("reads gate {} of 4, and the golden LSTM computes {} of it", *gate + 1, wanted)};
}

// The state is forget · state + in · tanh(fresh), and the result is out · tanh(state).
std::optional<NumberApart> StepsApart::of_lstm_op(std::uint32_t op) const {
  const std::vector<std::uint32_t>& inputs = target_.ops[op].inputs;
  const std::string type = type_of(op);
  if (std::optional<NumberApart> apart = of_gate(op)) return apart;
  if ((type == "sigmoid" || type == "tanh") && inputs.size() == 1 && is_made_by(inputs[0], "add")) {
    const std::uint32_t sum = target_.tensors[inputs[0]].op;
    if (number_read(target_.op(sum)))
      return NumberApart{sum, "adds a number to a gate, which the golden LSTM does not"};
  }
  if (type != "mul" || inputs.size() != 2 || target_.ops[op].outputs.empty()) return std::nullopt;
  const bool is_added = std::ranges::any_of(target_.tensors[target_.ops[op].outputs[0]].readers,
                                            [&](std::uint32_t reader) { return type_of(reader) == "add"; });
  const bool reads_state = (is_made_by(inputs[0], "sigmoid") && is_state(inputs[1])) ||
                           (is_made_by(inputs[1], "sigmoid") && is_state(inputs[0]));
  if (reads_state && !is_added) {
    return NumberApart{op, "multiplies a gate by the state itself, and the golden LSTM by its tanh"};
  }
  return std::nullopt;
}

// Of a loop: an operator that ran in one of its repetitions.
std::optional<NumberApart> StepsApart::once_of_many() const {
  std::map<std::tuple<std::string_view, std::int64_t, std::string_view>, std::vector<std::uint32_t>> calls;
  for (std::uint32_t op = 0; op < target_.ops.size(); ++op) {
    const CatalogOp& own = target_.catalog_op(op);
    if (target_.is_of_forward(op)) calls[{own.source_file, own.line, own.op_type}].push_back(op);
  }
  std::uint32_t first = kNoOp, last = 0;
  std::size_t most = 0;
  for (const auto& [place, ops] : calls) {
    if (ops.size() <= most) continue;
    most = ops.size();
    first = ops.front();
    last = ops.back();
  }
  constexpr std::size_t kFewest = 3;
  if (most < kFewest) return std::nullopt;
  for (const std::uint32_t op : judgement_.target.ops) {
    const CatalogOp& own = target_.catalog_op(op);
    if (op <= first || op >= last || !target_.is_of_forward(op)) continue;
    if (calls[{own.source_file, own.line, own.op_type}].size() > 1) continue;
    return NumberApart{op, "runs in one repetition of a loop, and in no other"};
  }
  return std::nullopt;
}

std::optional<NumberApart> StepsApart::of_recurrence() const {
  const bool is_lstm = golden_op("lstm").has_value();
  if (!is_lstm && !golden_op("gru") && !golden_op("rnntanh") && !golden_op("rnnrelu")) return std::nullopt;
  for (const std::uint32_t op : judgement_.target.ops) {
    if (!is_lstm) break;
    if (!target_.is_of_forward(op)) continue;
    if (std::optional<NumberApart> apart = of_lstm_op(op)) return apart;
  }
  return once_of_many();
}

std::optional<NumberApart> StepsApart::of_labels(const std::vector<std::uint32_t>& ops) const {
  constexpr std::string_view kLoss = "crossentropyloss";
  const std::optional<std::uint32_t> golden = golden_op(kLoss);
  const auto loss = std::ranges::find_if(ops, [&](std::uint32_t op) { return type_of(op) == kLoss; });
  if (!golden || loss == ops.end()) return std::nullopt;
  const std::optional<std::uint32_t> own = input_at(target_, *loss, 1), theirs = input_at(golden_, *golden, 1);
  if (!own || !theirs) return std::nullopt;
  const TensorPrint &mine = target_.tensors[*own].print, &other = golden_.tensors[*theirs].print;
  if (!mine.whole_numbers || !other.whole_numbers || mine.count > other.count) return std::nullopt;
  // Labels that the golden loss ignores may be left out.
  const double ignored = number_in(golden_.catalog_op(*golden), "ignore_index").value_or(-100);
  const double left_out = static_cast<double>(other.count - mine.count);
  const double sum = other.whole.sum - left_out * ignored;
  const double squares = other.whole.norm * other.whole.norm - left_out * ignored * ignored;
  constexpr double kSlack = 1e-4;
  const double scale = other.whole.norm * other.whole.norm + 1;
  const bool are_same = std::abs(mine.whole.sum - sum) < kSlack * scale &&
                        std::abs(mine.whole.norm * mine.whole.norm - squares) < kSlack * scale;
  std::uint32_t chooser = kNoOp;
  for (const std::uint32_t tensor : moved_from(target_, *own)) {
    if (target_.tensors[tensor].op != kNoOp) chooser = target_.tensors[tensor].op;
  }
  if (are_same || chooser == kNoOp) return std::nullopt;
  return NumberApart{chooser, "gives other labels than those of the golden loss"};
}

}  // namespace sonde
