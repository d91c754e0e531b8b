// The facts about a rank as JSON, both ways, with the steps of the rank.
#pragma once

#include <optional>

#include "ask/first_bad/rank_facts.h"
#include "ground/base/json.h"
#include "read/catalog/catalog.h"

namespace sonde {

// A rank without operators: what an answer about all ranks needs of it.
struct RankFrame {
  CatalogRank rank;  // without CatalogRank::dump
  std::vector<CatalogProblem> problems;
};

struct FactsOfRank {
  RankFrame frame;
  RankFacts facts;  // empty where the rank is not asked for
};

Json json_of(const FactsOfRank& one);
std::optional<FactsOfRank> facts_of(const Json& json);

}  // namespace sonde
