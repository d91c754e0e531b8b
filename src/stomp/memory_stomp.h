// memory_stomp: values that changed although no operator wrote them. From a dump of the watcher, or of ordinary steps:
// compares the result that an op recorded with the values that later ops recorded when they read it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "catalog/catalog.h"
#include "config/plan.h"
#include "finding/finding.h"

namespace sonde {

struct StompOptions {
  IterationSet steps = IterationSet::all();
  std::optional<std::uint32_t> graph, rank;
};

StompReport memory_stomp(const Catalog& catalog, const StompOptions& options = {});

}  // namespace sonde
