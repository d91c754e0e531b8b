// A step of two ranks beside a golden one, made by hand.
#pragma once

#include <memory>
#include <vector>

#include "ask/unsharded/whole_step.h"
#include "relations/networks.h"

namespace sonde {

class JoinedSteps {
 public:
  Program& rank(std::size_t number) { return number == 0 ? one_ : other_; }
  Program& golden() { return golden_; }

  // The same op on each rank, and the golden one. `phase`: of all three.
  void set_phase(Phase phase) {
    for (Program* program : {&one_, &other_, &golden_}) program->last().phase = phase;
  }

  void forget_values() {
    for (Program* program : {&one_, &other_, &golden_}) program->forget_values();
  }

  // Lives as long as this does.
  const WholeStep& joined() {
    ranks_ = {step_of(one_), step_of(other_)};
    golden_ranks_ = {step_of(golden_)};
    step_ = std::make_unique<WholeStep>(ranks_, golden_ranks_, options_, learned_);
    return *step_;
  }

 private:
  RankStep step_of(const Program& program) {
    const CatalogRank& rank = program.catalog().ranks[0];
    auto side = std::make_shared<CompareSide>(side_of(rank, rank.steps[0], families_));
    SiteCalls calls(*side);
    return {&rank, std::move(side), 0, std::move(calls)};
  }

  Program one_, other_, golden_;
  OpFamilies families_;
  std::vector<RankStep> ranks_, golden_ranks_;
  Learned learned_;
  const CompareOptions options_;
  std::unique_ptr<WholeStep> step_;
};

}  // namespace sonde
