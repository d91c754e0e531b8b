// Names of layers that the golden program calls otherwise: msprobe's mapping of layers (-lm).
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ask/compare/compare_side.h"

namespace sonde {

// By class of a module: the path of a layer inside of it ("attn.out"), and its golden path there ("self_attention.dense").
// The class of the whole is "TopLayer": the roots are in it.
using LayerNames = std::map<std::string, std::map<std::string, std::string, std::less<>>, std::less<>>;

inline constexpr std::string_view kTopLayer = "TopLayer";

// The layer of an op, without classes: "network.layers.0.attn".
std::string layer_of(const CompareOp& op);

// The golden layers of a side's ops, by op: as layer_of(), with the names of the golden program.
std::vector<std::string> golden_layers_of(const CompareSide& side, const LayerNames& names);

}  // namespace sonde
