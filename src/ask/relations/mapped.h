// A saved map beside the tensors of two pools: what it says of them, and what it keeps for the next comparison.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ask/relations/relation.h"
#include "sonde/answers.h"

namespace sonde {

struct MapClaims {
  std::vector<std::optional<Relation>> of;  // by tensor of the target; empty: the map says nothing of it
  std::vector<std::string> not_there;       // a line for each entry that names what the two do not have
};
MapClaims claims_of(const RelationMap& map, const Pool& target, const Pool& golden);

// `with_none`: also of tensors that correspond to nothing.
RelationMap map_of(const Pool& target, const Pool& golden, const std::vector<Relation>& relations, bool with_none);

}  // namespace sonde
