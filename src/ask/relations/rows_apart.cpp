#include "ask/relations/rows_apart.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "ask/relations/standings.h"
#include "ask/relations/verify.h"
#include "read/operators/op_nature.h"

namespace sonde {
namespace {

constexpr double kSameRow = 1e-5;  // of embeddings, which are copied

bool looks_up_tokens(const Pool& pool, std::uint32_t op) {
  return pool.is_type(op, "embedding") && !pool.ops[op].outputs.empty();
}

// Sum and norm of each row, where the last axis is a row.
const std::vector<Extent>* extents_of(const PoolTensor& tensor) {
  if (tensor.shape.size() > 2) return &tensor.print.rows;
  return tensor.shape.size() == 2 ? &tensor.print.parts[0] : nullptr;
}

}  // namespace

RowsApart::RowsApart(const Pool& target, const Pool& golden, const RelationJudgement& judgement)
    : target_(target), golden_(golden), judgement_(judgement), from_tokens_(golden.ops.size()) {
  for (std::uint32_t op = 0; op < golden.ops.size(); ++op) {
    const PoolOp& own = golden.ops[op];
    const bool follows = std::ranges::any_of(own.inputs, [&](std::uint32_t input) {
      const std::uint32_t maker = golden.tensors[input].op;
      return maker != kNoOp && from_tokens_[maker] != 0;
    });
    if (follows) from_tokens_[op] = 1;
    if (length_ != 0 || !looks_up_tokens(golden, op)) continue;
    const std::vector<std::int64_t> shape = golden.tensors[own.outputs[0]].whole_shape();
    constexpr std::size_t kAxes = 3;
    if (shape.size() != kAxes) continue;
    from_tokens_[op] = 1;
    sequences_ = shape[0];
    length_ = shape[1];
  }
}

std::optional<NumberApart> RowsApart::find() const {
  if (length_ < 2) return std::nullopt;
  if (auto apart = has_other_positions()) return apart;
  return reads_other_sequences();
}

std::optional<RowsApart::Rows> RowsApart::rows_of(std::uint32_t tensor) const {
  const Relation& relation = judgement_.relations[tensor];
  const bool is_of_rows = relation.kind == RelationKind::cut || relation.kind == RelationKind::joined;
  if (!is_of_rows || relation.is_of_sums || !relation.merged.empty()) return std::nullopt;
  Rows rows{.golden = relation.golden(), .at = {}};
  const std::vector<std::int64_t>& shape = golden_.tensors[rows.golden].shape;
  constexpr std::size_t kAxes = 3;
  if (shape.size() == kAxes && relation.parts.size() == 1 && relation.parts[0].axis == 1) {
    // The same tokens of all sequences.
    const RelationPart& part = relation.parts[0];
    for (std::int64_t sequence = 0; sequence < shape[0]; ++sequence) {
      for (std::int64_t i = 0; i < part.count; ++i) rows.at.push_back(sequence * shape[1] + part.start + i * part.step);
    }
    return rows;
  }
  const std::int32_t axis = shape.size() > 2 ? kAxisOfRows : 0;
  for (const RelationPart& part : relation.parts) {
    if (relation.axis > 0 || part.golden != rows.golden || part.axis != axis) return std::nullopt;
    for (std::int64_t i = 0; i < part.count; ++i) rows.at.push_back(part.start + i * part.step);
  }
  return rows;
}

std::optional<RowsApart::Tokens> RowsApart::tokens_of(std::uint32_t step) const {
  for (std::uint32_t op = 0; op < target_.ops.size(); ++op) {
    if (target_.ops[op].step != step || !looks_up_tokens(target_, op)) continue;
    const std::uint32_t output = target_.ops[op].outputs[0];
    std::optional<Rows> rows = rows_of(output);
    if (!rows) continue;
    const std::uint32_t maker = golden_.tensors[rows->golden].op;
    if (maker != kNoOp && from_tokens_[maker] && looks_up_tokens(golden_, maker)) return Tokens{output, *rows};
  }
  return std::nullopt;
}

// One row for each place in a sequence, whatever the tokens are: angles of a rotation, embeddings of positions.
bool RowsApart::is_of_positions(std::uint32_t golden) const {
  const PoolTensor& tensor = golden_.tensors[golden];
  return tensor.op != kNoOp && !from_tokens_[tensor.op] && tensor.shape.size() == 2 && tensor.shape[0] == length_;
}

// The first token that no golden sequence has at its position.
std::optional<std::size_t> RowsApart::first_misplaced(const Tokens& tokens, const Rows& positions) const {
  const PoolTensor &own = target_.tensors[tokens.tensor], &other = golden_.tensors[tokens.rows.golden];
  const std::vector<Extent>* theirs = extents_of(other);
  if (theirs == nullptr || theirs->size() != static_cast<std::size_t>(sequences_ * length_)) return std::nullopt;
  for (std::size_t row = 0; row < positions.at.size(); ++row) {
    const Extent& wanted = positions.at.size() == 1 ? own.print.whole : (*extents_of(own))[row];
    bool is_there = false;
    for (std::int64_t sequence = 0; sequence < sequences_; ++sequence) {
      const auto place = static_cast<std::size_t>(sequence * length_ + positions.at[row]);
      is_there = is_there || agree(wanted, (*theirs)[place], other.print.count / theirs->size(), kSameRow);
    }
    if (!is_there) return row;
  }
  return std::nullopt;
}

// Whole numbers, one for each token, of which `op` computes; kNoOp: there are none.
std::uint32_t RowsApart::maker_of_numbers(std::uint32_t op, std::size_t count) const {
  std::vector<std::uint32_t> waiting{op};
  constexpr std::size_t kMost = 64;
  for (std::size_t i = 0; i < waiting.size() && i < kMost; ++i) {
    for (const std::uint32_t input : target_.ops[waiting[i]].inputs) {
      const PoolTensor& own = target_.tensors[input];
      if (own.op != kNoOp) waiting.push_back(own.op);
      if (own.has_fractions() || own.is_weight() || own.print.count != count || own.op != kNoOp) continue;
      // The step before has the operators that run between two calls of the model.
      std::uint32_t maker = kNoOp;
      for (const PoolTensor& made : target_.tensors) {
        if (made.op == kNoOp || made.step + 1 != own.step || made.dtype() != own.dtype()) continue;
        if (made.shape == own.shape && rounded_numbers(made.print) == rounded_numbers(own.print)) maker = made.op;
      }
      if (maker != kNoOp) return maker;
    }
  }
  return kNoOp;
}

std::optional<NumberApart> RowsApart::has_other_positions() const {
  for (std::uint32_t step = 0; step < target_.steps.size(); ++step) {
    const std::optional<Tokens> tokens = tokens_of(step);
    if (!tokens) continue;
    for (std::uint32_t op = 0; op < target_.ops.size(); ++op) {
      if (target_.ops[op].step != step || target_.ops[op].outputs.size() != 1) continue;
      const std::optional<Rows> positions = rows_of(target_.ops[op].outputs[0]);
      if (!positions || positions->at.size() != tokens->rows.at.size() || !is_of_positions(positions->golden)) continue;
      const std::optional<std::size_t> row = first_misplaced(*tokens, *positions);
      if (!row) continue;
      const std::uint32_t maker = maker_of_numbers(op, positions->at.size());
      return NumberApart{maker == kNoOp ? op : maker,
                         fmt::format("gives position {} to the token of row {}, which is number {} of its sequence",
                                     positions->at[*row], *row, tokens->rows.at[*row] % length_)};
    }
  }
  return std::nullopt;
}

// The rows of this part are in that golden sequence, too: sequences that begin alike have the same rows there.
bool RowsApart::is_in(std::int64_t sequence, const RelationPart& part) const {
  const PoolTensor& other = golden_.tensors[part.golden];
  const std::int64_t rows = size_along(other.shape, part.axis), of_one = rows / sequences_;
  for (std::int64_t i = 0; i < part.count; ++i) {
    const std::int64_t row = part.start + i * part.step, moved = sequence * of_one + row % of_one;
    const Extent &a = other.print.rows[static_cast<std::size_t>(row)],
                 &b = other.print.rows[static_cast<std::size_t>(moved)];
    if (row != moved && !agree(a, b, other.print.count / static_cast<std::uint64_t>(rows), kSameRow)) return false;
  }
  return true;
}

// "rows of golden sequence 1 beside those of 2"; empty: all are of one sequence, or it is not known.
std::string RowsApart::sequences_in(const Relation& relation) const {
  const bool is_of_rows = relation.kind == RelationKind::cut || relation.kind == RelationKind::joined;
  if (!is_of_rows || relation.is_of_sums) return {};
  for (const RelationPart& part : relation.parts) {
    if (part.axis != kAxisOfRows || golden_.tensors[part.golden].shape[0] != sequences_) return {};
  }
  std::int64_t best = 0, most = -1;
  for (std::int64_t sequence = 0; sequence < sequences_; ++sequence) {
    std::int64_t rows = 0;
    for (const RelationPart& part : relation.parts) rows += is_in(sequence, part) ? part.count : 0;
    if (rows > most) std::tie(best, most) = std::pair(sequence, rows);
  }
  for (const RelationPart& part : relation.parts) {
    if (is_in(best, part)) continue;
    const std::int64_t of_one = size_along(golden_.tensors[part.golden].shape, part.axis) / sequences_;
    return fmt::format("rows of golden sequence {} beside those of {}", part.start / of_one, best);
  }
  return {};
}

// Of moves before `tensor`, the first that gives what corresponds.
std::uint32_t RowsApart::first_move(std::uint32_t tensor) const {
  for (;;) {
    const std::uint32_t maker = target_.tensors[tensor].op;
    if (maker == kNoOp || !moves_or_casts(target_.op(maker).kind) || target_.ops[maker].inputs.size() != 1)
      return maker;
    const std::uint32_t before = target_.ops[maker].inputs[0];
    if (!judgement_.relations[before] || is_bad(judgement_.standings[before])) return maker;
    tensor = before;
  }
}

// An attention of one sequence that reads keys or values of another one, too.
std::optional<NumberApart> RowsApart::reads_other_sequences() const {
  if (sequences_ < 2) return std::nullopt;
  for (const std::uint32_t op : judgement_.target.ops) {
    const PoolOp& own = target_.ops[op];
    if (!target_.is_type(op, "scaleddotproductattention")) continue;
    constexpr std::uint32_t kKeys = 1, kValues = 2;
    for (std::size_t i = 0; i < own.inputs.size(); ++i) {
      const std::vector<std::int64_t> shape = target_.tensors[own.inputs[i]].whole_shape();
      const bool is_read_by_all = own.slots[i] == kKeys || own.slots[i] == kValues;
      if (!is_read_by_all || shape.empty() || shape[0] != 1) continue;
      const std::string sequences = sequences_in(judgement_.relations[own.inputs[i]]);
      if (sequences.empty()) continue;
      const std::uint32_t maker = first_move(own.inputs[i]);
      return NumberApart{maker == kNoOp ? op : maker, "gives an attention of one sequence " + sequences};
    }
  }
  return std::nullopt;
}

bool RowsApart::reads_only_right(std::uint32_t op) const {
  // Of rows and keys so far: a cut along two axes, which is not found.
  const bool is_of_weight = std::ranges::any_of(
      target_.ops[op].inputs, [&](std::uint32_t input) { return target_.tensors[input].holds_weights; });
  if (target_.op(op).kind == OpKind::contraction && !is_of_weight) return false;
  return std::ranges::none_of(target_.ops[op].inputs, [&](std::uint32_t input) {
    return is_bad(judgement_.standings[input]) && !target_.tensors[input].print.proves_nothing();
  });
}

std::optional<std::uint32_t> RowsApart::first_expected(bool of_right_inputs) const {
  std::set<LinePlace> right;
  std::set<std::string_view> right_calls;  // of a line that runs two products, each one
  for (std::uint32_t i = 0; i < target_.tensors.size(); ++i) {
    const PoolTensor& own = target_.tensors[i];
    const Relation& relation = judgement_.relations[i];
    const bool is_right = own.op != kNoOp && judgement_.standings[i] == Standing::good && relation && !relation.weak &&
                          relation.kind != RelationKind::constant && own.has_fractions();
    if (!is_right) continue;
    right.insert(line_of(target_.catalog_op(own.op)));
    right_calls.insert(target_.catalog_op(own.op).op_name);
  }
  for (const std::uint32_t op : judgement_.target.ops) {
    const CatalogOp& own = target_.catalog_op(op);
    if (!right.contains(line_of(own))) continue;
    if (of_right_inputs && (!right_calls.contains(own.op_name) || !reads_only_right(op))) continue;
    const bool is_alone = std::ranges::any_of(target_.ops[op].outputs, [&](std::uint32_t output) {
      const PoolTensor& result = target_.tensors[output];
      return judgement_.standings[output] == Standing::alone && result.has_fractions() &&
             !result.print.proves_nothing();
    });
    if (is_alone) return op;
  }
  return std::nullopt;
}

}  // namespace sonde
