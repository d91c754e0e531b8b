// Steps that the target writes out, and that the golden attention or LSTM, which computes all at once, does in another
// way or not at all. Types, shapes and statistics show it.
#pragma once

#include <optional>
#include <set>
#include <vector>

#include "ask/relations/blame.h"
#include "ask/relations/numbers_apart.h"

namespace sonde {

class StepsApart {
 public:
  StepsApart(const Pool& target, const Pool& golden, const RelationJudgement& judgement)
      : target_(target), golden_(golden), judgement_(judgement) {}

  // `ops`: in order, operators of the target that compute a golden attention. The first of them that reads keys or
  // values of another kind, hides other scores, or repeats heads in another order.
  std::optional<NumberApart> of_attention(const std::vector<std::uint32_t>& ops) const;
  // A product among them reads heads that are repeated in turn, where those of the golden product of this size are repeated
  // each beside itself.
  std::optional<NumberApart> of_repeats(const std::vector<std::uint32_t>& ops) const;
  // `op` is an attention, as the golden one, that reads golden tensors in other slots: the weight that made the first one.
  std::optional<Culprit> of_exchanged(std::uint32_t op) const;
  // The same of operators that compute a golden attention step by step.
  std::optional<Culprit> of_exchanged_products(const std::vector<std::uint32_t>& ops) const;
  // `op` reads a mask that hides another share of the scores than the golden attention: the operator that made it.
  std::optional<NumberApart> of_mask(std::uint32_t op) const;
  // Where the golden run has an LSTM: the first operator of the target's region whose function it does not compute. Of
  // this and other recurrences: an operator that only one step has.
  std::optional<NumberApart> of_recurrence() const;
  // Of a loss among `ops`: the operator that chose other labels than those of the golden loss.
  std::optional<NumberApart> of_labels(const std::vector<std::uint32_t>& ops) const;

 private:
  std::optional<std::uint32_t> golden_op(std::string_view type) const;
  std::vector<std::set<RoundedNumbers>> read_by_golden(std::uint32_t attention) const;
  std::optional<Culprit> exchanged_at(std::uint32_t input, const std::vector<std::uint32_t>& wanted,
                                      const std::vector<std::set<RoundedNumbers>>& read) const;
  bool leads_to_softmax_of(std::uint32_t product, const std::vector<std::uint32_t>& ops) const;
  std::optional<Culprit> queries_for_keys(const std::vector<std::uint32_t>& ops,
                                          const std::vector<std::set<RoundedNumbers>>& read) const;
  std::optional<NumberApart> reads_another(const std::vector<std::uint32_t>& ops, std::uint32_t attention) const;
  std::optional<NumberApart> hides_another(const std::vector<std::uint32_t>& ops, std::uint32_t attention) const;
  std::optional<NumberApart> repeats_in_turn(const std::vector<std::uint32_t>& ops, std::uint32_t attention) const;
  std::vector<std::uint32_t> hiders_before(const std::vector<std::uint32_t>& ops, std::uint32_t softmax) const;
  std::optional<double> golden_hidden_share(std::uint32_t attention) const;
  std::optional<std::uint32_t> gate_of(std::uint32_t op) const;
  std::optional<NumberApart> of_gate(std::uint32_t op) const;
  std::optional<NumberApart> of_lstm_op(std::uint32_t op) const;
  std::optional<NumberApart> once_of_many() const;

  std::string type_of(std::uint32_t op) const;
  std::optional<Culprit> product_before(std::uint32_t tensor) const;
  bool comes_from_weight(std::uint32_t tensor) const;
  bool is_made_by(std::uint32_t tensor, std::string_view type) const;
  bool is_state(std::uint32_t tensor) const;

  const Pool& target_;
  const Pool& golden_;
  const RelationJudgement& judgement_;
};

}  // namespace sonde
