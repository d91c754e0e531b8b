// first_bad: the first operator of a run whose output has a NaN or an infinity that matters, and why. For "matters" and
// the meaning of each verdict see docs/first-bad.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "catalog/catalog.h"
#include "config/plan.h"
#include "finding/finding.h"

namespace sonde {

struct FirstBadOptions {
  IterationSet steps = IterationSet::all();
  std::optional<std::uint32_t> graph, rank;
  unsigned threads = 0;  // for reading files; 0: one per core
  bool trend = true;
};

FirstBad first_bad(const Catalog& catalog, const FirstBadOptions& options = {});

}  // namespace sonde
