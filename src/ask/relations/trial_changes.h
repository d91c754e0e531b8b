// Other results that an operator of the target could have given: its input, another function of it, its elements in
// another order, or the result of other weights or numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ask/relations/blame.h"
#include "ask/relations/recomputed.h"

namespace sonde {

struct TrialChange {
  int rank = 0;  // plain ones first; 0: the operator is left out
  Dense result;
  std::string what;                          // "it reads its inputs exchanged"
  std::optional<std::uint32_t> turned = {};  // the input of the target that would be transposed
  std::optional<std::uint32_t> weight = {};  // the input of the target that would be another one
};

class TrialChanges {
 public:
  TrialChanges(const Pool& target, const Pool& golden, const RelationJudgement& judgement, Recomputed& known,
               Recomputed& golden_known)
      : target_(target), golden_(golden), judgement_(judgement), known_(known), golden_known_(golden_known) {}

  // Of an operator with one result, as far as its values are recorded.
  std::vector<TrialChange> of(std::uint32_t op);

 private:
  void leave_out(std::uint32_t op, const DenseInputs& inputs, const Dense& result);
  void reduce_otherwise(const KnownFunction& function, const Dense& x, const Dense& result);
  void bend_otherwise(std::uint32_t op, const Dense& x, const Dense& result);
  void read_otherwise(std::uint32_t op, const KnownFunction& function, const DenseInputs& inputs, const Dense& result);
  void order_otherwise(std::uint32_t op, const DenseInputs& inputs, const Dense& result);
  void count_otherwise(std::uint32_t op, const Dense& result);
  void read_other_weights(std::uint32_t op, const KnownFunction& function, const DenseInputs& inputs,
                          const Dense& result);
  std::vector<std::size_t> weights_of(std::uint32_t op) const;
  TrialChange* put(int rank, std::optional<Dense> result, const Dense& like, std::string what);

  const Pool& target_;
  const Pool& golden_;
  const RelationJudgement& judgement_;
  Recomputed &known_, &golden_known_;
  std::vector<TrialChange> found_;
};

}  // namespace sonde
