#include "ask/compare/step_findings.h"

#include <algorithm>

#include "ask/compare/factor.h"

namespace sonde {

CompareFinding& StepFindings::add(FindingKind kind, const ComparedOp& op, const CatalogOp* culprit, bool in_golden,
                                  const ComparedTensor* tensor, std::string what) {
  CompareFinding& finding = findings_.emplace_back();
  finding.kind = kind;
  finding.step = index_;
  finding.op = &op;
  finding.culprit = culprit;
  finding.in_golden = in_golden;
  finding.tensor = tensor;
  finding.what = std::move(what);
  finding.place = op.target_index;
  if (tensor == nullptr) return finding;
  finding.factor = factor_between(*tensor->difference);
  if (kind != FindingKind::parameter) return finding;
  finding.name = names_.state_text(tensor->target->parameter);
  if (finding.name.empty() && tensor->golden != nullptr) finding.name = names_.state_text(tensor->golden->parameter);
  return finding;
}

const CompareFinding* StepFindings::first() const {
  const auto first = std::ranges::min_element(findings_, {}, &CompareFinding::place);
  return first == findings_.end() ? nullptr : &*first;
}

void StepFindings::leave_out(const std::set<const CompareFinding*>& findings) {
  if (findings.empty()) return;
  std::vector<CompareFinding> left;
  for (CompareFinding& finding : findings_) {
    if (!findings.contains(&finding)) left.push_back(std::move(finding));
  }
  findings_ = std::move(left);
}

void StepFindings::note_of_both(std::string text) {
  if (std::ranges::find(step_.notes_of_both, text) == step_.notes_of_both.end()) {
    step_.notes_of_both.push_back(std::move(text));
  }
}

}  // namespace sonde
