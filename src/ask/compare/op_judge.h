// OpJudge: the error that one op, or several, introduce beside the errors of their inputs, relative to their counterpart.
//
//   Judged judged = OpJudge(facts).judge({target}, {golden}, MatchedBy::name);
//   if (judged.finding) ... judged.op.outputs[judged.tensor] shows it
#pragma once

#include <vector>

#include "ask/compare/compare_facts.h"
#include "ask/compare/pair_inputs.h"

namespace sonde {

struct Judged {
  ComparedOp op;
  std::vector<PairedInput> inputs;
  bool finding = false;
  FindingKind kind = FindingKind::op;
  std::size_t tensor = 0;  // of op.outputs, that shows it
  double relative = 0;     // the largest of its outputs
};

class OpJudge {
 public:
  explicit OpJudge(const CompareFacts& facts) : facts_(facts) {}

  Judged judge(const Group& target, const Group& golden, MatchedBy how) const;

 private:
  struct Verdicts;

  std::uint32_t golden_slot_of(std::uint32_t slot, const Judged& judged) const;
  OpKind kind_of_work(const Group& target, const Group& golden) const;
  Allowance allowance_of_work(const ComparedOp& op, const ComparedTensor& output, const std::vector<InputError>& errors,
                              double seen) const;
  void judge_outputs(Judged& judged) const;
  void judge_verdict(Judged& judged, const std::vector<InputError>& errors, bool integers_differ) const;
  void judge_output(Judged& judged, std::size_t output, const std::vector<InputError>& errors, Verdicts& all) const;
  bool has_coarser_type(const ComparedTensor& output, const ComparedOp& op) const;

  const CompareFacts& facts_;
};

}  // namespace sonde
