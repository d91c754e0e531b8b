#include "ask/relations/blame.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "ask/compare/compare_words.h"
#include "ask/compare/tolerance.h"
#include "ask/relations/element_order.h"
#include "ask/relations/ends_apart.h"
#include "ask/relations/ends_without_inputs.h"
#include "ask/relations/intermediates.h"
#include "ask/relations/joins.h"
#include "ask/relations/joins_of_steps.h"
#include "ask/relations/op_to_blame.h"
#include "ask/relations/order_of_parts.h"
#include "ask/relations/regions.h"
#include "ask/relations/repeated_lines.h"
#include "ask/relations/search.h"
#include "ask/relations/standings.h"
#include "ask/relations/verify.h"
#include "ask/relations/weights_apart.h"
#include "read/operators/op_nature.h"

namespace sonde {
namespace {

// Its products are golden: it holds golden weights in a form of its own, such as those of a convolution with its norm.
bool gives_golden(const Pool& target, const RelationJudgement& judgement, std::uint32_t weight) {
  return std::ranges::any_of(target.tensors[weight].readers, [&](std::uint32_t reader) {
    const std::vector<std::uint32_t>& outputs = target.ops[reader].outputs;
    return target.op(reader).kind == OpKind::contraction && !outputs.empty() &&
           std::ranges::all_of(outputs, [&](std::uint32_t output) { return is_surely_golden(judgement, output); });
  });
}

void count_weights(const Pool& target, const Pool& golden, RelationJudgement& judgement) {
  std::map<std::vector<std::int64_t>, int> shapes;
  const auto sorted = [](std::vector<std::int64_t> shape) {
    std::ranges::sort(shape);
    return shape;
  };
  for (const PoolTensor& other : golden.tensors) {
    if (other.is_weight()) ++shapes[sorted(other.shape)];
  }
  std::size_t alike = 0;
  for (std::uint32_t i = 0; i < target.tensors.size(); ++i) {
    const PoolTensor& own = target.tensors[i];
    if (!own.is_weight() || own.step != 0 || own.print.proves_nothing()) continue;
    ++judgement.weights;
    judgement.related_weights += static_cast<bool>(judgement.relations[i]) || gives_golden(target, judgement, i);
    int& left = shapes[sorted(own.shape)];
    if (left-- > 0) ++alike;
  }
  const bool few = 2 * judgement.related_weights < judgement.weights;
  judgement.weights_are_others = few && 2 * alike > judgement.weights;
  judgement.nothing_corresponds = few && !judgement.weights_are_others;
}

// Scores whose hidden elements have another large number, or none.
Relation masked(const Pool& target, std::uint32_t tensor, const Pool& golden) {
  Relation found;
  if (!target.tensors[tensor].has_fractions()) return found;
  for (std::uint32_t i = 0; i < golden.tensors.size(); ++i) {
    const PoolTensor& other = golden.tensors[i];
    if (other.op == kNoOp || other.print.count != target.tensors[tensor].print.count) continue;
    if (!same_but_for_mask(target, tensor, golden, i)) continue;
    found.kind = RelationKind::same;
    found.parts = {{.golden = i}};
    found.weak = target.tensors[tensor].print.proves_nothing();
    found.difference.by = ComparedBy::values;
    found.difference.dtype = found.difference.golden_dtype = target.tensors[tensor].dtype();
    break;
  }
  return found;
}

// Some libraries hide scores by -inf, and others by the least number of the type.
void relate_masked(const Pool& target, const Pool& golden, Search& search, std::vector<Relation>& relations) {
  for (std::uint32_t i = 0; i < target.tensors.size(); ++i) {
    const TensorPrint& print = target.tensors[i].print;
    if (relations[i] || target.tensors[i].op == kNoOp || print.count == 0 || !print.by_values) continue;
    if (print.non_finite == 0 && !has_hidden(print.min, print.max)) continue;
    relations[i] = masked(target, i, golden);
    search.note(relations[i]);
  }
}

// Golden operators of the region, and those that read what the target's region reads: a result of the target may be that
// of one of them.
std::vector<std::uint32_t> golden_ops_to_look_into(const Pool& target, const Pool& golden,
                                                   const RelationJudgement& judgement) {
  std::vector<std::uint32_t> ops = judgement.golden.ops;
  std::set<RoundedNumbers> read;  // also as a view or copy
  for (const std::uint32_t op : judgement.target.ops) {
    for (const std::uint32_t input : target.ops[op].inputs) {
      const Relation& relation = judgement.relations[input];
      if (!relation || relation.weak || judgement.is_weight[input]) continue;
      for (const RelationPart& part : relation.parts) read.insert(rounded_numbers(golden.tensors[part.golden].print));
    }
  }
  for (std::uint32_t op = 0; op < golden.ops.size(); ++op) {
    const bool reads_it = std::ranges::any_of(golden.ops[op].inputs, [&](std::uint32_t input) {
      return read.contains(rounded_numbers(golden.tensors[input].print));
    });
    if (reads_it && !judgement.golden.has[op]) ops.push_back(op);
  }
  return ops;
}

// Joined of results and of what is inside of operators: a part lacks a bias.
bool is_half_inside(const Pool& golden, const Relation& relation) {
  const auto is_inside = [&](const RelationPart& part) { return golden.tensors[part.golden].computed != nullptr; };
  return relation && std::ranges::any_of(relation.parts, is_inside) && !std::ranges::all_of(relation.parts, is_inside);
}

// The target may compute step by step the values inside of golden operators. False: nothing new is found.
bool look_again_inside(const Pool& target, Pool& golden, const Threads& threads, RelationJudgement& judgement,
                       std::set<std::uint32_t>& known) {
  std::vector<std::uint32_t> ops = golden_ops_to_look_into(target, golden, judgement);
  std::erase_if(ops, [&](std::uint32_t op) { return !known.insert(op).second; });
  if (!add_intermediates(golden, ops)) return false;
  Search search(target, golden, threads);
  for (std::uint32_t i = 0; i < target.tensors.size(); ++i) {
    const std::uint32_t op = target.tensors[i].op;
    if (judgement.standings[i] != Standing::alone || op == kNoOp || !judgement.target.has[op]) continue;
    judgement.relations[i] = search.find(i);
    if (is_half_inside(golden, judgement.relations[i])) judgement.relations[i] = {};
    if (!judgement.relations[i]) judgement.relations[i] = masked(target, i, golden);
  }
  judgement.met.resize(golden.tensors.size());
  for (std::size_t i = 0; i < judgement.met.size(); ++i) judgement.met[i] |= search.met()[i];
  judge_standings(target, golden, judgement);
  find_regions(target, golden, judgement);
  return true;
}

}  // namespace

namespace {

// Parameters, and data that are golden ones.
void find_weights(const Pool& target, const Pool& golden, RelationJudgement& judgement) {
  judgement.is_weight.resize(target.tensors.size());
  for (std::uint32_t i = 0; i < target.tensors.size(); ++i) {
    const PoolTensor& own = target.tensors[i];
    const Relation& relation = judgement.relations[i];
    judgement.is_weight[i] =
        own.is_weight() || (own.op == kNoOp && relation && golden.tensors[relation.golden()].is_weight());
  }
  count_weights(target, golden, judgement);
}

// The golden tensor that a result is, or, of a function whose result corresponds to nothing, that the same function gives
// there and that has nearly its norm.
std::optional<std::uint32_t> like_of_call(const Pool& target, const Pool& golden, const RelationJudgement& judgement,
                                          std::uint32_t output) {
  const Relation& relation = judgement.relations[output];
  if (relation)
    return relation.kind == RelationKind::same && !relation.weak ? std::optional(relation.golden()) : std::nullopt;
  const PoolTensor& own = target.tensors[output];
  const PoolOp& op = target.ops[own.op];
  const OpKind kind = target.op(own.op).kind;
  const bool is_function =
      (kind == OpKind::elementwise || kind == OpKind::transcendental || kind == OpKind::exact) && op.inputs.size() == 1;
  if (!is_function || own.print.proves_nothing() || !is_surely_golden(judgement, op.inputs[0])) return std::nullopt;
  constexpr double kNearly = 0.1;
  for (const std::uint32_t reader : golden.tensors[judgement.relations[op.inputs[0]].golden()].readers) {
    if (target.catalog_op(own.op).op_type != golden.catalog_op(reader).op_type) continue;
    for (const std::uint32_t result : golden.ops[reader].outputs) {
      const TensorPrint& print = golden.tensors[result].print;
      const double apart = std::abs(print.whole.norm - own.print.whole.norm);
      if (!judgement.met[result] && print.count == own.print.count && apart <= kNearly * print.whole.norm)
        return result;
    }
  }
  return std::nullopt;
}

// The golden operator reads the golden tensor itself, or a copy, and not a multiple of it.
bool may_be_read_by(const Pool& golden, std::uint32_t op, const Relation& relation) {
  if (!relation.is_whole()) return true;
  const RoundedNumbers numbers = rounded_numbers(golden.tensors[relation.golden()].print);
  return std::ranges::any_of(golden.ops[op].inputs, [&](std::uint32_t input) {
    return input == relation.golden() || rounded_numbers(golden.tensors[input].print) == numbers;
  });
}

// The first operator that reads the same as the golden one of its type, is called with other numbers or in another mode,
// and gives more than rounding of its own: the call shows why, although later results may hide it.
std::optional<Culprit> called_otherwise(const Pool& target, const Pool& golden, const RelationJudgement& judgement) {
  constexpr double kOwnRounding = 2;  // spacings
  const auto differs = [&](std::uint32_t tensor) {
    const TensorDifference& difference = judgement.relations[tensor].difference;
    return difference.relative() > kOwnRounding * coarser_spacing(difference);
  };
  for (std::uint32_t op = 0; op < target.ops.size(); ++op) {
    for (const std::uint32_t output : target.ops[op].outputs) {
      const std::optional<std::uint32_t> like = like_of_call(target, golden, judgement, output);
      if (!like || (judgement.relations[output] && !differs(output))) continue;
      const std::uint32_t other = golden.tensors[*like].op;
      if (other == kNoOp || target.catalog_op(op).op_type != golden.catalog_op(other).op_type) continue;
      if (!std::ranges::all_of(target.ops[op].inputs, [&](std::uint32_t input) {
            return judgement.relations[input] && !judgement.relations[input].weak && !differs(input) &&
                   may_be_read_by(golden, other, judgement.relations[input]);
          }))
        continue;
      const std::vector<std::string> apart = values_apart(target.catalog_op(op), golden.catalog_op(other));
      if (apart.empty()) continue;
      return Culprit{.op = op, .golden = *like, .like = output, .what = "is called with " + apart.front()};
    }
  }
  return std::nullopt;
}

// By statistics: a result is joined of golden parts, in another order than the golden run joins them.
std::optional<Culprit> end_joined_otherwise(const Pool& target, const Pool& golden,
                                            const RelationJudgement& judgement) {
  if (target.has_values() && golden.has_values()) return std::nullopt;
  for (std::uint32_t i = static_cast<std::uint32_t>(target.tensors.size()); i-- > 0;) {
    if (!is_end(target, i, false, true) || target.tensors[i].print.proves_nothing()) continue;
    if (auto joined = joined_otherwise(target, golden, judgement, i)) return joined;
  }
  return std::nullopt;
}

// The last result is joined of the elements of a golden one, in another order.
std::optional<Culprit> reordered_end(const Pool& target, const Pool& golden, const RelationJudgement& judgement) {
  for (std::uint32_t i = static_cast<std::uint32_t>(target.tensors.size()); i-- > 0;) {
    const Relation& relation = judgement.relations[i];
    const PoolTensor& own = target.tensors[i];
    if (relation.kind != RelationKind::joined || relation.is_of_sums || relation.weak || !own.print.by_values) continue;
    if (own.op == kNoOp || !puts_in_order(target, own.op)) continue;
    if (!is_end(target, i, false, true) || own.print.proves_nothing()) continue;
    for (std::uint32_t other = 0; other < golden.tensors.size(); ++other) {
      const PoolTensor& theirs = golden.tensors[other];
      if (theirs.op == kNoOp || theirs.shape != own.shape || !is_end(golden, other, false, true)) continue;
      if (!agree(own.print, theirs.print, tolerance_for(own, theirs))) continue;
      if (have_same_values(target, i, golden, other)) return std::nullopt;
      const CatalogOp& op = golden.catalog_op(theirs.op);
      return Culprit{.op = own.op,
                     .uncertain = true,
                     .what = fmt::format("gives the elements of the golden result of {} {}, {}, in another order",
                                         op.op_type, op.op_name, place_text(op))};
    }
  }
  return std::nullopt;
}

// A fault that no result of the target shows.
std::optional<Culprit> quiet_fault(const Pool& target, const Pool& golden, const RelationJudgement& judgement) {
  if (!judgement.target.empty()) return std::nullopt;
  std::optional<Culprit> culprit = called_otherwise(target, golden, judgement);
  if (!culprit) culprit = reordered_end(target, golden, judgement);
  if (!culprit) culprit = end_joined_otherwise(target, golden, judgement);
  return culprit ? culprit : early_end(target, golden, judgement);
}

// All results of one side are in the other: what else differs has no effect.
bool has_no_effect(const RelationJudgement& judgement) { return judgement.target.empty() || judgement.golden.empty(); }

std::vector<Checked> check_claims(const Pool& target, const Pool& golden, const Threads& threads,
                                  const MapClaims& claims) {
  std::vector<Checked> checked(target.tensors.size());
  threads.for_each(checked.size(), [&](std::size_t i) {
    const auto tensor = static_cast<std::uint32_t>(i);
    if (!claims.of[i] || target.tensors[i].print.count == 0) return;
    checked[i] = check_claim(target, tensor, golden, *claims.of[i]);
    checked[i].relation.weak = target.tensors[i].print.proves_nothing();
  });
  return checked;
}

// Tensors that are alike by chance contradict a map by chance.
bool must_fit(const PoolTensor& tensor) { return tensor.is_weight() || !tensor.print.proves_nothing(); }

// "the map says wq = golden in_proj_weight, the values do not: …"
class Contradictions {
 public:
  Contradictions(const Pool& target, const Pool& golden, const MapClaims& claims, RelationJudgement& judgement)
      : target_(target), golden_(golden), claims_(claims), judgement_(judgement) {}

  // `found`: what the values show; empty: nothing.
  void add(std::uint32_t tensor, const Relation& found) {
    std::string line = fmt::format("the map says {} = {}, the values do not", name_of(tensor),
                                   relation_text(*claims_.of[tensor], golden_));
    if (found) line += fmt::format(": it is {}", relation_text(found, golden_));
    all_.push_back({tensor, static_cast<bool>(found), std::move(line)});
  }

  // Those that follow from others are a number. The standings are known.
  void conclude() {
    std::size_t others = 0;
    for (One& one : all_) {
      const std::uint32_t op = target_.tensors[one.tensor].op;
      const bool follows = !one.is_found && op != kNoOp && std::ranges::any_of(target_.ops[op].inputs, [&](auto input) {
        return is_bad(judgement_.standings[input]);
      });
      if (follows) {
        ++others;
        continue;
      }
      const Relation& relation = judgement_.relations[one.tensor];
      if (!one.is_found && relation) one.line += fmt::format(": relative error {:.3g}", relation.difference.relative());
      judgement_.contradictions.push_back(std::move(one.line));
    }
    if (others > 0) {
      judgement_.contradictions.push_back(
          fmt::format("{} of the map besides: the values differ, and so do those that their operators read",
                      others == 1 ? "1 entry" : fmt::format("{} entries", others)));
    }
  }

 private:
  struct One {
    std::uint32_t tensor;
    bool is_found;
    std::string line;
  };

  std::string name_of(std::uint32_t tensor) const {
    const std::string_view name = target_.name_of(tensor);
    return name.empty() ? "data from outside" : std::string(name);
  }

  const Pool& target_;
  const Pool& golden_;
  const MapClaims& claims_;
  RelationJudgement& judgement_;
  std::vector<One> all_;
};

// Views and copies of golden tensors that correspond, too: they have the same numbers, up to the order of additions.
void meet_copies(const Pool& golden, std::vector<char>& met) {
  std::set<RoundedNumbers> known;
  for (std::size_t i = 0; i < met.size(); ++i) {
    if (met[i]) known.insert(rounded_numbers(golden.tensors[i].print));
  }
  for (std::size_t i = 0; i < met.size(); ++i) {
    if (known.contains(rounded_numbers(golden.tensors[i].print))) met[i] = 1;
  }
}

// Their comparison gives the numbers of both.
bool is_compared_whole(const PoolTensor& tensor, const Pool& golden, const Relation& claim) {
  if (!claim.is_whole()) return false;
  const PoolTensor& other = golden.tensors[claim.golden()];
  return tensor.print.by_values && other.print.by_values && tensor.print.count == other.print.count &&
         tensor.print.count > 0;
}

void take_numbers(Relation& relation, PoolTensor& tensor, PoolTensor& other) {
  const PairSums& sums = relation.difference.sums;
  tensor.print.whole = {sums.sum, std::sqrt(sums.squares)};
  tensor.print.min = sums.min;
  tensor.print.max = sums.max;
  tensor.print.non_finite = sums.non_finite_pairs();
  other.print.whole = {sums.golden_sum, std::sqrt(sums.golden_squares)};
  other.print.min = sums.golden_min;
  other.print.max = sums.golden_max;
  other.print.non_finite = sums.non_finite_pairs();
  for (PoolTensor* one : {&tensor, &other}) one->print.whole_numbers = !one->has_fractions();
  relation.weak = tensor.print.proves_nothing();
}

// An operator of the group reads the weight, or what only moves it.
bool is_read_in(const Pool& target, std::uint32_t weight, const std::vector<std::uint32_t>& group) {
  constexpr std::size_t kMost = 64;
  std::vector<std::uint32_t> waiting{weight};
  for (std::size_t i = 0; i < waiting.size() && i < kMost; ++i) {
    for (const std::uint32_t reader : target.tensors[waiting[i]].readers) {
      if (std::ranges::find(group, reader) != group.end()) return true;
      if (!moves_or_casts(target.op(reader).kind)) continue;
      const std::vector<std::uint32_t>& outputs = target.ops[reader].outputs;
      waiting.insert(waiting.end(), outputs.begin(), outputs.end());
    }
  }
  return false;
}

}  // namespace

std::optional<RelationJudgement> judge_by_map(Pool& target, Pool& golden, const Threads& threads,
                                              const MapClaims& claims) {
  RelationJudgement judgement;
  judgement.standings.resize(target.tensors.size(), Standing::unknown);
  std::vector<char> wanted(target.tensors.size(), 1), golden_wanted(golden.tensors.size(), 1);
  for (std::uint32_t i = 0; i < target.tensors.size(); ++i) {
    if (!claims.of[i] || !is_compared_whole(target.tensors[i], golden, *claims.of[i])) continue;
    wanted[i] = 0;
    golden_wanted[claims.of[i]->golden()] = 0;
  }
  for (const std::optional<Relation>& claim : claims.of) {
    if (claim && claim->kind == RelationKind::constant) golden_wanted[claim->golden()] = 1;
  }
  target.read_wholes(threads, wanted);
  golden.read_wholes(threads, golden_wanted);
  std::vector<Checked> checked = check_claims(target, golden, threads, claims);
  for (std::uint32_t i = 0; i < target.tensors.size(); ++i) {
    if (wanted[i]) continue;
    if (!checked[i].fits) return std::nullopt;
    take_numbers(checked[i].relation, target.tensors[i], golden.tensors[claims.of[i]->golden()]);
  }
  Search search(target, golden, threads);
  for (std::uint32_t i = 0; i < target.tensors.size(); ++i) {
    const PoolTensor& own = target.tensors[i];
    const bool is_said = claims.of[i] && checked[i].is_known && checked[i].fits;
    if (own.print.count > 0 && !is_said && must_fit(own)) return std::nullopt;
    Relation& relation = judgement.relations.emplace_back(is_said ? std::move(checked[i].relation) : Relation());
    search.note(relation);
  }
  judgement.met = search.met();
  meet_copies(golden, judgement.met);
  judge_standings(target, golden, judgement);
  find_weights(target, golden, judgement);
  find_regions(target, golden, judgement);
  if (!has_no_effect(judgement) || quiet_fault(target, golden, judgement)) return std::nullopt;
  return judgement;
}

RelationJudgement judge_relations(const Pool& target, Pool& golden, const Threads& threads, const MapClaims* claims) {
  RelationJudgement judgement;
  Search search(target, golden, threads);
  judgement.relations.resize(target.tensors.size());
  judgement.standings.resize(target.tensors.size(), Standing::unknown);
  for (std::uint32_t i = 0; i < target.tensors.size(); ++i) judgement.relations[i] = search.find(i);
  relate_masked(target, golden, search, judgement.relations);
  judgement.met = search.met();
  relate_by_sums(target, golden, judgement.relations, judgement.met);
  relate_over_loops(target, golden, judgement.relations, judgement.met);
  judgement.counts_over_steps = relate_over_steps(target, golden, judgement.relations, judgement.met);
  std::optional<Contradictions> contradictions;
  if (claims != nullptr) {
    contradictions.emplace(target, golden, *claims, judgement);
    std::vector<Checked> checked = check_claims(target, golden, threads, *claims);
    for (std::uint32_t i = 0; i < target.tensors.size(); ++i) {
      if (!claims->of[i] || target.tensors[i].print.count == 0 || !checked[i].is_known) continue;
      Relation& found = judgement.relations[i];
      if (!checked[i].fits && !must_fit(target.tensors[i])) continue;
      if (!checked[i].fits) contradictions->add(i, found);
      // Where the program has changed, a name may mean another operator.
      const bool is_like = checked[i].relation && checked[i].relation.difference.cosine >= 0.5;
      if (checked[i].fits || (!found && is_like)) found = std::move(checked[i].relation);
      if (checked[i].fits) search.note(found);
    }
  }
  for (std::size_t i = 0; i < judgement.met.size(); ++i) judgement.met[i] |= search.met()[i];
  judge_standings(target, golden, judgement);
  if (contradictions) contradictions->conclude();
  find_weights(target, golden, judgement);
  if (judgement.nothing_corresponds || judgement.weights_are_others) return judgement;

  find_regions(target, golden, judgement);
  std::optional<Culprit> quiet = quiet_fault(target, golden, judgement);
  if (!quiet && judgement.golden.empty()) quiet = late_end(target, golden, judgement);
  if (quiet) judgement.culprits.push_back(*quiet);
  const bool has_edges = has_inputs(target) && has_inputs(golden);
  if (has_edges && has_no_effect(judgement)) {
    settle_without_edges(target, golden, judgement);
    return judgement;
  }
  std::set<std::uint32_t> known;  // golden operators that were looked into
  constexpr int kMostRounds = 3;  // what is explained shows others that are not
  for (int i = 0; i < kMostRounds && !judgement.target.empty(); ++i) {
    if (!look_again_inside(target, golden, threads, judgement, known)) break;
  }
  if (!has_edges || judgement.target.empty()) {
    settle_without_edges(target, golden, judgement);
    return judgement;
  }
  Culprit op = op_to_blame(target, golden, judgement);
  judgement.culprits = weights_to_blame(target, golden, judgement);
  if (!knows_edges(target) || !knows_edges(golden)) drop_running_statistics(target, judgement);
  // A weight that is read later cannot be the cause, but by an operator that may be meant.
  std::erase_if(judgement.culprits, [&](const Culprit& weight) {
    return weight.op > op.op && !weight.was_lost &&
           !(weight.weight ? is_read_in(target, *weight.weight, op.group)
                           : std::ranges::find(op.group, weight.op) != op.group.end());
  });
  const bool has_values = target.has_values() && golden.has_values();
  std::optional<Culprit> reordered = has_values ? std::nullopt : weight_of_other_layer(target, golden, judgement, op);
  if (reordered) judgement.culprits.push_back(std::move(*reordered));
  judgement.culprits.push_back(std::move(op));
  settle_without_edges(target, golden, judgement);
  return judgement;
}

}  // namespace sonde
