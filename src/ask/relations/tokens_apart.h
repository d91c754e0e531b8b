// A decoder that runs once for each token: how one of its steps departs from the others.
#pragma once

#include <optional>
#include <vector>

#include "ask/relations/blame.h"
#include "ask/relations/numbers_apart.h"

namespace sonde {

// The target has a step for each token, or a few of them; the golden run computes all at once.
bool runs_by_tokens(const Pool& target, const Pool& golden);

class TokensApart {
 public:
  TokensApart(const Pool& target, const Pool& golden, const RelationJudgement& judgement)
      : target_(target), golden_(golden), judgement_(judgement) {}

  // A cache that was not kept, an operator of one step alone, a position that was left out, a part of the keys, rows that
  // do not belong together.
  std::optional<NumberApart> find() const;

 private:
  std::optional<NumberApart> does_not_grow() const;
  std::optional<NumberApart> only_in_one_step() const;
  std::optional<NumberApart> leaves_positions_out() const;
  std::optional<NumberApart> reads_part_of_keys() const;
  bool leads_to_region(std::uint32_t op) const;
  bool golden_attends_to_all() const;
  bool is_read_by_product(std::uint32_t tensor) const;
  std::vector<std::uint32_t> calls_of(std::uint32_t op) const;
  std::optional<double> position_read(std::uint32_t op, std::uint32_t& from) const;
  std::uint32_t maker_before(std::uint32_t tensor) const;

  const Pool& target_;
  const Pool& golden_;
  const RelationJudgement& judgement_;
};

}  // namespace sonde
