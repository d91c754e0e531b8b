// JSON of what a catalog holds, for answers that are not in contract/ yet.
#pragma once

#include <string_view>

#include "ground/contract/json.h"
#include "read/catalog/catalog.h"

namespace sonde {

// One slot, with the step and the op it belongs to.
ListedTensor listed(const CatalogRank& rank, const CatalogStep& step, const CatalogOp& op, const CatalogTensor& tensor);
Json json_of(const CatalogRank& rank, const CatalogStep& step, const CatalogOp& op, const CatalogTensor& tensor);
ListedRun listed(const CatalogRun& run);
// Of an engine's step; empty: few steps are of an engine.
std::optional<std::vector<ListedRequest>> listed_requests(const CatalogStep& step);
std::string_view scope_of(const CatalogOp& op);  // the modules around it; empty if unknown

}  // namespace sonde
