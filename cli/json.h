// JSON of the verbs' answers: the names of the C++ fields; numbers that JSON does not have are "nan", "inf", "-inf".
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "analysis/catalog.h"

namespace sonde {

using Json = nlohmann::ordered_json;

Json json_of(double value);
Json json_of(const KnownStatistics& statistics);  // what is unknown is left out
// One slot, with the step and the op it belongs to.
Json json_of(const CatalogRank& rank, const CatalogStep& step, const CatalogOp& op, const CatalogTensor& tensor);
std::string_view word_of(Phase phase);  // "forward", …

std::string line_of(const Json& json);      // one line, with its newline
std::string document_of(const Json& json);  // indented, with a newline

}  // namespace sonde
