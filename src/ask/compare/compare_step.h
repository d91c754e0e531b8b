// StepComparer: judges the ops of one step in the order in which they ran. The public interface is compare.h.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ask/compare/compare.h"
#include "read/measure/health.h"

namespace sonde {

inline constexpr double kShare = 1e-4;           // part of an input's error that its reader shows if it matters
inline constexpr std::size_t kLongestChain = 4;  // further ops that may together correspond to one op of the other side
inline constexpr std::size_t kMostCandidates = 64;
inline constexpr std::uint32_t kNone = 0xFFFFFFFF;

using Group = std::vector<std::uint32_t>;                // ops of one side, in order; the last gives the outputs
using OpPair = std::pair<std::uint32_t, std::uint32_t>;  // of the target, golden

struct GroupInput {
  const CompareInput* input = nullptr;
  std::uint32_t op = 0;
};

struct PairedInput {
  GroupInput target, golden;  // golden.input null: only the target's difference is known
  const TensorDifference* difference = nullptr;
};

struct Judged {
  ComparedOp op;
  std::vector<PairedInput> inputs;
  bool finding = false;
  FindingKind kind = FindingKind::op;
  std::size_t tensor = 0;  // of op.outputs, that shows it
  double relative = 0;     // the largest of its outputs
};

bool same_elements(const CatalogTensor& a, const CatalogTensor& b);  // or the shape of one is unknown

// A parameter of its own that is far from the golden one: perhaps it belongs to another op.
bool reads_another(const Judged& judged);
// For ops: their places in the order of their side.
Group ops_of(const CompareSide& side, const std::vector<const CatalogOp*>& ops, std::uint32_t last);

// By op of the side: the op of the forward pass that it runs again, for activation checkpointing; kNoOp: none.
Group originals_of(const CompareSide& side);

class StepComparer {
 public:
  // `apart`: pairs that the first pass found not to belong together.
  StepComparer(ComparedStep& step, std::size_t index, const CompareOptions& options, RankHistory& history,
               const std::set<OpPair>& apart);

  void run();
  // After the last pass over the step.
  void finish();
  std::vector<CompareFinding>& findings() { return findings_; }
  // Pairs whose finding has no effect: all results computed from their inputs agree again.
  std::vector<OpPair> without_effect() const;
  void remember(RankHistory& history) const;

 private:
  TensorOf of_target(const CatalogTensor* tensor) const { return {target_.rank, tensor}; }
  TensorOf of_golden(const CatalogTensor* tensor) const { return {golden_.rank, tensor}; }

  void match();
  void want_all();
  void find_precision();
  void leave_optimizers_out();
  void compare_op(std::uint32_t target);
  void keep(Judged judged, const Group& target, const Group& golden);
  void keep_alone(std::uint32_t target);
  void keep_golden_alone();

  // compare_groups.cpp
  bool find_fused(std::uint32_t target);
  bool find_parts(std::uint32_t golden);
  Judged judge_longer(const Group& target, const Group& golden, Judged first);
  std::uint32_t find_elsewhere(std::uint32_t target, Judged& judged);
  Group chain_of(const CompareSide& side, const std::vector<std::uint32_t>& owner, std::uint32_t from) const;
  bool reads_foreign(const Judged& judged) const;
  bool is_coarser_inside(const Group& target, const Group& golden) const;
  bool is_alike(const Judged& judged, const Group& target, const Group& golden) const;

  // compare_recompute.cpp
  // The comparison of the two with each other; null: they do not belong together.
  const ComparedOp* compared_as(std::uint32_t target, std::uint32_t golden) const;
  bool keep_target_again(std::uint32_t target);
  void keep_golden_again(std::uint32_t golden);

  // compare_gradients.cpp
  void leave_other_batches_out();
  bool compare_gradients();
  void report_gradient(std::uint32_t reader, std::string what, bool is_certain, std::optional<double> factor);

  // compare_judge.cpp
  Judged judge(const Group& target, const Group& golden, MatchedBy how);
  std::uint32_t golden_slot_of(std::uint32_t slot, const Judged& judged) const;
  OpKind kind_of_work(const Group& target, const Group& golden) const;
  Allowance allowance_of_work(const ComparedOp& op, const ComparedTensor& output, const std::vector<InputError>& errors,
                              double seen) const;
  void judge_outputs(Judged& judged);
  void judge_verdict(Judged& judged, const std::vector<InputError>& errors, bool integers_differ);
  struct Verdicts;
  void judge_output(Judged& judged, std::size_t output, const std::vector<InputError>& errors, Verdicts& all);
  bool has_coarser_type(const ComparedTensor& output, const ComparedOp& op) const;
  bool chooses_otherwise(const Judged& judged) const;
  bool says_why(const Judged& judged, const Verdicts& all) const;

  // compare_pairs.cpp
  std::vector<GroupInput> inputs_of(const CompareSide& side, const Group& group) const;
  std::vector<PairedInput> pair_inputs(const Group& target, const Group& golden);
  const TensorDifference* known_difference(const GroupInput& target, const GroupInput& golden);
  bool same_producer(const CompareInput& target, const CompareInput& golden) const;
  // The compared output that both read; null: the inputs come from outside or from ops that do not belong together.
  const ComparedTensor* output_read(const CompareInput& target, const CompareInput& golden) const;

  // compare_inputs.cpp
  const CatalogOp* alone_before(const std::vector<PairedInput>& inputs, bool by_shape) const;
  void look_at_inputs(ComparedOp& op, const std::vector<PairedInput>& inputs);
  bool keeps_another_type(const ComparedOp& op, const PairedInput& input) const;
  void report_kept_type(ComparedOp& op, const PairedInput& input, ComparedTensor& shown);
  std::string readers_text(std::string_view parameter) const;
  void look_at_parameter(ComparedOp& op, const PairedInput& input, ComparedTensor& shown);
  void look_at_side_effect(const PairedInput& input, ComparedTensor& shown);
  void look_at_order(ComparedOp& op, const std::vector<PairedInput>& inputs);
  bool is_from_unknown(const CompareInput& input) const;
  bool is_left_over(std::uint32_t from, const TensorDifference& read);
  void look_at_wiring(ComparedOp& op, const PairedInput& input, ComparedTensor& shown);
  void look_at_change(ComparedOp& op, const PairedInput& input, ComparedTensor& shown);
  // The first op of the chain of ops without a counterpart that leads to this one.
  std::uint32_t first_alone(const CompareSide& side, const std::vector<std::uint32_t>& owner, std::uint32_t from) const;
  void report_other_size(const ComparedOp& op, const PairedInput& input);
  void report_wiring(ComparedOp& op, const PairedInput& input, ComparedTensor& shown);
  Bound bound_of_parameter(const CatalogTensor& golden, const TensorDifference& difference, bool known);
  double spacing_between(std::uint32_t from, const TensorDifference& read) const;
  std::string what_it_holds(const CatalogTensor& target, const CatalogTensor& golden,
                            const TensorDifference& difference);
  void add_finding(FindingKind kind, const ComparedOp& op, const CatalogOp* culprit, bool in_golden,
                   const ComparedTensor* tensor, std::string what);

  // compare_origin.cpp
  struct Unseen {
    Group ops;             // in order
    double before = 0;     // the largest known relative error of what they read
    bool is_open = false;  // they read something else, too
    bool decides = false;  // a small error may have a large effect in one of them
  };
  Unseen unseen_before(std::uint32_t from) const;
  Group unseen_golden(std::uint32_t from) const;
  bool look_at_unseen(const ComparedOp& op, const PairedInput& input, ComparedTensor& shown);
  void report_unseen(const ComparedOp& op, const PairedInput& input, const ComparedTensor& shown, const Unseen& unseen);
  void find_jump();

  // compare_units.cpp
  void look_at_units_in_another_order();
  std::uint32_t first_with_other_units(double& error) const;
  std::optional<double> error_in_any_order(const ComparedTensor& tensor) const;

  // compare_rounding.cpp
  bool is_number_rounded(const PairedInput& input) const;
  bool is_carried_on(const ComparedOp& op) const;
  const ComparedTensor* other_number(const ComparedOp& op) const;
  bool only_casts_follow(const CompareSide& side, std::uint32_t op, DType to) const;
  bool computes_in_another_type(const ComparedOp& op, DType& mine, DType& theirs) const;
  void find_rounding_apart();

  // compare_states.cpp
  std::string_view parameter_of_state(std::string_view name) const;
  std::string state_text(std::string_view name) const;
  std::string_view state_made_anew(const CompareInput& made, const CompareSide& side, const CompareInput& kept) const;
  std::string states_made_anew(bool in_target) const;
  bool report_new_state(const ComparedOp& op, const PairedInput& input, ComparedTensor& shown);

  // compare_backward.cpp
  struct LostBackward;
  LostBackward lost_backward(bool in_golden) const;
  bool comes_from(std::uint32_t op, bool in_golden, const Group& ops) const;
  void name_lost_backward(CompareFinding& finding, const LostBackward& lost, bool in_golden) const;
  void find_lost_backward();

  // compare_effects.cpp
  struct Effect {
    bool stays() const { return lasts || !heals; }
    bool lasts = false, heals = false;  // a result differs at the end; somewhere the two agree again
    bool built_otherwise = false;       // an op on the way has no counterpart, or one of several ops
  };
  Effect effect_of(const CompareFinding& finding) const;
  bool reads_other_parameters(const ComparedOp& op) const;
  bool is_built_otherwise(const ComparedOp& op) const;
  void leave_absorbed_out();
  void note_layouts();
  void leave_compensated_out();
  bool is_compensated(std::string_view name) const;
  bool is_in_another_layout(std::string_view parameter) const;
  bool is_in_another_layout(const CompareFinding& finding) const;
  bool reads_other_layouts(std::uint32_t optimizer_op) const;
  void leave_out(const std::set<const CompareFinding*>& findings);
  bool has_effect(const CompareFinding& finding) const;
  bool is_alone(const std::vector<std::uint32_t>& owner, std::uint32_t at) const;
  bool is_doubtful(const ComparedOp& op) const;
  bool rests_on_order(const CompareFinding& finding) const;
  std::uint32_t place_of_golden(std::uint32_t golden) const;
  void find_updates_left_out();
  bool has_ops_on_both_sides(const CompareFinding& finding) const;
  double size_of_error(const CompareFinding& finding) const;
  void leave_out_what_has_no_effect();
  void find_not_finite_alone();
  bool reaches_an_end(std::uint32_t target, HealthReader& health) const;
  bool has_reason_of_its_own(const ComparedOp& op) const;
  void blame_reordering();
  void note_doubts();
  void report_each_cause_once();
  std::pair<const ComparedOp*, const CatalogOp*> reordering_before(const ComparedOp& op) const;
  void name_suspects();

  ComparedStep& step_;
  std::size_t index_;
  const CompareOptions& options_;
  const CompareSide& target_;
  const CompareSide& golden_;
  Differences& differences_;
  RankHistory& history_;
  const std::set<OpPair>& apart_;
  std::vector<CompareFinding> findings_;
  bool has_other_batches_ = false;  // cut in another way
  double seen_before_;              // of earlier steps
  double seen_ = 0;                 // of this one
  std::vector<OpMatch> matches_;
  std::vector<std::uint32_t> target_owner_, golden_owner_;  // by op: index into step_.ops
  Group target_originals_, golden_originals_;
  std::vector<bool> promised_;                              // golden ops that a match will take
  std::set<std::string_view> target_names_, golden_names_;  // of parameters
  std::set<std::string_view> reported_names_;               // parameters that were found to differ
  std::set<std::uint64_t> reported_contents_;
  const ComparedOp* suspect_ = nullptr;  // the first op called with another number whose result is the same
  bool something_differs_ = false;
  bool other_precision_ = false;  // the two ran in other types: another output type is not a finding
  bool other_optimizer_ = false;  // fused, by lists, or plain: only their final results can be compared
};

}  // namespace sonde
