// An operator without effect: its result equals an operand although the other one is not neutral. A weight decay that bfloat16 rounds
// away, an epsilon that is too small, a quotient of equal tensors. Decided by values; where they were not saved, by statistics if
// these decide it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "read/catalog/catalog.h"
#include "read/catalog/data_flow.h"

namespace sonde {

struct Effect {
  enum class Kind : std::uint8_t {
    seen,     // it has one, or the operator is none of those that are judged
    hit,      // it has none
    unknown,  // the dump does not say
  } kind = Kind::seen;
  std::string text;  // "equals input.0 …"; or why it is not known
};

// Whether operators of this type are judged: sums, products, quotients, powers, interpolations; single ones and lists.
bool is_judged_for_effect(std::string_view op_type);

// Operators come in the order of the run.
class EffectJudge {
 public:
  explicit EffectJudge(const CatalogRank& rank) : rank_(rank), flow_(rank) {}

  void begin_step(const CatalogStep& step);
  Effect judge(const CatalogOp& op, const CatalogTensor& output);
  void add(const CatalogOp& op) { flow_.add(op); }
  std::uint64_t files_read() const { return files_read_; }

 private:
  // The record of an operand: its own, or that of the operator that made it.
  const CatalogTensor* record_of(const CatalogTensor& input) const;

  const CatalogRank& rank_;
  DataFlow flow_;
  std::unordered_map<std::string_view, const CatalogTensor*> parameters_;  // of the step
  std::uint64_t files_read_ = 0;
};

}  // namespace sonde
