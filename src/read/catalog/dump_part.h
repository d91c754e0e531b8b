// DumpPart: the steps, the graph and the rank of a dump that a user names.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "plan/config/plan.h"
#include "read/catalog/catalog.h"
#include "sonde/result.h"

namespace sonde {

struct DumpPart {
  StepSet steps = StepSet::all();
  std::optional<std::uint32_t> graph, rank;  // empty: all
  std::string request;                       // steps of an engine that worked on it; empty: all

  bool takes(const CatalogRank& of) const { return !rank || *rank == of.rank; }
  bool takes(const CatalogStep& step) const {
    return (!graph || *graph == step.id.graph) && steps.contains(step.id.number) && has_request(step);
  }
  bool has_request(const CatalogStep& step) const {
    return request.empty() ||
           std::ranges::any_of(step.requests, [&](const StepRequest& one) { return is_meant(one.request, request); });
  }
};

// "3", "0-5", "1|4"; empty: all. Fails with `invalid_argument` for any other text.
Result<StepSet> parse_steps(const std::string& text);

// Fails with `invalid_argument` if the dump has no such rank, graph or step; the message lists the existing ones. A
// dump without steps accepts every part.
Status check_part(const Catalog& catalog, const DumpPart& part);

}  // namespace sonde
