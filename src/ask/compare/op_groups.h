// OpGroups: several ops of one side that together correspond to one of the other, and ops in another place.
#pragma once

#include <optional>

#include "ask/compare/op_judge.h"

namespace sonde {

class OpGroups {
 public:
  OpGroups(const CompareFacts& facts, const OpJudge& judge) : facts_(facts), judge_(judge) {}

  // More ops than the two that were judged may together correspond to one of the other side: the best of them.
  Judged longer(std::uint32_t target, std::uint32_t golden, Judged first) const;
  // Another golden op of the same type and shape that agrees, if the place of this one was guessed.
  std::optional<Judged> elsewhere(std::uint32_t target, std::uint32_t golden) const;
  // An op that has no counterpart may be several of the golden dump's at once, which begin where its inputs are read.
  std::optional<Judged> fused(std::uint32_t target) const;
  // A golden op that corresponds to several of the target's, of which this one may be the last.
  std::optional<Judged> part_of(std::uint32_t target) const;

 private:
  std::optional<Judged> parts(std::uint32_t golden) const;
  bool is_coarser_inside(const Group& target, const Group& golden) const;
  bool is_alike(const Judged& judged, const Group& target, const Group& golden) const;

  const CompareFacts& facts_;
  const OpJudge& judge_;
};

// Two paired inputs come from ops that do not correspond, and their values are far apart.
bool reads_foreign(const CompareFacts& facts, const Judged& judged);
// A parameter of its own that is far from the golden one: perhaps it belongs to another op.
bool reads_another(const Judged& judged);
// For ops: their places in the order of their side.
Group ops_of(const CompareSide& side, const std::vector<const CatalogOp*>& ops, std::uint32_t last);

}  // namespace sonde
