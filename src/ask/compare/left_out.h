// Findings that are left out, because the two sides agree again.
#pragma once

#include "ask/compare/compare_facts.h"
#include "ask/compare/step_findings.h"

namespace sonde {

// A relative error that would be visible in what a step leaves.
inline constexpr double kLargeError = 1e-3;

// The note of a step whose findings are all left out.
inline constexpr std::string_view kSameInOtherWays =
    "the two compute the same in different ways: what a step leaves (results, losses, gradients) agrees";

// A weight that took in what the other side computes beside it: a merged adapter, a folded norm or scale. Its values
// differ, but all results agree again, where the two sides are built in different ways.
void leave_absorbed_out(const CompareFacts& facts, StepFindings& findings);
// Data that only one side normalises, and weights that do so in the other: the first product agrees.
void leave_compensated_out(const CompareFacts& facts, StepFindings& findings);
// Two ways to compute the same differ in between, and leave the same. Errors that are not much larger than rounding
// would not be visible in what the step leaves, so they stay. True if no finding is left.
bool leave_out_what_has_no_effect(const CompareFacts& facts, StepFindings& findings);

// Pairs whose finding has no effect: all results computed from their inputs agree again.
std::vector<OpPair> without_effect(const CompareFacts& facts, const std::vector<CompareFinding>& findings);

void note_layouts(const CompareFacts& facts, StepFindings& findings);

}  // namespace sonde
