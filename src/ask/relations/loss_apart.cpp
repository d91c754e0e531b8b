#include "ask/relations/loss_apart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string_view>

#include "ask/compare/compare_words.h"
#include "ask/relations/regions.h"
#include "ask/relations/standings.h"
#include "read/operators/op_attributes.h"
#include "read/operators/op_nature.h"

namespace sonde {
namespace {

class LossApart {
 public:
  LossApart(const Pool& target, const Pool& golden, const RelationJudgement& judgement)
      : target_(target), golden_(golden), judgement_(judgement) {}

  std::optional<NumberApart> find() const {
    if (auto apart = smooths_otherwise()) return apart;
    if (auto apart = squares_all()) return apart;
    if (auto apart = counts_others()) return apart;
    return ends_before();
  }

 private:
  bool is_forward(const Pool& pool, std::uint32_t op) const { return pool.is_of_forward(op); }

  // An operator of the golden region of one of these types, whose data correspond.
  std::uint32_t golden_loss(std::span<const std::string_view> types) const {
    for (const std::uint32_t op : judgement_.golden.ops) {
      const PoolOp& own = golden_.ops[op];
      if (own.inputs.empty() || judgement_.met[own.inputs.front()] == 0) continue;
      if (std::ranges::any_of(types, [&](std::string_view type) { return golden_.is_type(op, type); })) return op;
    }
    return kNoOp;
  }

  // Operators of the forward pass from the one that gives logarithms of shares of golden scores.
  std::vector<std::uint32_t> from_logarithms(const RoundedNumbers& scores) const {
    std::vector<std::uint32_t> ops;
    const auto are_scores = [&](std::uint32_t input) {
      const Relation& relation = judgement_.relations[input];
      return relation && rounded_numbers(golden_.tensors[relation.golden()].print) == scores;
    };
    for (std::uint32_t op = 0; op < target_.ops.size(); ++op) {
      if (!is_forward(target_, op) || target_.ops[op].outputs.empty()) continue;
      const bool is_first =
          target_.is_type(op, "logsoftmax") && std::ranges::any_of(target_.ops[op].inputs, are_scores);
      if (!ops.empty() || is_first) ops.push_back(op);
    }
    return ops;
  }

  std::optional<NumberApart> smooths_otherwise() const {
    constexpr std::array<std::string_view, 1> kTypes = {"crossentropyloss"};
    const std::uint32_t loss = golden_loss(kTypes);
    const double share = loss == kNoOp ? 0 : number_in(golden_.catalog_op(loss), "label_smoothing").value_or(0);
    if (share <= 0) return std::nullopt;
    const PoolTensor& scores = golden_.tensors[golden_.ops[loss].inputs.front()];
    const std::vector<std::uint32_t> ops = from_logarithms(rounded_numbers(scores.print));
    if (ops.empty()) return std::nullopt;
    const std::vector<std::int64_t> shape = scores.whole_shape();
    const double classes = shape.size() < 2 ? 1 : static_cast<double>(shape[1]);
    const auto is_it = [&](double number) {
      return std::ranges::any_of(std::array{share, 1 - share, share / classes, 1 - share + share / classes},
                                 [&](double other) { return std::abs(std::abs(number) - other) <= 1e-4 * other; });
    };
    std::optional<NumberApart> other;
    for (std::size_t i = 1; i < ops.size(); ++i) {
      const std::optional<double> number = number_read(target_.op(ops[i]));
      if (!number) continue;
      if (is_it(*number)) return std::nullopt;
      const bool is_share = target_.is_type(ops[i], "mul") && *number > 0 && *number < 1;
      if (is_share && !other) {
        other = NumberApart{
            ops[i], fmt::format("multiplies by {:.4g}, and the golden loss smooths labels by {:.4g}", *number, share)};
      }
    }
    // Labels may be smoothed before, or in an operator of the loss.
    const auto reads_logarithms = [&](std::uint32_t op) { return op != ops[0] && reads_result_of(op, ops[0]); };
    const auto reader = std::ranges::find_if(ops, reads_logarithms);
    if (other || reader == ops.end() || smooths_before(*reader)) return other;
    return NumberApart{*reader,
                       fmt::format("takes labels as they are, and the golden loss smooths them by {:.4g}", share)};
  }

  bool reads_result_of(std::uint32_t op, std::uint32_t maker) const {
    return std::ranges::any_of(target_.ops[op].inputs,
                               [&](std::uint32_t input) { return target_.tensors[input].op == maker; });
  }

  // It reads numbers that are neither whole nor of the network.
  bool smooths_before(std::uint32_t op) const {
    return std::ranges::any_of(target_.ops[op].inputs, [&](std::uint32_t input) {
      const PoolTensor& own = target_.tensors[input];
      return own.op == kNoOp && own.has_fractions() && own.print.count > 1 && !own.print.whole_numbers;
    });
  }

  std::optional<NumberApart> squares_all() const {
    constexpr std::array<std::string_view, 2> kTypes = {"smoothl1loss", "huberloss"};
    constexpr std::array<std::string_view, 11> kChoices = {"where", "lt",  "le",      "gt",      "ge",        "clamp",
                                                           "min",   "max", "minimum", "maximum", "maskedfill"};
    const std::uint32_t loss = golden_loss(kTypes);
    if (loss == kNoOp) return std::nullopt;
    std::uint32_t squares = kNoOp;
    for (const std::uint32_t op : judgement_.target.ops) {
      if (!is_forward(target_, op)) continue;
      if (std::ranges::any_of(kChoices, [&](std::string_view type) { return target_.is_type(op, type); }))
        return std::nullopt;
      const bool is_square = target_.is_type(op, "square") || target_.is_type(op, "pow");
      if (is_square && squares == kNoOp) squares = op;
    }
    if (squares == kNoOp) return std::nullopt;
    return NumberApart{squares, fmt::format("squares every distance, and golden {} only small ones",
                                            golden_.catalog_op(loss).op_type)};
  }

  // The only number that the forward pass ends with.
  static std::uint32_t loss_of(const Pool& pool) {
    std::uint32_t found = kNoOp;
    for (std::uint32_t i = 0; i < pool.tensors.size(); ++i) {
      const PoolTensor& own = pool.tensors[i];
      if (own.op == kNoOp || own.print.count != 1 || !own.has_fractions() || own.computed != nullptr) continue;
      const auto begins_backward = [&](std::uint32_t reader) { return pool.is_type(reader, "oneslike"); };
      if (!pool.is_of_forward(own.op) || !std::ranges::all_of(own.readers, begins_backward)) continue;
      if (found != kNoOp) return kNoOp;
      found = i;
    }
    return found;
  }

  // The mean of all rows, where the golden loss leaves out those that have no label.
  std::optional<NumberApart> counts_others() const {
    const std::vector<std::uint32_t> mine = losses_of(target_), all = losses_of(golden_);
    if (mine.empty() || mine.size() != all.size() || judgement_.met[all[0]]) return std::nullopt;
    const PoolTensor &loss = target_.tensors[mine[0]], &golden = golden_.tensors[all[0]];
    if (!target_.is_type(loss.op, "mean") || target_.ops[loss.op].inputs.size() != 1) return std::nullopt;
    const TensorPrint& rows = target_.tensors[target_.ops[loss.op].inputs[0]].print;
    if (rows.count < 2 || golden.print.whole.sum == 0) return std::nullopt;
    const double counted = rows.whole.sum / golden.print.whole.sum, nearest = std::round(counted);
    constexpr double kNear = 1e-4;
    if (nearest < 1 || nearest >= static_cast<double>(rows.count) || std::abs(counted - nearest) > kNear * nearest)
      return std::nullopt;
    return NumberApart{loss.op, fmt::format("gives the mean of {} elements, and the golden loss that of {}: some count "
                                            "that should not",
                                            rows.count, nearest)};
  }

  std::optional<NumberApart> ends_before() const {
    const std::uint32_t own = loss_of(target_), theirs = loss_of(golden_);
    if (own == kNoOp || theirs == kNoOp || judgement_.met[theirs]) return std::nullopt;
    const Relation& relation = judgement_.relations[own];
    if (relation.kind != RelationKind::same || is_bad(judgement_.standings[own])) return std::nullopt;
    for (const std::uint32_t op : golden_.tensors[relation.golden()].readers) {
      const CatalogOp& next = golden_.catalog_op(op);
      if (!is_forward(golden_, op) || golden_.ops[op].inputs.size() < 2) continue;
      return NumberApart{target_.tensors[own].op,
                         fmt::format("gives a golden loss, and the golden run goes on from it: {} {}, {}", next.op_type,
                                     next.op_name, place_text(next))};
    }
    return std::nullopt;
  }

  const Pool& target_;
  const Pool& golden_;
  const RelationJudgement& judgement_;
};

}  // namespace

std::optional<NumberApart> loss_apart(const Pool& target, const Pool& golden, const RelationJudgement& judgement) {
  return LossApart(target, golden, judgement).find();
}

}  // namespace sonde
