// One step of a sharded run beside the same step of a run on one process, or of another sharding: the parts that the ranks
// and the micro-batches have of each golden tensor are looked for, and joined.
//
//   WholeStep step(ranks, golden_ranks, options, learned);
//   if (step.label(op).state == WholeStep::State::differs) ...
//   for (const ShardCause& cause : causes_of(step)) ...
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ask/compare/compare.h"
#include "ask/unsharded/counterparts.h"
#include "ask/unsharded/joined_tensor.h"
#include "ask/unsharded/noise.h"
#include "ask/unsharded/rank_step.h"
#include "ask/unsharded/sites.h"
#include "ask/unsharded/step_joiner.h"

namespace sonde {

// Times the size of what an op reads: its result hides that, as scores behind a mask of large numbers.
inline constexpr double kTimesLarger = 64;

// Facts from the steps before.
struct Learned {
  Counterparts::Modules modules;
  std::set<std::pair<CallSite, std::size_t>> harmless;  // golden calls that are computed in another way: no effect
  std::map<std::pair<CallSite, std::size_t>, double> factors;     // of golden calls of the backward pass
  std::map<std::pair<CallSite, std::size_t>, Counterpart> alone;  // of golden calls that one rank has
  std::set<std::pair<CallSite, std::size_t>>
      done_elsewhere;           // golden calls without a counterpart in a step that is right
  bool updates_unseen = false;  // ops of the last step's optimizer have no counterpart
  double largest = 0;           // relative difference of what was found
  NoiseOfOutputs noise;
};

class WholeStep {
 public:
  enum class State : std::uint8_t { unknown, found, differs };

  // Of a golden op.
  struct Label {
    State state = State::unknown;
    std::optional<Counterpart> where;
    std::vector<Joined> outputs;                       // by output of the golden op; not possible: not compared
    std::set<const CatalogTensor*> other_inputs = {};  // golden ones: what is read there comes from elsewhere
  };
  struct OtherNumber {
    std::uint32_t golden = kNoOp;
    const CompareInput* input = nullptr;
    Joined joined;
  };

  WholeStep(const std::vector<RankStep>& ranks, const std::vector<RankStep>& golden, const CompareOptions& options,
            Learned& learned);

  const std::vector<RankStep>& ranks() const { return ranks_; }
  const CompareSide& golden() const { return golden_; }
  const GoldenStep& golden_step() const { return golden_step_; }
  const StepJoiner& joiner() const { return joiner_; }
  const Learned& learned() const { return learned_; }
  const Label& label(std::uint32_t golden) const { return labels_[golden]; }
  std::size_t micro_batches() const { return counterparts_.micro_batches(); }
  // A result of the golden op is of a half type, and both ran in it.
  bool has_half_type(std::uint32_t golden) const;
  // A sum in a half type: a term that differs may be less than its rounding, and is in it nevertheless.
  bool hides_a_term(std::uint32_t golden) const;
  const SiteCalls::Address& address(std::uint32_t golden) const { return golden_calls_.address(golden); }
  const std::vector<OtherNumber>& other_numbers() const { return other_numbers_; }
  // Golden ops of the backward pass that give gradients with another factor than they read, or than in the steps before.
  const std::vector<std::uint32_t>& factor_changes() const { return factor_changes_; }
  struct NewFactor {
    std::uint32_t golden = kNoOp;
    double change = 1;
  };
  const std::vector<NewFactor>& new_factors() const { return new_factors_; }
  bool is_right(const CatalogTensor* output) const { return good_.contains(output); }
  bool is_wrong(const CatalogTensor* output) const { return bad_.contains(output); }
  const Noise& noise() const { return noise_; }

  using Shown = Counterparts::Shown;
  std::optional<Shown> shown(const Counterpart& of) const { return counterparts_.shown(of); }
  // The input of the rank's counterpart where the golden op reads that one; null: it has none.
  const CompareInput* input_at(std::size_t rank, std::uint32_t golden, const CompareInput& input) const {
    return joiner_.input_at(rank, golden, input, *labels_[golden].where);
  }

 private:
  using Errors = std::vector<std::optional<double>>;  // by output; nothing: more than is explained
  void look_at(std::uint32_t golden);
  std::size_t inputs_in_common(std::uint32_t golden, const Counterpart& with) const;
  std::optional<Label> nearest(std::uint32_t golden, const std::vector<Counterpart>& candidates) const;
  void look_for_factors(std::uint32_t golden);
  bool reads_with_factor(std::uint32_t golden, double factor) const;
  // `noise`: by output, the error that rounding explains.
  void keep(std::uint32_t golden, Label label, const Errors& noise = {});
  std::optional<Label> found_alone(std::uint32_t golden, const Counterpart& with) const;
  void doubt_alone();
  State state_of_difference(std::uint32_t golden) const;
  bool reads_noise(std::uint32_t golden) const;
  bool is_fed_by_noise(std::uint32_t golden, std::size_t output) const;
  bool is_near(std::uint32_t golden, const Label& label) const;
  bool is_number_by_chance(std::uint32_t golden, const Label& label) const;
  bool is_at_its_place(std::uint32_t golden, const Counterpart& with) const;
  bool is_of_blocks(std::uint32_t golden, const Label& label) const;
  bool differs_in_blocks(std::uint32_t golden, const Label& label) const;
  bool is_split(std::uint32_t golden, const Counterpart& with) const;
  Errors noise_of_found(std::uint32_t golden, const Label& label) const;
  Errors noise_of_sum(std::uint32_t golden, const Label& label) const;
  Errors explained(std::uint32_t golden, const Counterpart& with, const std::vector<Joined>& outputs) const;

  const std::vector<RankStep>& ranks_;
  const GoldenStep golden_step_;
  const CompareSide& golden_;
  const CompareOptions& options_;
  Learned& learned_;
  const SiteCalls& golden_calls_;
  Counterparts counterparts_;
  const StepJoiner joiner_;
  std::vector<Label> labels_;
  std::set<const CatalogTensor*> good_, bad_;  // outputs of the target
  Noise noise_;
  std::vector<OtherNumber> other_numbers_;
  std::vector<std::uint32_t> factor_changes_;
  std::vector<NewFactor> new_factors_;
};

}  // namespace sonde
