// Pairs of target and golden ops from a file: JSON or CSV (docs/compare.md, "Mapping files").
#pragma once

#include <string>

#include "ask/compare/match_ops.h"
#include "sonde/result.h"

namespace sonde {

Result<NameMap> read_mapping(const std::string& path);

}  // namespace sonde
