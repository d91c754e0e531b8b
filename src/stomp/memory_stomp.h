// memory_stomp: values that changed although no operator wrote them. From a dump of the watcher, or of ordinary steps: what an
// op recorded as its result, held against what later ops recorded as they read it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "catalog/catalog.h"
#include "finding/finding.h"
#include "sonde/plan.h"

namespace sonde {

struct StompOptions {
  IterationSet steps = IterationSet::all();
  std::optional<std::uint32_t> graph, rank;
};

struct StompReport {
  // `memory_overwritten`: the tensor is what was overwritten, as its writer recorded it; numbers are the elements that
  // differ. Per tensor the first change and, of a watcher, each further one.
  std::vector<Finding> findings;
  std::uint64_t findings_left_out = 0;
  std::uint64_t compared = 0;        // reads held against what was written
  std::uint64_t watched = 0;         // of those, by the watcher
  std::uint64_t not_observable = 0;  // reads that were saved, since no operator had written the memory
  std::uint64_t not_known = 0;       // neither values nor statistics of both sides
  std::vector<CatalogProblem> problems;
  bool complete = false;  // every read was compared: without a finding, nothing is wrong
};

StompReport memory_stomp(const Catalog& catalog, const StompOptions& options = {});

}  // namespace sonde
