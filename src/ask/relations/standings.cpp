#include "ask/relations/standings.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "ask/compare/tolerance.h"
#include "ask/relations/verify.h"
#include "read/operators/op_family.h"
#include "read/operators/op_nature.h"

namespace sonde {
namespace {

// An error may grow by this factor in one operator: norms and differences of near numbers do it.
constexpr double kMostGrowth = 30;
// Roundings of an operator and those before it, in spacings of the type.
constexpr double kRoundings = 200;
// In sums over all elements, these cancel for the most part.
constexpr double kRoundingsOfSums = 40;
// Of a result that readers show to be right.
constexpr double kMostOfConfirmed = 1e-4;
// The rest of a sum that cancels, such as the gradient of a bias of keys, is rounding alone.
constexpr double kNoise = 1e-5;

// The spacing of the type that most results have: a cast to a coarser one in between excuses nothing.
double usual_spacing(const Pool& pool) {
  std::map<double, std::size_t> counts;
  for (const PoolTensor& tensor : pool.tensors) {
    if (tensor.has_fractions()) ++counts[epsilon_of(tensor.dtype())];
  }
  const auto most = std::ranges::max_element(counts, {}, [](const auto& one) { return one.second; });
  return most == counts.end() ? 0 : most->first;
}

double rms_of(const PoolTensor& tensor) {
  return tensor.print.whole.norm / std::sqrt(static_cast<double>(std::max<std::uint64_t>(tensor.print.count, 1)));
}

class EachTensor {
 public:
  EachTensor(const Pool& target, const Pool& golden, RelationJudgement& judgement)
      : target_(target),
        golden_(golden),
        judgement_(judgement),
        spacing_(std::max(usual_spacing(target), usual_spacing(golden))),
        errors_(target.tensors.size()),
        is_noise_(target.tensors.size()),
        adds_joined_(target.tensors.size()),
        confirmed_(target.tensors.size()) {}

  void judge() {
    for (std::uint32_t i = 0; i < target_.tensors.size(); ++i) {
      if (target_.tensors[i].op == kNoOp) judge(i, {});
    }
    for (std::uint32_t i = 0; i < target_.ops.size(); ++i) judge_outputs(i);
    for (auto i = static_cast<std::uint32_t>(target_.tensors.size()); i-- > 0;) confirm(i);
  }

 private:
  // A result that corresponds to nothing, or with an error, is right if what an operator computes of it and of what is
  // right is golden: a variance and a small number, an angle near another one.
  void confirm(std::uint32_t tensor) {
    const PoolTensor& own = target_.tensors[tensor];
    Standing& standing = judgement_.standings[tensor];
    Relation& relation = judgement_.relations[tensor];
    if (!is_bad(standing) || own.op == kNoOp || !own.has_fractions() || !own.print.by_values) return;
    const double most = standing == Standing::alone ? kMostOfConfirmed : relation.difference.relative() / kMostGrowth;
    for (const std::uint32_t reader : own.readers) {
      const std::optional<double> error = error_shown_by(tensor, reader);
      if (!error || *error > most) continue;
      confirmed_[tensor] = *error;
      relation = {};
      standing = Standing::good;
      return;
    }
  }

  // The relative error of the tensor at most, if the reader keeps an error and all else that it reads is right.
  std::optional<double> error_shown_by(std::uint32_t tensor, std::uint32_t reader) const {
    const PoolOp& op = target_.ops[reader];
    const OpKind kind = target_.op(reader).kind;
    if (op.outputs.size() != 1) return std::nullopt;
    const std::uint32_t result = op.outputs[0];
    const PoolTensor &own = target_.tensors[tensor], &other = target_.tensors[result];
    const bool is_view = moves_or_casts(kind) && kind != OpKind::cast && op.inputs.size() == 1;
    if (is_view) return own.print.count == other.print.count ? confirmed_[result] : std::nullopt;
    const bool keeps_error = kind == OpKind::elementwise || target_.is_type(reader, "pow");
    if (!keeps_error || target_.is_type(reader, "square")) return std::nullopt;
    const bool is_alone = std::ranges::all_of(op.inputs, [&](std::uint32_t input) {
      return input == tensor || (!is_bad(judgement_.standings[input]) && target_.tensors[input].has_fractions() &&
                                 !target_.tensors[input].print.whole_numbers);
    });
    if (!is_alone || std::ranges::count(op.inputs, tensor) != 1) return std::nullopt;
    std::optional<double> error = confirmed_[result];
    const Relation& relation = judgement_.relations[result];
    if (relation.difference.by == ComparedBy::values && is_surely_golden(judgement_, result))
      error = relation.difference.relative();
    if (!error || rms_of(own) == 0) return std::nullopt;
    return *error * std::max(1.0, rms_of(other) / rms_of(own));
  }

  struct Inputs {
    double error = 0, rms = 0;
    bool are_noise = false, are_added = false;
  };

  void judge_outputs(std::uint32_t number) {
    const PoolOp& op = target_.ops[number];
    Inputs inputs;
    const OpKind kind = target_.op(number).kind;
    inputs.are_added = kind == OpKind::reduction || kind == OpKind::contraction;
    inputs.are_noise = !op.inputs.empty() && moves_or_casts(target_.op(number).kind);
    for (const std::uint32_t input : op.inputs) {
      inputs.error = std::max(inputs.error, errors_[input]);
      // Beside the large numbers of a mask everything is small.
      const TensorPrint& print = target_.tensors[input].print;
      if (!has_hidden(print.min, print.max)) inputs.rms = std::max(inputs.rms, rms_of(target_.tensors[input]));
      inputs.are_noise = inputs.are_noise && is_noise_[input];
    }
    for (const std::uint32_t output : op.outputs) {
      judge(output, inputs);
      if (is_flat_alone(number, output)) judgement_.standings[output] = Standing::alone;
      if (adds_up_joined(number, output)) {
        adds_joined_[output] = 1;
        judgement_.standings[output] = Standing::good;
      }
    }
  }

  // A function gives equal elements of a golden tensor, as zeros behind a relu, and the golden run none like them: equal
  // elements from elsewhere prove nothing.
  bool is_flat_alone(std::uint32_t number, std::uint32_t output) const {
    const PoolOp& op = target_.ops[number];
    const OpKind kind = target_.op(number).kind;
    const bool is_function = kind == OpKind::elementwise || kind == OpKind::transcendental || kind == OpKind::exact;
    const PoolTensor& own = target_.tensors[output];
    if (!is_function || op.inputs.size() != 1 || judgement_.relations[output].kind != RelationKind::constant ||
        !own.has_fractions() || own.print.count < 2)
      return false;
    if (!is_surely_golden(judgement_, op.inputs[0])) return false;
    const std::vector<std::uint32_t>& readers = golden_.tensors[judgement_.relations[op.inputs[0]].golden()].readers;
    return std::ranges::none_of(readers, [&](std::uint32_t reader) {
      return std::ranges::any_of(golden_.ops[reader].outputs,
                                 [&](std::uint32_t other) { return golden_.tensors[other].print.is_constant(); });
    });
  }

  // The backward pass adds up a gradient that is joined of golden ones, for each index of the axis along which it is: as
  // for one bias of queries and keys. The sums of some parts may be nothing but rounding, which is like no golden sum.
  bool adds_up_joined(std::uint32_t number, std::uint32_t output) const {
    const PoolOp& op = target_.ops[number];
    if (judgement_.standings[output] != Standing::alone || op.inputs.size() != 1) return false;
    if (moves_or_casts(target_.op(number).kind)) return adds_joined_[op.inputs[0]] != 0;
    if (!target_.is_type(number, "sum") || phase_of(target_.catalog_op(number)) != Phase::backward) return false;
    const Relation& read = judgement_.relations[op.inputs[0]];
    return read.kind == RelationKind::joined && read.axis >= 0 && !read.weak &&
           !is_bad(judgement_.standings[op.inputs[0]]) &&
           size_along(target_.tensors[op.inputs[0]].shape, read.axis) ==
               static_cast<std::int64_t>(target_.tensors[output].print.count);
  }

  void judge(std::uint32_t tensor, const Inputs& inputs) {
    const Relation& relation = judgement_.relations[tensor];
    const PoolTensor& own = target_.tensors[tensor];
    Standing& standing = judgement_.standings[tensor];
    errors_[tensor] = inputs.error;
    is_noise_[tensor] =
        inputs.are_noise || (inputs.are_added && own.print.count > 1 && rms_of(own) < kNoise * inputs.rms);
    if (own.print.count == 0 || (!relation && is_noise_[tensor])) {
      standing = Standing::unknown;
      return;
    }
    if (!relation) {
      standing = Standing::alone;
      return;
    }
    const double relative = relation.difference.relative();
    const double spacing = std::min(coarser_spacing(relation.difference), spacing_);
    const double roundings = relation.difference.by == ComparedBy::statistics ? kRoundingsOfSums : kRoundings;
    const bool is_explained = relative <= roundings * spacing || relative <= kMostGrowth * inputs.error;
    standing = is_explained ? Standing::good : is_near_by_chance(own, relation) ? Standing::alone : Standing::beyond;
    if (is_explained) errors_[tensor] = relative;
  }

  // A result that is computed of a weight is near it by chance: a variance and a small number.
  bool is_near_by_chance(const PoolTensor& own, const Relation& relation) const {
    if (own.op == kNoOp || moves_or_casts(target_.op(own.op).kind)) return false;
    return golden_.tensors[relation.golden()].op == kNoOp;
  }

  const Pool& target_;
  const Pool& golden_;
  RelationJudgement& judgement_;
  const double spacing_;
  std::vector<double> errors_;  // as far as they are explained: what is not excuses nothing that follows from it
  std::vector<char> is_noise_;
  std::vector<char> adds_joined_;
  std::vector<std::optional<double>> confirmed_;  // the relative error that a reader shows
};

}  // namespace

std::uint32_t first_flat(const Pool& target, const RelationJudgement& judgement, std::uint32_t op) {
  for (std::uint32_t before = 0; before < op; ++before) {
    const bool is_flat = std::ranges::any_of(target.ops[before].outputs, [&](std::uint32_t output) {
      return judgement.relations[output].kind == RelationKind::constant &&
             judgement.standings[output] == Standing::alone;
    });
    if (is_flat && phase_of(target.catalog_op(before)) != Phase::backward) return before;
  }
  return kNoOp;
}

void judge_standings(const Pool& target, const Pool& golden, RelationJudgement& judgement) {
  EachTensor(target, golden, judgement).judge();
}

}  // namespace sonde
