// StepFindings: the findings of a step, and its notes.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ask/compare/compare.h"
#include "ask/compare/parameter_names.h"

namespace sonde {

class StepFindings {
 public:
  // `index`: of the step in DumpComparison::steps.
  StepFindings(ComparedStep& step, std::size_t index, const ParameterNames& names)
      : step_(step), index_(index), names_(names) {}

  CompareFinding& add(FindingKind kind, const ComparedOp& op, const CatalogOp* culprit, bool in_golden,
                      const ComparedTensor* tensor, std::string what);
  std::vector<CompareFinding>& all() { return findings_; }
  bool empty() const { return findings_.empty(); }
  // The one whose op ran first; null: there is none.
  const CompareFinding* first() const;
  void leave_out(const std::set<const CompareFinding*>& findings);

  // True the first time: each parameter is reported where it is read first.
  bool is_new_name(std::string_view name) { return reported_names_.insert(name).second; }
  bool is_new_content(std::uint64_t content) { return reported_contents_.insert(content).second; }

  // Data that could not be compared.
  void note(std::string text) { step_.notes.push_back(std::move(text)); }
  bool has_notes() const { return !step_.notes.empty(); }
  void clear_notes() { step_.notes.clear(); }
  // Differences between the two that are not errors; each once.
  void note_of_both(std::string text);

 private:
  ComparedStep& step_;
  std::size_t index_;
  const ParameterNames& names_;
  std::vector<CompareFinding> findings_;
  std::set<std::string_view> reported_names_;
  std::set<std::uint64_t> reported_contents_;
};

}  // namespace sonde
