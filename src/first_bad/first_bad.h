// first_bad: the first operator of a run whose output holds a NaN or an infinity that matters, and why. What matters, and
// what each verdict means: docs/first-bad.md.
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
  unsigned threads = 0;  // that read files; 0: as many as there are cores
  bool trend = true;
};

FirstBad first_bad(const Catalog& catalog, const FirstBadOptions& options = {});

}  // namespace sonde
