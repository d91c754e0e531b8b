// Whether the ranks called the same collectives: a rank that did not arrive, calls another one, or with another size,
// makes the others wait for ever.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <vector>

#include "contract/command_answers.h"
#include "read/catalog/catalog.h"

namespace sonde {

// Adds what is wrong to `report`, and counts the calls that it compared. Calls of a group are compared up to the first
// difference: what follows is its effect.
void verify_calls_of_ranks(const Catalog& catalog, Verification& report);

// The calls of ranks that are read one after the other: a catalog of these operators, and of the last one of each run.
class CallsOfRanks {
 public:
  // A catalog of one rank, which need not outlive this call.
  void add(const Catalog& one);
  // Ranks by number, as in a catalog. They were added in the order of rank_places().
  void verify(const std::filesystem::path& real_dump, Verification& report) &&;

 private:
  CatalogOp kept(const CatalogOp& op);

  Catalog calls_;
  std::deque<std::vector<Attribute>> attributes_;
  std::map<const std::vector<Attribute>*, const std::vector<Attribute>*> of_rank_;  // those of the rank that is added
};

}  // namespace sonde
