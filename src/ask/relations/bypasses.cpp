#include "ask/relations/bypasses.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "ask/compare/compare_words.h"
#include "ask/relations/data_apart.h"
#include "ask/relations/element_order.h"
#include "ask/relations/standings.h"
#include "read/operators/op_family.h"

namespace sonde {
namespace {

bool moves(const Pool& pool, std::uint32_t op) { return moves_or_casts(pool.op(op).kind); }
// Moves all elements of one tensor.
bool is_view(const Pool& pool, std::uint32_t op) { return moves(pool, op) && !chooses(pool, op); }

// Indices choose what it gives.
bool looks_up(const Pool& pool, std::uint32_t op) {
  const bool writes = pool.is_type(op, "copy");
  return pool.ops[op].inputs.size() > 1 && !puts_in_order(pool, op) && !writes;
}

// Operators that read the tensor, or what only moves it: also those that move more than one tensor, or a part of it.
std::vector<std::uint32_t> consumers_of(const Pool& pool, std::uint32_t tensor, bool through_views_only) {
  constexpr std::size_t kMost = 64;
  std::set<std::uint32_t> found;
  std::vector<std::uint32_t> waiting{tensor};
  for (std::size_t i = 0; i < waiting.size() && waiting.size() < kMost; ++i) {
    for (const std::uint32_t reader : pool.tensors[waiting[i]].readers) {
      const bool passes = is_view(pool, reader);
      if (!passes && !found.insert(reader).second) continue;
      if (!passes && (through_views_only || !moves(pool, reader))) continue;
      const auto& outputs = pool.ops[reader].outputs;
      waiting.insert(waiting.end(), outputs.begin(), outputs.end());
    }
  }
  return {found.begin(), found.end()};
}

// Tensors of the same size that a few operators compute of this one and of what is known; `is_open`: by which operators.
std::vector<std::uint32_t> computed_of(const Pool& pool, std::uint32_t tensor, const auto& is_open,
                                       const auto& is_known) {
  constexpr std::size_t kMostOps = 24;
  std::vector<std::uint32_t> found, waiting{tensor};
  std::set<std::uint32_t> seen, chain{tensor};
  const auto may_read = [&](std::uint32_t input) { return chain.contains(input) || is_known(input); };
  for (std::size_t i = 0; i < waiting.size(); ++i) {
    for (const std::uint32_t reader : pool.tensors[waiting[i]].readers) {
      if (seen.size() == kMostOps || pool.op(reader).kind == OpKind::contraction) continue;
      if (!moves(pool, reader) && !is_open(reader)) continue;
      if (!std::ranges::all_of(pool.ops[reader].inputs, may_read) || !seen.insert(reader).second) continue;
      for (const std::uint32_t output : pool.ops[reader].outputs) {
        waiting.push_back(output);
        chain.insert(output);
        const bool is_of_size = pool.tensors[output].print.count == pool.tensors[tensor].print.count;
        if (is_of_size && !moves(pool, reader)) found.push_back(output);
      }
    }
  }
  return found;
}

}  // namespace

Bypasses::Bypasses(const Pool& target, const Pool& golden, const RelationJudgement& judgement)
    : target_(target), golden_(golden), judgement_(judgement) {
  for (std::uint32_t i = 0; i < golden.tensors.size(); ++i) {
    const PoolTensor& own = golden.tensors[i];
    if (own.print.count > 0 && own.computed == nullptr) by_numbers_[rounded_numbers(own.print)].push_back(i);
  }
}

const std::vector<std::uint32_t>& Bypasses::same_as(std::uint32_t golden) const {
  static const std::vector<std::uint32_t> kNone;
  const auto found = by_numbers_.find(rounded_numbers(golden_.tensors[golden].print));
  return found == by_numbers_.end() ? kNone : found->second;
}

std::vector<std::uint32_t> Bypasses::golden_consumers(std::uint32_t golden) const {
  std::set<std::uint32_t> all;
  for (const std::uint32_t one : same_as(golden)) {
    const Ops some = consumers_of(golden_, one, false);
    all.insert(some.begin(), some.end());
  }
  return {all.begin(), all.end()};
}

// The same work in both runs, although perhaps under another name. Many operators add and multiply: these also read a
// second tensor that both runs have, or a number in both.
bool Bypasses::do_the_same(std::uint32_t op, std::uint32_t other) const {
  const CompareOp &mine = target_.op(op), &theirs = golden_.op(other);
  if (puts_in_order(target_, op) && puts_in_order(golden_, other)) return true;
  if (take_parts_alike(op, other)) return true;
  const bool is_telling = mine.kind == OpKind::contraction || mine.kind == OpKind::normalization;
  if (is_telling && mine.kind == theirs.kind) return true;
  if (!OpFamilies::same(*mine.family, *theirs.family)) return false;
  const bool reads_one = target_.ops[op].inputs.size() < 2, golden_reads_one = golden_.ops[other].inputs.size() < 2;
  return reads_one ? golden_reads_one : read_one_tensor(op, other);
}

// Halves of heads by `chunk` or by two slices.
bool Bypasses::take_parts_alike(std::uint32_t op, std::uint32_t other) const {
  const auto part_of = [](const Pool& pool, std::uint32_t one) -> std::uint64_t {
    const PoolOp& own = pool.ops[one];
    const bool takes_part = moves(pool, one) && own.inputs.size() == 1 && chooses(pool, one) && !own.outputs.empty();
    return takes_part ? pool.tensors[own.outputs.front()].print.count : 0;
  };
  const std::uint64_t own = part_of(target_, op);
  return own > 0 && own == part_of(golden_, other);
}

bool Bypasses::read_one_tensor(std::uint32_t op, std::uint32_t other) const {
  const std::vector<std::uint32_t>& theirs = golden_.ops[other].inputs;
  return std::ranges::any_of(target_.ops[op].inputs, [&](std::uint32_t input) {
    if (!is_golden(input)) return false;
    const std::vector<std::uint32_t>& same = same_as(judgement_.relations[input].golden());
    return std::ranges::any_of(theirs, [&](std::uint32_t one) { return std::ranges::find(same, one) != same.end(); });
  });
}

// It is a whole golden tensor, and not by chance.
bool Bypasses::is_golden(std::uint32_t tensor) const {
  const Relation& relation = judgement_.relations[tensor];
  const bool is_proof = !relation.weak || target_.tensors[tensor].is_weight();
  return relation.is_whole() && is_proof && !is_bad(judgement_.standings[tensor]) &&
         target_.tensors[tensor].has_fractions() && golden_.tensors[relation.golden()].computed == nullptr;
}

std::vector<std::uint32_t> Bypasses::with_movers(const Ops& ops) const {
  std::set<std::uint32_t> all(ops.begin(), ops.end());
  Ops waiting = ops;
  for (std::size_t i = 0; i < waiting.size(); ++i) {
    for (const std::uint32_t input : target_.ops[waiting[i]].inputs) {
      const std::uint32_t maker = target_.tensors[input].op;
      if (maker != kNoOp && moves(target_, maker) && all.insert(maker).second) waiting.push_back(maker);
    }
  }
  return {all.begin(), all.end()};
}

std::optional<Culprit> Bypasses::find(const Ops& group, const Ops& beside) const {
  Ops ops = group;
  std::ranges::copy_if(beside, std::back_inserter(ops), [&](std::uint32_t op) { return reads_no_bad(op); });
  for (const std::uint32_t op : with_movers(ops)) {
    if (is_view(target_, op)) continue;
    if (std::optional<Culprit> found = left_out_behind(op)) return found;
  }
  return std::nullopt;
}

// What `op` reads, also further back as far as it was only moved.
std::optional<Culprit> Bypasses::left_out_behind(std::uint32_t op) const {
  constexpr std::size_t kMost = 64;
  struct Read {
    std::uint32_t tensor, reader;
  };
  std::vector<Read> waiting;
  for (const std::uint32_t input : target_.ops[op].inputs) waiting.push_back({input, op});
  for (std::size_t i = 0; i < waiting.size() && i < kMost; ++i) {
    const Read read = waiting[i];
    if (is_golden(read.tensor)) {
      if (std::optional<Culprit> found = left_out_before(op, read.tensor)) {
        found->op = first_of_moves(read.tensor, read.reader, *found->like);
        found->like.reset();
        return found;
      }
    }
    const std::uint32_t maker = target_.tensors[read.tensor].op;
    if (maker == kNoOp || !moves(target_, maker) || looks_up(target_, maker)) continue;
    // One that others read, too, did no harm to them.
    const std::uint32_t reader = target_.tensors[read.tensor].readers.size() == 1 ? maker : read.reader;
    for (const std::uint32_t input : target_.ops[maker].inputs) waiting.push_back({input, reader});
  }
  return std::nullopt;
}

// `reader` takes a part of what was only moved, for it alone: the first of these operators that reads the tensor in the
// form from which the golden run goes on. What lies before only makes it.
std::uint32_t Bypasses::first_of_moves(std::uint32_t tensor, std::uint32_t reader, std::uint32_t golden) const {
  if (!moves(target_, reader)) return reader;
  std::uint32_t first = reader;
  while (target_.tensors[tensor].shape != golden_.tensors[golden].shape) {
    const std::uint32_t maker = target_.tensors[tensor].op;
    if (maker == kNoOp || !is_view(target_, maker) || target_.tensors[tensor].readers.size() != 1) return reader;
    tensor = target_.ops[maker].inputs[0];
    if (!is_golden(tensor)) return reader;
    first = maker;
  }
  return first;
}

bool Bypasses::reads_no_bad(std::uint32_t op) const {
  return std::ranges::none_of(target_.ops[op].inputs,
                              [&](std::uint32_t input) { return is_bad(judgement_.standings[input]); });
}

// Of the tensor the target computes something that corresponds to nothing, by an operator that is neither like `like` nor
// like one of `direct`, which read the golden tensor: it may be what the golden run computes.
bool Bypasses::is_computed_otherwise(std::uint32_t tensor, std::uint32_t like, const Ops& direct) const {
  return std::ranges::any_of(consumers_of(target_, tensor, true), [&](std::uint32_t op) {
    const auto is_of_family = [&](std::uint32_t other) {
      return OpFamilies::same(*target_.op(op).family, *golden_.op(other).family);
    };
    return judgement_.target.has[op] && !moves(target_, op) && !do_the_same(op, like) &&
           std::ranges::none_of(direct, is_of_family);
  });
}

// An operator that changes nothing, such as a dropout of an evaluation, is not what was left out.
std::uint32_t Bypasses::maker_of_values(std::uint32_t golden) const {
  std::uint32_t op = golden_.tensors[golden].op;
  while (golden_.ops[op].inputs.size() == 1) {
    const std::uint32_t input = golden_.ops[op].inputs[0];
    const bool is_copy =
        rounded_numbers(golden_.tensors[input].print) == rounded_numbers(golden_.tensors[golden].print);
    if (!is_copy || golden_.tensors[input].op == kNoOp) break;
    op = golden_.tensors[input].op;
  }
  return op;
}

// "reads the result of golden linear NAME, net.py:5, of which the golden run first computes silu NAME, net.py:6"
std::string Bypasses::what_of(std::uint32_t read, std::uint32_t left_out) const {
  const auto named = [&](std::uint32_t op) {
    const CatalogOp& own = golden_.catalog_op(op);
    return fmt::format("{} {}, {}", own.op_type, own.op_name, place_text(own));
  };
  const std::uint32_t maker = golden_.tensors[read].op;
  return fmt::format(
      "reads {}, of which the golden run first computes {}",
      maker == kNoOp ? fmt::format("golden {}", golden_.name_of(read)) : "the result of golden " + named(maker),
      named(left_out));
}

// The golden tensor or its last view, of which an operator of the golden region computes something.
std::uint32_t Bypasses::last_form_of(std::uint32_t golden) const {
  for (const std::uint32_t one : same_as(golden)) {
    const bool is_last = std::ranges::any_of(golden_.tensors[one].readers, [&](std::uint32_t reader) {
      return judgement_.golden.has[reader] && !moves(golden_, reader);
    });
    if (is_last) return one;
  }
  return golden;
}

std::optional<Culprit> Bypasses::left_out_before(std::uint32_t op, std::uint32_t tensor) const {
  const std::uint32_t golden = judgement_.relations[tensor].golden();
  const Ops direct = golden_consumers(golden);
  const auto is_like = [&](std::uint32_t other) { return do_the_same(op, other); };
  if (std::ranges::any_of(direct, is_like)) return std::nullopt;
  const auto is_open = [&](std::uint32_t other) {
    return judgement_.golden.has[other] && std::ranges::none_of(golden_.ops[other].outputs, [&](std::uint32_t output) {
             return judgement_.met[output] != 0;
           });
  };
  const auto is_known = [&](std::uint32_t input) {
    return golden_.tensors[input].op == kNoOp || judgement_.met[input] || !golden_.tensors[input].has_fractions();
  };
  for (const std::uint32_t one : same_as(golden)) {
    for (const std::uint32_t result : computed_of(golden_, one, is_open, is_known)) {
      for (const std::uint32_t reader : consumers_of(golden_, result, false)) {
        if (!is_like(reader) || is_computed_otherwise(tensor, reader, direct)) continue;
        return Culprit{.op = op, .like = last_form_of(golden), .what = what_of(golden, maker_of_values(result))};
      }
    }
  }
  return std::nullopt;
}

}  // namespace sonde
