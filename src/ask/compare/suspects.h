// Differences that are not visible themselves but explain others.
#pragma once

#include "ask/compare/compare_facts.h"
#include "ask/compare/step_findings.h"

namespace sonde {

// A call with another number whose own result is the same, before anything differs (`suspect`; null: there is none); and
// a detach that only one of the two has, where gradients differ.
void name_suspects(const CompareFacts& facts, StepFindings& findings, const ComparedOp* suspect);

}  // namespace sonde
