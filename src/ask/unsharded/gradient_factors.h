// Gradients that are a number times the golden ones, and the op that gives them this factor.
#pragma once

#include <cstdint>
#include <optional>

#include "ask/unsharded/causes.h"
#include "ask/unsharded/earlier_ops.h"

namespace sonde {

class GradientFactors {
 public:
  GradientFactors(const WholeStep& step, const EarlierOps& earlier)
      : step_(step), golden_(step.golden()), earlier_(earlier) {}

  // By a number that the loss is divided by, or by the op of the backward pass behind which they have that factor.
  std::optional<ShardCause> cause_by_factor(const ShardCause& cause) const;
  // Of the gradients that it adds up, some are a number times the golden ones and others are not: as a mean over the ranks
  // all would be.
  bool adds_with_other_factors(std::uint32_t golden) const;
  // The op that gives a term another factor than in the steps before, or one that only the target has.
  std::optional<ShardCause> cause_of_term(std::uint32_t golden) const;

 private:
  bool is_before_loss(const ShardCause& cause) const;
  // `tolerance`: of the factor, relative.
  std::optional<ShardCause> by_new_factor(const ShardCause& cause, double factor, double tolerance) const;
  std::optional<ShardCause> with_factor(std::uint32_t golden, double factor) const;
  std::optional<ShardCause> factor_received(std::uint32_t golden, const ShardCause& cause) const;

  const WholeStep& step_;
  const CompareSide& golden_;
  const EarlierOps& earlier_;
};

}  // namespace sonde
