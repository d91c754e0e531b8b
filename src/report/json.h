// JSON of the verbs' answers (docs/json/). Numbers that JSON cannot express are "nan", "inf", "-inf".
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "catalog/catalog.h"

namespace sonde {

using Json = nlohmann::ordered_json;

Json json_of(double value);
Json json_of(const KnownStatistics& statistics);  // unknown values are left out
// One slot, with the step and the op it belongs to.
Json json_of(const CatalogRank& rank, const CatalogStep& step, const CatalogOp& op, const CatalogTensor& tensor);
Json json_of_source(const CatalogOp& op);               // `source_file`, `source_line`, `function`
std::string_view scope_of(const CatalogOp& op);         // the modules around it; empty if unknown
std::string_view side_of(const CatalogTensor& tensor);  // "input", "output"

}  // namespace sonde
