// The file of --save-map and --map: how the tensors of two implementations correspond (docs/compare.md).
#pragma once

#include <filesystem>
#include <string>

#include "sonde/answers.h"
#include "sonde/result.h"

namespace sonde {

inline constexpr std::uint64_t kRelationMapVersion = 1;

// Fails with the file, the place in it, what is there and what is expected.
Result<RelationMap> read_relation_map(const std::filesystem::path& path);

// JSON, a line for each tensor.
std::string text_of_map(const RelationMap& map);

}  // namespace sonde
