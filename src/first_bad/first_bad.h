// first_bad: the first operator of a run whose output holds a NaN or an infinity that matters, and why. What matters, and
// what each verdict means: docs/first-bad.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "catalog/catalog.h"
#include "finding/finding.h"
#include "sonde/plan.h"

namespace sonde {

struct FirstBadOptions {
  IterationSet steps = IterationSet::all();
  std::optional<std::uint32_t> graph, rank;
  unsigned threads = 0;  // that read files; 0: as many as there are cores
  bool trend = true;
};

// An infinity that was meant, or does no harm: somebody takes it away before it reaches what counts.
struct HealthyInfinity {
  FindingTensor tensor;
  std::uint32_t rank = 0;
  StepId step;
  FindingCode code;
  std::string how;                       // "placed", "computed", "from outside"
  std::vector<std::string> absorbed_by;  // full names; empty: nobody in the dump reads it
};

// The first tensor whose norm grew out of what it was before.
struct Growth {
  FindingTensor tensor;
  std::uint32_t rank = 0;
  StepId step;
  FindingCode code;
  double before = 0, now = 0;  // norms: of the steps before (the median), and of this one
  bool of_norm = true;         // false: the largest magnitude, where the dump has no norm
  struct Point {
    std::uint64_t iteration = 0;
    double value = 0;
  };
  std::vector<Point> series;
};

struct FirstBad {
  std::vector<Finding> findings;  // the first is the answer; then others of the same step, of which it is not the cause
  std::vector<Finding> expected;  // what a loss scaler found and skipped
  std::vector<Finding> asides;    // notes: metrics and numbers that are printed, which no training reads
  std::vector<HealthyInfinity> healthy;  // of the step of the answer, or of all steps where there is none
  std::uint64_t healthy_left_out = 0;
  std::optional<Growth> growth;
  std::vector<std::string> path;         // ops from the answer to where it matters, by full name
  std::string reaches;                   // "the loss", "a gradient", …
  std::vector<std::string> notes;        // how the search was done where the dump lacks something
  std::vector<CatalogProblem> problems;  // what could not be looked at
  bool complete = false;                 // everything was looked at: without a finding, nothing is wrong
  bool only_overflows = false;           // the dump holds nothing but operators that overflowed
  // For --next-config: ops whose tensors would tell more.
  std::vector<std::string> suspects;
  // What was looked at.
  std::uint64_t ops_not_recorded = 0;  // of `ops`: only their place in the graph is known
  std::uint64_t ranks = 0, steps = 0, ops = 0, tensors = 0, files_read = 0;
};

FirstBad first_bad(const Catalog& catalog, const FirstBadOptions& options = {});

}  // namespace sonde
