// An operator of the target could have another result: this computes again what would follow, and how much of it would
// be golden.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "ask/relations/blame.h"
#include "ask/relations/recomputed.h"

namespace sonde {

// Of a result, whatever the order of its elements.
struct ValueSums {
  double sum = 0, squares = 0, cubes = 0, least = 0, largest = 0;
};

struct Followed {
  std::uint32_t op = kNoOp, last = kNoOp, golden = 0;  // `last`: the last operator whose result would be `golden`
  std::size_t count = 0, all = 0;                      // results that would be golden, and all that would be others
  std::size_t at_end = 0, since = 0;                   // the last golden ones one after the other, and those after them
  bool is_left_out = false;                            // it gives its input
  std::size_t joined = 0;                              // golden results of operators that read something else, too
  bool is_shown_early = false;                         // so would be many of the first results, one of them such a one
};

class Following {
 public:
  Following(const Pool& target, const Pool& golden, const RelationJudgement& judgement, const Region& region,
            Recomputed& known, Recomputed& golden_known);

  // The operator gives `result` as this tensor, or its input. Nothing: none or few of the results are golden, or one that
  // was is no more.
  std::optional<Followed> from(std::uint32_t op, std::uint32_t tensor, const Dense& result, bool is_left_out);
  // The same where `result` is a golden tensor: its readers are enough, and what other operators do wrong may follow.
  std::optional<Followed> from_golden(std::uint32_t op, std::uint32_t tensor, const Dense& result);
  bool is_tired() const;  // it has computed so much that it gives no more answers

 private:
  using Changed = std::map<std::uint32_t, Dense>;

  bool follow_all(std::uint32_t tensor, const Dense& result, Followed& found);
  bool follow(std::uint32_t op, Followed& found);
  bool reads_others(std::uint32_t op) const;
  bool take(std::uint32_t op, std::uint32_t tensor, const Dense& result, Followed& found);
  bool repeats_another(std::uint32_t tensor, const Dense& result);
  std::optional<std::uint32_t> golden_of(const Dense& result, const Dense& recorded);

  const Pool& target_;
  const Pool& golden_;
  const RelationJudgement& judgement_;
  const Region& region_;
  Recomputed &known_, &golden_known_;
  std::map<std::uint64_t, std::vector<std::uint32_t>> missed_;  // golden tensors, by number of elements
  std::map<std::uint32_t, std::optional<ValueSums>> golden_sums_;
  // Of the change that is followed.
  Changed changed_;
  std::set<std::uint32_t> unknown_;  // they follow from it, and cannot be computed again
  bool is_shown_before_ = false, is_of_golden_ = false;
  bool reads_others_ = false;  // the operator that is computed again reads something that does not follow from it
  std::size_t work_ = 0;
};

}  // namespace sonde
