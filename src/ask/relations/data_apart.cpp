#include "ask/relations/data_apart.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>

#include "ask/compare/compare_words.h"
#include "ask/relations/element_order.h"
#include "ask/relations/order_of_parts.h"
#include "ask/relations/regions.h"
#include "ask/relations/search.h"
#include "ask/relations/standings.h"
#include "ask/relations/weights_by_name.h"
#include "read/operators/op_nature.h"

namespace sonde {
namespace {

constexpr std::string_view kOtherValues = "gives other values than the golden operator reads there";
constexpr std::string_view kOfAnother = "computes of another golden tensor what the golden run goes on with";
constexpr std::string_view kOtherPart = "gives another part of a golden tensor than the golden run reads";
constexpr std::string_view kOtherOrder = "gives golden values in another order";

// Operators of plain functions have a phase of their own.
bool is_backward(const Pool& pool, std::uint32_t op) { return phase_of(pool.catalog_op(op)) == Phase::backward; }

// Golden axes that together are one of the target, such as rows and columns of patches, in another order.
bool exchanges_axes(const Relation& relation, const std::vector<std::int64_t>& own,
                    const std::vector<std::int64_t>& theirs) {
  if (relation.kind != RelationKind::permuted || relation.turns_target) return false;
  std::size_t axis = 0;
  std::int64_t size = 1;
  for (std::size_t i = 0; i < relation.order.size() && axis < own.size(); ++i) {
    if (relation.order[i] >= theirs.size()) return false;
    if (size > 1 && relation.order[i] < relation.order[i - 1]) return true;
    size *= theirs[relation.order[i]];
    if (size < own[axis]) continue;
    size = 1;
    ++axis;
  }
  return false;
}

// The operator that joined what `op` takes apart again: `data` are one of its parts, as if neither had run.
std::uint32_t taken_apart_again(const Pool& pool, std::uint32_t op, std::uint32_t data) {
  if (op == kNoOp || !moves_or_casts(pool.op(op).kind) || pool.ops[op].inputs.size() != 1) return kNoOp;
  const std::uint32_t joiner = joiner_of(pool, pool.ops[op].inputs.front());
  if (joiner == kNoOp) return kNoOp;
  const RoundedNumbers own = rounded_numbers(pool.tensors[data].print);
  const auto is_it = [&](std::uint32_t part) { return rounded_numbers(pool.tensors[part].print) == own; };
  return std::ranges::any_of(pool.ops[joiner].inputs, is_it) ? joiner : kNoOp;
}

}  // namespace

bool chooses(const Pool& pool, std::uint32_t op) {
  const std::vector<std::uint32_t>&inputs = pool.ops[op].inputs, &outputs = pool.ops[op].outputs;
  return inputs.size() != 1 || outputs.empty() ||
         pool.tensors[inputs[0]].print.count != pool.tensors[outputs[0]].print.count;
}

bool DataApart::is_good(std::uint32_t tensor) const { return !is_bad(judgement_.standings[tensor]); }

bool DataApart::is_plain(std::uint32_t tensor) const { return !target_.tensors[tensor].has_fractions(); }

std::optional<Culprit> DataApart::read_with_weights() const {
  for (const std::uint32_t op : region_.ops) {
    const std::vector<std::uint32_t>& inputs = target_.ops[op].inputs;
    if (target_.op(op).kind != OpKind::contraction && !looks_up(op)) continue;
    if (!std::ranges::all_of(inputs, [&](std::uint32_t input) { return is_good(input); })) continue;
    std::uint32_t data = kNoOp, weight = kNoOp;
    for (const std::uint32_t input : inputs) {
      if (roots_[input] == kNoOp || is_plain(input)) {
        data = input;
      } else if (weight == kNoOp && target_.tensors[input].shape.size() > 1) {
        weight = roots_[input];
      }
    }
    if (data == kNoOp || weight == kNoOp || !judgement_.relations[weight] || !judgement_.relations[data]) continue;
    std::optional<Culprit> found = golden_data_of(op, data, judgement_.relations[weight].golden());
    if (auto exchanged = found ? weight_of_these_data(op, data, weight) : std::nullopt) return exchanged;
    if (found || !looks_up(op)) return found;
  }
  return std::nullopt;
}

// A golden operator of this kind reads these data with another weight of the same shape, and its result is missed: the
// weight is that of another one, unless its name says that it is right.
std::optional<Culprit> DataApart::weight_of_these_data(std::uint32_t op, std::uint32_t data,
                                                       std::uint32_t weight) const {
  const std::uint32_t golden_weight = judgement_.relations[weight].golden();
  if (looks_up(op) || !is_surely_golden(judgement_, data) || is_named_as(target_, weight, golden_, golden_weight))
    return std::nullopt;
  for (const std::uint32_t reader : judgement_.golden.ops) {
    const PoolOp& other = golden_.ops[reader];
    if (golden_.op(reader).kind != target_.op(op).kind || is_backward(golden_, reader) || other.outputs.empty())
      continue;
    if (judgement_.met[other.outputs.front()]) continue;
    const auto is_it = [&](std::uint32_t input) { return have_same_values(target_, data, golden_, input); };
    if (std::ranges::none_of(other.inputs, is_it)) continue;
    for (const std::uint32_t input : other.inputs) {
      const std::uint32_t root = golden_roots_[input];
      if (root == kNoOp || root == golden_weight || golden_.tensors[root].shape != golden_.tensors[golden_weight].shape)
        continue;
      return Culprit{.op = op,
                     .weight = weight,
                     .golden = golden_weight,
                     .uncertain = true,
                     .was_lost = true,
                     .what = fmt::format("is golden {}, and the golden {} {} reads these data with {}",
                                         golden_.name_of(golden_weight), golden_.catalog_op(reader).op_type,
                                         place_text(golden_.catalog_op(reader)), golden_.name_of(root))};
    }
  }
  return std::nullopt;
}

// Rows of a table by numbers.
bool DataApart::looks_up(std::uint32_t op) const { return target_.is_type(op, "embedding"); }

// Of data: it chose or made them, or changed none, as a relu of what is positive: another one would.
bool DataApart::is_maker(std::uint32_t op, std::uint32_t data) const {
  if (op == kNoOp) return false;
  const std::vector<std::uint32_t>& inputs = target_.ops[op].inputs;
  const bool changes_none = inputs.size() == 1 && rounded_numbers(target_.tensors[inputs[0]].print) ==
                                                      rounded_numbers(target_.tensors[data].print);
  return changes_none || moves_or_casts(target_.op(op).kind) || target_.tensors[data].print.is_constant();
}

std::optional<Culprit> DataApart::golden_data_of(std::uint32_t op, std::uint32_t data,
                                                 std::uint32_t golden_weight) const {
  std::uint32_t other = kNoOp;
  for (const std::uint32_t reader : judgement_.golden.ops) {
    const std::vector<std::uint32_t>& inputs = golden_.ops[reader].inputs;
    const auto is_it = [&](std::uint32_t input) { return golden_roots_[input] == golden_weight; };
    if (std::ranges::none_of(inputs, is_it)) continue;
    if (is_backward(golden_, reader) != is_backward(target_, op)) continue;
    for (const std::uint32_t input : inputs) {
      // Numbers of rows may be kept in a buffer.
      const bool is_data = golden_roots_[input] == kNoOp || !golden_.tensors[input].has_fractions();
      if (!is_data || golden_.tensors[input].print.count != target_.tensors[data].print.count) continue;
      // Of several calls with this weight, such as those of a cell, one reads them.
      if (have_same_values(target_, data, golden_, input)) return std::nullopt;
      if (other == kNoOp) other = input;
    }
  }
  if (other == kNoOp) return std::nullopt;
  std::uint32_t maker = target_.tensors[data].op;
  // Rows that the golden run looks up, too, are right: the reader should read something else.
  if (maker != kNoOp && looks_up(maker) && is_surely_golden(judgement_, data)) {
    const auto words_of = [&](std::uint32_t tensor) {
      const std::uint32_t from = golden_.tensors[tensor].op;
      return from == kNoOp
                 ? std::string(golden_.name_of(tensor))
                 : fmt::format("{} {}", golden_.catalog_op(from).op_type, place_text(golden_.catalog_op(from)));
    };
    return Culprit{
        .op = op,
        .golden = other,
        .what = fmt::format("reads the result of golden {}, and the golden operator with this weight that of {}",
                            words_of(judgement_.relations[data].golden()), words_of(other))};
  }
  if (const auto order = element_order_of(target_, data); order && order->first != kNoOp) maker = order->first;
  const std::uint32_t joiner = taken_apart_again(target_, maker, data);
  if (joiner != kNoOp && taken_apart_again(golden_, golden_.tensors[other].op, other) == kNoOp) maker = joiner;
  return Culprit{.op = is_maker(maker, data) ? maker : op,
                 .golden = other,
                 .may_be_moved = true,
                 .what = std::string(kOtherValues)};
}

// The golden run has these elements in this shape, and in another order.
bool DataApart::is_in_another_order(std::uint32_t tensor) const {
  const Relation& relation = judgement_.relations[tensor];
  const auto is_of_one = [&](const RelationPart& part) { return part.golden == relation.golden(); };
  const bool is_moved = !relation.weak && (relation.kind == RelationKind::permuted ||
                                           (relation.kind == RelationKind::joined && !relation.is_of_sums &&
                                            std::ranges::all_of(relation.parts, is_of_one)));
  if (!has_values_ || !is_moved || !is_good(tensor) || !target_.tensors[tensor].has_fractions()) return false;
  const RoundedNumbers numbers = rounded_numbers(golden_.tensors[relation.golden()].print);
  if (golden_.tensors[relation.golden()].print.count != target_.tensors[tensor].print.count) return false;
  bool has_shape = false;
  for (std::uint32_t other = 0; other < golden_.tensors.size(); ++other) {
    const PoolTensor& theirs = golden_.tensors[other];
    if (theirs.op == kNoOp || theirs.shape != target_.tensors[tensor].shape || rounded_numbers(theirs.print) != numbers)
      continue;
    if (have_same_values(target_, tensor, golden_, other)) return false;
    has_shape = true;
  }
  return has_shape;
}

std::optional<Culprit> DataApart::put_in_another_order(std::uint32_t op) const {
  for (const std::uint32_t input : target_.ops[op].inputs) {
    std::uint32_t mover = kNoOp;
    for (std::uint32_t at = input; target_.tensors[at].op != kNoOp && is_in_another_order(at);) {
      const std::uint32_t maker = target_.tensors[at].op;
      if (!moves_or_casts(target_.op(maker).kind) || target_.ops[maker].inputs.size() != 1) break;
      // A product of queries with keys exchanges the axes of these.
      if (target_.is_type(maker, "mt") || target_.is_type(maker, "transpose") || target_.is_type(maker, "t")) break;
      mover = maker;
      at = target_.ops[maker].inputs.front();
    }
    if (mover != kNoOp)
      return Culprit{.op = mover,
                     .golden = judgement_.relations[input].golden(),
                     .uncertain = true,
                     .what = std::string(kOtherOrder)};
  }
  return std::nullopt;
}

std::optional<Culprit> DataApart::moved_before(const Culprit& culprit) const {
  if (std::optional<Culprit> moved = wrongly_moved(culprit.op)) {
    if (puts_in_order(target_, moved->op)) moved->op = first_irregular(moved->op);
    return moved;
  }
  if (!has_values_ || (!culprit.what.empty() && !culprit.may_be_moved)) return std::nullopt;
  std::set<std::uint32_t> seen{culprit.op};
  std::vector<std::uint32_t> waiting{culprit.op};
  std::optional<Culprit> first;
  for (std::size_t i = 0; i < waiting.size(); ++i) {
    for (const std::uint32_t input : target_.ops[waiting[i]].inputs) {
      const std::uint32_t maker = target_.tensors[input].op;
      if (maker == kNoOp || roots_[input] != kNoOp) continue;
      if (auto other = gives_other_part(input); other && (!first || other->op < first->op)) first = std::move(other);
      const bool has_order = is_good(input) && judgement_.relations[input];
      // Of the wrong parts a complex tensor may have the order of a golden one.
      if (has_order && is_regular(input) && !target_.is_type(maker, "complex")) continue;
      if (has_order && puts_in_order(target_, maker) && !reads_irregular(maker) && (!first || maker < first->op)) {
        first = Culprit{.op = maker, .golden = judgement_.relations[input].golden(), .what = std::string(kOtherOrder)};
      }
      const std::uint32_t mover = has_order ? mover_before(maker) : kNoOp;
      if (mover != kNoOp && (!first || mover < first->op)) {
        first = Culprit{.op = mover, .golden = judgement_.relations[input].golden(), .what = std::string(kOtherOrder)};
      }
      if (seen.insert(maker).second) waiting.push_back(maker);
    }
  }
  if (first && first->what == kOtherOrder && puts_in_order(target_, first->op)) first->op = first_irregular(first->op);
  return first;
}

// Joined parts may have been in another order before: the first operator that put them so.
std::uint32_t DataApart::first_irregular(std::uint32_t op) const {
  constexpr int kMostSteps = 32;
  std::uint32_t first = op;
  for (int step = 0; step < kMostSteps; ++step) {
    const std::vector<std::uint32_t>& inputs = target_.ops[op].inputs;
    const auto is_irregular = [&](std::uint32_t input) {
      return target_.tensors[input].op != kNoOp && roots_[input] == kNoOp && judgement_.relations[input] &&
             !is_regular(input);
    };
    const auto found = std::ranges::find_if(inputs, is_irregular);
    if (found == inputs.end()) break;
    op = target_.tensors[*found].op;
    if (moves_or_casts(target_.op(op).kind)) first = op;
  }
  return first;
}

// What `op` reads was only moved from what is right, and corresponds to nothing: the first operator that put its elements
// in another order, before `op` computed of it what is golden but for the order.
std::uint32_t DataApart::mover_before(std::uint32_t op) const {
  if (moves_or_casts(target_.op(op).kind)) return kNoOp;
  for (const std::uint32_t input : target_.ops[op].inputs) {
    std::uint32_t first = kNoOp;
    for (std::uint32_t at = input; roots_[at] == kNoOp && target_.tensors[at].op != kNoOp;) {
      const std::uint32_t maker = target_.tensors[at].op;
      if (!moves_or_casts(target_.op(maker).kind) || target_.ops[maker].inputs.size() != 1) break;
      if (!is_good(at) && !own_layout_.has(maker, {})) first = maker;
      at = target_.ops[maker].inputs[0];
    }
    if (first != kNoOp) return first;
  }
  return kNoOp;
}

bool DataApart::reads_irregular(std::uint32_t op) const {
  return std::ranges::any_of(target_.ops[op].inputs, [&](std::uint32_t input) {
    return target_.tensors[input].op != kNoOp && judgement_.relations[input] && !is_regular(input);
  });
}

// The tensor that this one was chosen or moved from.
std::uint32_t DataApart::golden_root(std::uint32_t tensor) const {
  constexpr int kMostMoves = 16;
  for (int i = 0; i < kMostMoves; ++i) {
    const std::uint32_t maker = golden_.tensors[tensor].op;
    if (maker == kNoOp || golden_.ops[maker].inputs.size() != 1 || !moves_or_casts(golden_.op(maker).kind)) break;
    tensor = golden_.ops[maker].inputs[0];
  }
  return tensor;
}

// A part of a golden tensor, of which the golden run reads other parts of this size.
std::optional<Culprit> DataApart::gives_other_part(std::uint32_t tensor) const {
  const Relation& relation = judgement_.relations[tensor];
  const std::uint32_t maker = target_.tensors[tensor].op;
  const bool is_part = relation.kind == RelationKind::cut && !relation.is_of_sums && !relation.weak && is_good(tensor);
  if (!is_part || !moves_or_casts(target_.op(maker).kind) || !chooses(target_, maker)) return std::nullopt;
  const RoundedNumbers whole = rounded_numbers(golden_.tensors[golden_root(relation.golden())].print);
  bool has_others = false;
  for (std::uint32_t op = 0; op < golden_.ops.size(); ++op) {
    const PoolOp& own = golden_.ops[op];
    if (own.inputs.size() != 1 || !moves_or_casts(golden_.op(op).kind)) continue;
    if (!chooses(golden_, op) || rounded_numbers(golden_.tensors[golden_root(own.inputs[0])].print) != whole) continue;
    for (const std::uint32_t output : own.outputs) {
      if (golden_.tensors[output].print.count != target_.tensors[tensor].print.count) continue;
      if (have_same_values(target_, tensor, golden_, output)) return std::nullopt;
      has_others = true;
    }
  }
  if (!has_others) return std::nullopt;
  return Culprit{.op = maker, .golden = relation.golden(), .what = std::string(kOtherPart)};
}

// A tensor that `op` reads has golden elements in an order that is not golden: the operator that moved them.
std::optional<Culprit> DataApart::wrongly_moved(std::uint32_t op) const {
  for (const std::uint32_t input : target_.ops[op].inputs) {
    std::uint32_t moved = kNoOp;
    for (std::uint32_t at = input; target_.tensors[at].op != kNoOp && !is_regular(at);) {
      const std::uint32_t maker = target_.tensors[at].op;
      if (!moves_or_casts(target_.op(maker).kind) || target_.ops[maker].inputs.empty()) break;
      moved = maker;
      at = target_.ops[maker].inputs.front();
    }
    // The order is older where its input has it, too.
    if (moved != kNoOp && !target_.ops[moved].inputs.empty()) {
      const std::uint32_t read = target_.ops[moved].inputs.front();
      const bool is_known = is_good(read) && judgement_.relations[read];
      if (target_.tensors[read].op != kNoOp && (!is_known || !is_regular(read))) continue;
    }
    if (moved != kNoOp && chooses(target_, moved))
      return Culprit{
          .op = chooser_of(moved), .golden = judgement_.relations[input].golden(), .what = std::string(kOtherOrder)};
  }
  return std::nullopt;
}

std::optional<Culprit> DataApart::read_from_inside(const Culprit& culprit) const {
  if (!has_values_ || !culprit.golden || !culprit.what.empty()) return std::nullopt;
  const std::uint32_t other = golden_.tensors[*culprit.golden].op;
  if (other == kNoOp || golden_.tensors[*culprit.golden].computed != nullptr) return std::nullopt;
  for (const std::uint32_t input : target_.ops[culprit.op].inputs) {
    const Relation& relation = judgement_.relations[input];
    if (!relation.is_whole() || relation.weak || !is_good(input) || target_.tensors[input].op == kNoOp) continue;
    const PoolTensor& inside = golden_.tensors[relation.golden()];
    if (inside.computed == nullptr || inside.op == other) continue;
    const std::vector<std::uint32_t>& results = golden_.ops[inside.op].outputs;
    const auto is_read = [&](std::uint32_t result) {
      return !judgement_.met[result] &&
             std::ranges::find(golden_.ops[other].inputs, result) != golden_.ops[other].inputs.end();
    };
    const auto result = std::ranges::find_if(results, is_read);
    if (result == results.end()) continue;
    const CatalogOp& op = golden_.catalog_op(inside.op);
    return Culprit{
        .op = target_.tensors[input].op,
        .golden = *result,
        .what = fmt::format("gives what golden {} {} computes on its way, and the golden run goes on with the result",
                            op.op_type, place_text(op))};
  }
  return std::nullopt;
}

std::optional<Culprit> DataApart::chosen_otherwise(const Culprit& culprit) const {
  if (!culprit.golden || culprit.group.size() > 1) return std::nullopt;
  const std::uint32_t other = golden_.tensors[*culprit.golden].op;
  if (other == kNoOp || golden_.op(other).kind != target_.op(culprit.op).kind) return std::nullopt;
  // The golden run may add or multiply in another order: then an operator before the golden one reads it.
  const std::vector<std::uint32_t> others = golden_.op(other).kind == OpKind::elementwise
                                                ? before_in(golden_, judgement_.golden, other)
                                                : std::vector<std::uint32_t>{other};
  for (const std::uint32_t input : target_.ops[culprit.op].inputs) {
    const std::uint32_t maker = target_.tensors[input].op;
    if (maker == kNoOp || is_plain(input) || roots_[input] != kNoOp || !judgement_.relations[input]) continue;
    if (std::optional<Culprit> computed = computed_of_another(input, others)) return computed;
    // Rows that the golden run looks up, too, are right: the reader should read something else.
    if (looks_up(maker) && judgement_.relations[input].is_whole() && is_surely_golden(judgement_, input)) continue;
    // Of several parts the reader chose one.
    const bool has_parts = target_.ops[maker].outputs.size() > 1;
    const bool has_choice = chooses(target_, maker) && !has_parts && !repeats_one_head(input);
    if (!moves_or_casts(target_.op(maker).kind) || !has_choice || reads_same(others, input)) continue;
    return Culprit{.op = chooser_of(maker), .golden = culprit.golden, .what = std::string(kOtherValues)};
  }
  return std::nullopt;
}

// A golden tensor that the golden operators do not read; they read what one of the same kind as its maker computes of
// something else.
std::optional<Culprit> DataApart::computed_of_another(std::uint32_t tensor,
                                                      const std::vector<std::uint32_t>& golden_ops) const {
  const std::uint32_t maker = target_.tensors[tensor].op;
  if (moves_or_casts(target_.op(maker).kind) || !is_surely_golden(judgement_, tensor)) return std::nullopt;
  if (reads_same(golden_ops, tensor)) return std::nullopt;
  for (const std::uint32_t op : golden_ops) {
    for (const std::uint32_t input : golden_.ops[op].inputs) {
      const std::uint32_t other = golden_.tensors[input].op;
      if (other == kNoOp || judgement_.met[input]) continue;
      if (golden_.tensors[input].print.count != target_.tensors[tensor].print.count) continue;
      if (!OpFamilies::same(*target_.op(maker).family, *golden_.op(other).family)) continue;
      if (std::optional<Culprit> table = table_of_another(maker, other)) return table;
      return Culprit{.op = maker, .golden = input, .what = std::string(kOfAnother)};
    }
  }
  return std::nullopt;
}

// The function reads a table or a weight that the program keeps, and the result of each reader differs.
std::optional<Culprit> DataApart::table_of_another(std::uint32_t op, std::uint32_t golden_op) const {
  const PoolOp &own = target_.ops[op], &theirs = golden_.ops[golden_op];
  if (own.inputs.size() != 1 || theirs.inputs.size() != 1) return std::nullopt;
  const std::uint32_t table = own.inputs[0];
  const PoolTensor& kept = target_.tensors[table];
  const bool is_kept = kept.op == kNoOp && kept.is_weight() && is_surely_golden(judgement_, table);
  if (!is_kept || have_same_values(target_, table, golden_, theirs.inputs[0])) return std::nullopt;
  const auto gives_wrong = [&](std::uint32_t reader) {
    return std::ranges::none_of(target_.ops[reader].outputs, [&](std::uint32_t output) {
      return std::ranges::any_of(target_.tensors[output].readers,
                                 [&](std::uint32_t next) { return !region_.has[next] && target_.is_of_forward(next); });
    });
  };
  if (!std::ranges::all_of(kept.readers, gives_wrong)) return std::nullopt;
  return Culprit{
      .op = op,
      .weight = table,
      .golden = judgement_.relations[table].golden(),
      .what = fmt::format("is golden {}, where the golden run reads {}",
                          golden_.name_of(judgement_.relations[table].golden()), golden_.name_of(theirs.inputs[0]))};
}

bool DataApart::reads_same(const std::vector<std::uint32_t>& golden_ops, std::uint32_t tensor) const {
  bool has_like = false;
  for (const std::uint32_t op : golden_ops) {
    for (const std::uint32_t input : golden_.ops[op].inputs) {
      if (golden_.tensors[input].print.count != target_.tensors[tensor].print.count) continue;
      has_like = true;
      if (have_same_values(target_, tensor, golden_, input)) return true;
    }
  }
  return !has_like;
}

// The operator itself, or the one that made the indices that it reads, if no golden tensor has them.
std::uint32_t DataApart::chooser_of(std::uint32_t op) const {
  for (const std::uint32_t input : target_.ops[op].inputs) {
    const std::uint32_t maker = target_.tensors[input].op;
    if (maker == kNoOp || !is_plain(input)) continue;
    if (!is_good(input) || (puts_in_order(target_, maker) && looks_up_others(op, input))) return maker;
    if (is_turned(input)) return first_turned(maker);
  }
  return op;
}

// The golden run looks up as many rows of this table, and by other numbers.
bool DataApart::looks_up_others(std::uint32_t op, std::uint32_t numbers) const {
  if (!looks_up(op) || !has_values_ || target_.ops[op].inputs.size() != 2) return false;
  const std::uint32_t table = roots_[target_.ops[op].inputs[0]];
  if (table == kNoOp || !is_surely_golden(judgement_, table)) return false;
  bool has_others = false;
  for (const PoolOp& other : golden_.ops) {
    const bool is_of_table =
        other.inputs.size() == 2 && golden_roots_[other.inputs[0]] == judgement_.relations[table].golden();
    if (!is_of_table || golden_.tensors[other.inputs[1]].has_fractions()) continue;
    if (golden_.tensors[other.inputs[1]].shape != target_.tensors[numbers].shape) continue;
    if (have_same_values(target_, numbers, golden_, other.inputs[1])) return false;
    has_others = true;
  }
  return has_others;
}

// Golden numbers of rows, with rows and columns exchanged.
bool DataApart::is_turned(std::uint32_t tensor) const {
  return judgement_.relations[tensor].kind == RelationKind::permuted;
}

// The operator that exchanged them, before others computed of them.
std::uint32_t DataApart::first_turned(std::uint32_t op) const {
  for (std::size_t i = 0; i < target_.ops[op].inputs.size(); ++i) {
    const std::uint32_t input = target_.ops[op].inputs[i];
    const std::uint32_t maker = target_.tensors[input].op;
    if (maker != kNoOp && is_plain(input) && is_turned(input)) return first_turned(maker);
  }
  return op;
}

std::vector<std::int64_t> DataApart::golden_shape(const Relation& relation) const {
  return relation ? golden_.tensors[relation.golden()].shape : std::vector<std::int64_t>{};
}

// One matrix of rows, as the keys that all heads share, several times: there is no order to choose.
bool DataApart::repeats_one_head(std::uint32_t tensor) const {
  const PoolOp& op = target_.ops[target_.tensors[tensor].op];
  if (op.inputs.size() != 1 || !moves_or_casts(target_.op(target_.tensors[tensor].op).kind)) return false;
  const PoolTensor& read = target_.tensors[op.inputs[0]];
  const std::int64_t rows = read.shape.empty() ? 1 : read.shape.front();
  return read.op != kNoOp && read.shape.size() == 2 && read.print.count > 0 &&
         target_.tensors[tensor].print.count > read.print.count && rows > 1 &&
         target_.tensors[tensor].shape.size() == 3 && target_.tensors[tensor].shape[1] == rows;
}

// Joined parts of one golden tensor go forward, each perhaps several times, without gaps where tensors are joined.
bool DataApart::is_regular(std::uint32_t tensor) const {
  const Relation& relation = judgement_.relations[tensor];
  if (exchanges_axes(relation, target_.tensors[tensor].shape, golden_shape(relation))) return false;
  if (repeats_one_head(tensor)) return is_regular(target_.ops[target_.tensors[tensor].op].inputs[0]);
  // An operator that chooses rows by their numbers leaves others out.
  const std::vector<std::uint32_t>& inputs = target_.ops[target_.tensors[tensor].op].inputs;
  const bool is_joined = std::ranges::count_if(inputs, [&](std::uint32_t input) { return !is_plain(input); }) > 1;
  if (relation.kind != RelationKind::joined || relation.is_of_sums) return true;
  const std::vector<RelationPart>& parts = relation.parts;
  for (std::size_t i = 1; i < parts.size(); ++i) {
    if (parts[i].golden != parts[0].golden || parts[i].axis != parts[0].axis) return true;
    const std::int64_t last = parts[i - 1].start + parts[i - 1].step * (parts[i - 1].count - 1);
    if (parts[i].start < last || (is_joined && parts[i].start != last + 1)) return false;
  }
  return true;
}

}  // namespace sonde
