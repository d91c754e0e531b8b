#include "ask/relations/repeated_lines.h"

#include <fmt/format.h>

#include <algorithm>

#include "ask/relations/regions.h"
#include "ask/relations/roots_of_weights.h"
#include "ask/relations/standings.h"
#include "read/operators/op_nature.h"

namespace sonde {
namespace {

class RepeatedLines {
 public:
  RepeatedLines(const Pool& target, const Pool& golden, const RelationJudgement& judgement)
      : target_(target), golden_(golden), judgement_(judgement), roots_(roots_of(target, judgement.is_weight)) {}

  std::optional<Culprit> find(const Culprit& culprit) const {
    const std::uint32_t twin = twin_of(culprit.op);
    if (twin == kNoOp || !gives_golden(twin) || !culprit.what.empty()) return std::nullopt;
    // Gradients and norms: the results of the forward pass and the weight that is read say more.
    const std::vector<std::uint32_t>& inputs = target_.ops[culprit.op].inputs;
    const bool reads_weight = std::ranges::any_of(inputs, [&](std::uint32_t input) { return roots_[input] != kNoOp; });
    const bool is_other_than_product = reads_weight && target_.op(culprit.op).kind != OpKind::contraction;
    if (is_other_than_product || phase_of(target_.catalog_op(culprit.op)) == Phase::backward) return std::nullopt;
    for (const std::uint32_t op : before_in(target_, judgement_.target, culprit.op)) {
      const auto is_of_weight = [&](std::uint32_t output) { return roots_[output] != kNoOp; };
      if (std::ranges::any_of(target_.ops[op].outputs, is_of_weight)) continue;
      const std::uint32_t other = twin_of(op);
      if (other == kNoOp || !are_called_alike(op, other)) return std::nullopt;
    }
    const std::vector<Read> others = weights_before(twin);
    for (const Read& read : weights_before(culprit.op)) {
      const auto is_it = [&](const Read& other) { return other.weight == read.weight; };
      if (std::ranges::any_of(others, is_it)) continue;
      const Relation& relation = judgement_.relations[read.weight];
      if (!relation || relation.weak || is_bad(judgement_.standings[read.weight])) continue;
      return Culprit{
          .op = read.op,
          .weight = read.weight,
          .golden = relation.golden(),
          .uncertain = true,
          .what = fmt::format("has the numbers of {}, and what is computed from it differs, although the same lines "
                              "give golden results in another layer: its elements are in another order",
                              relation_text(relation, golden_))};
    }
    return std::nullopt;
  }

  // Those of a group whose line nowhere gives what is good, if most of the group's lines do.
  std::vector<std::uint32_t> without_good_twin(const std::vector<std::uint32_t>& group) const {
    std::vector<std::uint32_t> alone;
    for (const std::uint32_t op : group) {
      if (!has_good_twin(op)) alone.push_back(op);
    }
    return 2 * alone.size() < group.size() ? alone : std::vector<std::uint32_t>{};
  }

  bool has_good_twin(std::uint32_t op) const {
    const CatalogOp& own = target_.catalog_op(op);
    if (own.line == 0) return false;
    for (std::uint32_t i = 0; i < target_.ops.size(); ++i) {
      if (judgement_.target.has[i] || line_of(target_.catalog_op(i)) != line_of(own)) continue;
      if (target_.catalog_op(i).phase != own.phase || !are_called_alike(i, op)) continue;
      if (std::ranges::any_of(target_.ops[i].outputs, [&](auto output) { return reaches_good(output); })) return true;
    }
    return false;
  }

 private:
  // It is golden, or something near that follows from it is.
  bool reaches_good(std::uint32_t tensor) const {
    constexpr std::size_t kMost = 64;
    std::vector<std::uint32_t> waiting{tensor};
    for (std::size_t i = 0; i < waiting.size() && waiting.size() < kMost; ++i) {
      const Relation& relation = judgement_.relations[waiting[i]];
      if (judgement_.standings[waiting[i]] == Standing::good && relation && !relation.weak) return true;
      for (const std::uint32_t reader : target_.tensors[waiting[i]].readers) {
        const auto& outputs = target_.ops[reader].outputs;
        if (!judgement_.target.has[reader]) waiting.insert(waiting.end(), outputs.begin(), outputs.end());
      }
    }
    return false;
  }

  struct Read {
    std::uint32_t op, weight;
  };

  // The operator of the same line that ran last before this one.
  std::uint32_t twin_of(std::uint32_t op) const {
    const CatalogOp& own = target_.catalog_op(op);
    if (own.line == 0) return kNoOp;
    for (std::uint32_t i = op; i-- > 0;) {
      const CatalogOp& other = target_.catalog_op(i);
      const bool is_like = other.line == own.line && other.op_type == own.op_type && other.phase == own.phase;
      if (!is_like || other.source_file != own.source_file || other.op_name == own.op_name) continue;
      if (forms_of(i) == forms_of(op)) return i;
    }
    return kNoOp;
  }

  // Of each input: how many axes it has, and its last size. Experts have other numbers of rows.
  std::vector<std::pair<std::size_t, std::int64_t>> forms_of(std::uint32_t op) const {
    std::vector<std::pair<std::size_t, std::int64_t>> forms;
    for (const std::uint32_t input : target_.ops[op].inputs) {
      const auto& shape = target_.tensors[input].of.tensor->shape;
      forms.emplace_back(shape.size(), shape.empty() ? 1 : shape.back());
    }
    return forms;
  }

  // Its results, or those of their readers if the golden run does more at once.
  bool gives_golden(std::uint32_t op) const {
    const auto are_golden = [&](std::uint32_t maker) {
      return std::ranges::all_of(target_.ops[maker].outputs, [&](std::uint32_t output) {
        return judgement_.standings[output] == Standing::good && !judgement_.relations[output].weak;
      });
    };
    if (are_golden(op)) return true;
    return !judgement_.target.has[op] && std::ranges::all_of(target_.ops[op].outputs, [&](std::uint32_t output) {
      const std::vector<std::uint32_t>& readers = target_.tensors[output].readers;
      return !readers.empty() && std::ranges::all_of(readers, are_golden);
    });
  }

  bool are_called_alike(std::uint32_t op, std::uint32_t other) const {
    const std::vector<CompareInput>&mine = target_.op(op).inputs, &theirs = target_.op(other).inputs;
    const bool have_same_numbers = std::ranges::equal(mine, theirs, [](const CompareInput& a, const CompareInput& b) {
      return a.tensor->constant == b.tensor->constant;
    });
    const auto *one = target_.catalog_op(op).attributes, *two = target_.catalog_op(other).attributes;
    const bool have_same_attributes =
        (one == nullptr) == (two == nullptr) &&
        (one == nullptr || std::ranges::equal(*one, *two, [](const Attribute& a, const Attribute& b) {
           return a.name == b.name && a.integers == b.integers && a.reals == b.reals;
         }));
    return have_same_numbers && have_same_attributes;
  }

  // Weights of the products that `op` follows from, up to the nearest ones, the last that is read first.
  std::vector<Read> weights_before(std::uint32_t op) const {
    std::vector<Read> found;
    std::vector<char> seen(target_.ops.size());
    std::vector<std::uint32_t> waiting{op};
    for (std::size_t i = 0; i < waiting.size(); ++i) {
      bool has_weight = false;
      for (const std::uint32_t input : target_.ops[waiting[i]].inputs) {
        const std::uint32_t root = roots_[input];
        if (root == kNoOp || target_.tensors[root].shape.size() < 2) continue;
        found.push_back({waiting[i], root});
        has_weight = true;
      }
      if (has_weight) continue;
      for (const std::uint32_t input : target_.ops[waiting[i]].inputs) {
        const std::uint32_t maker = target_.tensors[input].op;
        if (maker == kNoOp || seen[maker]) continue;
        seen[maker] = 1;
        waiting.push_back(maker);
      }
    }
    std::ranges::sort(found, std::ranges::greater(), &Read::op);
    return found;
  }

  const Pool& target_;
  const Pool& golden_;
  const RelationJudgement& judgement_;
  const std::vector<std::uint32_t> roots_;
};

}  // namespace

std::optional<Culprit> weight_of_other_layer(const Pool& target, const Pool& golden, const RelationJudgement& judgement,
                                             const Culprit& culprit) {
  return RepeatedLines(target, golden, judgement).find(culprit);
}

std::vector<std::uint32_t> without_good_twin(const Pool& target, const Pool& golden, const RelationJudgement& judgement,
                                             const std::vector<std::uint32_t>& group) {
  return RepeatedLines(target, golden, judgement).without_good_twin(group);
}

bool gives_golden_elsewhere(const Pool& target, const Pool& golden, const RelationJudgement& judgement,
                            std::uint32_t op) {
  return RepeatedLines(target, golden, judgement).has_good_twin(op);
}

}  // namespace sonde
