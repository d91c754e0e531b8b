// Pairs of target and golden ops, or of layers, from a file: JSON, CSV or YAML (docs/compare.md, "Mapping files").
#pragma once

#include <string>

#include "ask/compare/match_ops.h"
#include "sonde/result.h"

namespace sonde {

Result<NameMap> read_mapping(const std::string& path);

}  // namespace sonde
